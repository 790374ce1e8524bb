"""The parser that finds the blocks of Markdown, with the plug-ins and rules for the forms that the world writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, list_block
from mdit_py_plugins.amsmath import amsmath_block
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath.index import math_block_dollar
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_blocks.index import target as read_target

# Quotations, lists and links within each other; what is deeper is one paragraph. The time grows with it.
MAX_NESTING = 20
# An item is two levels below what its list is in, and its text one more.
_DEEPEST_BLOCK = MAX_NESTING - 3
# Of each form that documents have: the signs that they hold.
MAX_PARSERS = 64
# What every block of a rule holds. A rule is asked at each line: one that can find nothing is left out.
_SIGNS = {
    "amsmath": re.compile(r"\\begin"),
    "blockquote": re.compile(">"),
    "colon_fence": re.compile(":::"),
    "definition_body": re.compile(r"^[ \t>]*:(?:[ \t]|$)", re.MULTILINE),
    "deflist": re.compile(r"^[ \t>]*[:~][ \t]", re.MULTILINE),
    "fence": re.compile("```|~~~"),
    "footnote_def": re.compile(r"\[\^"),
    "grid_table": re.compile(r"^[ \t>]*\+[-=:]{2}", re.MULTILINE),
    "drawing": re.compile(r"^[ \t>]*@start[a-z]", re.MULTILINE),
    "heading": re.compile("#"),
    "html_block": re.compile("<"),
    "indented": re.compile(r"!!!|\?\?\?|==="),
    "lheading": re.compile(r"^[ \t>]*(?:-+|=+)[ \t]*$", re.MULTILINE),
    "math_block": re.compile(r"\$\$"),
    "myst_target": re.compile(r"^[ \t>]*\([^()\s]{1,100}\)=[ \t]*$", re.MULTILINE),
    "reference": re.compile(r"\]:"),
    "slashes": re.compile(r"^[ \t>]*/{3,}[ \t]+[\w-]", re.MULTILINE),
    "table": re.compile(r"\|"),
}
# The lines of a formula: below each that may begin one, its end is looked for. Nobody writes that many.
MAX_FORMULA_LINES = 100
# So it is for that of a drawing.
MAX_DRAWING_LINES = 500

_Rule = Callable[[StateBlock, int, int, bool], bool]

# The name of an admonition may stand right behind its mark.
_INDENTED = re.compile(r"((?:!!!|\?\?\?\+?)(?=[ \t]|[a-z]{1,30}(?:[ \t]*$|[ \t]+\"))|===[!+]?(?=[ \t]))[ \t]*(\S.*)$")
_BODY = re.compile(r":(?:[ \t]+(\S.*))?$")
_DRAWING = re.compile(r"@start(uml|[a-z]{2,10})\b")
# Comments that begin a text, of which one that is indented may be code for whoever does not know the definition.
_COMMENTS = re.compile(r"(?:[ \t]*<!--(?:(?!-->)[^\n]){0,300}-->){1,9}[ \t]*")
_SLASHES = re.compile(r"(/{3,})[ \t]++([\w-]++)(?:[ \t]*+\|[ \t]*+(.*))?$")
# The border of a table that is drawn with plus signs. Nobody writes one of more columns.
_BORDER = re.compile(r"\+(?:[-=:]{2,}\+){1,60}[ \t]*$")
_COLONS = re.compile(r"(:{3,})[ \t]*(.*)")
_MARKER = re.compile(r"^(?:[ \t]*(?:[-*+>]|\d{1,9}[.)])(?=[ \t]))+[ \t]*", re.MULTILINE)


def make_parser(text: str, *, has_indented_code: bool) -> MarkdownIt:
    """Return a parser with the rules that can find something in a text."""
    absent = frozenset(rule for rule, sign in _SIGNS.items() if not sign.search(text))
    return _make_parser(has_indented_code=has_indented_code, absent=absent)


@lru_cache(MAX_PARSERS)
def _make_parser(*, has_indented_code: bool, absent: frozenset[str]) -> MarkdownIt:
    """Return a parser without the rules that are `absent`."""
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    parser.use(deflist_plugin)
    parser.use(footnote_plugin, inline=False, move_to_end=False, always_match_refs=True)
    parser.block.ruler.before("table", "deep", _read_deep)
    within = ["paragraph", "reference", "blockquote", "list", "footnote_def"]
    parser.block.ruler.before("blockquote", "amsmath", _limit_lines(amsmath_block), {"alt": within})
    parser.block.ruler.before("fence", "math_block", _limit_lines(math_block_dollar()))
    # Alone, for a document that is none of MyST may begin a line with the sign of its comments.
    parser.block.ruler.before("hr", "myst_target", read_target, {"alt": within})
    parser.block.ruler.before("fence", "indented", _read_indented, {"alt": ["paragraph", "reference", "list"]})
    parser.block.ruler.before("fence", "definition_body", _read_definition_body)
    # Of a link that no browser should follow, the text is kept.
    parser.validateLink = lambda _: True  # type: ignore[assignment,method-assign]
    # Addresses stay as they are written: to encode them takes a fifth of the time of a page.
    parser.normalizeLink = lambda url: url.replace(" ", "%20")  # type: ignore[method-assign]
    parser.block.ruler.before("fence", "colon_fence", _read_colons, {"alt": within})
    parser.block.ruler.before("fence", "grid_table", _read_grid, {"alt": within})
    parser.block.ruler.before("fence", "slashes", _read_slashes, {"alt": within})
    parser.block.ruler.before("fence", "drawing", _read_drawing, {"alt": within})
    # Inline markup is read where it is needed.
    parser.disable(["inline", "text_join", "footnote_tail", *absent], ignoreInvalid=True)
    if not has_indented_code:
        # In MDX, what is indented within a component is no code.
        parser.disable("code")
        parser.block.ruler.at("list", _read_list_anywhere, {"alt": ["paragraph", "reference", "blockquote"]})
        parser.block.ruler.at("paragraph", _read_paragraph)
    return parser


def make_prose_parser() -> MarkdownIt:
    """Return a parser of the blocks of CommonMark, with tables, admonitions and tabs, in which prose is a paragraph."""
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    parser.block.ruler.before("fence", "indented", _read_indented, {"alt": ["paragraph"]})
    parser.block.ruler.before("fence", "colon_fence", _read_colons, {"alt": ["paragraph"]})
    return parser


def _limit_lines(rule: _Rule) -> _Rule:
    """Return a rule for formulas that reads only those of a few lines."""
    return lambda state, start, end, silent: rule(state, start, min(end, start + MAX_FORMULA_LINES), silent)


def _read_list_anywhere(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a list at any indent: where none makes code, none makes an item part of the text above it."""
    list_indent = state.listIndent
    state.listIndent = -1
    is_list = list_block(state, start, end, silent)
    state.listIndent = list_indent
    return is_list


