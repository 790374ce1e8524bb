"""A Mastodon server with people, as far as a bot uses it: strict where a real one is, over real sockets.

`banned` is a word that no status may hold.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

from aiohttp import web

from tests.support.peers.social import SocialPeer, make_error

DOMAIN = "social.example"
TOKEN = "a-token-of-the-account"
SCOPES = ("read", "write:statuses")
VISIBILITIES = ("public", "unlisted", "private", "direct")
# As the server finds them: names that no registry has are no addresses.
_PATH = r"[^\s\x00-\x1f<>()?]"
_URL = re.compile(
    r"https?://(?:[\w-]+\.)+(?!internal|local|test\b)[a-z]{2,}(?::\d+)?"
    rf"(?:/(?:(?:{_PATH}|\({_PATH}*\))*(?:[^\s\x00-\x1f<>()?!*\"'「」,.:;…]|\({_PATH}*\)))?)?"
    r"(?:\?[\w!?*'@();:&=+$/%#\[\].,~|-]*[\w&=#/-])?",
    re.IGNORECASE,
)
_MENTION = re.compile(r"(?<![=/\w])@(\w+(?:[\w.-]+\w+)?)(?:@([\w.-]+\w+))?")
_TAG = re.compile(r"(?<![\w/])#(\w+)")


@dataclass(frozen=True)
class Account:
    id: str
    username: str
    domain: str = ""
    name: str = ""
    bot: bool = False

    @property
    def acct(self) -> str:
        return f"{self.username}@{self.domain}" if self.domain else self.username

    @property
    def url(self) -> str:
        return f"https://{self.domain or DOMAIN}/@{self.username}"

    def to_json(self) -> dict[str, Any]:
        name = self.name or self.username
        return {"id": self.id, "username": self.username, "acct": self.acct, "display_name": name, "bot": self.bot}


@dataclass
class Status:
    id: str
    author: Account
    text: str
    created_at: datetime
    visibility: str = "public"
    reply_to: str = ""
    spoiler_text: str = ""
    language: str | None = None
    mentions: tuple[Account, ...] = ()
    edits: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


BOT = Account("900", "kimas", bot=True)


def count(text: str, spoiler_text: str = "") -> int:
    """Return how many characters a status counts, as the server's validator does; marks join what they follow."""
    shortened = _MENTION.sub(lambda match: f"@{match[1]}", _URL.sub("x" * 23, text))
    return len(re.sub("[\u0300-\u036f\u200d\ufe0f]", "", spoiler_text + shortened))


def find_addresses(text: str) -> list[re.Match[str]]:
    """Return what the server makes links of."""
    return list(_URL.finditer(text))


