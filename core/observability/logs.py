"""The log: events with keys, as JSON lines in a service and coloured lines in a terminal. Only here is structlog used.

An event is a short name (answer.finished) plus keys; `log_context` binds keys to every event inside its block. Events
of the standard library's loggers, and so of every dependency, look the same, from warning up. Secrets are removed from
the finished line, so that they cannot slip through in a key, a nested value or a traceback.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import queue
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TextIO, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.typing import Processor

# In the wheel they are below `kimas`.
_NAMESPACE = __name__.removesuffix("core.observability.logs")
OWN_PACKAGES = tuple(f"{_NAMESPACE}{name}" for name in ("bots", "core", "knowledge"))
REDACTED = "[redacted]"
MAX_BUFFERED_LINES = 500
MAX_BUFFERED_CHARS = 4000

# Each pattern is tried only on lines with its marker, and every repetition before a required character is bounded: the
# search takes linear time in the length of the line.
_PATTERNS = (
    ("/bot", re.compile(r"(/bot)\d{1,20}:[\w-]+"), rf"\1{REDACTED}"),
    (":", re.compile(r"(?<![\w:])\d{6,12}:[\w-]{30,}"), REDACTED),
    ("earer", re.compile(r"([Bb]earer[ =:]{1,3})[^\s\"'\\,]{4,}"), rf"\1{REDACTED}"),
    ("sk-", re.compile(r"(?<![A-Za-z0-9])sk-[\w-]{8,}"), REDACTED),
    # A token in the query of an address. Other parameters help the reader of the log.
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
MAX_QUEUED_LINES = 10_000
CLOSE_TIMEOUT_S = 2.0

# What steers a terminal or hides what stands there, but not line ends and our own colours.
_CONTROL_CHARACTER = re.compile(
    "\x1b(?!\\[[0-9;]{0,8}m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


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


def configure_logs(
    settings: LogOptions, stream: TextIO | BackgroundStream | None = None, secrets: Collection[str] = ()
) -> None:
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
        else _json_renderers()
    )
    handler = _LogHandler(stream)
    handler.setFormatter(_make_formatter(renderers, secrets))
    root = logging.getLogger()
    root.handlers = [other for other in root.handlers if not isinstance(other, _LogHandler)] + [handler]
    root.setLevel(logging.WARNING)
    for name in OWN_PACKAGES:
        logging.getLogger(name).setLevel(settings.level.upper())
    # Its lines have what strangers' servers sent; ours say what went wrong with them.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    logging.captureWarnings(True)


@contextmanager
def redirect_logs(stream: TextIO, replacement: TextIO) -> Iterator[None]:
    """Send to `replacement`, inside the block, the logs that `configure_logs` sends to this stream."""
    root = logging.getLogger()
    handlers = [handler for handler in root.handlers if isinstance(handler, _LogHandler) and handler.stream is stream]
    for handler in handlers:
        handler.setStream(replacement)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(stream)


class BackgroundStream:
    """A text stream whose writes return at once: its thread passes them on to another stream.

    When nobody reads that one, at most `MAX_QUEUED_LINES` lines wait; the others are dropped, and the log says how
    many as soon as it is read again. `close` waits a moment for what is left.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_QUEUED_LINES)
        self._lock = threading.Lock()
        self._dropped_count = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue a line, or drop it when too many wait."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            with self._lock:
                self._dropped_count += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread flushes."""

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def close(self) -> None:
        """Wait up to `CLOSE_TIMEOUT_S` seconds until everything is written."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=CLOSE_TIMEOUT_S)
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            # The reader of the log may be gone: that ends the log, not the daemon.
            with suppress(OSError, ValueError):
                self._pass_on(line)
            if self._dropped_count and self._lines.qsize() < MAX_QUEUED_LINES // 2:
                # Not sooner: this line waits for its turn like any other, and must not be dropped itself.
                with self._lock:
                    dropped_count = self._dropped_count
                    self._dropped_count = 0
                get_logger(__name__).warning("log.lines_dropped", lines=dropped_count, why="nobody read the log")

    def _pass_on(self, line: str) -> None:
        try:
            descriptor = self._stream.fileno()
        except (OSError, AttributeError):
            self._stream.write(line)
            self._stream.flush()
            return
        # Past the stream's own buffer: its lock, held by a write that never ends, would block the end of the process.
        rest = line.encode(errors="backslashreplace")
        while rest:
            rest = rest[os.write(descriptor, rest) :]


class _ModuleLogger:
    """The logger of a module. It loads structlog with its first event: that would slow down every import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> object:
        import structlog

        logger = structlog.wrap_logger(
            logging.getLogger(self._name),
            processors=[
                structlog.stdlib.filter_by_level,
                *_shared_processors(),
                structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            context_class=dict,
        )
        function = getattr(logger.bind(), method)
        setattr(self, method, function)
        return function


def get_logger(name: str) -> BoundLogger:
    """Return the logger of a module: `_log = get_logger(__name__)`, and then `_log.info("event.name", key=value)`."""
    return cast("BoundLogger", _ModuleLogger(name))


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


class LogBuffer:
    """The last lines of the log, as JSON without secrets, for somebody who watches. Each has a number.

    Handlers of any thread add to it; memory is bounded, because old lines make room for new ones.
    """

    def __init__(self) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=MAX_BUFFERED_LINES)
        self._numbers = itertools.count(1)

    def add(self, line: str) -> None:
        """Add a line. A very long one is left out but for its beginning."""
        if len(line) > MAX_BUFFERED_CHARS:
            line = json.dumps({"event": f"{line[:MAX_BUFFERED_CHARS]} …"}, ensure_ascii=False)
        self._lines.append((next(self._numbers), line))

    def lines_after(self, number: int = 0) -> Sequence[tuple[int, str]]:
        """Return the lines with a higher number, oldest first, each with its number."""
        return [entry for entry in self._lines.copy() if entry[0] > number]


@contextmanager
def buffered_logs(secrets: Collection[str] = ()) -> Iterator[LogBuffer]:
    """Keep the last lines of the log inside the block, beside wherever `configure_logs` sends them."""
    log_buffer = LogBuffer()
    handler = _BufferHandler(log_buffer)
    handler.setFormatter(_make_formatter(_json_renderers(), secrets))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield log_buffer
    finally:
        root.removeHandler(handler)


class _BufferHandler(logging.Handler):
    def __init__(self, log_buffer: LogBuffer) -> None:
        super().__init__()
        self._log_buffer = log_buffer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log_buffer.add(self.format(record))
        except Exception:
            # As every handler does: a record that cannot be formatted must not stop what it reports.
            self.handleError(record)


def _json_renderers() -> list[Processor]:
    import structlog

    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)]


def _make_formatter(renderers: Sequence[Processor], secrets: Collection[str]) -> logging.Formatter:
    import structlog

    redact = make_redactor(secrets)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared_processors(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *renderers,
            lambda _logger, _method, line: _escape_control_characters(redact(str(line))),
        ],
    )


def _escape_control_characters(line: str) -> str:
    """Return a line with them written out, as JSON does: names of files and errors may hold anything."""
    return _CONTROL_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


class _LogHandler(logging.StreamHandler["TextIO | BackgroundStream"]):
    """A separate class, so that a second `configure_logs` replaces only this handler."""


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
