"""Subtitles (WebVTT, SubRip) as Markdown: what is said, below headings with the time."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from knowledge.formats.inline import escape

# After so many seconds a heading says the time again.
SECTION_S = 60
_TIMING = re.compile(r"(?:(\d{1,3}):)?(\d\d):(\d\d)[.,]\d{3}[ \t]+-->")
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")


def read_subtitles(text: str) -> str:
    """Return what is said; a line that automatic subtitles repeat as they scroll stands once."""
    parts: list[str] = []
    words: list[str] = []
    next_s = 0
    for start_s, line in _iter_lines(text):
        if start_s >= next_s or not (parts or words):
            parts.append(" ".join(words))
            parts.append(f"## {_format_time(start_s)}")
            words = []
            next_s = start_s + SECTION_S
        words.append(escape(line))
    return "\n\n".join(filter(None, [*parts, " ".join(words)]))


def _iter_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with the second at which it is said. Notes, styles and numbers stand outside of cues."""
    start_s: int | None = None
    last_line = ""
    for raw_line in text.splitlines():
        timing = _TIMING.match(raw_line.strip())
        if timing:
            hours, minutes, seconds = (int(group or 0) for group in timing.groups())
            start_s = hours * 3600 + minutes * 60 + seconds
        elif not raw_line:
            start_s = None
        elif start_s is not None:
            line = " ".join(html.unescape(_TAG.sub("", raw_line)).split())
            if line and line != last_line:
                yield start_s, line
                last_line = line


def _format_time(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes = f"{rest // 60:02}" if hours else str(rest // 60)
    return f"{hours}:{minutes}:{rest % 60:02}" if hours else f"{minutes}:{rest % 60:02}"
