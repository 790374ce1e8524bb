"""Parses feeds. Run these functions by a `Parser`: the library's patterns take quadratic time on some feeds."""

from __future__ import annotations

import calendar
import hashlib
import html
import io
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from core.runtime.retry_after import parse_date
from knowledge.formats.html import read_page
from knowledge.parsing.limits import FormatError
from knowledge.web.addresses import is_web_address, normalize_url, redact_url
from knowledge.web.packed import UNPACK_ERRORS, unpack

MAX_TITLE_CHARS = 300
MAX_MADE_TITLE_CHARS = 80
MAX_TEXT_CHARS = 2000
MAX_LINK_CHARS = 2000
# Of a text with its markup; more is not looked at.
MAX_MARKUP_CHARS = 50_000
# RSS 2.0, Atom and RSS 1.0, after what may stand before the first element.
_FEED_START = re.compile(rb"<(?:rss|(?:\w{1,20}:)?feed|rdf:RDF)[\s>]", re.IGNORECASE)
MAX_PROLOGUE_BYTES = 2000
MAX_FEED_BYTES = 16 << 20
# An ampersand that begins no reference, and what holds text as it is.
_BARE_AMPERSAND = re.compile(rb"<!\[CDATA\[(?>.*?\]\]>|.*)|&(?!(?:\w{1,32}|#\w{1,8});)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One entry as it was last seen; `published` is in seconds since 1970, None where its feed gives no date."""

    title: str
    text: str
    link: str
    published: float | None


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
class FeedContent:
    """A feed's own title, the ids of all its entries, and those that are new, oldest first."""

    title: str
    entry_ids: tuple[str, ...]
    new_entries: tuple[NewEntry, ...]


def looks_like_feed(content: bytes) -> bool:
    """Return whether a page begins like a feed. It need not be a valid one.

    >>> looks_like_feed(b'<?xml version="1.0"?><rss version="2.0">'), looks_like_feed(b"<html><feed>")
    (True, False)
    """
    head = content[:MAX_PROLOGUE_BYTES]
    return b"<html" not in head.lower() and _FEED_START.search(head) is not None


def parse_entries(content: bytes, max_entries: int, url: str = "") -> list[tuple[str, FeedEntry]]:
    """Return the entries with a text, each with the name by which it is known. Raises `FormatError` for no feed.

    `url` is the feed's own address, to which relative ones are added.
    """
    entries = (_to_feed_entry(raw_entry, url) for raw_entry in _parse(content).entries[:max_entries])
    return [(name, entry) for name, entry in entries if entry.text]


def parse_new_entries(content: bytes, url: str, known_ids: Collection[str] | None) -> FeedContent:
    """Return what a feed holds beside the `known_ids` entries; with None nothing is new. Raises `FormatError`."""
    feed = _parse(content)
    entries = {entry_id: raw_entry for raw_entry in feed.entries if (entry_id := _to_entry_id(raw_entry, url))}
    new_entries = (
        []
        if known_ids is None
        else [
            _to_new_entry(entry_id, raw_entry, url)
            for entry_id, raw_entry in entries.items()
            if entry_id not in known_ids
        ]
    )
    title = _to_plain_line(feed.feed.get("title"), MAX_TITLE_CHARS)
    return FeedContent(title, tuple(entries), tuple(reversed(new_entries)))


def to_entry_name(identity: str) -> str:
    """Return the name by which an entry is known: its mark, in one form where that is an address."""
    try:
        return (normalize_url(identity) if is_web_address(identity) else identity)[:500]
    except ValueError:
        return identity[:500]


def _parse(content: bytes) -> Any:
    import feedparser

    try:
        content = unpack(content, MAX_FEED_BYTES)
    except UNPACK_ERRORS as error:
        raise FormatError(f"cannot be unpacked ({type(error).__name__})") from error
    # Bytes alone would be tried as the name of a file first.
    # In other bytes than those of ASCII, an ampersand has two or four.
    if b"\0" not in content[:4]:
        content = _BARE_AMPERSAND.sub(lambda match: b"&amp;" if match[0] == b"&" else match[0], content)
    feed = feedparser.parse(io.BytesIO(content), sanitize_html=False, resolve_relative_uris=False)
    if str(feed.get("version")).startswith("atom"):
        _escape_plain_texts(feed.entries)
    if not feed.entries and (feed.bozo or not feed.get("version")):
        raise FormatError("is no feed that can be read")
    return feed


def _escape_plain_texts(entries: Collection[Any]) -> None:
    """Write as HTML what Atom says is plain text; in RSS, the library looks at each text."""
    for entry in entries:
        for name in ("title", "summary"):
            detail = entry.get(f"{name}_detail") or {}
            if detail.get("type") == "text/plain":
                entry[name] = html.escape(entry[name], quote=False)
        for content in entry.get("content") or ():
            if content.get("type") == "text/plain":
                content["value"] = html.escape(content["value"], quote=False)


def _to_feed_entry(raw_entry: Any, url: str) -> tuple[str, FeedEntry]:
    """Return an entry under the name by which it is known."""
    link = _get_link(raw_entry, url)
    bodies = [str(content.get("value") or "") for content in raw_entry.get("content") or ()]
    body = max([*bodies, str(raw_entry.get("summary") or "")], key=len)
    title = " ".join(read_page(f"<p>{raw_entry.get('title') or ''}</p>".encode(), "").plain_text.split())
    page = read_page(f"<html><body><article>{body}</article></body></html>".encode(), link)
    name = to_entry_name(str(raw_entry.get("id") or link or title))
    text = page.text or page.plain_text or title
    # Notes have no title, and their address says nothing.
    title = title or _to_plain_line(body, MAX_MADE_TITLE_CHARS)
    return name, FeedEntry(title[:300], text, link, _get_timestamp(raw_entry))


def _to_entry_id(raw_entry: Any, url: str) -> str:
    """Return by what an entry is known, or nothing where it has no mark of its own."""
    identity = str(raw_entry.get("id") or raw_entry.get("link") or raw_entry.get("title") or "")
    return hashlib.sha256(f"{url}\n{identity}".encode("utf-8", "replace")).hexdigest()[:16] if identity else ""


def _to_new_entry(entry_id: str, raw_entry: Any, url: str) -> NewEntry:
    link = _get_link(raw_entry, url)
    bodies = [raw_entry.get("summary"), *(content.get("value") for content in raw_entry.get("content") or ())]
    body = next((str(text) for text in bodies if text), "")
    return NewEntry(
        entry_id,
        _to_plain_line(raw_entry.get("title"), MAX_TITLE_CHARS),
        _to_plain_line(body, MAX_TEXT_CHARS),
        link if len(link) <= MAX_LINK_CHARS else "",
        _get_timestamp(raw_entry),
    )


def _get_link(raw_entry: Any, url: str) -> str:
    """Return the web address of an entry, or nothing. The library has added the address that the feed gives itself.

    The query of the feed's address is left out: it may be a secret.
    """
    link = str(raw_entry.get("link") or "")
    if link == raw_entry.get("id") and not is_web_address(link):
        # The library takes a mark that is no address for one.
        return ""
    try:
        link = urljoin(redact_url(url), link) if link else ""
        if query := urlsplit(url).query:
            link = link.replace(f"?{query}", "")
    except ValueError:
        return ""
    return link if is_web_address(link) else ""


def _get_timestamp(raw_entry: Any) -> float | None:
    """Return an entry's date in seconds since 1970; None where there is none, or none that a clock has shown.

    One without a zone is in UTC.
    """
    # The library's own `get` warns where one date stands in for another.
    values = dict(dict.items(raw_entry))
    date = values.get("published_parsed") or values.get("updated_parsed")
    try:
        if date:
            return float(calendar.timegm(date))
        return parse_date(values.get("published") or values.get("updated") or "")
    except (ValueError, OverflowError):
        return None


def _to_plain_line(markup: object, max_chars: int) -> str:
    """Return HTML as one line of plain text, nothing for what cannot be read."""
    from lxml import etree, html as parser

    page = f"<html><body><p>{str(markup or '')[:MAX_MARKUP_CHARS]}</p></body></html>".encode("utf-8", "replace")
    try:
        tree = parser.document_fromstring(page, parser=parser.HTMLParser(encoding="utf-8"))
    except (etree.LxmlError, ValueError):
        return ""
    pieces = tree.xpath("//body//text()[not(parent::script or parent::style)]")
    text = " ".join(" ".join(map(str, pieces)).split())
    return text if len(text) <= max_chars else f"{text[:max_chars].rstrip()}…"
