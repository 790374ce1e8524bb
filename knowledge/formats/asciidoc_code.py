"""Code in AsciiDoc, and the numbers in it that the text below explains."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import count

from core.markup.document import Block
from knowledge.formats.asciidoc_lines import Line

_CALLOUTS = re.compile(
    r"(?<![ \t])(?:[ \t]*+(?:(?://|#|(?<!-)--|;;)[ \t]*+)?(?<!\\)(?:<(?:\d{1,3}|\.)>|<!--(?:\d{1,3}|\.)-->)){1,20}"
    r"[ \t]*$"
)
_CALLOUT = re.compile(r"<(?:!--)?(\d{1,3}|\.)(?:--)?>")
_SIGN = re.compile(r"//|#|;;|(?<!!)--(?=[ \t<])")
_ESCAPED_CALLOUT = re.compile(r"\\(?=<(?:\d{1,3}|!--\d{1,3}--)>[ \t]*$)")
_SLASHED = "asciidoc c cpp csharp go groovy java javascript js json kotlin php rust scala swift ts typescript"
# What begins a comment, where it is no hash.
_COMMENT_STARTS = {
    **dict.fromkeys(("html", "xhtml", "xml"), "<!--"),
    **dict.fromkeys(("haskell", "lua", "sql"), "--"),
    **dict.fromkeys(_SLASHED.split(), "//"),
}


def make_code(lines: Sequence[Line], language: str) -> Block:
    """Return code without the margin that all its lines share. What refers to the text is a comment: `# (1)`."""
    numbers = count(1)

    def mark(match: re.Match[str]) -> str:
        found = (number if number != "." else str(next(numbers)) for number in _CALLOUT.findall(match[0]))
        shown = " ".join(f"({number})" for number in found)
        sign = _SIGN.search(match[0])
        start = "<!--" if "<!--" in match[0] else sign[0] if sign else _COMMENT_STARTS.get(language, "#")
        return f" {start} {shown}{' -->' if start == '<!--' else ''}"

    texts = [_ESCAPED_CALLOUT.sub("", _CALLOUTS.sub(mark, line.text)).rstrip() for line in lines]
    code = textwrap.dedent("\n".join(texts).expandtabs(4)).strip("\n")
    return Block("code", code, language=language, start_line=lines[0].number, end_line=lines[-1].number)
