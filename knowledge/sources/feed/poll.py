"""New entries of a feed: one polite poll, for feeds that are followed as posts rather than stored."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from core.errors import SourceError
from core.runtime.retry_after import read_retry_after
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.sources.feed.parsing import NewEntry, parse_new_entries
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, WebClient

TIMEOUT_S = 20.0
MAX_KB = 2048
NOT_MODIFIED = 304
# The status codes that ask for fewer requests, and the pause when the server names none.
RATE_LIMIT_STATUSES = (429, 503)
DEFAULT_WAIT_S = 900.0


class FeedRateLimited(SourceError):
    """The server asks for a pause of `wait_s` seconds."""

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


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
    parser: Parser | None = None,
) -> FeedUpdate | None:
    """Fetch a feed and return what it holds beside the `known_ids` entries, or None when it is in the state named.

    With None for `known_ids` nothing counts as new. `parser` reads the feed; None reads it in a thread, without limits.
    Raises `FeedRateLimited` when the server asks to wait, and `SourceError` for an address that is refused, a feed that
    cannot be fetched, and what is no feed.
    """
    conditions = {"If-None-Match": etag, "If-Modified-Since": modified}
    headers = {name: value for name, value in conditions.items() if value}
    async with WebClient(allow_private) as client:
        response = await client.fetch(Request(url, headers=headers, timeout_s=TIMEOUT_S, max_kb=MAX_KB))
    if response.status == NOT_MODIFIED and headers:
        return None
    if response.status in RATE_LIMIT_STATUSES:
        asked_s = read_retry_after(response.headers)
        wait_s = DEFAULT_WAIT_S if asked_s is None else max(asked_s, 1.0)
        raise FeedRateLimited(f"{redact_url(url)} asks to wait {wait_s:.0f} s (status {response.status})", wait_s)
    if response.status >= 300:
        raise SourceError(f"{redact_url(url)} answered with status {response.status}")
    try:
        content = await (parser or ThreadParser()).run(parse_new_entries, response.content, url, known_ids)
    except FormatError as error:
        raise SourceError(f"{redact_url(url)} {error}") from error
    validators = response.headers.get("etag", ""), response.headers.get("last-modified", "")
    return FeedUpdate(content.title, content.entry_ids, content.new_entries, *validators)
