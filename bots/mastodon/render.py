"""From our Markdown to the plain text of a status, and how a server counts it.

Mastodon shows no markup of what its API takes: emphasis and headings are words, links their addresses, code stands in
lines of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bots.common.message_split import MarkdownSplitter
from bots.common.plain_text import ZERO_WIDTH_SPACE, PlainTextRenderer
from core.types import Citation

# What any address counts, whatever its length.
URL_CHARS = "x" * 23
# An address as far as a server surely takes it for one; what stands behind it counts by its length.
_URL = re.compile(
    r"https?://(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}(?![\w-]|\.\w)(?::\d{1,5})?"
    r"(?:/(?:[\w!*';:=+$/%#\[\]~|&@.,?()-]{0,4000}[\w=#/+$&%-])?)?",
    re.IGNORECASE | re.ASCII,
)
_REMOTE_MENTION = re.compile(r"(?<![=/\w])@(\w[\w.-]{0,63})@[\w.-]{1,253}\w")
# What a server would take for a mention, in running text and in an address.
_MENTION_SIGN = re.compile(r"(?<![=/\w])@(?=\w)")
_WEB_ADDRESS = re.compile(r"https?://\S+")
_SCHEME = re.compile(r"^https?://(?:www\.)?|^www\.", re.IGNORECASE)
_SPLITTER_ATOM = re.compile(r"\S+|\s+")
# Stands behind an address until it is known what follows: a server takes all but a few characters for a part of it.
_ADDRESS_END = "\ue000"
_IS_PART_OF_ADDRESS = re.compile(rf"{_ADDRESS_END}(?=[^\s),.:;!?\"'{_ADDRESS_END}])")
MIN_LIMIT = 100


def count_chars(text: str) -> int:
    """Return how many characters a status counts: an address 23, a mention without its server.

    By code points, of which a server may count several as one.

    >>> count_chars("@ann@long.example see https://example.org/" + "a" * 180)
    32
    """
    return len(_REMOTE_MENTION.sub(r"@\1", _URL.sub(URL_CHARS, text)))


def disarm(text: str) -> str:
    """Return a text that mentions nobody. Addresses stay addresses.

    >>> disarm("@ann, see https://example.org/@ann and https://example.org/-@ann").replace(ZERO_WIDTH_SPACE, "^")
    '@^ann, see https://example.org/@ann and https://example.org/-%40ann'
    """
    in_addresses = _WEB_ADDRESS.sub(lambda address: _MENTION_SIGN.sub("%40", address[0]), text)
    return _MENTION_SIGN.sub(f"@{ZERO_WIDTH_SPACE}", in_addresses)


def render(markdown: str, citations: Sequence[Citation], limit: int) -> list[str]:
    """Return a reply as statuses of at most `limit` characters: numbered sources at the end, at least one status."""
    return _TextRenderer(citations).render_reply(markdown, lambda text: split_text(text, limit))


def split_text(text: str, limit: int) -> list[str]:
    """Return a text in statuses, which mention nobody."""
    return MarkdownSplitter(_SPLITTER_ATOM, count_chars).split(disarm(text), max(limit, MIN_LIMIT))


def to_plain(part: str, max_chars: int) -> list[str]:
    """Return a refused part in pieces of at most `max_chars`, in which addresses count by their length."""
    return MarkdownSplitter(_SPLITTER_ATOM).split(part, max(max_chars, MIN_LIMIT))


class _TextRenderer(PlainTextRenderer):
    """Writes a syntax tree as text, with whole addresses."""

    def render(self, markdown: str) -> str:
        return _end_addresses(super().render(markdown))

    def render_sources(self) -> str:
        return _end_addresses(super().render_sources())

    def sanitize(self, text: str) -> str:
        return super().sanitize(text).replace(_ADDRESS_END, "")

    def render_citation(self, match: re.Match[str], *, in_link: bool) -> str:
        # The address stands in the list of sources, and would count each time.
        return match[0]

    def link(self, url: str, label: str) -> str:
        address = f"{url}{_ADDRESS_END}"
        return address if _strip_scheme(label) == _strip_scheme(url) else f"{label} ({address})"


def _strip_scheme(address: str) -> str:
    """Return an address as people write it: without what a browser adds."""
    return _SCHEME.sub("", address.strip()).rstrip("/").lower()


def _end_addresses(text: str) -> str:
    """Return a text with a space behind each address that would go on otherwise."""
    return _IS_PART_OF_ADDRESS.sub(" ", text).replace(_ADDRESS_END, "")