class MastodonPeer(SocialPeer):
    def __init__(self, max_chars: int = 500) -> None:
        super().__init__()
        self.max_chars = max_chars
        self.scopes = SCOPES
        self.token = TOKEN
        self.policy = dict.fromkeys(("for_not_following", "for_new_accounts", "for_private_mentions"), "accept")
        self.is_old = False
        self.accounts: dict[str, Account] = {BOT.acct: BOT}
        self.statuses: dict[str, Status] = {}
        self.notifications: list[dict[str, Any]] = []
        self.lists: dict[str, set[str]] = {}
        self.list_titles = defaultdict[str, str](str)
        self.followed: set[str] = set()
        self.keys: dict[str, str] = {}
        self.used_keys: list[str] = []
        self.banned = ""
        self.thump_s: float | None = 0.5
        self.streams: dict[str, list[web.StreamResponse]] = defaultdict(list)
        self._next_id = 1000

    def add_routes(self, router: web.UrlDispatcher) -> None:
        get = router.add_get
        get("/api/v1/instance", self._instance)
        get("/api/v2/instance", self._instance)
        get("/api/v1/accounts/verify_credentials", self._me)
        get("/api/v1/notifications", self._get_notifications)
        get("/api/v2/notifications/policy", self._get_policy)
        get("/api/v1/timelines/{timeline:.+}", self._get_timeline)
        get("/api/v1/lists/{list}", self._get_list)
        get("/api/v1/statuses/{id}", self._get_status)
        get("/api/v1/statuses/{id}/context", self._get_context)
        get("/api/v1/statuses/{id}/source", self._get_source)
        router.add_post("/api/v1/statuses", self._post_status)
        router.add_put("/api/v1/statuses/{id}", self._edit_status)
        get("/api/v1/streaming/{name}", self._stream)

    async def away(self) -> None:
        """Refuse connections, and end those that there are."""
        self.drop_streams()
        await super().away()

    async def __aexit__(self, *exception: object) -> None:
        self.drop_streams()
        await super().__aexit__(*exception)

    # What people do.

    def account(self, username: str, domain: str = "", *, name: str = "", bot: bool = False) -> Account:
        account = Account(self._take_id(), username, domain, name, bot)
        return self.accounts.setdefault(account.acct, account)

    async def say(
        self,
        author: Account,
        text: str,
        *,
        visibility: str = "public",
        reply_to: str = "",
        spoiler_text: str = "",
        age_s: float = 0.0,
        language: str | None = "en",
        **extra: Any,
    ) -> str:
        """Let somebody write a status, and return its id; those whom it concerns hear of it."""
        status = Status(
            self._take_id(),
            author,
            text,
            datetime.now(UTC) - timedelta(seconds=age_s),
            visibility,
            reply_to,
            spoiler_text,
            language,
            self._find_mentioned(text),
            extra=extra,
        )
        self.statuses[status.id] = status
        payload = self.to_json(status)
        if BOT in status.mentions and author != BOT and self.policy["for_private_mentions"] == "accept":
            await self.notify("mention", author, status)
        if author.acct in self.followed or author == BOT:
            await self.emit("user", "update", payload)
        if visibility == "public":
            for tag in _TAG.findall(text):
                await self.emit(f"hashtag {tag.lower()}", "update", payload)
        for name, members in self.lists.items():
            if author.acct in members and visibility != "direct":
                await self.emit(f"list {name}", "update", payload)
        return status.id

    async def notify(self, kind: str, author: Account, status: Status, payload: Any = None) -> None:
        """Tell the bot of something, as a notification and in its stream; `payload` takes the place of the status."""
        notification = {"id": self._take_id(), "type": kind, "account": author.to_json(), "status": status.id}
        if payload:
            notification["status"] = payload
        self.notifications.append(notification)
        await self.emit("user", "notification", self._fill(notification))

    async def edit(self, status_id: str, text: str) -> None:
        """Let the author change a status: who follows them is told, as on a real server."""
        status = self.statuses[status_id]
        status.text = text
        status.mentions = self._find_mentioned(text)
        status.edits += 1
        if status.author.acct in self.followed:
            await self.emit("user", "status.update", self.to_json(status))

    def delete(self, status_id: str) -> None:
        del self.statuses[status_id]

    async def emit(self, stream: str, kind: str, payload: object) -> None:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        for response in list(self.streams[stream]):
            await self._write(stream, response, f"event: {kind}\ndata: {data}\n\n")

    def drop_streams(self) -> None:
        """Break all streams."""
        for responses in self.streams.values():
            for response in responses:
                if response._req is not None and response._req.transport is not None:
                    response._req.transport.abort()
            responses.clear()

    def posts(self) -> list[Status]:
        """Return the statuses of the bot, the oldest first."""
        return [status for status in self.statuses.values() if status.author == BOT]

    def root(self, status: Status) -> str:
        while status.reply_to in self.statuses:
            status = self.statuses[status.reply_to]
        return status.reply_to or status.id

    def notified(self, status: Status) -> list[str]:
        """Return whom a status of the bot notifies but the author of what it replies to."""
        parents = [self.statuses[status.reply_to].author.acct] if status.reply_to in self.statuses else []
        return [account.acct for account in status.mentions if account.acct not in parents]

    def to_json(self, status: Status) -> dict[str, Any]:
        mentions = [
            {"id": account.id, "username": account.username, "acct": account.acct, "url": account.url}
            for account in status.mentions
        ]
        return {
            "id": status.id,
            "created_at": status.created_at.isoformat().replace("+00:00", "Z"),
            "in_reply_to_id": status.reply_to or None,
            "sensitive": bool(status.spoiler_text),
            "spoiler_text": status.spoiler_text,
            "visibility": status.visibility,
            "language": status.language,
            "content": self._to_html(status),
            "account": status.author.to_json(),
            "mentions": mentions,
            "media_attachments": [],
            "reblog": None,
            "edited_at": status.created_at.isoformat() if status.edits else None,
            **status.extra,
        }

    # What the server does.

    def _take_id(self) -> str:
        self._next_id += 1
        return str(self._next_id)

    def _find_mentioned(self, text: str) -> tuple[Account, ...]:
        """Return the accounts that a text mentions: of this server where it names none."""
        names = [f"{name}@{domain}" if domain not in ("", DOMAIN) else name for name, domain in _MENTION.findall(text)]
        return tuple(dict.fromkeys(self.accounts[name] for name in names if name in self.accounts))

    def _to_html(self, status: Status) -> str:
        if "content" in status.extra:
            return str(status.extra["content"])
        pieces = []
        position = 0
        for match in re.finditer(f"{_URL.pattern}|{_MENTION.pattern}", status.text, re.IGNORECASE):
            pieces.append(escape(status.text[position : match.start()], quote=False))
            pieces.append(self._to_link(match[0]))
            position = match.end()
        text = "".join([*pieces, escape(status.text[position:], quote=False)])
        paragraphs = [paragraph.replace("\n", "<br>") for paragraph in re.split("\n\n+", text)]
        return "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs if paragraph)

    def _to_link(self, text: str) -> str:
        if not text.startswith("@"):
            scheme, _, rest = text.partition("//")
            return (
                f'<a href="{escape(text)}" rel="nofollow"><span class="invisible">{scheme}//</span><span '
                f'class="ellipsis">{escape(rest[:30])}</span><span class="invisible">{escape(rest[30:])}</span></a>'
            )
        mentioned = self._find_mentioned(text)
        if not mentioned:
            return text
        name = f"@<span>{mentioned[0].username}</span>"
        return f'<span class="h-card"><a href="{mentioned[0].url}" class="u-url mention">{name}</a></span>'

    def name_call(self, request: web.Request) -> str:
        path = re.sub(r"^/api/v\d/", "", request.path)
        return f"{request.method} {re.sub(r'[0-9]+', '{}', path)}"

    def check_access(self, request: web.Request) -> web.Response | None:
        is_known = request.headers.get("Authorization") == f"Bearer {self.token}"
        return None if is_known else make_error(401, "The access token is invalid")

    def make_limit_headers(self, reset: datetime) -> dict[str, str]:
        return {"X-RateLimit-Limit": "300", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset.isoformat()}

    def _lacks(self, scope: str) -> web.Response | None:
        has_scope = bool({scope, scope.partition(":")[0]} & set(self.scopes))
        return None if has_scope else make_error(403, "This action is outside the authorized scopes")

    async def _instance(self, request: web.Request) -> web.Response:
        if self.is_old and "v2" in request.path:
            return make_error(404, "Record not found")
        statuses = {"max_characters": self.max_chars, "characters_reserved_per_url": 23}
        urls = {"streaming": f"ws://127.0.0.1:{self.port}"}
        if self.is_old:
            return web.json_response({"uri": DOMAIN, "max_toot_chars": self.max_chars, "urls": {}})
        return web.json_response({"domain": DOMAIN, "configuration": {"statuses": statuses, "urls": urls}})

    async def _me(self, request: web.Request) -> web.Response:
        return self._lacks("read:accounts") or web.json_response(BOT.to_json())

    async def _get_policy(self, request: web.Request) -> web.Response:
        values = {**self.policy, "summary": {"pending_requests_count": 0}}
        return self._lacks("read:notifications") or web.json_response(values)

    async def _get_notifications(self, request: web.Request) -> web.Response:
        min_id = int(request.query.get("min_id", "-1"))
        limit = min(int(request.query.get("limit", "40")), 80)
        kinds = request.query.getall("types[]", [])
        page = [
            self._fill(item)
            for item in self.notifications
            if (min_id < 0 or int(item["id"]) > min_id)
            and (not kinds or item["type"] in kinds)
            and (isinstance(item["status"], dict) or item["status"] in self.statuses)
        ]
        # After an id the oldest ones come, but the newest of them first.
        page = page[:limit] if "min_id" in request.query else page[-limit:]
        links = f'<{self.url}{request.path}?min_id={page[-1]["id"]}>; rel="prev"' if page else ""
        return self._lacks("read:notifications") or web.json_response(page[::-1], headers={"Link": links})

    def _fill(self, notification: dict[str, Any]) -> dict[str, Any]:
        status = self.statuses.get(str(notification["status"]))
        filled = self.to_json(status) if status else notification["status"]
        return {**notification, "status": filled}

    async def _get_timeline(self, request: web.Request) -> web.Response:
        kind, _, value = request.match_info["timeline"].partition("/")
        if kind == "list" and value not in self.lists:
            return make_error(404, "Record not found")
        return self._lacks("read:lists" if kind == "list" else "read:statuses") or web.json_response([])

    async def _get_list(self, request: web.Request) -> web.Response:
        name = request.match_info["list"]
        if name not in self.lists:
            return make_error(404, "Record not found")
        return self._lacks("read:lists") or web.json_response({"id": name, "title": self.list_titles[name]})

    def _find_visible(self, request: web.Request) -> Status | None:
        status = self.statuses.get(request.match_info["id"])
        is_visible = status and (status.visibility != "direct" or BOT in (status.author, *status.mentions))
        return status if is_visible else None

    async def _get_status(self, request: web.Request) -> web.Response:
        status = self._find_visible(request)
        return web.json_response(self.to_json(status)) if status else make_error(404, "Record not found")

    async def _get_source(self, request: web.Request) -> web.Response:
        status = self._find_visible(request)
        if status is None or status.author != BOT:
            return make_error(404, "Record not found")
        return web.json_response({"id": status.id, "text": status.text, "spoiler_text": status.spoiler_text})

    async def _get_context(self, request: web.Request) -> web.Response:
        status = self._find_visible(request)
        if status is None:
            return make_error(404, "Record not found")
        ancestors = list[Status]()
        top = status
        while top.reply_to in self.statuses:
            top = self.statuses[top.reply_to]
            ancestors.insert(0, top)
        below = {status.id}
        for item in self.statuses.values():
            if item.reply_to in below:
                below.add(item.id)
        descendants = [self.statuses[item] for item in self.statuses if item in below - {status.id}]
        parts = {"ancestors": ancestors, "descendants": descendants}
        return web.json_response({name: [self.to_json(item) for item in items] for name, items in parts.items()})

    async def _post_status(self, request: web.Request) -> web.Response:
        if refusal := self._lacks("write:statuses"):
            return refusal
        key = request.headers.get("Idempotency-Key", "")
        if key in self.keys and self.keys[key] in self.statuses:
            return web.json_response(self.to_json(self.statuses[self.keys[key]]))
        body = await request.json()
        if refusal := self._find_fault(body):
            return refusal
        reply_to = str(body.get("in_reply_to_id") or "")
        if reply_to and reply_to not in self.statuses:
            return make_error(404, "The post you are trying to reply to does not appear to exist.")
        status_id = await self.say(
            BOT,
            body["status"],
            visibility=body.get("visibility") or "public",
            reply_to=reply_to,
            spoiler_text=body.get("spoiler_text") or "",
            language=body.get("language"),
        )
        if key:
            self.keys[key] = status_id
            self.used_keys.append(key)
        else:
            self.violations.append("a post without a key")
        return web.json_response(self.to_json(self.statuses[status_id]))

    async def _edit_status(self, request: web.Request) -> web.Response:
        status = self.statuses.get(request.match_info["id"])
        body = await request.json()
        if status is None or status.author != BOT:
            return make_error(404, "Record not found")
        if refusal := self._lacks("write:statuses") or self._find_fault(body):
            return refusal
        status.edits += (status.text, status.spoiler_text) != (body["status"], body.get("spoiler_text") or "")
        status.text = body["status"]
        status.spoiler_text = body.get("spoiler_text") or ""
        status.mentions = self._find_mentioned(status.text)
        return web.json_response(self.to_json(status))

    def _find_fault(self, body: dict[str, Any]) -> web.Response | None:
        text = str(body.get("status") or "")
        if not text.strip() and not body.get("spoiler_text"):
            return make_error(422, "Validation failed: Text can't be blank")
        if count(text, str(body.get("spoiler_text") or "")) > self.max_chars:
            return make_error(422, f"Validation failed: Character limit of {self.max_chars} exceeded")
        if body.get("visibility", "public") not in VISIBILITIES:
            return make_error(422, "Validation failed: Visibility is not included in the list")
        if self.banned and self.banned in text:
            return make_error(422, "Validation failed: Text is not allowed")
        return None

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        value = request.query.get("list") or request.query.get("tag") or ""
        name = f"{request.match_info['name']} {value.lower()}".strip()
        if refusal := self._lacks("read:notifications" if name == "user" else "read:statuses"):
            return refusal
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b":)\n")
        self.streams[name].append(response)
        try:
            while response in self.streams[name] or not self.thump_s:
                await asyncio.sleep(self.thump_s or 0.5)
                if self.thump_s:
                    await self._write(name, response, ":thump\n")
        finally:
            if response in self.streams[name]:
                self.streams[name].remove(response)
        return response

    async def _write(self, name: str, response: web.StreamResponse, text: str) -> None:
        try:
            await response.write(text.encode())
        except ConnectionError:
            if response in self.streams[name]:
                self.streams[name].remove(response)

    async def until_streaming(self, name: str = "user", timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.streams[name]:
            assert time.monotonic() < deadline, f"nobody follows the stream {name}"
            await asyncio.sleep(0.005)
