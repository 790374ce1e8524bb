"""What is new in a feed: one polite look at it, for those who follow it rather than keep its knowledge."""

from __future__ import annotations

import asyncio
import calendar
import hashlib
import io
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from core.errors import SourceError
from knowledge.web.addresses import SCHEMES, shown
from knowledge.web.client import Request, Response, WebClient

TIMEOUT_S = 20.0
MOST_KB = 2048
TITLE_CHARS, TEXT_CHARS, LINK_CHARS = 300, 2000, 2000
# Of a text with its markup; more is not looked at.
MARKUP_CHARS = 50_000
UNCHANGED = 304
# A status that asks for fewer requests, and how long it is left alone where it does not say.
BUSY, USUAL_WAIT_S, LONGEST_WAIT_S = (429, 503), 900.0, 86_400.0


class Busy(SourceError):
    """The server asks to be left alone for `wait_s` seconds."""

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class NewEntry:
    """One entry as plain text. `id` stays the same when the entry is edited.

    `link` is an http address or empty; `published` is in seconds since 1970, None where the feed gives no date.
    """

    id: str
    title: str
    text: str
    link: str
    published: float | None


@dataclass(frozen=True, slots=True)
class News:
    """A feed as it stands: its own title, the ids of all its entries, and those that are new, oldest first.

    `etag` and `modified` are what the server calls this state.
    """

    title: str
    present: tuple[str, ...]
    new: tuple[NewEntry, ...]
    etag: str
    modified: str


async def look(
    url: str,
    allow_private: Collection[str] = (),
    *,
    known: Collection[str] | None = None,
    etag: str = "",
    modified: str = "",
) -> News | None:
    """Fetch a feed and return what it holds beside the `known` entries, or None when it is in the state named.

    With None for `known` nothing counts as new. Raises `Busy` when the server asks to wait, and `SourceError` for an
    address that is refused, a feed that cannot be fetched, and what is no feed.
    """
    conditions = {"If-None-Match": etag, "If-Modified-Since": modified}
    headers = {name: value for name, value in conditions.items() if value}
    async with WebClient(allow_private) as client:
        reply = await client.fetch(Request(url, headers=headers, timeout_s=TIMEOUT_S, kb=MOST_KB))
    if reply.status == UNCHANGED and headers:
        return None
    if reply.status in BUSY:
        wait_s = _asked_wait_s(reply.headers)
        raise Busy(f"{shown(url)} asks to wait {wait_s:.0f} s (status {reply.status})", wait_s)
    if reply.status >= 300:
        raise SourceError(f"{shown(url)} answered with status {reply.status}")
    return await asyncio.to_thread(_read, reply, url, known)


def _read(reply: Response, url: str, known: Collection[str] | None) -> News:
    import feedparser

    # Bytes alone would be tried as the name of a file first.
    feed = feedparser.parse(io.BytesIO(reply.content), sanitize_html=False, resolve_relative_uris=False)
    if not feed.entries and (feed.bozo or not feed.get("version")):
        raise SourceError(f"{shown(url)} is no feed that can be read")
    entries = {name: one for one in feed.entries if (name := _id_of(one, url))}
    new = [] if known is None else [_entry(name, one) for name, one in entries.items() if name not in known]
    title = _line(feed.feed.get("title"), TITLE_CHARS)
    tags = reply.headers.get("etag", ""), reply.headers.get("last-modified", "")
    return News(title, tuple(entries), tuple(reversed(new)), *tags)


def _id_of(found: Any, url: str) -> str:
    """Return by what an entry is known, or nothing where it has no mark of its own."""
    name = str(found.get("id") or found.get("link") or found.get("title") or "")
    return hashlib.sha256(f"{url}\n{name}".encode("utf-8", "replace")).hexdigest()[:16] if name else ""


def _entry(name: str, found: Any) -> NewEntry:
    link = str(found.get("link") or "")
    bodies = [found.get("summary"), *(one.get("value") for one in found.get("content") or ())]
    body = next((str(one) for one in bodies if one), "")
    dated = found.get("published_parsed") or found.get("updated_parsed")
    return NewEntry(
        name,
        _line(found.get("title"), TITLE_CHARS),
        _line(body, TEXT_CHARS),
        link if link.split("://", maxsplit=1)[0].lower() in SCHEMES and len(link) <= LINK_CHARS else "",
        moment_of(dated),
    )


def moment_of(dated: Any) -> float | None:
    """Return a date of feedparser's in seconds since 1970; None where there is none, or none that a clock has shown."""
    try:
        return float(calendar.timegm(dated)) if dated else None
    except (ValueError, OverflowError):
        return None


def _line(html: object, longest: int) -> str:
    """Return HTML as one line of plain text, nothing for what cannot be read."""
    from lxml import etree
    from lxml import html as parser

    page = f"<html><body><p>{str(html or '')[:MARKUP_CHARS]}</p></body></html>".encode("utf-8", "replace")
    try:
        tree = parser.document_fromstring(page, parser=parser.HTMLParser(encoding="utf-8"))
    except (etree.LxmlError, ValueError):
        return ""
    pieces = tree.xpath("//body//text()[not(parent::script or parent::style)]")
    text = " ".join(" ".join(map(str, pieces)).split())
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def _asked_wait_s(headers: Mapping[str, str]) -> float:
    """Return for how long the server wants to be left alone: it says seconds or a date, or nothing of use."""
    said = headers.get("retry-after", "")
    try:
        wait_s = float(said)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, OverflowError):
            wait_s = USUAL_WAIT_S
    # A server that jokes, or a clock that is off, must not end the following for good.
    return min(max(wait_s, 1.0), LONGEST_WAIT_S) if math.isfinite(wait_s) else USUAL_WAIT_S
