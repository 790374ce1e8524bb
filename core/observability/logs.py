"""The log: events with keys, as JSON lines in a service and coloured lines in a terminal. Only here is structlog used.

An event is a short name (answer.finished) plus keys; `log_context` binds keys to every event inside its block. Events
of the standard library's loggers, and so of every dependency, look the same, from warning up. Secrets are removed from
the finished line, so that they cannot slip through in a key, a nested value or a traceback.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TextIO
from urllib.parse import quote

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.typing import Processor


class LogOptions(Protocol):
    """How much to log, and in which form."""

    @property
    def level(self) -> str:
        """The lowest level for our own packages, in lower case."""
        ...

    @property
    def format(self) -> str:
        """json, console, or auto: console in a terminal, JSON elsewhere."""
        ...


OWN_PACKAGES = ("bots", "core", "knowledge")
REDACTED = "[redacted]"

# Each pattern is tried only on lines with its marker, and every repetition before a required character is bounded: the
# search takes linear time in the length of the line.
_PATTERNS = (
    ("/bot", re.compile(r"(/bot)\d{1,20}:[\w-]+"), rf"\1{REDACTED}"),
    (":", re.compile(r"(?<![\w:])\d{6,12}:[\w-]{30,}"), REDACTED),
    ("earer", re.compile(r"([Bb]earer[ =:]{1,3})[^\s\"'\\,]{4,}"), rf"\1{REDACTED}"),
    ("sk-", re.compile(r"(?<![A-Za-z0-9])sk-[\w-]{8,}"), REDACTED),
    # A token in the query of an address. Other parameters help whoever reads the log.
    (
        "=",
        re.compile(
            r"([?&](?:[\w-]{0,32}[_-])?(?:api_?-?key|key|token|auth|secret|password|passwd|pwd|sig|signature)=)[^&#\s\"'\\]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    ("://", re.compile(r"(://)[^\s/@\"'\\]{1,256}@"), rf"\1{REDACTED}@"),
)


def configure_logs(settings: LogOptions, stream: TextIO | None = None, secrets: Collection[str] = ()) -> None:
    """Send all logs to a stream (default: standard error), replacing the setup of an earlier call.

    `settings.level` is for our own packages; other packages log from warning up. `secrets` are values that must never
    appear in the log, in any encoding; tokens and keys of known shapes are removed as well.
    """
    import structlog

    stream = stream or sys.stderr
    is_console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    # The library's default traceback prints local variables, which may contain secrets.
    renderers: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)]
        if is_console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)]
    )
    redact = make_redactor(secrets)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared_processors(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *renderers,
            lambda _logger, _method, line: redact(str(line)),
        ],
    )
    handler = _LogHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [other for other in root.handlers if not isinstance(other, _LogHandler)] + [handler]
    root.setLevel(logging.WARNING)
    for name in OWN_PACKAGES:
        logging.getLogger(name).setLevel(settings.level.upper())
    logging.captureWarnings(True)


def get_logger(name: str) -> BoundLogger:
    """Return the logger of a module: `get_logger(__name__).info("event.name", key=value)`.

    Call it inside a function: it loads the logging library, which would slow down imports.
    """
    import structlog

    bound_logger: BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    )
    return bound_logger


def log_context(**keys: object) -> AbstractContextManager[None]:
    """Bind keys to every event that this task and the tasks it starts log inside the `with` block."""
    import structlog

    return structlog.contextvars.bound_contextvars(**keys)


def make_redactor(secrets: Collection[str] = ()) -> Callable[[str], str]:
    """Return a function that redacts secrets in a text: these values, plain or escaped, and known shapes.

    >>> make_redactor(["s3cret-value"])("Authorization: Bearer abcdef s3cret-value")
    'Authorization: Bearer [redacted] [redacted]'
    """
    # Longest first: otherwise a secret that contains another one would leave a rest.
    values = sorted({encoding for secret in secrets for encoding in _secret_encodings(secret)}, key=len, reverse=True)

    def redact(text: str) -> str:
        for value in values:
            text = text.replace(value, REDACTED)
        for marker, pattern, replacement in _PATTERNS:
            if marker in text:
                text = pattern.sub(replacement, text)
        return text

    return redact


class _LogHandler(logging.StreamHandler[TextIO]):
    """A class of its own, so that a second `configure_logs` replaces only this handler."""


def _shared_processors() -> list[Processor]:
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _secret_encodings(secret: str) -> set[str]:
    """Return the encodings of a secret in a line; none for very short values, which would redact ordinary words."""
    if len(secret) < 4:
        return set()
    escaped = (json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret))
    return {secret, quote(secret, safe=""), *(text[1:-1] for text in escaped)}
