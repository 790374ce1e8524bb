"""Every error that KIMAs raises on purpose.

    KimasError
    ├── ConfigurationError       the configuration is wrong; carries one line per fault       (exit 2)
    ├── UsageError               what the user asked for does not exist or makes no sense     (exit 2)
    ├── ServiceError             something outside did not do its part                        (exit 69)
    │   ├── ModelError           a language model endpoint failed, refused or timed out
    │   ├── EmbeddingError       an embeddings endpoint failed, or the local model is damaged
    │   └── PlatformError        a chat platform refused or could not be reached
    │       └── MessageGone      the message to reply to no longer exists
    ├── SourceError              a source cannot be read; its old knowledge stays             (exit 1)
    └── StoreError               the passage store cannot be used                             (exit 1)
        ├── StoreMismatch        it was built by another embedding model
        └── StoreLocked          another process is refreshing it

Every message names the thing and the way out. Errors of other libraries are chained with `from`.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.types import Skip


class KimasError(Exception):
    """The root of the tree. `exit_code` is what the command line returns for it."""

    exit_code = 1


class ConfigurationError(KimasError):
    """The configuration cannot be used. `faults` holds one line per fault, each with the place in the file."""

    exit_code = 2

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


class UsageError(KimasError):
    """The user named something that does not exist, or gave an argument that makes no sense."""

    exit_code = 2


class ServiceError(KimasError):
    """A service outside the process failed. Optional stages answer it with their stand-in."""

    exit_code = 69


class ModelError(ServiceError):
    """A language model endpoint failed, refused or timed out.

    `status` is the HTTP status that it answered with and `retry_after` the seconds that it asked to be left alone;
    None where it said nothing of the kind.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class EmbeddingError(ServiceError):
    """Texts could not be embedded."""


class PlatformError(ServiceError):
    """A chat platform refused a call or could not be reached."""


class MessageDeleted(PlatformError):
    """The message to reply to was deleted in the meantime: there is nobody left to answer."""


class SourceError(KimasError):
    """A source cannot be listed or read. What was known of it before is kept."""


class StoreError(KimasError):
    """The passage store is damaged, full, or of an unknown version."""


class StoreMismatch(StoreError):
    """The store holds vectors of another embedding model."""


class StoreLocked(StoreError):
    """Another process refreshes the same data, or already answers on it."""


class CommentSuppressed(PlatformError):
    """A comment was kept back; `skip` is the reason that the journal keeps. Nothing was posted."""

    def __init__(self, skip: Skip) -> None:
        super().__init__(str(skip))
        self.skip = skip
