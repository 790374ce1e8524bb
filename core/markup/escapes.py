"""Which escapes Markdown needs, by asking its parser: without the others, it reads as the same text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# Code between ticks, in which a backslash is one.
_CODE = re.compile(r"((?<![`\\])(?:``(?:[^`]|(?<!`)`(?!`)){1,2000}``|`[^`]{1,2000}`)(?!`))")
_ESCAPED_SIGN = re.compile(r"\\([*_`<])")
# What a line begins with that may be no text: nobody asks for others.
_DOUBTFUL_START = re.compile(r"[-#>+*_=|<!?:]|```|~~~|\[[^\]]{1,300}\]:|(\d{1,9})[.)](?:\s|$)")
_PARAGRAPH = ["paragraph_open", "inline", "paragraph_close"]
# A longer text keeps its escapes, as brackets that nothing closes are looked for again and again.
MAX_CHARS = 20_000
# A document is written several times, to be measured and cut.
MAX_KEPT_TEXTS = 1024


def drop_escapes(text: str) -> str:
    """Return inline Markdown without the escapes of signs that are read as text without them, too.

    Of a sign, all escapes are needed, or none is: where one of a pair can make emphasis, both stay.

    >>> drop_escapes("**so**: f(\\\\*args), \\\\_c"), drop_escapes("\\\\*args\\\\*"), drop_escapes("it\\\\`s \\\\<= 3")
    ('**so**: f(*args), _c', '\\\\*args\\\\*', 'it`s <= 3')
    """
    return _drop_escapes(text) if _ESCAPED_SIGN.search(text) and len(text) <= MAX_CHARS else text


@lru_cache(MAX_KEPT_TEXTS)
def _drop_escapes(text: str) -> str:
    # Those of CommonMark, and those of replies, read it as the same text.
    parsers = _make_parsers()[1:]
    readings = [_read(text, parser) for parser in parsers]
    for sign in dict.fromkeys(_ESCAPED_SIGN.findall(text)):
        parts = _CODE.split(text)
        parts[::2] = [part.replace(f"\\{sign}", sign) for part in parts[::2]]
        bare = "".join(parts)
        if bare != text and all(_read(bare, parser) == known for parser, known in zip(parsers, readings, strict=True)):
            text = bare
    return text


def guard_line(line: str, previous: str = "") -> str:
    """Return a line of prose, below the `previous` one, that Markdown does not take for the start of another block.

    >>> guard_line("1. x"), guard_line("2. x", "in May"), guard_line("#tag"), guard_line("# tag")
    ('1\\\\. x', '2. x', '#tag', '\\\\# tag')
    """
    start = _DOUBTFUL_START.match(line)
    # What stands between pipes below each other is read as rows without names of columns.
    is_row = line[:1] == previous[:1] == "|"
    if not start or (not is_row and _is_paragraph(f"{previous}\n{line}" if previous else line)):
        return line
    number = start[1] or ""
    return f"{number}\\{line[len(number) :]}"


@lru_cache(MAX_KEPT_TEXTS)
def _is_paragraph(text: str) -> bool:
    return [token.type for token in _make_parsers()[0].parse(text)] == _PARAGRAPH


def _read(text: str, parser: MarkdownIt) -> list[tuple[str, str, str]]:
    tokens = parser.parseInline(text)[0].children or ()
    return [(token.type, token.content, str(token.attrs)) for token in tokens]


@lru_cache(1)
def _make_parsers() -> tuple[MarkdownIt, MarkdownIt, MarkdownIt]:
    # Whoever writes Markdown without an escape does without the parser.
    from markdown_it import MarkdownIt

    from core.markup.block_parser import make_prose_parser
    from core.markup.emphasis import WideInlineParser

    strict, wide = (MarkdownIt("commonmark").enable("strikethrough") for _ in range(2))
    wide.inline = WideInlineParser()
    wide.configure("commonmark").enable("strikethrough")
    return make_prose_parser(), strict, wide
