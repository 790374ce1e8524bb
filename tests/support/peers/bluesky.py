"""Bluesky with people, as far as a bot uses it: a server that checks records by their lexicon, over real sockets.

`watch` and failures name a call by its method and the end of its name, such as `POST putRecord`. `banned` is a word
that no post may hold.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import regex
from aiohttp import web

from tests.support.peers.social import SocialPeer, make_error

PASSWORD = "abcd-efgh-ijkl-mnop"
POSTS = "app.bsky.feed.post"
LISTS = "app.bsky.graph.list"
HOST = "bsky.example"
_MENTION = re.compile(r"@((?:[A-Za-z0-9-]+\.)+[A-Za-z]+)")
_TID = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}")
_AT_URI = re.compile(r"at://did:[a-z]+:[A-Za-z0-9._:%-]+/[a-zA-Z0-9.-]+/[A-Za-z0-9._~:-]{1,512}")
_DATE = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-6]\d:[0-6]\d(?:\.\d+)?(?:[+-][0-2]\d:[0-5]\d|Z)")
_LANGUAGE = re.compile(r"[a-zA-Z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_URI = re.compile(r"\w+:(?://)?[^\s/][^\s]*")
_KEY_ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Account:
    did: str
    handle: str
    name: str = ""
    bot: bool = False

    def to_json(self) -> dict[str, Any]:
        labels = [{"src": self.did, "uri": f"at://{self.did}", "val": "bot"}] if self.bot else []
        return {"did": self.did, "handle": self.handle, "displayName": self.name, "labels": labels}


@dataclass
class Post:
    uri: str
    author: Account
    record: dict[str, Any]
    indexed_at: datetime
    # What the server adds for its readers.
    embed: dict[str, Any] | None = None
    viewer: dict[str, Any] = field(default_factory=dict)

    @property
    def cid(self) -> str:
        return make_cid(self.record)

    @property
    def ref(self) -> dict[str, str]:
        return {"uri": self.uri, "cid": self.cid}

    @property
    def text(self) -> str:
        return str(self.record["text"])

    @property
    def reply_to(self) -> str:
        return str(self.record.get("reply", {}).get("parent", {}).get("uri", ""))

    @property
    def root(self) -> str:
        return str(self.record.get("reply", {}).get("root", {}).get("uri", self.uri))

    @property
    def key(self) -> str:
        return self.uri.rpartition("/")[2]

    def links(self) -> list[tuple[str, str]]:
        """Return the facets: the text of each, and the address or the DID behind it."""
        content = self.text.encode()
        return [
            (
                content[item["index"]["byteStart"] : item["index"]["byteEnd"]].decode(),
                feature.get("uri") or feature["did"],
            )
            for item in self.record.get("facets", ())
            for feature in item["features"]
        ]

    def mentioned(self) -> list[str]:
        return [target for _, target in self.links() if target.startswith("did:")]


def make_account(handle: str, name: str = "", *, bot: bool = False) -> Account:
    digest = base64.b32encode(hashlib.sha256(handle.encode()).digest()).decode().lower()[:24]
    return Account(f"did:plc:{digest}", handle, name, bot)


def make_cid(record: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).digest()
    return "bafyrei" + base64.b32encode(digest).decode().lower().rstrip("=")


BOT = make_account(f"kimas.{HOST}", bot=True)


def count_graphemes(text: str) -> int:
    return len(regex.findall(r"\X", text))


class BlueskyPeer(SocialPeer):
    def __init__(self) -> None:
        super().__init__()
        self.password = PASSWORD
        self.accounts: dict[str, Account] = {BOT.handle: BOT}
        self.posts_by_uri: dict[str, Post] = {}
        self.notifications: list[dict[str, Any]] = []
        self.lists: dict[str, set[str]] = {}
        self.followed: set[str] = set()
        self.followers: set[str] = set()
        self.blockers: set[str] = set()
        self.banned = ""
        self.access_tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        # Posts that others wrote between a look at a thread and the post that follows it.
        self._newest = datetime.min.replace(tzinfo=UTC)
        self._number = 0

    def add_routes(self, router: web.UrlDispatcher) -> None:
        get, post = router.add_get, router.add_post
        post("/xrpc/com.atproto.server.createSession", self._create_session)
        post("/xrpc/com.atproto.server.refreshSession", self._refresh_session)
        get("/xrpc/com.atproto.server.getSession", self._get_session)
        post("/xrpc/com.atproto.repo.putRecord", self._put_record)
        get("/xrpc/com.atproto.repo.getRecord", self._get_record)
        get("/xrpc/app.bsky.actor.getProfiles", self._get_profiles)
        get("/xrpc/app.bsky.notification.listNotifications", self._list_notifications)
        get("/xrpc/app.bsky.feed.getTimeline", self._get_timeline)
        get("/xrpc/app.bsky.feed.getListFeed", self._get_list_feed)
        get("/xrpc/app.bsky.feed.getPostThread", self._get_post_thread)

    def name_call(self, request: web.Request) -> str:
        return f"{request.method} {request.path.rpartition('.')[2]}"

    def make_limit_headers(self, reset: datetime) -> dict[str, str]:
        # Whole seconds, the next one.
        seconds = str(int(reset.timestamp()) + 1)
        return {"RateLimit-Limit": "3000", "RateLimit-Remaining": "0", "RateLimit-Reset": seconds}

    # What people do.

    def account(self, name: str, *, display_name: str = "", bot: bool = False) -> Account:
        account = make_account(name if "." in name else f"{name}.{HOST}", display_name, bot=bot)
        return self.accounts.setdefault(account.handle, account)

    def say(
        self,
        author: Account,
        text: str,
        *,
        reply_to: str = "",
        quote: str = "",
        age_s: float = 0.0,
        embed: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Let somebody write a post, and return its address; the bot hears of it if it concerns it."""
        record = {"$type": POSTS, "text": text, "createdAt": _to_text(datetime.now(UTC)), "langs": ["en"], **fields}
        if facets := self._find_mentions(text):
            record.setdefault("facets", facets)
        if reply_to:
            parent = self.posts_by_uri.get(reply_to)
            ref = parent.ref if parent else {"uri": reply_to, "cid": make_cid({})}
            record["reply"] = {
                "parent": ref,
                "root": (parent.record.get("reply") or {}).get("root", ref) if parent else ref,
            }
        if quote:
            record["embed"] = {"$type": "app.bsky.embed.record", "record": self.posts_by_uri[quote].ref}
        uri = f"at://{author.did}/{POSTS}/{self._take_key()}"
        self._add(Post(uri, author, record, self._take_time(age_s), embed))
        return uri

    def like(self, author: Account, post: Post, reason: str = "like") -> None:
        uri = f"at://{author.did}/app.bsky.feed.{reason}/{self._take_key()}"
        self.notify(reason, author, uri, {"subject": post.ref}, reasonSubject=post.uri)

    def notify(self, reason: str, author: Any, uri: str, record: Any, **fields: Any) -> None:
        self.notifications.append(
            {
                "uri": uri,
                "cid": make_cid({"uri": uri}),
                "author": author.to_json() if isinstance(author, Account) else author,
                "reason": reason,
                "record": record,
                "isRead": False,
                "indexedAt": _to_text(self._take_time(0.0)),
                "labels": [],
                **fields,
            }
        )

    def delete(self, uri: str) -> None:
        del self.posts_by_uri[uri]
        self.notifications = [item for item in self.notifications if item["uri"] != uri]

    def posts(self) -> list[Post]:
        """Return the posts of the bot, the oldest first."""
        return [post for post in self.posts_by_uri.values() if post.author == BOT]

    def expire_sessions(self, *, for_good: bool = False) -> None:
        """Let the tokens of calls expire; `for_good`, those of new sessions as well."""
        self.access_tokens.clear()
        if for_good:
            self.refresh_tokens.clear()

    async def until_polled(self, call: str = "GET listNotifications", count: int = 2, timeout_s: float = 30) -> None:
        """Wait until a call was made so often: when it is made again, what the last one returned was handled."""
        target = self.calls.count(call) + count
        deadline = time.monotonic() + timeout_s
        while self.calls.count(call) < target:
            assert time.monotonic() < deadline, f"nobody makes the call {call}"
            await asyncio.sleep(0.005)

    # What the server does.

    def _take_key(self) -> str:
        self._number += 1
        return "3kzzzzzzz" + "".join(_KEY_ALPHABET[self._number // 32**place % 32] for place in (3, 2, 1, 0))

    def _take_time(self, age_s: float) -> datetime:
        """Return the time, a millisecond or more after the one before."""
        moment = datetime.now(UTC) - timedelta(seconds=age_s)
        moment = moment if age_s > 0 else max(moment, self._newest + timedelta(milliseconds=1))
        self._newest = max(moment, self._newest)
        return moment

    def _find_mentions(self, text: str) -> list[dict[str, Any]]:
        """Return the facets that a client makes."""
        return [
            _make_facet(text, match, {"$type": "app.bsky.richtext.facet#mention", "did": self.accounts[match[1]].did})
            for match in _MENTION.finditer(text)
            if match[1] in self.accounts
        ]

    def _add(self, post: Post) -> None:
        self.posts_by_uri[post.uri] = post
        if post.author == BOT:
            return
        above = [item.author for item in self._iter_above(post)]
        quoted = (post.record.get("embed") or {}).get("record", {}).get("uri", "")
        reasons = ["mention"] * (BOT.did in post.mentioned())
        # Five levels hear of a reply.
        reasons += ["reply"] * (BOT in above[:5]) + ["quote"] * (BOT.did in quoted)
        for reason in reasons:
            self.notify(
                reason,
                post.author,
                post.uri,
                post.record,
                reasonSubject=post.reply_to,
                indexedAt=_to_text(post.indexed_at),
            )

    def _iter_above(self, post: Post) -> Iterator[Post]:
        while parent := self.posts_by_uri.get(post.reply_to):
            yield parent
            post = parent

    def check_access(self, request: web.Request) -> web.Response | None:
        name = self.name_call(request)
        if name == "POST createSession":
            return None
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        valid_tokens = self.refresh_tokens if name == "POST refreshSession" else self.access_tokens
        if not token:
            return make_error(401, "AuthMissing", message="Authentication Required")
        return None if token in valid_tokens else make_error(400, "ExpiredToken", message="Token has expired")

    async def _create_session(self, request: web.Request) -> web.Response:
        body = await request.json()
        if (body.get("identifier"), body.get("password")) != (BOT.handle, self.password):
            return make_error(401, "AuthenticationRequired", message="Invalid identifier or password")
        return self._make_session()

    async def _refresh_session(self, request: web.Request) -> web.Response:
        # A token of this kind works once.
        self.refresh_tokens.discard(request.headers["Authorization"].removeprefix("Bearer "))
        return self._make_session()

    def _make_session(self) -> web.Response:
        access_token, refresh_token = f"access-{self._take_key()}", f"refresh-{self._take_key()}"
        self.access_tokens.add(access_token)
        self.refresh_tokens.add(refresh_token)
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": self.url}
        identity = {"did": BOT.did, "handle": BOT.handle, "didDoc": {"service": [service]}}
        return web.json_response({**identity, "accessJwt": access_token, "refreshJwt": refresh_token})

    async def _get_session(self, request: web.Request) -> web.Response:
        return web.json_response({"did": BOT.did, "handle": BOT.handle, "active": True})

    async def _get_profiles(self, request: web.Request) -> web.Response:
        dids = request.query.getall("actors")
        profiles = [account.to_json() for account in self.accounts.values() if account.did in dids]
        return web.json_response({"profiles": profiles})

    async def _list_notifications(self, request: web.Request) -> web.Response:
        reasons = request.query.getall("reasons", [])
        items = [item for item in self.notifications if item["reason"] in reasons or not reasons]
        return _to_page(request, "notifications", sorted(items, key=lambda item: str(item["indexedAt"])))

    async def _get_timeline(self, request: web.Request) -> web.Response:
        return self._make_feed(request, self.followed)

    async def _get_list_feed(self, request: web.Request) -> web.Response:
        prefix = f"at://{BOT.did}/{LISTS}/"
        uri = request.query["list"]
        if not uri.startswith(prefix) or uri.removeprefix(prefix) not in self.lists:
            return make_error(400, "InvalidRequest", message="List not found")
        return self._make_feed(request, self.lists[uri.removeprefix(prefix)])

    def _make_feed(self, request: web.Request, members: set[str]) -> web.Response:
        posts = [post for post in self.posts_by_uri.values() if post.author.handle in members]
        items = [{"post": self._to_view(post)} for post in sorted(posts, key=lambda post: post.indexed_at)]
        return _to_page(request, "feed", items)

    async def _get_post_thread(self, request: web.Request) -> web.Response:
        post = self.posts_by_uri.get(request.query["uri"])
        if post is None:
            return make_error(400, "NotFound", message="Post not found")
        if post.author.handle in self.blockers:
            return web.json_response({"thread": {"uri": post.uri, "blocked": True, "author": {"did": post.author.did}}})
        thread = {"post": self._to_view(post)}
        if int(request.query.get("depth", "6")):
            replies = [item for item in self.posts_by_uri.values() if item.reply_to == post.uri]
            thread["replies"] = [{"post": self._to_view(item)} for item in replies]
        node = thread
        height = int(request.query.get("parentHeight", "80"))
        for parent in list(self._iter_above(post))[:height]:
            node["parent"] = {"post": self._to_view(parent)}
            node = node["parent"]
        return web.json_response({"thread": thread})

    def _to_view(self, post: Post) -> dict[str, Any]:
        author = post.author.to_json()
        if post.author.handle in self.followers:
            author["viewer"] = {"followedBy": f"at://{post.author.did}/app.bsky.graph.follow/3kzzzzzzzzzzz"}
        view = {"uri": post.uri, "cid": post.cid, "author": author, "record": post.record, "viewer": post.viewer}
        quoted = self.posts_by_uri.get(((post.record.get("embed") or {}).get("record") or {}).get("uri", ""))
        embed = post.embed
        if quoted:
            record = {"uri": quoted.uri, "cid": quoted.cid, "author": quoted.author.to_json(), "value": quoted.record}
            embed = {"$type": "app.bsky.embed.record#view", "record": record}
        return {**view, **({"embed": embed} if embed else {}), "indexedAt": _to_text(post.indexed_at)}

    async def _get_record(self, request: web.Request) -> web.Response:
        query = request.query
        post = self.posts_by_uri.get(f"at://{query['repo']}/{query['collection']}/{query['rkey']}")
        if post is None:
            return make_error(400, "RecordNotFound", message="Could not locate record")
        return web.json_response({**post.ref, "value": post.record})

    async def _put_record(self, request: web.Request) -> web.Response:
        body = await request.json()
        record = body["record"]
        if body["repo"] != BOT.did:
            return make_error(401, "AuthRequired", message="not your repository")
        if fault := self._find_fault(body["collection"], str(body["rkey"]), record):
            return make_error(400, "InvalidRequest", message=fault)
        uri = f"at://{BOT.did}/{body['collection']}/{body['rkey']}"
        current = self.posts_by_uri.get(uri)
        if current is None or current.record != record:
            if body.get("swapRecord", "") is not None:
                self.violations.append("a post that would replace another one")
            elif current is not None:
                return make_error(400, "InvalidSwap", message=f"Record was at {current.cid}")
            self._add(Post(uri, BOT, record, self._take_time(0.0)))
        return web.json_response(self.posts_by_uri[uri].ref)

    def _find_fault(self, collection: str, key: str, record: dict[str, Any]) -> str:
        """Return what the lexicon forbids, or "". What only readers would miss is a violation."""
        text = record.get("text")
        if collection != POSTS or record.get("$type") != POSTS or not _TID.fullmatch(key):
            return "Record/$type or key is wrong"
        if not isinstance(text, str) or len(text.encode()) > 3000 or count_graphemes(text) > 300:
            return "Record/text must not be longer than 300 graphemes"
        if not _DATE.fullmatch(str(record.get("createdAt"))):
            return "Record/createdAt must be an valid atproto datetime"
        languages = record.get("langs", ["en"])
        if not 1 <= len(languages) <= 3 or not all(_LANGUAGE.fullmatch(item) for item in languages):
            return "Record/langs must be languages"
        if self.banned and self.banned in text:
            return "Record/text is not allowed"
        return self._find_reply_fault(record.get("reply")) or self._find_facet_fault(text, record.get("facets", []))

    def _find_reply_fault(self, reply: dict[str, Any] | None) -> str:
        if reply is None:
            return ""
        if not all(_AT_URI.fullmatch(reply[name]["uri"]) and reply[name]["cid"] for name in ("root", "parent")):
            return "Record/reply must be strong references"
        parent = self.posts_by_uri.get(reply["parent"]["uri"])
        above = [parent, *self._iter_above(parent)] if parent else []
        # The post at the top says where it began, if that is gone; what those below it say may be forged.
        is_in_thread = bool(above) and above[-1].root == reply["root"]["uri"]
        if parent is None or parent.cid != reply["parent"]["cid"] or not is_in_thread:
            self.violations.append(f"a reply to what is not there, or in another thread: {reply}")
        elif parent.viewer.get("replyDisabled") or parent.author.handle in self.blockers:
            self.violations.append("a reply that nobody sees")
        return ""

    def _find_facet_fault(self, text: str, facets: list[dict[str, Any]]) -> str:
        content = text.encode()
        position = 0
        for item in facets:
            start, end = item["index"]["byteStart"], item["index"]["byteEnd"]
            if not all(feature["$type"].startswith("app.bsky.richtext.facet#") for feature in item["features"]):
                return "Record/facets have unknown features"
            if not all(_URI.fullmatch(feature.get("uri") or feature["did"]) for feature in item["features"]):
                return "Record/facets/0/features/0/uri must be a uri"
            shown = content[start:end]
            try:
                shown.decode()
            except UnicodeDecodeError:
                self.violations.append(f"a facet that cuts a character: {item}")
            if not position <= start < end <= len(content) or not shown.strip():
                self.violations.append(f"a facet beside the text, or within another one: {item}")
            position = end
        return ""


def _make_facet(text: str, match: re.Match[str], feature: dict[str, Any]) -> dict[str, Any]:
    start = len(text[: match.start()].encode())
    return {"index": {"byteStart": start, "byteEnd": start + len(match[0].encode())}, "features": [feature]}


def _to_page(request: web.Request, name: str, items: list[Any]) -> web.Response:
    """Answer with a page of items that are sorted by age, the newest one first."""
    limit = int(request.query.get("limit", "50"))
    if not 1 <= limit <= 100:
        return make_error(400, "InvalidRequest", message="Error: limit must be from 1 to 100")
    end = int(request.query.get("cursor", len(items)))
    start = max(end - limit, 0)
    page = {name: items[start:end][::-1], **({"cursor": str(start)} if start else {})}
    return web.json_response(page)


def _to_text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