def _read_paragraph(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a paragraph that ends above what begins at any indent: where none makes code, none makes a line part of it.

    What is within a quotation, and begins outside of it, the rule for quotations has judged.
    """
    rules = state.md.block.ruler.getRules("paragraph")
    parent_type = state.parentType
    state.parentType = "paragraph"
    line = start + 1
    while line < state.lineMax and not state.isEmpty(line):
        if state.sCount[line] >= 0 and any(rule(state, line, state.lineMax, True) for rule in rules):
            break
        line += 1
    state.line = line
    _push_paragraph(state, start, state.getLines(start, line, state.blkIndent, False).strip())
    state.parentType = parent_type
    return True


def _push_paragraph(state: StateBlock, start: int, text: str) -> None:
    """Add a paragraph that ends above the line that is read next."""
    state.push("paragraph_open", "p", 1).map = [start, state.line]
    state.push("inline", "", 0).content = text
    state.push("paragraph_close", "p", -1)


def _read_deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read what is nested so deep that the parser would leave it out."""
    if silent or state.level < _DEEPEST_BLOCK:
        return False
    line = start
    while line < end and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        line += 1
    state.line = line
    _push_paragraph(state, start, _MARKER.sub("", state.getLines(start, line, state.blkIndent, False)))
    return True


def _read_indented(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read the admonitions and tabs of MkDocs: a line with a mark, and the indented lines below it."""
    position = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or state.src[position : position + 3] not in ("!!!", "???", "==="):
        return False
    match = _INDENTED.match(state.src[position : state.eMarks[start]])
    if match is None or silent:
        return match is not None
    indent = state.sCount[start] + 4
    last = start
    for line in range(start + 1, end):
        if not state.isEmpty(line) and state.sCount[line] < indent:
            break
        last = line if not state.isEmpty(line) else last
    token = state.push("indented", "", 0)
    token.markup = match[1]
    token.info = match[2]
    token.content = state.getLines(start + 1, last + 1, indent, False)
    token.map = [start, last + 1]
    state.line = last + 1
    return True


def _read_definition_body(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read what Python-Markdown takes for a definition, where no term is above it: `: text`, and what is indented.

    The first paragraph may go on without an indent.
    """
    if silent or state.is_code_block(start):
        return False
    match = _BODY.match(_get_line(state, start))
    indent = state.sCount[start] + 4
    # Of a comment beside the sign, nothing is left.
    if match is None or not (match[1] or (start + 1 < end and state.sCount[start + 1] >= indent)):
        return False
    last = start
    for line in range(start + 1, end):
        if not state.isEmpty(line):
            if state.sCount[line] < indent and last < line - 1:
                break
            last = line
    token = state.push("definition_body", "", 0)
    body = state.getLines(start + 1, last + 1, indent, False)
    comments = None if match[1] else _COMMENTS.match(body)
    token.content = f"{match[1] or ''}\n{body[comments.end() if comments else 0 :]}"
    token.map = [start, last + 1]
    state.line = last + 1
    return True


def _read_slashes(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a block of PyMdown: `/// name | Title`, its indented options, and what is above as many slashes alone."""
    match = None if state.is_code_block(start) else _SLASHES.match(_get_line(state, start))
    if match is None or silent:
        return match is not None
    first = start + 1
    while first < end and not state.isEmpty(first) and state.sCount[first] >= state.blkIndent + 4:
        first += 1
    last = first
    while last < end and _get_line(state, last) != match[1]:
        last += 1
    token = state.push("colon_fence", "", 0)
    token.info = f"{match[2]} {match[3] or ''}"
    token.content = "\n" * (first - start - 1) + state.getLines(first, last, state.blkIndent, False)
    token.map = [start, last]
    state.line = min(last + 1, end)
    return True


def _read_drawing(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read what PlantUML draws, between two lines of its own, as code."""
    match = None if state.is_code_block(start) else _DRAWING.match(_get_line(state, start))
    closing = f"@end{match[1]}" if match else ""
    lines = range(start, min(end, start + MAX_DRAWING_LINES)) if match else ()
    last = next((line for line in lines if _get_line(state, line) == closing), 0)
    if silent or not last:
        return last > 0
    token = state.push("fence", "", 0)
    token.info = "plantuml"
    token.content = state.getLines(start, last + 1, state.blkIndent, True)
    token.map = [start, last + 1]
    state.line = last + 1
    return True


def _read_grid(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table of Pandoc, whose borders are drawn: `+---+---+`."""
    if state.is_code_block(start) or not _BORDER.match(_get_line(state, start)):
        return False
    last = start
    while last < end and state.sCount[last] >= state.blkIndent and state.src[_get_start(state, last)] in "+|":
        last += 1
    while last > start and not _BORDER.match(_get_line(state, last - 1)):
        last -= 1
    if silent or last < start + 3:
        return last >= start + 3
    token = state.push("grid_table", "", 0)
    token.content = "\n".join(_get_line(state, line) for line in range(start, last))
    token.map = [start, last]
    state.line = last
    return True


def _get_start(state: StateBlock, line: int) -> int:
    return min(state.bMarks[line] + state.tShift[line], len(state.src) - 1)


def _get_line(state: StateBlock, line: int) -> str:
    return state.src[_get_start(state, line) : state.eMarks[line]].rstrip()


def _read_colons(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a container, `::: name`, with others in it: each ends at a line of colons alone, by their number if it can.

    A line of colons that ends nothing is left out.
    """
    opening = None if state.is_code_block(start) else _COLONS.match(_get_line(state, start))
    if opening is None or silent:
        return opening is not None
    last = _find_last_of_colons(state, start, end) if opening[2] else start
    has_end = last > start and _get_line(state, last).strip(":") in ("", opening[2])
    if opening[2]:
        token = state.push("colon_fence", "", 0)
        token.info = opening[2]
        token.content = state.getLines(start + 1, last if has_end else last + 1, state.sCount[start], True)
        token.map = [start, last + 1]
    state.line = last + 1
    return True


def _find_last_of_colons(state: StateBlock, start: int, end: int) -> int:
    """Return the last line of a container; where one in it has no end, the first line that can be the end.

    What nothing ends goes on to the end of what it is in. A line that repeats the first one right below a text, and
    above none, is meant to end it.
    """
    first = _get_line(state, start)
    sizes: list[int] = []
    first_end = 0
    following: dict[int, int] = {}
    for line in range(start, end):
        text = _get_line(state, line)
        if text and state.sCount[line] < state.blkIndent:
            return line - 1
        if text == first and sizes and not state.isEmpty(line - 1) and (line + 1 == end or state.isEmpty(line + 1)):
            return line
        if mark := _COLONS.match(text):
            size = len(mark[1])
            if mark[2]:
                sizes.append(size)
                continue
            if size < sizes[-1] and size not in sizes and _is_within(state, line, end, sizes[-1], following):
                continue
            first_end = first_end or (line if size >= sizes[0] else 0)
            if sizes.pop() != size and size in sizes:
                while sizes.pop() != size:
                    pass
            if not sizes:
                return line
    return first_end or end - 1


def _is_within(state: StateBlock, start: int, end: int, size: int, following: dict[int, int]) -> bool:
    """Return whether the next mark of a `size` ends a container; `following` keeps the lines that are found."""
    colons = ":" * size
    if following.get(size, 0) <= start:
        texts = ((line, _get_line(state, line)) for line in range(start, end))
        found = (line for line, text in texts if text.startswith(colons) and not text.startswith(colons + ":"))
        following[size] = next(found, end - 1)
    return _get_line(state, following[size]) == colons
