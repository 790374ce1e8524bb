"""From our Markdown to the text of a post, and its facets: what is a link or a mention, by its place in UTF-8 bytes.

Until a part becomes a post, a link stands in it as its label and its address, between characters of no language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bots.common.message_split import MarkdownSplitter
from bots.common.plain_text import PlainTextRenderer
from core.formatting import shorten
from core.types import Citation

# A post holds 300 graphemes and 3,000 bytes. One of our characters is never more than a grapheme, or 4 bytes.
MAX_CHARS = 300
MIN_LIMIT = 100
MAX_LABEL_CHARS = 150
MAX_SHOWN_URL_CHARS = 30
_START = "\ue001"
_MIDDLE = "\ue002"
_END = "\ue003"
_MARKS = re.compile(f"[{_START}{_MIDDLE}{_END}]")
# The bracket keeps a link in one piece where a part is split.
_LINK = re.compile(rf"\[{_START}([^{_START}{_MIDDLE}{_END}]*){_MIDDLE}([^{_START}{_MIDDLE}{_END}]*){_END}")
_SPLITTER_ATOM = re.compile(rf"{_LINK.pattern.replace('(', '(?:')}|(?:(?!\[{_START})\S)+|\s+")
DID_PREFIX = "did:"
_SCHEME = re.compile(r"https?://(?:www\.)?")


def render(markdown: str, citations: Sequence[Citation], limit: int = MAX_CHARS) -> list[str]:
    """Return a reply as parts of at most `limit` characters: numbered sources at the end, at least one part."""
    splitter = MarkdownSplitter(_SPLITTER_ATOM, count_chars)
    return _LinkRenderer(citations).render_reply(markdown, lambda text: splitter.split(text, max(limit, MIN_LIMIT)))


def to_plain(part: str, max_chars: int) -> list[str]:
    """Return a part without links, their addresses written out, in pieces of at most `max_chars`."""
    text = _LINK.sub(lambda match: match[1] if match[2].startswith(DID_PREFIX) else f"{match[1]} ({match[2]})", part)
    return MarkdownSplitter(_SPLITTER_ATOM).split(text, max(max_chars, MIN_LIMIT))


def make_mention(handle: str, did: str) -> str:
    """Return what mentions somebody in a part."""
    return f"[{_START}@{handle}{_MIDDLE}{did}{_END}"


def count_chars(part: str) -> int:
    """Return how many characters of a part people see."""
    return len(_LINK.sub(r"\1", part))


def to_post(part: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a part, and its facets."""
    pieces: list[str] = []
    facets = []
    position = byte_start = 0
    for match in _LINK.finditer(part):
        before = _MARKS.sub("", part[position : match.start()])
        byte_start += len(before.encode())
        byte_end = byte_start + len(match[1].encode())
        if match[1] and match[2]:
            index = {"byteStart": byte_start, "byteEnd": byte_end}
            facets.append({"index": index, "features": [_make_feature(match[2])]})
        pieces += [before, match[1]]
        position = match.end()
        byte_start = byte_end
    return "".join([*pieces, _MARKS.sub("", part[position:])]), facets


def shorten_url(url: str) -> str:
    """Return an address as it is shown.

    >>> shorten_url("https://example.org/a/page/with/a/long/address")
    'example.org/a/page/with/a/lon…'
    """
    shown = _SCHEME.sub("", url, count=1)
    return shown if len(shown) <= MAX_SHOWN_URL_CHARS else f"{shown[: MAX_SHOWN_URL_CHARS - 1]}…"


def _make_feature(target: str) -> dict[str, str]:
    if target.startswith(DID_PREFIX):
        return {"$type": "app.bsky.richtext.facet#mention", "did": target}
    return {"$type": "app.bsky.richtext.facet#link", "uri": target}


class _LinkRenderer(PlainTextRenderer):
    """Writes a syntax tree as text, with links."""

    def sanitize(self, text: str) -> str:
        return _MARKS.sub("", super().sanitize(text))

    def escape(self, text: str) -> str:
        # An entity may have become one.
        return _MARKS.sub("", text)

    def link(self, url: str, label: str) -> str:
        shown = shorten_url(url) if label == url else shorten(" ".join(label.split()), MAX_LABEL_CHARS)
        return f"[{_START}{shown}{_MIDDLE}{url}{_END}" if not re.search(r"\s", url) else shown
