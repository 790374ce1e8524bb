"""Messages of a length that Discord takes, split at the structure of the text.

Works on the Markdown that `markup` writes: blocks apart by empty lines, fences at the start of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LIMIT = 2000

_FENCE = re.compile(
    r"^(?P<lead>(?:> )?)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=lead)```$", re.MULTILINE | re.DOTALL
)
# What is never torn apart, as long as it fits: a link, a stretch of code, a word with its space.
_ATOM = re.compile(
    r"\[(?:\[[^\[\]\n]{0,200}\]|\\.|[^\[\]\n\\]){0,400}\]\(<[^>\n]{1,600}>\)"
    r"|`[^`\n]{1,600}`|<https?://[^>\s]{1,600}>|\\.|\S+?(?=[\s\[`<\\]|$)|\s+|."
)


def split(markdown: str, limit: int = LIMIT) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units: between blocks, else lines, words, characters.

    A code block that goes on in the next part is closed and opened again, with its language. Nothing visible gives no
    parts.
    """
    parts: list[str] = []
    current = ""
    for gap, piece in _pieces(markdown.strip("\n"), limit):
        joined = f"{current}{gap}{piece}" if current else piece
        if length(joined) <= limit:
            current = joined
            continue
        if current.strip():
            parts.append(current.rstrip())
        current = piece.lstrip("\n") if piece.strip() else ""
    if current.strip():
        parts.append(current.rstrip())
    return parts


def length(text: str) -> int:
    """Return how many UTF-16 units a text has: Discord counts no more than that."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _pieces(markdown: str, limit: int) -> Iterator[tuple[str, str]]:
    """Yield (what stands before it, piece), each piece short enough for a part of its own."""
    position = 0
    for found in _FENCE.finditer(markdown):
        yield from _prose(markdown[position : found.start()], limit)
        gap = "\n\n" if markdown[: found.start()].endswith("\n\n") else "\n"
        for piece in _code(found["lead"], found["language"], found["body"], limit):
            yield gap, piece
            gap = "\n"
        position = found.end()
    yield from _prose(markdown[position:], limit)


def _prose(text: str, limit: int) -> Iterator[tuple[str, str]]:
    gap = "\n" if text.startswith("\n") and not text.startswith("\n\n") else "\n\n"
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if length(block) <= limit:
            if block:
                yield gap, block
        else:
            for line in block.split("\n"):
                for piece in _chunks(line, limit):
                    yield gap, piece
                    gap = ""
                gap = "\n"
        gap = "\n\n"


def _code(lead: str, language: str, body: str, limit: int) -> Iterator[str]:
    head, foot = f"{lead}```{language}\n", f"{lead}```"
    room = limit - length(head) - length(foot) - 1
    kept = ""
    for line in body.removesuffix("\n").split("\n"):
        for piece in _cut(line, room):
            if kept and length(kept) + 1 + length(piece) > room:
                yield f"{head}{kept}\n{foot}"
                kept = piece
            else:
                kept = f"{kept}\n{piece}" if kept else piece
    yield f"{head}{kept}\n{foot}"


def _chunks(line: str, limit: int) -> Iterator[str]:
    """Yield a line in pieces that end between words."""
    kept = ""
    for atom in _ATOM.findall(line):
        for piece in _cut(atom, limit):
            if length(kept) + length(piece) > limit:
                yield kept
                kept = ""
            kept += piece
    if kept:
        yield kept


def _cut(text: str, limit: int) -> Iterator[str]:
    """Yield a text in pieces of at most `limit` UTF-16 units."""
    while length(text) > limit:
        # No character takes more than two units.
        size = limit if length(text[:limit]) <= limit else limit // 2
        yield text[:size]
        text = text[size:]
    yield text
