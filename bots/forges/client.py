"""What the bot needs of a forge: what is new in its projects, what stands below an issue, and comments of its own."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bots.forges.connection import ForgeIntervals, Moved, platform_errors
from knowledge.sources.forge.api import (
    MAX_PAGES,
    PER_PAGE,
    ApiLimits,
    ForgeApi,
    dig,
    format_iso8601,
    parse_timestamp,
)
from knowledge.web.client import WebClient

Json = Mapping[str, Any]
MAX_PAGE_KB = 16_384


@dataclass(frozen=True, slots=True)
class Identity:
    """The bot's account; `host` is the web host of its forge."""

    login: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """What people comment on: an issue. `path` is its kind with its number, `number` counts up within a project.

    `path` is empty for what takes a number as well, but is left alone, such as a pull request. `created_at` is in
    seconds since 1970.
    """

    project: str
    path: str
    number: int
    title: str
    text: str
    author: str
    created_at: float
    is_by_bot: bool = False
    is_open: bool = True
    is_locked: bool = False
    is_confidential: bool = False
    comment_count: int = 0


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment below a topic. Later ones have higher numbers; `updated_at` (seconds since 1970) changes with the text.

    `topic_path` is empty where it stands below something else, such as a pull request.
    """

    number: int
    topic_path: str
    text: str
    author: str
    created_at: float
    updated_at: float
    is_by_bot: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """An emoji by its name, below a comment."""

    id: str
    author: str
    emoji: str
    is_by_bot: bool = False


class ForgeClient(ABC):
    """One account on a forge. Calls raise a `PlatformError` (`bots/forges/connection.py`); redirects are not followed.

    The token goes to `api_url` alone.
    """

    def __init__(self, api_url: str, headers: Mapping[str, str], intervals: ForgeIntervals) -> None:
        self._web = WebClient([urlsplit(api_url).hostname or ""])
        self._etags: dict[str, str] = {}
        limits = ApiLimits(intervals.timeout_s, MAX_PAGE_KB)
        self._api = ForgeApi(self._web, api_url, headers, limits, etags=self._etags, check_redirect=_refuse_redirect)
        self._intervals = intervals
        self._write_lock = asyncio.Lock()
        self._last_write_at = 0.0

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._web.close()

    @abstractmethod
    async def get_identity(self) -> Identity:
        """Return who the bot is."""

    @abstractmethod
    async def get_project(self, project: str) -> Json:
        """Return what the forge says of a project. Raises `MessageDeleted` where it has moved, or is not to be seen."""

    @abstractmethod
    async def get_last_number(self, project: str) -> int:
        """Return the number of the newest topic, 0 without any."""

    @abstractmethod
    def list_topics(self, project: str, after: int, *, is_conditional: bool) -> AsyncIterator[Topic]:
        """Yield the open topics with a higher number, the newest first.

        With `is_conditional` nothing if the newest ones are the same as the last time.
        """

    @abstractmethod
    async def get_topic(self, project: str, path: str) -> Topic:
        """Return a topic. Raises `MessageDeleted`, also where it has moved to another project."""

    @abstractmethod
    async def get_last_comment(self, project: str) -> tuple[int, int]:
        """Return when a comment changed last, in seconds since 1970, and the highest number of one; zeros for none."""

    @abstractmethod
    def list_comments(self, project: str, since: int) -> AsyncIterator[Comment | int | None]:
        """Yield the comments of a project that changed since a time, that included, the earliest change first.

        One that cannot be understood is None. A number is a time, in seconds since 1970: what changed before it has
        been listed.
        """

    @abstractmethod
    async def get_comment(self, project: str, path: str, number: int) -> Comment:
        """Return a comment. Raises `MessageDeleted`."""

    @abstractmethod
    async def list_comments_below(self, project: str, path: str) -> Sequence[Comment]:
        """Return the comments below a topic, the first one at their head."""

    @abstractmethod
    async def list_reactions(self, project: str, path: str, number: int) -> Sequence[Reaction]:
        """Return the reactions to a comment."""

    @abstractmethod
    async def post_comment(self, project: str, path: str, text: str) -> int:
        """Comment on a topic, and return the comment's number."""

    @abstractmethod
    async def edit_comment(self, project: str, path: str, number: int, text: str) -> None:
        """Replace the text of a comment of the bot's."""

    @abstractmethod
    async def add_label(self, project: str, path: str, label: str) -> None:
        """Put a label on a topic."""

    @abstractmethod
    async def try_empty_write(self, project: str) -> None:
        """Write nothing, which no forge takes: raises `Refused`, or `NotAllowed` where the token may not write."""

    def forget_older_etags(self) -> None:
        """End a round: the next one compares with what this one received."""
        self._etags.clear()
        self._etags.update(self._api.received_etags)
        self._api.received_etags.clear()

    async def _get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        with platform_errors():
            return await self._api.get(path, params)

    async def _pages(self, path: str, params: Mapping[str, str], *, is_conditional: bool = False) -> AsyncIterator[Any]:
        with platform_errors():
            async for item in self._api.pages(path, params, conditional=is_conditional, skips_large=True):
                yield item

    async def _changes(self, path: str, params: Mapping[str, str], since_name: str, since: int) -> AsyncIterator[Any]:
        """Yield what changed since a time, the earliest change first.

        Further pages are asked for by time: what is changed or deleted meanwhile would move others to earlier pages.
        """
        seen = set[str]()
        for _ in range(MAX_PAGES):
            newest = since
            count = 0
            async for item in self._pages(path, {**params, since_name: format_iso8601(since)}):
                count += 1
                updated_at = dig(item, "updated_at")
                newest = max(newest, int(parse_timestamp(updated_at)))
                version = f"{dig(item, 'id')} {updated_at}"
                if version not in seen:
                    seen.add(version)
                    yield item
                # Of what changed within one second there may be more than a page.
                if count >= PER_PAGE and newest > since:
                    break
            else:
                return
            since = newest

    async def _change(self, method: str, path: str, body: Json) -> Any:
        """Send a request that changes something: one at a time, with a pause before the next one."""
        async with self._write_lock:
            await asyncio.sleep(max(0.0, self._last_write_at + self._intervals.write_s - time.monotonic()))
            try:
                with platform_errors():
                    return await self._api.change(method, path, body)
            finally:
                self._last_write_at = time.monotonic()


def _refuse_redirect(url: str) -> None:
    raise Moved("it has moved to another place, which is not followed")
