"""Sanitizes Markdown from outside: invisible parts, and everything that a browser would run, are removed."""

from __future__ import annotations

import html
import re

# A fence that is never closed reaches to the end. Use with MULTILINE and DOTALL.
FENCE = r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
_PAIRED_TAGS = ("script", "style", "svg", "iframe", "object")
_TOKEN = re.compile(
    r"^(?P<lead>[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(?P<open>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*$"
    r"|(?P<blank>(?:\A|^[ \t]*\n)(?= {4}|\t))"
    r"|(?P<ticks>`+)"
    r"|(?P<comment><!--)"
    r"|(?P<auto><(?:javascript|vbscript|data):[^<>\n]*>)"
    r"|<(?P<tag>[a-z][a-z0-9-]*)(?=[\s/>])(?:[^<>\"']|\"[^\"]{0,2000}\"|'[^']{0,2000}'){0,2000}>"
    r"|(?P<link>\]\(\s*|^ {0,3}\[[^\]\n]{1,1000}\]:\s*)",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING_TAGS = {"": re.compile("-->"), **{tag: re.compile(rf"</{tag}\s*>", re.IGNORECASE) for tag in _PAIRED_TAGS}}
_INDENTED_CODE = re.compile(r"(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
_QUOTED_LINE = re.compile(r" {0,3}>[ \t>]*([^\n]*)(?:\n|\Z)")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_DEEP_INDENT = re.compile(r" {8}|\t\t| {4}\t")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_LINK_DESTINATION = re.compile(r"<[^<>\n]*>|(?:[^\s()<>]|\((?:[^\s()<>]|\([^\s()<>]*\))*\))+")
_EVENT_HANDLER = re.compile(r"(?<![\w-])(?:on[a-z]{3,30}|srcdoc)\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>]*)", re.IGNORECASE)
_URL_ATTRIBUTE = re.compile(
    r"(?<![\w-])(?:href|src|action|formaction|poster|data)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]*)", re.IGNORECASE
)
_SCRIPT_URL = re.compile(r"<?(?:(?:java|vb)script:|data:(?!image/(?:png|gif|jpe?g|webp|avif)\b))", re.IGNORECASE)
_IGNORED_CHARACTERS = re.compile(r"[\x00-\x20\x7f\\\"']")
# Limits of the search: back for the list that an indented line may belong to, ahead for the end of inline code and of
# an address. They keep the time linear in the length of the text.
_LOOKBEHIND_CHARS = 600
_LOOKBEHIND_LINES = 12
_LOOKAHEAD_CHARS = 2000
_MAX_FENCE_CHARS = 20


def strip_hidden_markup(text: str, *, keep_line_numbers: bool = False) -> str:
    """Return Markdown without comments, scripts, styles, drawings and frames, and without what a browser would run.

    Tags lose attributes that hold a script (`onclick`, a `javascript:` address), links lose such an address. Code
    stays as it is: fenced, indented and inline. What is opened and never closed stays too, because it may be prose.
    With `keep_line_numbers` every line keeps its number. Takes linear time for any text.

    >>> strip_hidden_markup("Visible <!-- hidden --> text")
    'Visible  text'
    """
    pieces: list[str] = []
    unclosed_marks: set[str] = set()
    position = 0
    while (token := _TOKEN.search(text, position)) is not None:
        pieces.append(text[position : token.start()])
        position = token.end()
        end = _find_code_end(text, token, unclosed_marks)
        if end:
            position = end
            pieces.append(text[token.start() : end])
            continue
        replacement = token[0]
        if token["link"]:
            position, replacement = _strip_link(text, token)
        elif token["comment"] or token["tag"] or token["auto"]:
            position, replacement = _strip_tag(text, token, unclosed_marks)
        lost_lines = text.count("\n", token.start(), position) - replacement.count("\n") if keep_line_numbers else 0
        pieces.append(replacement + "\n" * lost_lines)
    return "".join([*pieces, text[position:]])


def _strip_tag(text: str, token: re.Match[str], unclosed_marks: set[str]) -> tuple[int, str]:
    """Return where a comment or a tag ends, with what it hides, and what of it stays."""
    tag_name = (token["tag"] or "").lower()
    if token["auto"] or tag_name == "embed":
        return token.end(), ""
    hides_content = bool(token["comment"] or tag_name in _PAIRED_TAGS) and tag_name not in unclosed_marks
    closing = _CLOSING_TAGS[tag_name].search(text, token.end()) if hides_content else None
    if closing is not None:
        return closing.end(), ""
    if hides_content:
        unclosed_marks.add(tag_name)
    tag = _URL_ATTRIBUTE.sub(
        lambda match: "" if _is_script_url(match[1]) else match[0], _EVENT_HANDLER.sub("", token[0])
    )
    return token.end(), tag


def _strip_link(text: str, token: re.Match[str]) -> tuple[int, str]:
    """Return where the address of a link ends, and the link to there: one that a browser would run leads nowhere."""
    destination = _LINK_DESTINATION.match(text, token.end(), token.end() + _LOOKAHEAD_CHARS)
    if destination is not None and _is_script_url(destination[0]):
        return destination.end(), f"{token[0]}#"
    return token.end(), token[0]


def _is_script_url(url: str) -> bool:
    return _SCRIPT_URL.match(_IGNORED_CHARACTERS.sub("", html.unescape(url[:_LOOKAHEAD_CHARS]))) is not None


def _find_code_end(text: str, token: re.Match[str], unclosed_marks: set[str]) -> int:
    """Return where the code ends that begins with what was found, or 0 where none does."""
    if token["open"]:
        return _find_fence_end(text, token, unclosed_marks)
    if token["blank"] is not None:
        block = _INDENTED_CODE.match(text, token.end())
        is_list_content = _is_in_list(text, token.start()) and not _DEEP_INDENT.match(text, token.end())
        return block.end() if block is not None and not is_list_content else 0
    if token["ticks"] and len(token["ticks"]) <= _MAX_FENCE_CHARS:
        closing = re.compile(f"(?<!`){token['ticks']}(?!`)").search(text, token.end(), token.end() + _LOOKAHEAD_CHARS)
        if closing is not None and not _BLANK_LINE.search(text, token.end(), closing.start()):
            return closing.end()
    return 0


def _find_fence_end(text: str, token: re.Match[str], unclosed_marks: set[str]) -> int:
    """Return where a fence ends: in a quotation with it, in a list where it is closed, else at the end of the text."""
    fence = token["open"][:_MAX_FENCE_CHARS]
    if ">" in token["lead"]:
        position = token.end() + 1
        while (line := _QUOTED_LINE.match(text, position)) is not None:
            position = line.end()
            if line[1].startswith(fence) and not line[1].strip("`~ \t"):
                break
        return min(position, len(text))
    is_top_level = len(token["lead"]) <= 3 and not token["lead"].strip(" ")
    if fence in unclosed_marks and not is_top_level:
        return 0
    indent = " {0,3}" if is_top_level else r"[ \t]*"
    closing = re.compile(rf"^{indent}{fence}[`~]*[ \t]*$", re.MULTILINE).search(text, token.end())
    if closing is not None:
        return closing.end()
    unclosed_marks.add(fence)
    return len(text) if is_top_level else 0


def _is_in_list(text: str, position: int) -> bool:
    """Return whether the lines before a place belong to a list, so that indented ones may be its paragraphs."""
    for line in reversed(text[max(0, position - _LOOKBEHIND_CHARS) : position].rsplit("\n", _LOOKBEHIND_LINES)):
        if _LIST_ITEM.match(line):
            return True
        if line.strip() and not line.startswith((" ", "\t")):
            return False
    return False
