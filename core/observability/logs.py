"""The log: events with keys, as JSON lines in a service and coloured lines in a terminal. structlog stays in here.

An event is a short name (`answer.finished`) plus keys; `context` binds keys for everything a task logs inside it. The
standard library's loggers (and with them every vendor's) are rendered the same way, from warning up. Secrets are
removed from the finished line, so that they cannot slip through in a key, a nested value or a traceback.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TextIO
from urllib.parse import quote

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.typing import Processor


class LogOptions(Protocol):
    """How much is logged, and in which form: `auto` means coloured lines in a terminal and JSON elsewhere."""

    @property
    def level(self) -> str:
        """The lowest level of our own packages, in lower case."""
        ...

    @property
    def format(self) -> str:
        """`json`, `console` or `auto`."""
        ...


OWN_PACKAGES = ("bots", "core", "knowledge")
REDACTED = "[redacted]"

# Each pattern is tried only on lines that hold its marker, and every repetition in front of a required character is
# bounded: a line of any length is searched in linear time.
_PATTERNS = (
    ("/bot", re.compile(r"(/bot)\d{1,20}:[\w-]+"), rf"\1{REDACTED}"),
    (":", re.compile(r"(?<![\w:])\d{6,12}:[\w-]{30,}"), REDACTED),
    ("earer", re.compile(r"([Bb]earer[ =:]{1,3})[^\s\"'\\,]{4,}"), rf"\1{REDACTED}"),
    ("sk-", re.compile(r"(?<![A-Za-z0-9])sk-[\w-]{8,}"), REDACTED),
    ("://", re.compile(r"(://)[^\s/@\"'\\]{1,256}@"), rf"\1{REDACTED}@"),
)


def configure_logs(settings: LogOptions, stream: TextIO | None = None, secrets: Collection[str] = ()) -> None:
    """Send all logs to a stream (standard error unless told), replacing what an earlier call set up.

    `settings.level` holds for our own packages; everybody else is heard from warning up. `secrets` are values that must
    never appear in the log, whatever their form; tokens and keys of known shapes are removed as well.
    """
    import structlog

    stream = stream or sys.stderr
    is_console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    renderers: list[Processor] = _console_renderers() if is_console else _json_renderers()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared_processors(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *renderers,
            _redaction_processor(secrets),
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
    """Return the logger of a module (`logger(__name__)`): `.info("event.name", key=value)`, `.exception(...)`.

    Call it inside a function: it loads the logging library, which an import should not have to wait for.
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
    """Return a function that replaces secrets in a text: the given values, as they are or escaped, and known shapes.

    >>> make_redactor(["s3cret-value"])("Authorization: Bearer abcdef s3cret-value")
    'Authorization: Bearer [redacted] [redacted]'
    """
    # Longest first: a secret that contains another one must not leave its rest behind.
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
    """Ours, so that a second `configure_logs` finds and replaces it and leaves other handlers alone."""


def _shared_processors() -> list[Processor]:
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _json_renderers() -> list[Processor]:
    import structlog

    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
    ]


def _console_renderers() -> list[Processor]:
    import structlog

    # The library's own choice of traceback prints local variables, and with them whatever they hold.
    return [structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)]


def _redaction_processor(secrets: Collection[str]) -> Processor:
    redact = make_redactor(secrets)

    def process(_logger: Any, _method: str, line: Any) -> str:
        return redact(line)

    return process


def _secret_encodings(secret: str) -> set[str]:
    """Return how a secret may be spelt in a line. Very short values would blank out ordinary words: they are left."""
    if len(secret) < 4:
        return set()
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
    }
