"""The few calls of the AT Protocol that the bot makes, with a session that is renewed when it has expired."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bots.bluesky.connection import MAX_WAIT_S, BlueskyIntervals, RecordExists, to_bluesky_error
from bots.bluesky.session import Session, SessionFile, to_session
from bots.common.connection import TokenRefused, Unreachable
from bots.common.json_client import JsonClient, TooLarge
from core.errors import MessageDeleted, PlatformError

Json = Mapping[str, Any]
POSTS = "app.bsky.feed.post"
PAGE_SIZE = 100
MAX_PROFILES = 25
# Questions, and what people think of answers.
NOTIFICATION_REASONS = ("mention", "reply", "quote", "like", "repost")
# So many posts above a question are read.
MAX_ABOVE = 80


@dataclass(frozen=True, slots=True)
class Identity:
    """The bot's account: its lasting id, and its name."""

    did: str = ""
    handle: str = ""


@dataclass(frozen=True, slots=True)
class Ref:
    """A version of a record: its address and the hash of its content."""

    uri: str
    cid: str

    def to_json(self) -> dict[str, str]:
        """Return it as a record names another one."""
        return {"uri": self.uri, "cid": self.cid}


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, the newest item first; `cursor` leads to the next part, "" at the end."""

    items: Sequence[Json]
    cursor: str


class BlueskyClient(JsonClient):
    """One account. Calls raise a `PlatformError`; no redirect gets a token."""

    def __init__(
        self, url: str, identifier: str, password: str, file: SessionFile, intervals: BlueskyIntervals
    ) -> None:
        super().__init__(url, intervals.timeout_s, MAX_WAIT_S, {})
        self._identifier = identifier
        self._password = password
        self._file = file
        self._current: Session | None = None
        # That of an earlier run, as long as it was not replaced.
        self._stored: Session | None = None
        self._lock = asyncio.Lock()

    async def get_identity(self) -> Identity:
        """Return who the bot is, as the server says now."""
        values = await self._get("com.atproto.server.getSession")
        return Identity(str(values["did"]), str(values["handle"]))

    async def get_profiles(self, dids: Sequence[str]) -> Sequence[Json]:
        """Return the profiles of those of these people whom there are."""
        profiles: list[Json] = []
        for start in range(0, len(dids), MAX_PROFILES):
            actors = [("actors", did) for did in dids[start : start + MAX_PROFILES]]
            profiles += (await self._get("app.bsky.actor.getProfiles", actors)).get("profiles") or ()
        return profiles

    async def get_notifications(self, cursor: str, page_size: int) -> Page:
        """Return a page of notifications. Raises `TooLarge`."""
        reasons = [("reasons", reason) for reason in NOTIFICATION_REASONS]
        return await self._get_page(
            "app.bsky.notification.listNotifications", "notifications", cursor, page_size, reasons
        )

    async def get_timeline(self, cursor: str, page_size: int) -> Page:
        """Return a page of what those write whom the bot follows. Raises `TooLarge`."""
        return await self._get_page("app.bsky.feed.getTimeline", "feed", cursor, page_size)

    async def get_list_feed(self, key: str, cursor: str, page_size: int) -> Page:
        """Return a page of what those write who are in a list of the bot's. Raises `MessageDeleted` and `TooLarge`."""
        uri = f"at://{(await self._get_session()).did}/app.bsky.graph.list/{key}"
        return await self._get_page("app.bsky.feed.getListFeed", "feed", cursor, page_size, [("list", uri)])

    async def get_thread(self, uri: str, *, above: int = 0, below: int = 0) -> Json:
        """Return a post with so many levels of what is above and below it. Raises `MessageDeleted` and `TooLarge`."""
        levels = [("parentHeight", str(above)), ("depth", str(below))]
        thread: Json = (await self._get("app.bsky.feed.getPostThread", [("uri", uri), *levels])).get("thread") or {}
        if thread.get("notFound"):
            raise MessageDeleted("the post is gone")
        return thread

    async def find_post(self, key: str) -> Ref | None:
        """Return the bot's post with this key, if there is one."""
        did = (await self._get_session()).did
        try:
            values = await self._get(
                "com.atproto.repo.getRecord", [("repo", did), ("collection", POSTS), ("rkey", key)]
            )
        except MessageDeleted:
            return None
        return Ref(str(values["uri"]), str(values["cid"]))

    async def post(self, key: str, record: Json) -> Ref:
        """Post a record under a key, once: a second one is not taken, and the first one returned."""
        did = (await self._get_session()).did
        # The null says that there must be no such record.
        body = {"repo": did, "collection": POSTS, "rkey": key, "record": record, "swapRecord": None}
        try:
            values = await self._call("POST", "com.atproto.repo.putRecord", body=body)
        except RecordExists as error:
            if ref := await self.find_post(key):
                return ref
            raise Unreachable(str(error)) from error
        return Ref(str(values["uri"]), str(values["cid"]))

    async def _get_page(
        self, name: str, field: str, cursor: str, page_size: int, params: Sequence[tuple[str, str]] = ()
    ) -> Page:
        position = [("cursor", cursor)] if cursor else []
        values = await self._get(name, [("limit", str(page_size)), *position, *params])
        items = [item for item in values.get(field) or () if isinstance(item, dict)]
        return Page(items, str(values.get("cursor") or ""))

    async def _get(self, name: str, params: Sequence[tuple[str, str]] = ()) -> Any:
        return await self._call("GET", name, params=params)

    async def _call(self, method: str, name: str, *, params: Sequence[tuple[str, str]] = (), body: Any = None) -> Any:
        """Make a call; where the session has expired, renew it once. Raises `TokenRefused` if that does not help."""
        session = await self._get_session()
        try:
            return await self._call_as(session.access_token, method, session.url, name, params=params, body=body)
        except TokenRefused:
            session = await self._renew(session)
        except Unreachable as error:
            if isinstance(error, TooLarge) or session is not self._stored or session.url == self._url:
                raise
            session = await self._move(session)
        return await self._call_as(session.access_token, method, session.url, name, params=params, body=body)

    async def _call_as(self, token: str, method: str, url: str, name: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else None
        return await self._request(method, f"{url}/xrpc/{name}", headers=headers, **options)

    async def _get_session(self) -> Session:
        async with self._lock:
            if self._current is None:
                self._stored = await self._file.load()
                self._current = self._stored or await self._log_in()
            return self._current

    async def _move(self, session: Session) -> Session:
        """Return a new session where the server of the kept one is away, once in a run: the account may have moved."""
        async with self._lock:
            if self._current is session:
                self._stored = None
                self._current = await self._log_in()
            return self._current or session

    async def _renew(self, expired: Session) -> Session:
        """Return another session than the one that has expired: several calls may notice it at once."""
        async with self._lock:
            if self._current is not None and self._current is not expired:
                return self._current
            name = "com.atproto.server.refreshSession"
            try:
                values = await self._call_as(expired.refresh_token, "POST", expired.url, name)
            except TokenRefused:
                self._current = await self._log_in()
            else:
                self._current = await self._keep(values)
            return self._current

    async def _log_in(self) -> Session:
        body = {"identifier": self._identifier, "password": self._password}
        return await self._keep(
            await self._call_as("", "POST", self._url, "com.atproto.server.createSession", body=body)
        )

    async def _keep(self, values: Json) -> Session:
        try:
            session = to_session(values, self._url)
        except (KeyError, TypeError, AttributeError) as error:
            raise Unreachable("the server's session makes no sense") from error
        await self._file.save(session)
        return session

    def _to_error(self, call: str, status: int, headers: Mapping[str, str], values: Json) -> PlatformError:
        return to_bluesky_error(call, status, headers, values)
