"""What code holds for the tools that build a page, which no reader of the page sees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

_FLAG = re.compile(r"(?<![ \t])[ \t]*#[ \t]*doctest:[ \t]*[+-][A-Z_]+[^\n]*")
_BLANK_LINE = re.compile(r"^[ \t]*<BLANKLINE>[ \t]*$", re.MULTILINE)
# Comments of Docusaurus that set lines apart, each on a line of its own.
_HIGHLIGHT = re.compile(
    r"^[ \t]*(?://|#|--|%|/\*|<!--|\{[ ]?/\*)[ \t]*highlight-(?:next-line|start|end)[ \t]*+"
    r"(?:\*/[ ]?\}?|-->)?[ \t]*+$\n?",
    re.MULTILINE,
)
# A number that leads to a remark below, as MkDocs writes it.
_REMARK = re.compile(
    r"(?<![ \t])[ \t]*(?://|#|--|;|<!--|/\*)[ \t]*\(\d{1,3}\)!(?:[ \t]*(?:-->|\*/))?[ \t]*$", re.MULTILINE
)
# Those of VitePress, behind a line, or alone above those that they are about: what is added and removed, and others.
_MARK = re.compile(
    r"(?<![ \t])[ \t]*(?://|#|--|<!--|/\*)[ \t]*\[!code (?:(--|\+\+)(?::(\d{1,4}))?|[^\[\]\n]{1,60})\]"
    r"(?:[ \t]*(?:-->|\*/))?[ \t]*$"
)
# Beside one, a comment may have more to say.
_INNER_MARK = re.compile(
    r"(?<=[ \t])\[!code (?:(--|\+\+)(?::(\d{1,4}))?|(?:highlight|focus|warning|error)[^\[\]\n]{0,60})\][ \t]?"
)
REMOVED = re.compile(r"(?://|#|--|<!--|/\*)[ \t]*\[!code --(?::\d{1,4})?\](?![^\n]{0,300}\[!code)")
# Those of Twoslash, which checks more code than a page shows.
_CUT_BEFORE = re.compile(r"[ \t]*//[ \t]*---cut(?:-before)?---[ \t]*")
_CUT_AFTER = re.compile(r"[ \t]*//[ \t]*---cut-after---[ \t]*")
_CUT_OUT = re.compile(r"[ \t]*//[ \t]*---cut-(?:(start)|end)---[ \t]*")
_INCLUDE = re.compile(r"^[ \t]*//[ \t]*@include:[ \t]*([\w-]{1,60})[ \t]*$", re.MULTILINE)
_PART = re.compile(r"[ \t]*//[ \t]*-[ \t]+[\w-]+[ \t]*$")
# Lines of Rust that its documentation does not show; with another `#` before it, the sign itself is meant.
_HIDDEN_RUST = re.compile(r"[ \t]*#(?:[ \t]|$)")
MDX_BLOCK = "mdx-code-block"
_MDX_FENCE = re.compile(rf"[ \t]*(`{{3,}}|~{{3,}}){MDX_BLOCK}[ \t]*$")
MAX_SNIPPET_CHARS = 20_000
_TWOSLASH = re.compile(r"^[ \t]*//[ \t]*(?:@(?!filename)\w+(?::[^\n]*)?|\^[?|][^\n]*)$\n?", re.MULTILINE)


def unwrap_mdx(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without the fences around MDX, with which Docusaurus hides it from editors; they may be nested."""
    open_fences: list[str] = []
    for line in lines:
        if fence := _MDX_FENCE.match(line):
            open_fences.append(fence[1])
        elif open_fences and line.strip() == open_fences[-1]:
            open_fences.pop()
        else:
            yield line
            continue
        yield ""


def fill_snippets(code: str, snippets: Mapping[str, str]) -> str:
    """Return code with the snippets that its lines include, and without the names of their parts.

    A line names one by its name, or with a part of it behind a hyphen: so the snippet is shown up to that part.

    >>> fill_snippets("// @include: a-1\\nz", {"a": "x\\n// - 1\\ny"})
    'x\\nz'
    """
    if "@include" not in code:
        return code
    return _INCLUDE.sub(lambda match: _find_snippet(match[1], snippets), code)


def _find_snippet(name: str, snippets: Mapping[str, str]) -> str:
    whole, _, part = name.partition("-")
    text = snippets.get(name, snippets.get(whole, ""))
    lines = text.split("\n")
    mark = f"// - {part}"
    end = (
        next((number for number, line in enumerate(lines) if line.strip() == mark), len(lines)) if part else len(lines)
    )
    return "\n".join(line for line in lines[:end] if not _PART.match(line))[:MAX_SNIPPET_CHARS]


def strip_twoslash(code: str) -> str:
    """Return code without the lines that Twoslash reads.

    >>> strip_twoslash("// @errors: 2345\\nlet x = 1;\\n//  ^?")
    'let x = 1;\\n'
    """
    return _TWOSLASH.sub("", code)


def show_rust(code: str) -> str:
    """Return code of Rust as its documentation shows it.

    >>> show_rust("# use std::fs;\\nlet x = 1;\\n##[test]")
    'let x = 1;\\n#[test]'
    """
    return "\n".join(line.replace("##", "#", 1) for line in code.split("\n") if not _HIDDEN_RUST.match(line))


def strip_hidden(code: str) -> str:
    """Return code without the flags of doctest, the marks of what is highlighted, and what is cut off.

    Where marks say that lines are removed, each line has the sign of a difference, as the page has it.

    >>> strip_hidden(">>> x  # doctest: +SKIP\\n<BLANKLINE>\\n// highlight-next-line\\ny // [!code ++]")
    '>>> x\\n\\ny'
    """
    if ">>>" in code:
        code = _BLANK_LINE.sub("", _FLAG.sub("", code))
    if "highlight-" in code:
        code = _HIGHLIGHT.sub("", code)
    if ")!" in code:
        code = _REMARK.sub("", code)
    if "---cut" in code:
        code = _cut(code)
    # With a stroke, the sign itself is meant.
    return (_strip_marks(code) if "[!code" in code else code).replace("[\\!code", "[!code")


def _strip_marks(code: str) -> str:
    is_difference = REMOVED.search(code) is not None
    shown: list[str] = []
    sign = ""
    following = 0
    for line in code.split("\n"):
        mark = _MARK.search(line)
        text = line[: mark.start()] if mark else line
        if mark is None and line.count("[!code") == 1 and (mark := _INNER_MARK.search(line)):
            text = (line[: mark.start()] + line[mark.end() :]).rstrip()
        if mark and mark[1]:
            sign, following = mark[1][0], int(mark[2] or 1)
        if mark and not text:
            continue
        shown.append(f"{sign if following > 0 else ' '} {text}" if is_difference else text)
        following -= 1
    return "\n".join(shown)


def _cut(code: str) -> str:
    lines = code.split("\n")
    first = max((number for number, line in enumerate(lines, 1) if _CUT_BEFORE.fullmatch(line)), default=0)
    last = next((number for number, line in enumerate(lines) if _CUT_AFTER.fullmatch(line)), len(lines))
    shown: list[str] = []
    is_cut_out = False
    for line in lines[first:last]:
        if mark := _CUT_OUT.fullmatch(line):
            is_cut_out = mark[1] is not None
        elif not is_cut_out:
            shown.append(line)
    return "\n".join(shown)
