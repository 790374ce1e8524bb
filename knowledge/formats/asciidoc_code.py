"""Code in AsciiDoc, and the numbers in it that the text below explains."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import count

from core.markup.document import Block
from knowledge.formats.asciidoc_lines import Line

MAX_MARGIN = 20
_CALLOUTS = re.compile(
    r"(?<![ \t])(?:[ \t]*+(?:(?://|#|(?<!-)--|;;)[ \t]*+)?(?<!\\)(?:<(?:\d{1,3}|\.)>|<!--(?:\d{1,3}|\.)-->)){1,20}"
    r"[ \t]*$"
)
_CALLOUT = re.compile(r"<(?:!--)?(\d{1,3}|\.)(?:--)?>")
_SIGN = re.compile(r"//|#|;;|(?<!!)--(?=[ \t<])")
_ESCAPED_CALLOUT = re.compile(r"\\(?=<(?:\d{1,3}|!--\d{1,3}--)>[ \t]*$)")
_HASHED = "bash console fish makefile nginx perl powershell python r ruby sh shell terminal toml yaml yml zsh"
_SLASHED = "c cpp csharp go groovy java javascript js json5 kotlin php rust scala swift ts typescript"
# What begins a comment behind code. Elsewhere a sign would be text.
_COMMENT_STARTS = {
    **dict.fromkeys(("html", "xhtml", "xml"), "<!--"),
    **dict.fromkeys(("haskell", "lua", "sql"), "--"),
    **dict.fromkeys(_HASHED.split(), "#"),
    **dict.fromkeys(_SLASHED.split(), "//"),
}
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"


def make_code(lines: Sequence[Line], language: str, indent: str = "") -> Block:
    """Return code, with another margin where the author asks for one, and the numbers that the text below explains.

    They are a comment, `# (1)`, where the author or the language has one, so that the line can be copied; elsewhere
    they look as on a page: `①`.
    """
    numbers = count(1)

    def mark(match: re.Match[str]) -> str:
        found = [number if number != "." else str(next(numbers)) for number in _CALLOUT.findall(match[0])]
        sign = _SIGN.search(match[0])
        start = "<!--" if "<!--" in match[0] else sign[0] if sign else _COMMENT_STARTS.get(language, "")
        shown = " ".join(f"({number})" if start else _circle(number) for number in found)
        return f" {start} {shown}{' -->' if start == '<!--' else ''}" if start else f" {shown}"

    texts = [_ESCAPED_CALLOUT.sub("", _CALLOUTS.sub(mark, line.text)).rstrip() for line in lines]
    code = "\n".join(texts).expandtabs(4).strip("\n")
    if re.fullmatch(r"\d{1,3}", indent):
        code = textwrap.indent(textwrap.dedent(code), " " * min(int(indent), MAX_MARGIN))
    return Block("code", code, language=language, start_line=lines[0].number, end_line=lines[-1].number)


def _circle(number: str) -> str:
    return _CIRCLED[int(number) - 1] if 0 < int(number) <= len(_CIRCLED) else f"({number})"
