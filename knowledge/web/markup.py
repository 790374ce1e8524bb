"""Markdown that others wrote: what nobody sees of it, and what a browser would run, is left out."""

from __future__ import annotations

import re

# A fence that is never closed reaches to the end. Use with MULTILINE and DOTALL.
FENCE = r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
_CODE_OR_HIDDEN = re.compile(
    rf"{FENCE}|`[^`\n]+`|(?P<comment><!--)|<(?P<tag>script|style|svg|iframe)\b[^<>]*>",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_CLOSINGS = {
    "": re.compile("-->"),
    **{tag: re.compile(rf"</{tag}\s*>", re.IGNORECASE) for tag in ("script", "style", "svg", "iframe")},
}


def without_hidden(text: str) -> str:
    """Return Markdown without comments, scripts, styles, drawings and frames.

    Code stays as it is, in fences and in lines. What is opened and never closed stays too, for it may be prose. Takes
    time in proportion to the length of the text, whatever is in it.
    """
    kept: list[str] = []
    unclosed: set[str] = set()
    place = 0
    while (found := _CODE_OR_HIDDEN.search(text, place)) is not None:
        kept.append(text[place : found.start()])
        place = found.end()
        name = (found["tag"] or "").lower()
        hides = bool(found["comment"] or name) and name not in unclosed
        closing = _CLOSINGS[name].search(text, place) if hides else None
        if closing is not None:
            place = closing.end()
            continue
        if hides:
            unclosed.add(name)
        kept.append(found[0])
    return "".join([*kept, text[place:]])
