"""Every error that KIMAs raises on purpose.

    KimasError
    ├── ConfigurationError       the configuration is wrong; has one line per error           (exit 2)
    ├── UsageError               the user named something unknown, or an invalid argument     (exit 2)
    │   ├── QuotaExceeded        a daily limit is used up
    │   ├── AnswerWithheld       the answer has something that may not leave
    │   └── SpeechUnclear        nobody could make out what a voice message says
    ├── ServiceError             a service outside the process failed                         (exit 69)
    │   ├── EndpointError        an endpoint of a model failed, refused or timed out
    │   │   ├── ModelError       that of a language model
    │   │   │   └── ReplyCut     a healthy endpoint ended a reply too early
    │   │   └── EmbeddingError   that of an embedding model, or the local model is damaged
    │   └── PlatformError        a chat platform refused or could not be reached
    │       ├── PlatformUnavailable  it may take the same call later
    │       ├── MessageDeleted   the message to reply to no longer exists
    │       └── CommentSuppressed  a reply was suppressed before it was posted
    ├── AnswerStopped            somebody stopped the answer while it was being made
    ├── SourceError              a source cannot be read; its old knowledge stays for now     (exit 1)
    │   └── MadePrivate          it was public and is not any more: its old knowledge goes
    └── StoreError               the passage store or the journal cannot be used              (exit 1)
        ├── StoreUnreachable     its server does not answer: it may later; a ServiceError, too (exit 69)
        ├── JournalError         the journal cannot be read or written now
        │   └── ClaimLost        another daemon has taken the message over
        ├── StoreMismatch        another embedding model built it
        └── StoreLocked          another process is refreshing it

Every message names the cause and what to do. Errors of libraries are chained with `from`.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.types.skips import Skip


class KimasError(Exception):
    """The root of the tree. `exit_code` is what the command line returns for it."""

    exit_code = 1


class ConfigurationError(KimasError):
    """The configuration is wrong. `errors` has one line per error, each with its place in the file."""

    exit_code = 2

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


class UsageError(KimasError):
    """The user named something that does not exist, or gave an invalid argument."""

    exit_code = 2


class QuotaExceeded(UsageError):
    """A daily limit is used up. `is_repeated` is true when the asker was told before."""

    def __init__(self, message: str, *, is_repeated: bool) -> None:
        super().__init__(message)
        self.is_repeated = is_repeated


class AnswerWithheld(UsageError):
    """The answer may not leave. The message is what the asker reads, `skip` the reason for the journal."""

    def __init__(self, text: str, skip: Skip) -> None:
        super().__init__(text)
        self.skip = skip


class SpeechUnclear(UsageError):
    """A voice message could not be made out. The message is what the asker reads, `reason` is for the journal."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class ServiceError(KimasError):
    """A service outside the process failed. Optional stages then use their fallback."""

    exit_code = 69


class EndpointError(ServiceError):
    """An endpoint of a model failed, refused or timed out.

    `status` is the HTTP status of its response, `retry_after` the seconds that it asks to wait; None if there was none.
    `is_unsent` is true when the request cannot have arrived, `is_timeout` when its response did not, `is_unusable` when
    that was no reply.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.is_unsent = False
        self.is_timeout = False
        self.is_unusable = False


class ModelError(EndpointError):
    """A language model gave no answer, or broke it off."""


class ReplyCut(ModelError):
    """A healthy endpoint ended a reply too early: at a limit of its length, or by a filter (`is_filtered`)."""

    def __init__(self, message: str, *, is_filtered: bool = False) -> None:
        super().__init__(message)
        self.is_filtered = is_filtered


class EmbeddingError(EndpointError):
    """Texts could not be embedded."""


class PlatformError(ServiceError):
    """A chat platform refused a call or could not be reached.

    `platform` is the label of the adapter that it ended, "" before that.
    """

    platform = ""


class PlatformUnavailable(PlatformError):
    """A chat platform takes nothing now, but may later: it is away, wants a pause, or refuses a credential.

    `seconds` is the pause that it asked for.
    """

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class MessageDeleted(PlatformError):
    """The message to reply to was deleted in the meantime."""


class AnswerStopped(KimasError):
    """Somebody stopped the answer: what is written of it stays."""


class SourceError(KimasError):
    """A source cannot be listed or read. Its stored passages stay, those of one that `is_refused` for a week.

    `is_refused` is true where the service works, and does not have it any more, or not for us.
    """

    def __init__(self, message: str = "", *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_refused = is_refused


class MadePrivate(SourceError):
    """What a source reads was public and is private now: it is told no more, although our token still reads it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, is_refused=True)


def is_refusal(error: BaseException | None) -> bool:
    """Return whether a service refused us: the error says so, or one that it came from.

    >>> is_refusal(SourceError("status 403", is_refused=True)), is_refusal(SourceError("status 500"))
    (True, False)
    """
    while error is not None:
        if isinstance(error, SourceError) and error.is_refused:
            return True
        error = error.__cause__
    return False


class StoreError(KimasError):
    """The passage store or the journal is damaged, full, or of an unknown version."""


class JournalError(StoreError):
    """The journal cannot be read or written now: the disk is full, say, or another process holds its lock."""


class ClaimLost(JournalError):
    """Another daemon has taken over the message: this one leaves it alone from now on."""


class StoreUnreachable(StoreError, ServiceError):
    """The server of the passage store does not answer; the daemon waits for it at its start."""

    exit_code = 69


class StoreMismatch(StoreError):
    """The store contains vectors of another embedding model."""


class StoreLocked(StoreError):
    """Another process refreshes the same data directory, or answers from it."""


class CommentSuppressed(PlatformError):
    """A comment or an answer was suppressed and not posted; `skip` is the reason for the journal."""

    def __init__(self, skip: Skip) -> None:
        super().__init__(str(skip))
        self.skip = skip
