"""The parser of replies: CommonMark with tables, and with what models write besides.

Emphasis works beside full-width characters, and ends after punctuation also before a letter (`**Note:**text`). An
address is a link as it stands, and so is Slack's `<address|text>`. `<br>` breaks a line, and a formula in `\\(...\\)`,
`\\[...\\]` or `$$...$$` is code, so that its stars stay. HTML and definitions of references are text.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, list_block
from markdown_it.rules_inline import StateInline

from core.markup.emphasis import WideInlineParser

MAX_FORMULA_CHARS = 2000

# "https", and the character before it, which the pattern looks at.
MAX_SCHEME_CHARS = 6
_SCHEME = re.compile(r"(?<![A-Za-z0-9_])https?\Z", re.IGNORECASE)
# What stands in an address. A letter of Chinese does only where it follows one, or a mark: in "https://a.b/c了解" the
# address ends before it.
_ADDRESS = re.compile(
    r"://(?:(?!\*\*|[,;!?]@|[\u2e80-\U0003ffff])[^\s<>\"`|\\“”‘’]|(?<=[/=_#?&.\u2e80-\u9fff])[\u3040-\u9fff])+"
)
_SLACK_LINK = re.compile(r"<(https?://[^\s<>|]{1,2000})\|([^<>|\n]{1,300})>")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_BREAK = re.compile(r"<br\s?/?>", re.IGNORECASE)
_FORMULA_SIGN = re.compile(r"[*_^\\{}]")
_FORMULA_CLOSINGS = {r"\(": r"\)", r"\[": r"\]", "$$": "$$"}
# What `Token.meta` says of a formula, and of one that stands for itself.
FORMULA = "formula"
DISPLAY = "display"
# Emphasis within emphasis. The tree of a reply is walked recursively: its depth must not come from the text.
MAX_MARK_DEPTH = 20
_MARK_TAGS = frozenset({"strong", "em", "s"})
# The levels of the tree that a quotation and a list with its item add.
_QUOTE_LEVELS = 1
_LIST_LEVELS = 2


def make_parser(parser_class: type[MarkdownIt] = MarkdownIt) -> MarkdownIt:
    """Return a parser."""
    parser = parser_class("commonmark", {"html": False})
    parser.inline = WideInlineParser()
    parser.configure("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"]).disable("reference")
    rules = parser.inline.ruler
    rules.before("escape", "formula", _parse_formula)
    rules.before("autolink", "break", _parse_break)
    rules.before("autolink", "slack_link", _parse_slack_link)
    rules.before("linkify", "address", _parse_address)
    parser.inline.ruler2.before("fragments_join", "mark_depth", _limit_mark_depth)
    blocks = parser.block.ruler
    blocks.at("blockquote", _parse_quote, {"alt": ["paragraph", "reference", "list"]})
    blocks.at("list", _parse_list, {"alt": ["paragraph", "reference", "blockquote"]})
    return parser


def _limit_mark_depth(state: StateInline) -> None:
    """Turn the marks of emphasis that is nested too deeply into text."""
    depth = 0
    for token in state.tokens:
        if token.tag not in _MARK_TAGS:
            continue
        depth -= token.nesting < 0
        is_too_deep = depth >= MAX_MARK_DEPTH
        depth += token.nesting > 0
        if is_too_deep:
            token.type = "text"
            token.tag = ""
            token.nesting = 0
            token.content = token.markup
            token.markup = ""


def _parse_quote(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    return _has_room(state, _QUOTE_LEVELS) and blockquote(state, startLine, endLine, silent)


def _parse_list(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    return _has_room(state, _LIST_LEVELS) and list_block(state, startLine, endLine, silent)


def _has_room(state: StateBlock, levels: int) -> bool:
    """Return whether the parser would read what is so much deeper: it drops the text below its own limit."""
    return state.level + levels < int(state.md.options["maxNesting"])


def _parse_address(state: StateInline, silent: bool) -> bool:
    # Only its end: to search all of the text before every colon takes quadratic time.
    end_of_text = state.pending[-MAX_SCHEME_CHARS:]
    if state.linkLevel > 0 or state.src[state.pos] != ":" or not (scheme := _SCHEME.search(end_of_text)):
        return False
    match = _ADDRESS.match(state.src, state.pos)
    rest = _trim(match[0]) if match else ""
    if len(rest) <= len("://"):
        return False
    if not silent:
        state.pending = state.pending[: -len(scheme[0])]
        address = scheme[0] + rest
        opening = state.push("link_open", "a", 1)
        opening.attrs = {"href": address}
        opening.markup = "autolink"
        state.push("text", "", 0).content = address
        state.push("link_close", "a", -1).markup = "autolink"
    state.pos += len(rest)
    return True


def _trim(address: str) -> str:
    """Return an address without the punctuation that ends its sentence, or the bracket that it stands in.

    >>> _trim("://e.org/a_(b)),"), _trim("://e.org/a_b_")
    ('://e.org/a_(b)', '://e.org/a_b')
    """
    closing_excess = {closing: address.count(closing) - address.count(opening) for closing, opening in _PAIRS.items()}
    end = len(address)
    while end and (address[end - 1] in ".,;:!?'*_~" or closing_excess.get(address[end - 1], 0) > 0):
        end -= 1
        if address[end] in closing_excess:
            closing_excess[address[end]] -= 1
    return address[:end]


def _parse_formula(state: StateInline, silent: bool) -> bool:
    opening = state.src[state.pos : state.pos + 2]
    if opening not in _FORMULA_CLOSINGS:
        return False
    start = state.pos + 2
    end = state.src.find(_FORMULA_CLOSINGS[opening], start, start + MAX_FORMULA_CHARS)
    if end < 0 or not _FORMULA_SIGN.search(state.src, start, end):
        return False
    if not silent:
        token = state.push("code_inline", "code", 0)
        token.markup = "`"
        token.content = " ".join(state.src[start:end].split())
        token.meta = {FORMULA: True, DISPLAY: opening != r"\("}
    state.pos = end + 2
    return True


def _parse_slack_link(state: StateInline, silent: bool) -> bool:
    match = _SLACK_LINK.match(state.src, state.pos)
    if match is None or state.linkLevel > 0:
        return False
    if not silent:
        opening = state.push("link_open", "a", 1)
        opening.attrs = {"href": match[1]}
        state.push("text", "", 0).content = match[2]
        state.push("link_close", "a", -1)
    state.pos = match.end()
    return True


def _parse_break(state: StateInline, silent: bool) -> bool:
    match = _BREAK.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = match.end()
    return True
