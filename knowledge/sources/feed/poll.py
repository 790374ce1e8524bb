"""New entries of a feed: one polite poll, for feeds that are followed as posts rather than stored."""

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
from knowledge.web.addresses import is_web_address, redact_url
from knowledge.web.client import Request, Response, WebClient

TIMEOUT_S = 20.0
MAX_KB = 2048
MAX_TITLE_CHARS, MAX_TEXT_CHARS, MAX_LINK_CHARS = 300, 2000, 2000
# Of a text with its markup; more is not looked at.
MAX_MARKUP_CHARS = 50_000
NOT_MODIFIED = 304
# The status codes that ask for fewer requests, and the pause when the server names none.
RATE_LIMIT_STATUSES, DEFAULT_WAIT_S, MAX_WAIT_S = (429, 503), 900.0, 86_400.0


class FeedRateLimited(SourceError):
    """The server asks for a pause of `wait_s` seconds."""

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
class FeedUpdate:
    """A feed as it stands: its own title, the ids of all its entries, and those that are new, oldest first.

    `etag` and `modified` are what the server calls this state.
    """

    title: str
    entry_ids: tuple[str, ...]
    new_entries: tuple[NewEntry, ...]
    etag: str
    modified: str


async def poll_feed(
    url: str,
    allow_private: Collection[str] = (),
    *,
    known_ids: Collection[str] | None = None,
    etag: str = "",
    modified: str = "",
) -> FeedUpdate | None:
    """Fetch a feed and return what it holds beside the `known_ids` entries, or None when it is in the state named.

    With None for `known_ids` nothing counts as new. Raises `FeedRateLimited` when the server asks to wait, and
    `SourceError` for an address that is refused, a feed that cannot be fetched, and what is no feed.
    """
    conditions = {"If-None-Match": etag, "If-Modified-Since": modified}
    headers = {name: value for name, value in conditions.items() if value}
    async with WebClient(allow_private) as client:
        response = await client.fetch(Request(url, headers=headers, timeout_s=TIMEOUT_S, max_kb=MAX_KB))
    if response.status == NOT_MODIFIED and headers:
        return None
    if response.status in RATE_LIMIT_STATUSES:
        wait_s = _parse_retry_after(response.headers)
        raise FeedRateLimited(f"{redact_url(url)} asks to wait {wait_s:.0f} s (status {response.status})", wait_s)
    if response.status >= 300:
        raise SourceError(f"{redact_url(url)} answered with status {response.status}")
    return await asyncio.to_thread(_to_update, response, url, known_ids)


def parse_feed(content: bytes, url: str) -> Any:
    """Return a feed as feedparser reads it. Raises `SourceError` for what is none; `url` is for the message."""
    import feedparser

    # Bytes alone would be tried as the name of a file first.
    feed = feedparser.parse(io.BytesIO(content), sanitize_html=False, resolve_relative_uris=False)
    if not feed.entries and (feed.bozo or not feed.get("version")):
        raise SourceError(f"{redact_url(url)} is no feed that can be read")
    return feed


def _to_update(response: Response, url: str, known_ids: Collection[str] | None) -> FeedUpdate:
    feed = parse_feed(response.content, url)
    entries = {entry_id: raw_entry for raw_entry in feed.entries if (entry_id := _to_entry_id(raw_entry, url))}
    new_entries = (
        []
        if known_ids is None
        else [_to_entry(entry_id, raw_entry) for entry_id, raw_entry in entries.items() if entry_id not in known_ids]
    )
    title = _to_plain_line(feed.feed.get("title"), MAX_TITLE_CHARS)
    validators = response.headers.get("etag", ""), response.headers.get("last-modified", "")
    return FeedUpdate(title, tuple(entries), tuple(reversed(new_entries)), *validators)


def _to_entry_id(raw_entry: Any, url: str) -> str:
    """Return by what an entry is known, or nothing where it has no mark of its own."""
    identity = str(raw_entry.get("id") or raw_entry.get("link") or raw_entry.get("title") or "")
    return hashlib.sha256(f"{url}\n{identity}".encode("utf-8", "replace")).hexdigest()[:16] if identity else ""


def _to_entry(entry_id: str, raw_entry: Any) -> NewEntry:
    link = str(raw_entry.get("link") or "")
    bodies = [raw_entry.get("summary"), *(content.get("value") for content in raw_entry.get("content") or ())]
    body = next((str(text) for text in bodies if text), "")
    return NewEntry(
        entry_id,
        _to_plain_line(raw_entry.get("title"), MAX_TITLE_CHARS),
        _to_plain_line(body, MAX_TEXT_CHARS),
        link if is_web_address(link) and len(link) <= MAX_LINK_CHARS else "",
        get_published(raw_entry),
    )


def get_published(raw_entry: Any) -> float | None:
    """Return an entry's date in seconds since 1970; None where there is none, or none that a clock has shown."""
    date = raw_entry.get("published_parsed") or raw_entry.get("updated_parsed")
    try:
        return float(calendar.timegm(date)) if date else None
    except (ValueError, OverflowError):
        return None


def _to_plain_line(html: object, max_chars: int) -> str:
    """Return HTML as one line of plain text, nothing for what cannot be read."""
    from lxml import etree, html as parser

    page = f"<html><body><p>{str(html or '')[:MAX_MARKUP_CHARS]}</p></body></html>".encode("utf-8", "replace")
    try:
        tree = parser.document_fromstring(page, parser=parser.HTMLParser(encoding="utf-8"))
    except (etree.LxmlError, ValueError):
        return ""
    pieces = tree.xpath("//body//text()[not(parent::script or parent::style)]")
    text = " ".join(" ".join(map(str, pieces)).split())
    return text if len(text) <= max_chars else f"{text[:max_chars].rstrip()}…"


def _parse_retry_after(headers: Mapping[str, str]) -> float:
    """Return the pause that the server asks for: it sends seconds, a date, or nothing useful."""
    retry_after = headers.get("retry-after", "")
    try:
        wait_s = float(retry_after)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            wait_s = DEFAULT_WAIT_S
    # An absurd value, or a wrong clock, must not stop polling for good.
    return min(max(wait_s, 1.0), MAX_WAIT_S) if math.isfinite(wait_s) else DEFAULT_WAIT_S
