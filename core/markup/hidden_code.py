"""What code holds for the tools that build a page, which no reader of the page sees."""

from __future__ import annotations

import re

_FLAG = re.compile(r"(?<![ \t])[ \t]*#[ \t]*doctest:[ \t]*[+-][A-Z_]+[^\n]*")
_BLANK_LINE = re.compile(r"^[ \t]*<BLANKLINE>[ \t]*$", re.MULTILINE)
# Comments of Docusaurus that set lines apart, each on a line of its own.
_HIGHLIGHT = re.compile(
    r"^[ \t]*(?://|#|--|%|/\*|<!--|\{[ ]?/\*)[ \t]*highlight-(?:next-line|start|end)[ \t]*+"
    r"(?:\*/[ ]?\}?|-->)?[ \t]*+$",
    re.MULTILINE,
)
# A number that leads to a remark below, as MkDocs writes it.
_REMARK = re.compile(
    r"(?<![ \t])[ \t]*(?://|#|--|;|<!--|/\*)[ \t]*\(\d{1,3}\)!(?:[ \t]*(?:-->|\*/))?[ \t]*$", re.MULTILINE
)
# Those of VitePress, behind a line.
_MARK = re.compile(
    r"(?<![ \t])[ \t]*(?://|#|--|<!--|/\*)[ \t]*\[!code [^\[\]\n]{1,60}\](?:[ \t]*(?:-->|\*/))?[ \t]*$", re.MULTILINE
)


def strip_hidden(code: str) -> str:
    """Return code without the flags of doctest and the marks of what is highlighted.

    >>> strip_hidden(">>> x  # doctest: +SKIP\\n<BLANKLINE>\\n// highlight-next-line\\ny // [!code ++]")
    '>>> x\\n\\n\\ny'
    """
    if ">>>" in code:
        code = _BLANK_LINE.sub("", _FLAG.sub("", code))
    if "highlight-" in code:
        code = _HIGHLIGHT.sub("", code)
    if ")!" in code:
        code = _REMARK.sub("", code)
    return _MARK.sub("", code) if "[!code" in code else code
