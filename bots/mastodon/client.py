"""The few calls of Mastodon's API that the bot makes, with every failure mapped, and its event streams."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from bots.common.bounded_response import BoundedResponse, ResponseTooLarge
from bots.common.connection import RetryLater, Unreachable
from bots.mastodon.connection import MastodonIntervals, to_platform_error
from core.errors import MessageDeleted, PlatformError
from core.version import get_version
from knowledge.web.client import Request, WebClient

Json = Mapping[str, Any]
PAGE_SIZE = 40
# The kinds of notifications that are read: questions, and what people think of answers.
NOTIFICATION_TYPES = ("mention", "favourite", "reblog")
# The longest line of a stream; one event is one line.
MAX_LINE_BYTES = 1 << 20
DEFAULT_MAX_CHARS = 500


@dataclass(frozen=True, slots=True)
class Identity:
    """The bot's account: its number and name on its server, the server's domain, and the most that a post holds."""

    id: str = ""
    username: str = ""
    domain: str = ""
    max_chars: int = DEFAULT_MAX_CHARS

    def to_handle(self, acct: str) -> str:
        """Return an account's name with its server, which is left out for those of the bot's own."""
        return acct if "@" in acct else f"{acct}@{self.domain}"


@dataclass(frozen=True, slots=True)
class Post:
    """What is posted. `key` is the same for every try, `reply_to` empty for a post that answers none."""

    text: str
    key: str = ""
    reply_to: str = ""
    visibility: str = "direct"
    spoiler_text: str = ""
    language: str = ""


class TooLarge(Unreachable):
    """A response holds more than is read. `newest_id` is the id of its first item, "" if the server names none."""

    def __init__(self, text: str, newest_id: str) -> None:
        super().__init__(text)
        self.newest_id = newest_id


class MastodonClient:
    """One account. Calls raise a `PlatformError` (`bots/mastodon/connection.py`); no redirect gets the token."""

    def __init__(self, url: str, token: str, intervals: MastodonIntervals) -> None:
        self._url = url.rstrip("/")
        self._streaming_url = self._url
        self._intervals = intervals
        # The rate limit counts all calls of the account.
        self._not_before = 0.0
        self._session = ClientSession(
            headers={"Authorization": f"Bearer {token}", "User-Agent": f"KIMAs/{get_version()}"},
            response_class=BoundedResponse,
            trust_env=True,
        )

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._session.close()

    async def get_identity(self) -> Identity:
        """Return who the bot is, and what its server takes."""
        account = await self._get("/api/v1/accounts/verify_credentials")
        instance = await self.get_instance()
        configuration = instance.get("configuration") or {}
        urls = configuration.get("urls") or instance.get("urls") or {}
        streaming_url = str(urls.get("streaming") or urls.get("streaming_api") or self._url)
        # It names WebSockets, whose address takes event streams as well.
        self._streaming_url = f"http{streaming_url.removeprefix('ws')}" if streaming_url[:2] == "ws" else streaming_url
        statuses = configuration.get("statuses") or {}
        domain = str(instance.get("domain") or instance.get("uri") or urlsplit(self._url).netloc)
        max_chars = int(statuses.get("max_characters") or instance.get("max_toot_chars") or DEFAULT_MAX_CHARS)
        return Identity(str(account["id"]), str(account["username"]), domain, max_chars)

    async def get_instance(self) -> Json:
        """Return what the server says of itself; older ones know only the first version of this call."""
        try:
            result: Json = await self._get("/api/v2/instance")
        except MessageDeleted:
            result = await self._get("/api/v1/instance")
        return result

    async def get_notifications(self, after_id: int | None, page_size: int = 1) -> Sequence[Json]:
        """Return the notifications that follow one, in no order; None: the newest ones. Raises `TooLarge`."""
        bound = [("limit", str(page_size))] + ([] if after_id is None else [("min_id", str(after_id))])
        types = [] if after_id is None else [("types[]", kind) for kind in NOTIFICATION_TYPES]
        result: Sequence[Json] = await self._get("/api/v1/notifications", [*bound, *types])
        return result

    async def get_notification_policy(self) -> Json:
        """Return which notifications the server holds back."""
        result: Json = await self._get("/api/v2/notifications/policy")
        return result

    async def get_status(self, status_id: str) -> Json:
        """Return a status. Raises `MessageDeleted`."""
        result: Json = await self._get(f"/api/v1/statuses/{quote(status_id)}")
        return result

    async def get_context(self, status_id: str) -> Json:
        """Return what stands above a status (ancestors) and below it (descendants).

        Raises `MessageDeleted`, and `TooLarge`.
        """
        result: Json = await self._get(f"/api/v1/statuses/{quote(status_id)}/context")
        return result

    async def get_timeline(self, timeline: str) -> Sequence[Json]:
        """Return the newest statuses of a timeline: home, list/ID or tag/NAME."""
        result: Sequence[Json] = await self._get(f"/api/v1/timelines/{quote(timeline)}", [("limit", "1")])
        return result

    async def get_list_title(self, list_id: str) -> str:
        """Return what a list of the account is called (scope read:lists)."""
        return str((await self._get(f"/api/v1/lists/{quote(list_id)}")).get("title") or "")

    async def find_own_reply(self, question_id: str, text: str, account_id: str) -> str:
        """Return the id of the bot's reply to a status that has this text, or ""."""
        for status in (await self.get_context(question_id)).get("descendants") or ():
            is_own = str(status["account"]["id"]) == account_id and str(status.get("in_reply_to_id")) == question_id
            if is_own and (await self._get(f"/api/v1/statuses/{quote(str(status['id']))}/source")).get("text") == text:
                return str(status["id"])
        return ""

    async def post(self, post: Post) -> str:
        """Post a status and return its id. The same key posts nothing twice within an hour."""
        body = {**_to_body(post), "visibility": post.visibility}
        if post.reply_to:
            body["in_reply_to_id"] = post.reply_to
        return str((await self._call("POST", "/api/v1/statuses", body=body, key=post.key))["id"])

    async def edit(self, status_id: str, post: Post) -> None:
        """Replace the text of a status of the bot's."""
        await self._call("PUT", f"/api/v1/statuses/{quote(status_id)}", body=_to_body(post))

    async def try_empty_post(self) -> None:
        """Post nothing, which no server takes: raises `Refused`, or `NotAllowed` where the token may not post."""
        await self._call("POST", "/api/v1/statuses", body={"status": ""})

    async def download(self, url: str, max_bytes: int) -> bytes:
        """Return a file that the server names: from a public address, or from the server's own."""
        hosts = [urlsplit(self._url).hostname or ""]
        async with WebClient(hosts) as web:
            response = await web.fetch(Request(url, max_kb=max_bytes // 1024, timeout_s=self._intervals.timeout_s))
        if response.status != 200:
            raise Unreachable(f"the file was not handed over: status {response.status}")
        return response.content

    @asynccontextmanager
    async def stream(self, name: str, params: Mapping[str, str]) -> AsyncIterator[AsyncIterator[tuple[str, str]]]:
        """Open a stream: an iterator of events, each its kind and its data, "" and "" for a sign of life.

        Raises `Unreachable` when it ends, or is silent.
        """
        timeout = ClientTimeout(total=None, sock_connect=self._intervals.timeout_s, sock_read=self._intervals.silence_s)
        url = f"{self._streaming_url}/api/v1/streaming/{name}"
        self._check_pause()
        try:
            async with self._session.get(
                url, params=params, timeout=timeout, allow_redirects=False, read_bufsize=MAX_LINE_BYTES
            ) as response:
                if response.status != 200:
                    raise await self._read_error(f"the stream {name}", response)
                yield _iter_events(response)
        except (ClientError, OSError, ValueError, TimeoutError) as error:
            raise Unreachable(f"the stream {name} broke: {type(error).__name__}") from error

    async def _get(self, path: str, params: Sequence[tuple[str, str]] = ()) -> Any:
        return await self._call("GET", path, params=params)

    async def _call(
        self, method: str, path: str, *, params: Sequence[tuple[str, str]] = (), body: Any = None, key: str = ""
    ) -> Any:
        self._check_pause()
        try:
            async with self._session.request(
                method,
                self._url + path,
                params=params,
                json=body,
                headers={"Idempotency-Key": key} if key else None,
                timeout=ClientTimeout(total=self._intervals.timeout_s),
                allow_redirects=False,
            ) as response:
                if not 200 <= response.status < 300:
                    raise await self._read_error(f"{method} {path}", response)
                try:
                    return await response.json(content_type=None)
                except ResponseTooLarge as error:
                    raise TooLarge(f"{method} {path} failed: {error}", _get_newest_id(response)) from error
        except (ClientError, OSError, ValueError, TimeoutError) as error:
            raise Unreachable(f"{method} {path} failed: {type(error).__name__}") from error

    def _check_pause(self) -> None:
        """Raise `RetryLater` while the server wants a pause: a call would be refused, and count."""
        wait_s = self._not_before - time.monotonic()
        if wait_s > 0:
            raise RetryLater("the server's rate limit is used up", wait_s)

    async def _read_error(self, call: str, response: Any) -> PlatformError:
        try:
            values = json.loads(await response.text())
        except (ValueError, RecursionError):
            values = None
        reason = str(values.get("error") or "") if isinstance(values, dict) else ""
        error = to_platform_error(call, response.status, response.headers, reason)
        if response.status == 429 and isinstance(error, RetryLater):
            self._not_before = time.monotonic() + error.seconds
        return error


def _get_newest_id(response: ClientResponse) -> str:
    """Return the id of the first item of a page, as its headers name it, or ""."""
    link = response.links.get("prev")
    query = parse_qs(urlsplit(str(link["url"])).query) if link else {}
    return query.get("min_id", [""])[0]


def _to_body(post: Post) -> dict[str, Any]:
    body: dict[str, Any] = {
        "status": post.text,
        "spoiler_text": post.spoiler_text,
        "sensitive": bool(post.spoiler_text),
    }
    if post.language:
        body["language"] = post.language
    return body


async def _iter_events(response: Any) -> AsyncIterator[tuple[str, str]]:
    """Yield the events of a stream. Raises `Unreachable` at its end."""
    kind = ""
    data = list[str]()
    while line := await response.content.readline():
        field, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "data":
            data.append(value)
        else:
            # An empty line ends an event, a comment is a sign of life.
            yield kind, "\n".join(data)
            kind = ""
            data = []
    raise Unreachable("the stream ended")
