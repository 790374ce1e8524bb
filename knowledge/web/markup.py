"""Markdown that others wrote: what nobody sees of it, and what a browser would run, is left out."""

from __future__ import annotations

import html
import re

# A fence that is never closed reaches to the end. Use with MULTILINE and DOTALL.
FENCE = r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
_PAIRED = ("script", "style", "svg", "iframe", "object")
_PART = re.compile(
    r"^(?P<lead>[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(?P<open>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*$"
    r"|(?P<blank>(?:\A|^[ \t]*\n)(?= {4}|\t))"
    r"|(?P<ticks>`+)"
    r"|(?P<comment><!--)"
    r"|(?P<auto><(?:javascript|vbscript|data):[^<>\n]*>)"
    r"|<(?P<tag>[a-z][a-z0-9-]*)(?=[\s/>])(?:[^<>\"']|\"[^\"]{0,2000}\"|'[^']{0,2000}'){0,2000}>"
    r"|(?P<link>\]\(\s*|^ {0,3}\[[^\]\n]{1,1000}\]:\s*)",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSINGS = {"": re.compile("-->"), **{tag: re.compile(rf"</{tag}\s*>", re.IGNORECASE) for tag in _PAIRED}}
_INDENTED = re.compile(r"(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
_QUOTED_LINE = re.compile(r" {0,3}>[ \t>]*([^\n]*)(?:\n|\Z)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_DEEP = re.compile(r" {8}|\t\t| {4}\t")
_BLANK = re.compile(r"\n[ \t]*\n")
_DESTINATION = re.compile(r"<[^<>\n]*>|(?:[^\s()<>]|\((?:[^\s()<>]|\([^\s()<>]*\))*\))+")
_HANDLER = re.compile(r"(?<![\w-])(?:on[a-z]{3,30}|srcdoc)\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>]*)", re.IGNORECASE)
_ADDRESS = re.compile(
    r"(?<![\w-])(?:href|src|action|formaction|poster|data)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]*)", re.IGNORECASE
)
_ACTIVE = re.compile(r"<?(?:(?:java|vb)script:|data:(?!image/(?:png|gif|jpe?g|webp|avif)\b))", re.IGNORECASE)
_UNSEEN = re.compile(r"[\x00-\x20\x7f\\\"']")
# How far is looked: back for the list that an indented line may belong to, ahead for the end of code in a line, and of
# an address. Without such ends the time would not stay in proportion to the length of the text.
_BACK, _BACK_LINES, _AHEAD = 600, 12, 2000
_LONGEST_MARK = 20


def without_hidden(text: str, *, lines: bool = False) -> str:
    """Return Markdown without comments, scripts, styles, drawings and frames, and without what a browser would run.

    Of tags the attributes go that hold a script (`onclick`, a `javascript:` address), of links such an address. Code
    stays as it is: in fences, in indented blocks and in lines. What is opened and never closed stays too, for it may be
    prose. With `lines` every line keeps its number. Takes time in proportion to the length of the text, whatever is in
    it.
    """
    kept: list[str] = []
    unclosed: set[str] = set()
    place = 0
    while (found := _PART.search(text, place)) is not None:
        kept.append(text[place : found.start()])
        place = found.end()
        end = _code_end(text, found, unclosed)
        if end:
            place = end
            kept.append(text[found.start() : end])
            continue
        piece = found[0]
        if found["link"]:
            place, piece = _linked(text, found)
        elif found["comment"] or found["tag"] or found["auto"]:
            place, piece = _shown(text, found, unclosed)
        lost = text.count("\n", found.start(), place) - piece.count("\n") if lines else 0
        kept.append(piece + "\n" * lost)
    return "".join([*kept, text[place:]])


def _shown(text: str, found: re.Match[str], unclosed: set[str]) -> tuple[int, str]:
    """Return where a comment or a tag ends, with what it hides, and what of it stays."""
    name = (found["tag"] or "").lower()
    if found["auto"] or name == "embed":
        return found.end(), ""
    hides = bool(found["comment"] or name in _PAIRED) and name not in unclosed
    closing = _CLOSINGS[name].search(text, found.end()) if hides else None
    if closing is not None:
        return closing.end(), ""
    if hides:
        unclosed.add(name)
    tag = _ADDRESS.sub(lambda match: "" if _is_active(match[1]) else match[0], _HANDLER.sub("", found[0]))
    return found.end(), tag


def _linked(text: str, found: re.Match[str]) -> tuple[int, str]:
    """Return where the address of a link ends, and the link to there: one that a browser would run leads nowhere."""
    address = _DESTINATION.match(text, found.end(), found.end() + _AHEAD)
    if address is not None and _is_active(address[0]):
        return address.end(), f"{found[0]}#"
    return found.end(), found[0]


def _is_active(address: str) -> bool:
    return _ACTIVE.match(_UNSEEN.sub("", html.unescape(address[:_AHEAD]))) is not None


def _code_end(text: str, found: re.Match[str], unclosed: set[str]) -> int:
    """Return where the code ends that begins with what was found, or 0 where none does."""
    if found["open"]:
        return _fence_end(text, found, unclosed)
    if found["blank"] is not None:
        block = _INDENTED.match(text, found.end())
        of_a_list = _in_list(text, found.start()) and not _DEEP.match(text, found.end())
        return block.end() if block is not None and not of_a_list else 0
    if found["ticks"] and len(found["ticks"]) <= _LONGEST_MARK:
        closing = re.compile(f"(?<!`){found['ticks']}(?!`)").search(text, found.end(), found.end() + _AHEAD)
        if closing is not None and not _BLANK.search(text, found.end(), closing.start()):
            return closing.end()
    return 0


def _fence_end(text: str, found: re.Match[str], unclosed: set[str]) -> int:
    """Return where a fence ends: in a quotation with it, in a list where it is closed, else at the end of the text."""
    mark = found["open"][:_LONGEST_MARK]
    if ">" in found["lead"]:
        place = found.end() + 1
        while (line := _QUOTED_LINE.match(text, place)) is not None:
            place = line.end()
            if line[1].startswith(mark) and not line[1].strip("`~ \t"):
                break
        return min(place, len(text))
    plain = len(found["lead"]) <= 3 and not found["lead"].strip(" ")
    if mark in unclosed and not plain:
        return 0
    lead = " {0,3}" if plain else r"[ \t]*"
    end = re.compile(rf"^{lead}{mark}[`~]*[ \t]*$", re.MULTILINE).search(text, found.end())
    if end is not None:
        return end.end()
    unclosed.add(mark)
    return len(text) if plain else 0


def _in_list(text: str, place: int) -> bool:
    """Say whether the lines before a place belong to a list, so that indented ones may be its paragraphs."""
    for line in reversed(text[max(0, place - _BACK) : place].rsplit("\n", _BACK_LINES)):
        if _ITEM.match(line):
            return True
        if line.strip() and not line.startswith((" ", "\t")):
            return False
    return False
