"""Files that people attach to a question: logs, stack traces, configuration, Markdown, PDF.

They are read in a worker process. A question gets the lines that matter for it, without secrets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.language.keywords import content_words
from core.language.secrets import Masker, drop_private_keys
from core.observability.logs import get_logger
from core.types import FileExcerpt
from knowledge.formats.encoding import decode, unusable_reason
from knowledge.formats.pdf import read_pdf
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser

_log = get_logger(__name__)

# Longer lines are cut, after what is secret in them is masked.
MAX_LINE_CHARS = 400
MAX_MASKED_CHARS = 4000
# So many lines around one that matters are worth something, the nearer the more.
NEIGHBOURS = 8
# The first and the last lines say what a file is about, and how it ended.
HEAD_LINES = 5
TAIL_LINES = 15
ERROR_WEIGHT = 3.0
MESSAGE_WEIGHT = 0.5
EDGE_WEIGHT = 0.5
# From here on a line says what the file is about: an error, or a word of the question.
MIN_KEY_WEIGHT = 1.0
_PDF = b"%PDF-"
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;:?]{0,30}[A-Za-z]|\x1b[()][0-9A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ERROR = re.compile(
    r"\b(?:error|exception|traceback|fatal|critical|panic|panicked|failed|failure|caused by|segfault|refused|denied"
    r"|abort(?:ed)?|unable to|cannot|could not|oom)\b|(?:Error|Exception)\b|错误|异常|失败",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"\w{2,60}")


class AttachedFileReader:
    """Implements `core.ports.FileReader` with a parser."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    async def read(self, name: str, data: bytes, question: str, max_chars: int) -> FileExcerpt:
        """Return the lines that matter for a question."""
        try:
            return await self._parser.run(read_attached, name, data, question, max_chars)
        except FormatError as error:
            _log.warning("file.unreadable", error=str(error))
            return FileExcerpt(problem="failed")


def read_attached(name: str, data: bytes, question: str, max_chars: int) -> FileExcerpt:
    """Return the lines of a file that matter for a question, with their numbers, in about `max_chars` characters.

    Its content says what it is, not its name.

    Raises `FormatError` for a PDF that is damaged.
    """
    if data[:1024].lstrip().startswith(_PDF):
        try:
            text = read_pdf(data)
        except FormatError as error:
            if "encrypted" in str(error):
                return FileExcerpt(problem="locked")
            if "no text" in str(error):
                return FileExcerpt(problem="no_text")
            raise
    elif reason := unusable_reason(data):
        return FileExcerpt(problem="no_text" if reason == "empty" else "binary")
    else:
        text = decode(data)
    lines = list(drop_private_keys(_TERMINAL_CODE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")))
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return FileExcerpt(problem="no_text")
    return _make_excerpt(name, lines, question, max_chars)


def _make_excerpt(name: str, lines: Sequence[str], question: str, max_chars: int) -> FileExcerpt:
    masker = Masker()
    weights = _weigh(lines, question)
    shown: dict[int, str] = {}
    left = max_chars
    for index in sorted(range(len(lines)), key=lambda number: (-weights[number], number)):
        line = masker.mask(lines[index][:MAX_MASKED_CHARS])[:MAX_LINE_CHARS].rstrip()
        left -= len(line) + 8
        if left < 0:
            break
        shown[index] = line
    best = max(shown, key=lambda number: (weights[number], -number))
    key_line = shown[best].strip() if weights[best] >= MIN_KEY_WEIGHT or not question.strip() else ""
    text = [f"File {masker.mask(_clean_name(name))}, {len(shown):,} of {len(lines):,} lines"]
    previous = -1
    for index in sorted(shown):
        if index != previous + 1:
            text.append("…")
        text.append(f"{index + 1}: {shown[index]}")
        previous = index
    return FileExcerpt("\n".join(text), key_line, len(shown), len(lines))


def _weigh(lines: Sequence[str], question: str) -> list[float]:
    """Return how much each line matters: errors, words of the question, the lines around them, and both ends.

    A line that says the same as an earlier one, but for its numbers, counts by its place alone.
    """
    words = {word.lower() for word in content_words(question)}
    own = [0.0] * len(lines)
    seen: set[str] = set()
    for index, whole_line in enumerate(lines):
        line = whole_line[:MAX_LINE_CHARS]
        key = _DIGITS.sub("", line)
        if key not in seen:
            seen.add(key)
            found = words.intersection(word.lower() for word in _WORD.findall(line)) if words else ()
            # "ValueError: bad port" says more than "Traceback (most recent call last):".
            error = ERROR_WEIGHT + MESSAGE_WEIGHT * (": " in line) if _ERROR.search(line) else 0.0
            own[index] = len(found) + error
    weights = [
        EDGE_WEIGHT if index < HEAD_LINES or index >= len(lines) - TAIL_LINES else 0.0 for index in range(len(lines))
    ]
    for index, weight in enumerate(own):
        if weight:
            for neighbour in range(max(0, index - NEIGHBOURS), min(len(lines), index + NEIGHBOURS + 1)):
                share = weight / (1 + abs(neighbour - index))
                weights[neighbour] = max(weights[neighbour], share)
    return weights


def _clean_name(name: str) -> str:
    """Return a file's name as it may be shown: without folders, and in one line."""
    return " ".join(_TERMINAL_CODE.sub("", name.replace("\\", "/").rpartition("/")[2]).split())[:80] or "without a name"
