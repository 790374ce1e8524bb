"""The few calls of Mastodon's API that the bot makes, with every failure mapped, and its event streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import ClientError, ClientTimeout

from bots.common.connection import Unreachable
from bots.common.json_client import JsonClient, to_platform_error
from bots.mastodon.connection import MAX_RETRY_AFTER_S, MastodonIntervals
from core.errors import MessageDeleted, PlatformError

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


class MastodonClient(JsonClient):
    """One account. Calls raise a `PlatformError`; no redirect gets the token."""

    def __init__(self, url: str, token: str, intervals: MastodonIntervals) -> None:
        super().__init__(url, intervals.timeout_s, MAX_RETRY_AFTER_S, {"Authorization": f"Bearer {token}"})
        self._streaming_url = self._url
        self._intervals = intervals

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
        headers = {"Idempotency-Key": key} if key else None
        return await self._request(method, self._url + path, params=params, body=body, headers=headers)

    def _to_error(self, call: str, status: int, headers: Mapping[str, str], values: Json) -> PlatformError:
        reason = str(values.get("error") or "")
        return to_platform_error("mastodon.url", call, status, headers, reason, max_wait_s=self._max_wait_s)


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
