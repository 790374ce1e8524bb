"""A bridge between KIMAs and rooms on Matrix.

    pip install "matrix-nio>=0.25,<0.27" markdown-it-py
    KIMAS_HTTP_SECRET=... MATRIX_URL=https://... MATRIX_TOKEN=... python3 matrix.py

It joins rooms that people of `MATRIX_INVITERS` invite it to (servers or people, in default those of its own server),
gives what people write there to KIMAs as signed events, and shows every signed reply below its question. Messages in
`MATRIX_POST_ROOMS` are posts, to be commented on in their threads. Its file has how far it has read and what it has
shown: each message becomes one event and each reply is shown once, whatever is restarted when. It reads no encrypted
rooms: there it says so, and leaves. docs/http.md describes both directions and how to set this up.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import json
import os
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import aiohttp
import nio
from aiohttp import web
from markdown_it import MarkdownIt

MAX_CLOCK_DIFFERENCE_S = 300
MAX_BODY_BYTES = 1 << 20
MAX_TEXT_CHARS = 20_000
MAX_QUOTED_CHARS = 2_000
# A server takes events of 65,536 bytes, with what it adds to them.
MAX_EVENT_BYTES = 60_000
MAX_SOURCES_BYTES = 20_000
SYNC_WAIT_MS = 30_000
TYPING_MS = 30_000
RETRY_S = 2.0
TIMEOUT_S = 30.0
# What was said longer ago while the bridge was away is not answered.
MAX_GAP_MS = 24 * 3600 * 1000
PAGE_SIZE = 100
SYNC_FILTER = {
    "presence": {"types": []},
    "room": {
        "timeline": {"limit": 50},
        "state": {"lazy_load_members": True},
        "ephemeral": {"types": []},
        "account_data": {"types": []},
    },
}
# Events that KIMAs will not take at another time either.
REFUSED = (400, 413, 415, 422)
TAKEN = (202, 409)
TOO_MANY_REQUESTS = 429
SERVER_FAULT = 500
ENCRYPTED = "This room is encrypted. I cannot read encrypted messages: invite me to a room without encryption. Goodbye!"
# Answers are read as HTML: raw HTML is shown as text, and pictures, which would be fetched, are left out.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
Json = Mapping[str, Any]


class NotShown(Exception):
    """A reply that was not shown: the status that KIMAs is told, and for how many seconds it is to wait."""

    def __init__(self, status: int, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.status = status
        self.wait_s = wait_s


@dataclass(frozen=True)
class Me:
    """The bot's account, and what it is called."""

    id: str
    names: re.Pattern[str]
    inviters: Sequence[str]
    post_rooms: Sequence[str]

    def is_meant(self, content: Json, text: str) -> bool:
        """Return whether a message mentions the bot, by its id or, where clients do not name those, by a name."""
        mentions = content.get("m.mentions")
        if isinstance(mentions, Mapping) and mentions:
            return self.id in (mentions.get("user_ids") or ())
        # Clients name nobody where no name was picked from their list.
        match = self.names.search(text)
        return match is not None and (mentions is None or text[match.end() :].startswith((":", ",")))

    def strip_name(self, text: str) -> str:
        """Return a text without the bot's name at its beginning."""
        match = self.names.match(text)
        return text[match.end() :].lstrip(":, \n") if match else text

    def may_invite(self, user_id: str) -> bool:
        """Return whether an invitation of somebody is accepted."""
        return user_id in self.inviters or user_id.partition(":")[2] in self.inviters


class Memory:
    """What the bridge has done, in a file: how far it has read, and which events show which reply."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY, value TEXT NOT NULL)")

    def get(self, key: str) -> str:
        """Return what is known of a key, or an empty string."""
        row = self._database.execute("SELECT value FROM done WHERE key = ?", (key,)).fetchone()
        return row[0] if row else ""

    def put(self, *pairs: tuple[str, str]) -> None:
        """Remember values of keys, all or none, over a kill of the bridge too."""
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO done VALUES (?, ?)", pairs)


def sign(timestamp: str, body: bytes, secret: str) -> str:
    """Return the signature of a request between KIMAs and the bridge."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def is_error(answer: object) -> bool:
    """Return whether the server refused a call."""
    return isinstance(answer, nio.ErrorResponse)


def describe(error: Exception) -> str:
    """Return an error as text; its other form, `repr`, may show the headers of a request, and so the token."""
    return f"{type(error).__name__}: {error}"


def get_wait_s(answer: Any) -> float:
    """Return for how long a server asks not to be called."""
    header = answer.transport_response.headers.get("Retry-After", "") if answer.transport_response else ""
    return float(header) if header.isdecimal() else (answer.retry_after_ms or 1000 * RETRY_S) / 1000


def get_status(answer: Any) -> int:
    """Return the HTTP status of a server's answer."""
    return int(answer.transport_response.status) if answer.transport_response else SERVER_FAULT


class Bridge:
    """Both directions: `run` carries messages to KIMAs, `take_reply` shows what KIMAs says of them."""

    def __init__(self, client: nio.AsyncClient, me: Me, memory: Memory, kimas_url: str, secret: str) -> None:
        self._client = client
        self._me = me
        self._memory = memory
        self._events_url = kimas_url.rstrip("/") + "/v1/events"
        self._secret = secret
        self._showing = asyncio.Lock()

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Carry messages to KIMAs until the process ends. Raises `SystemExit` when the token is not valid any more."""
        is_first = True
        while True:
            since = self._memory.get("since")
            try:
                # The rooms are not on disk: after a start they are asked for once.
                answer: Any = await self._client.sync(SYNC_WAIT_MS, SYNC_FILTER, since or None, is_first)
                if is_error(answer):
                    if answer.status_code == "M_UNKNOWN_TOKEN":
                        raise SystemExit("matrix: MATRIX_TOKEN is not valid any more")
                    print(f"matrix: {answer}; trying again", flush=True)  # noqa: T201
                    await asyncio.sleep(get_wait_s(answer))
                    continue
                await self._take_sync(answer, since, session)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                # Whichever side it was, the next round begins at the same place.
                print(f"matrix: {describe(error)}; trying again", flush=True)  # noqa: T201
                await asyncio.sleep(RETRY_S)
                continue
            self._memory.put(("since", answer.next_batch))
            is_first = False

    async def _take_sync(self, answer: Any, since: str, session: aiohttp.ClientSession) -> None:
        for room_id, invitation in answer.rooms.invite.items():
            await self._take_invitation(room_id, [event.source for event in invitation.invite_state])
        for room_id, info in answer.rooms.join.items():
            room = self._client.rooms[room_id]
            if room.encrypted:
                await self._refuse(room_id)
                continue
            events = [event.source for event in info.timeline.events]
            # What was said before the bridge was first started is not answered.
            if since:
                if info.timeline.limited:
                    events = await self._fetch_gap(room_id, info.timeline.prev_batch, since) + events
                for event in self._after_own_join(events):
                    await self._give(room, event, session)

    async def _take_invitation(self, room_id: str, events: Sequence[Json]) -> None:
        inviters = [event["sender"] for event in events if event.get("state_key") == self._me.id]
        if inviters and self._me.may_invite(inviters[-1]):
            answer = await self._insist(lambda: self._client.join(room_id))
        else:
            print(f"matrix: an invitation of {inviters} is not accepted: see MATRIX_INVITERS", flush=True)  # noqa: T201
            answer = await self._insist(lambda: self._client.room_leave(room_id))
        if is_error(answer):
            print(f"matrix: {room_id}: {answer}", flush=True)  # noqa: T201

    async def _refuse(self, room_id: str) -> None:
        """Say once that encrypted messages are not read, and leave."""
        content = {"msgtype": "m.notice", "body": ENCRYPTED, "m.mentions": {}}
        key = hashlib.sha256(f"encrypted {room_id}".encode()).hexdigest()
        await self._insist(lambda: self._client.room_send(room_id, "m.room.message", content, key))
        await self._insist(lambda: self._client.room_leave(room_id))

    async def _fetch_gap(self, room_id: str, newest: str, since: str) -> list[Json]:
        """Return what was said between the last time and what the server sends by itself, the oldest first."""
        gap: list[Json] = []
        token = newest
        while token:
            page = await self._insist(partial(self._client.room_messages, room_id, token, since, limit=PAGE_SIZE))
            if is_error(page):
                raise OSError(f"what was said in {room_id} cannot be read: {page}")
            events = [event.source for event in page.chunk]
            gap += events
            is_old = any(time.time() * 1000 - event.get("origin_server_ts", 0) > MAX_GAP_MS for event in events[-1:])
            token = "" if is_old or not events or self._after_own_join(events[::-1]) != events[::-1] else page.end
        return gap[::-1]

    def _after_own_join(self, events: list[Json]) -> list[Json]:
        """Return what was said since the bot came into the room."""
        for number in range(len(events) - 1, -1, -1):
            event = events[number]
            is_own = event.get("type") == "m.room.member" and event.get("state_key") == self._me.id
            before = (event.get("unsigned") or {}).get("prev_content") or {}
            if is_own and event["content"].get("membership") == "join" and before.get("membership") != "join":
                return events[number + 1 :]
        return events

    async def _give(self, room: Any, source: Json, session: aiohttp.ClientSession) -> None:
        """Give an event to KIMAs, however often it takes."""
        try:
            event = await self._to_event(room, source)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            print(f"matrix: {source.get('event_id')} is left out: {error!r}", flush=True)  # noqa: T201
            return
        body = json.dumps(event).encode()
        while event:
            timestamp = str(int(time.time()))
            headers = {"X-Kimas-Timestamp": timestamp, "X-Kimas-Signature": sign(timestamp, body, self._secret)}
            try:
                async with session.post(self._events_url, data=body, headers=headers) as response:
                    if response.status in TAKEN:
                        return
                    reason = await response.text()
                    if response.status in REFUSED:
                        print(f"matrix: {event['id']} is left out: {reason}", flush=True)  # noqa: T201
                        return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                reason = describe(error)
            print(f"matrix: KIMAs does not take {event['id']}: {reason}; trying again", flush=True)  # noqa: T201
            await asyncio.sleep(RETRY_S)

    async def _to_event(self, room: Any, source: Json) -> dict[str, Any] | None:
        """Return an event of Matrix as one of KIMAs, or None where it is nothing that somebody said."""
        content = source["content"]
        event = {"id": source["event_id"], "chat": room.room_id}
        if source["type"] == "m.room.redaction":
            changes = str(source.get("redacts") or content["redacts"])
            # Only the server knows who may redact what.
            is_gone = (await self._fetch(room.room_id, changes)).get("unsigned", {}).get("redacted_because")
            return {**event, "kind": "delete", "changes": changes} if is_gone else None
        # Notices are what bots say. What was redacted has no content.
        is_said = source["type"] == "m.room.message" and content.get("msgtype") in ("m.text", "m.emote")
        if source["sender"] == self._me.id or not is_said:
            return None
        relation = content.get("m.relates_to") or {}
        if relation.get("rel_type") == "m.replace":
            event |= {"kind": "edit", "changes": relation["event_id"]}
            content = content["m.new_content"]
            relation = ((await self._fetch(room.room_id, relation["event_id"])).get("content") or {}).get(
                "m.relates_to"
            ) or {}
        return {**await self._describe(room, source, content, relation), **event}

    async def _describe(self, room: Any, source: Json, content: Json, relation: Json) -> dict[str, Any]:
        thread = str(relation["event_id"]) if relation.get("rel_type") == "m.thread" else ""
        # In a thread, clients without threads are shown the message before as what is answered.
        reply_to = "" if relation.get("is_falling_back") else (relation.get("m.in_reply_to") or {}).get("event_id", "")
        text = get_text(content, is_reply=bool(reply_to))
        own_id = self._memory.get(f"own {reply_to}")
        is_addressed = bool(own_id) or self._me.is_meant(content, text)
        is_post = room.room_id in self._me.post_rooms and not (thread or reply_to or is_addressed)
        quoted = quoted_author = ""
        quotes_bot = False
        if reply_to and is_addressed and not own_id:
            original = await self._fetch(room.room_id, reply_to)
            quoted = get_text(original.get("content") or {}, is_reply=True)[:MAX_QUOTED_CHARS]
            # It may be an answer that this bridge does not remember.
            quotes_bot = bool(quoted) and original.get("sender") == self._me.id
            # Who is forgotten is so there, too.
            quoted_author = str(original.get("sender") or "") if quoted and not quotes_bot else ""
        name = (room.user_name(source["sender"]) or source["sender"])[:128]
        return {
            "author": {"id": source["sender"], "name": name},
            "text": self._me.strip_name(text)[:MAX_TEXT_CHARS],
            "thread": thread,
            "reply_to": own_id or reply_to,
            "quoted": quoted,
            "quoted_author": quoted_author,
            "quotes_bot": quotes_bot,
            "addressed": is_addressed,
            "private": is_private(room),
            "title": "" if is_alone(room) else str(room.display_name)[:128],
            "sent_at": datetime.fromtimestamp(source["origin_server_ts"] / 1000, UTC).isoformat(),
            "kind": "post" if is_post else "message",
        }

    async def _fetch(self, room_id: str, event_id: str) -> Json:
        """Return an event, or an empty one where there is none."""
        answer = await self._insist(lambda: self._client.room_get_event(room_id, event_id))
        source: Json = {} if is_error(answer) else answer.event.source
        return source

    async def _insist(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call until the server has an answer to it."""
        while is_error(answer := await call()):
            if get_status(answer) != TOO_MANY_REQUESTS and get_status(answer) < SERVER_FAULT:
                break
            await asyncio.sleep(get_wait_s(answer))
        return answer

    async def take_reply(self, key: str, reply: Json) -> str:
        """Show a final reply below its question, once for each key; return its id. Raises `NotShown`."""
        room_id = reply["chat"]
        if reply["state"] == "started":
            await self._client.room_typing(room_id, True, TYPING_MS)
        if reply["state"] not in ("final", "failed"):
            return ""
        # One after the other: KIMAs may try again while the first try is not over.
        async with self._showing:
            if reply_id := self._memory.get(f"reply {key}"):
                return reply_id
            contents = [*self._make_contents(reply, await self._check(reply))]
            ids = []
            for number, content in enumerate(contents):
                # The server makes one event of each key, as long as the token is the same.
                answer = await self._client.room_send(room_id, "m.room.message", content, f"{key}-{number}")
                ids.append(str(require(answer).event_id))
            reply_id = reply["reply_id"] if is_event_id(reply["reply_id"]) else ids[0]
            self._memory.put((f"reply {key}", reply_id), *((f"own {event_id}", reply_id) for event_id in ids))
            return str(reply_id)

    async def _check(self, reply: Json) -> str:
        """Return who asked. Raises `NotShown` where the question is gone or enough bots have answered it."""
        room_id, event_id = reply["chat"], reply["event_id"]
        room = self._client.rooms.get(room_id)
        if room is None and not self._client.next_batch:
            raise NotShown(503, "the rooms are not known yet")
        if room is None or room.encrypted:
            raise NotShown(410, "the bot is not in this room, or it is encrypted")
        if not event_id:
            return ""
        question = require(await self._client.room_get_event(room_id, event_id)).event.source
        if (question.get("unsigned") or {}).get("redacted_because"):
            raise NotShown(410, "the question is gone")
        if reply.get("private") and not await self._is_private(room, question["sender"]):
            raise NotShown(410, "it was asked in private, and others read this room by now")
        limit = reply.get("bot_replies_below")
        if limit is not None and await self._count_bots(room_id, event_id) >= limit:
            raise NotShown(412, "enough bots are below this post")
        return str(question["sender"])

    async def _is_private(self, room: Any, asker: str) -> bool:
        """Return whether an asker and the bot alone read a room now: two members may be others than before."""
        if not is_private(room):
            return False
        joined = require(await self._client.joined_members(room.room_id)).members
        return {member.user_id for member in joined} == {asker, self._me.id}

    async def _count_bots(self, room_id: str, event_id: str) -> int:
        """Return how many bots but ours have written in the thread of a post; a comment may be there already."""
        path = f"/_matrix/client/v1/rooms/{quote(room_id)}/relations/{quote(event_id)}/m.thread?limit={PAGE_SIZE}"
        headers = {"Authorization": f"Bearer {self._client.access_token}"}
        async with await self._client.send("GET", path, headers=headers) as response:
            if response.status != 200:
                raise NotShown(503, f"the thread of {event_id} cannot be read: {response.status}", RETRY_S)
            events = (await response.json())["chunk"]
        senders = {event["sender"] for event in events if event["content"].get("msgtype") == "m.notice"}
        return len(senders - {self._me.id})

    def _make_contents(self, reply: Json, asker: str) -> Iterator[dict[str, Any]]:
        sources, sources_html = write_sources(reply["citations"])
        parts = split(reply["text"], MAX_EVENT_BYTES - len(sources.encode()) - len(sources_html.encode()))
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            # Whoever is not named here is not notified, whatever the text says.
            people = [asker, *reply.get("mentions", ())] if number == 0 and asker else []
            content = {
                "msgtype": "m.notice",
                "body": part + (sources if is_last else ""),
                "format": "org.matrix.custom.html",
                "formatted_body": MARKDOWN.render(part) + (sources_html if is_last else ""),
                "m.mentions": {"user_ids": people} if people else {},
            }
            if number == 0 and is_event_id(reply["reply_id"]):
                replacement = {"rel_type": "m.replace", "event_id": reply["reply_id"]}
                yield {**content, "m.new_content": content, "m.relates_to": replacement}
            else:
                yield {**content, **relate(reply["thread"], reply["event_id"])}


def get_text(content: Json, *, is_reply: bool) -> str:
    """Return what a message says, without what old clients quote above a reply."""
    text = str(content.get("body") or "").strip()
    if is_reply and text.startswith("> "):
        lines = text.split("\n")
        start = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
        text = "\n".join(lines[start:]).strip()
    return text


def is_alone(room: Any) -> bool:
    """Return whether a room is for one person and the bot: nobody else is in it, nor can come without being invited."""
    return bool(room.member_count == 2 and room.join_rule == "invite")


def is_private(room: Any) -> bool:
    """Return whether one person and the bot alone read a room now."""
    return is_alone(room) and room.history_visibility != "world_readable"


def is_event_id(reply_id: str) -> bool:
    """Return whether KIMAs names an event of Matrix; it has ids of its own for what was not shown yet."""
    return reply_id.startswith("$")


def relate(thread: str, event_id: str) -> dict[str, Any]:
    """Return how a reply is tied to its question, and to the thread that this stands in."""
    if not event_id:
        return {}
    below = {"m.in_reply_to": {"event_id": event_id}}
    if not thread:
        return {"m.relates_to": below}
    in_thread = {"rel_type": "m.thread", "event_id": thread, "is_falling_back": thread == event_id}
    return {"m.relates_to": {**in_thread, **below}}


def write_sources(citations: Sequence[Json]) -> tuple[str, str]:
    """Return the cited pages as text and as HTML, as many as there is room for."""
    text, markup = "", ""
    for citation in citations:
        title, url = citation["title"][:200], citation["url"]
        line = f"\n[{citation['n']}] {title} {url or citation['path'][:200]}".rstrip()
        shown = html.escape(title or citation["path"][:200])
        link = f'<a href="{html.escape(url)}">{shown}</a>' if url.startswith(("https://", "http://")) else shown
        item = f"<br>[{citation['n']}] {link}"
        if len((text + markup + line + item).encode()) > MAX_SOURCES_BYTES:
            break
        text += line
        markup += item
    return (f"\n{text}", f"<p>{markup.removeprefix('<br>')}</p>") if text else ("", "")


def split(text: str, max_bytes: int) -> list[str]:
    """Return a Markdown text in parts that fit into events, each with the HTML of it, cut between paragraphs."""
    if 2 * len(json.dumps(text)) + len(json.dumps(MARKDOWN.render(text))) <= max_bytes or len(text) < 2:
        return [text]
    middle = len(text) // 2
    cuts = (text.rfind(end, middle // 2, middle) for end in ("\n\n", "\n", " "))
    cut = next((cut for cut in cuts if cut > 0), middle)
    first, second = text[:cut], text[cut:].lstrip("\n")
    if first.count("```") % 2:
        first, second = f"{first}\n```", f"```\n{second}"
    return [*split(first, max_bytes), *split(second, max_bytes)]


def require(answer: Any) -> Any:
    """Return a server's answer. Raises `NotShown` where it is an error."""
    if not is_error(answer):
        return answer
    status = get_status(answer)
    if status == TOO_MANY_REQUESTS:
        raise NotShown(status, str(answer), get_wait_s(answer))
    # What is not there is gone; what else is refused will be refused again.
    status = 410 if status == 404 else status
    raise NotShown(status if status in (403, 410, 413) else 503, str(answer))


def make_handler(bridge: Bridge, secret: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return what handles the callbacks of KIMAs; what is not signed is not read."""

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        timestamp = request.headers.get("X-Kimas-Timestamp", "")
        signature = request.headers.get("X-Kimas-Signature", "")
        is_recent = timestamp.isdecimal() and abs(time.time() - int(timestamp)) <= MAX_CLOCK_DIFFERENCE_S
        if not is_recent or not hmac.compare_digest(signature.encode(), sign(timestamp, body, secret).encode()):
            return web.json_response({"error": "not signed by KIMAs, or a clock is wrong"}, status=401)
        reply = json.loads(body)
        if not reply.get("idempotency_key"):
            # The header of the same name is not signed: who recorded a request could write another one.
            error_text = "no idempotency_key in the body: this KIMAs is older than this bridge, update it"
            return web.json_response({"error": error_text}, status=400)
        try:
            reply_id = await bridge.take_reply(reply["idempotency_key"], reply)
        except NotShown as error:
            headers = {"Retry-After": str(int(error.wait_s) + 1)} if error.wait_s else {}
            return web.json_response({"error": str(error)}, status=error.status, headers=headers)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return web.json_response({"error": describe(error)}, status=503)
        return web.json_response({"id": reply_id} if reply_id else {})

    return handle


async def identify(client: nio.AsyncClient, inviters: str, post_rooms: str) -> Me:
    """Return the account that a token belongs to. Raises `SystemExit` where it belongs to none."""
    answer: Any = await client.whoami()
    if is_error(answer):
        raise SystemExit(f"matrix: MATRIX_URL or MATRIX_TOKEN is wrong: {answer}")
    client.user_id = answer.user_id
    profile: Any = await client.get_displayname()
    display_name = "" if is_error(profile) else profile.displayname or ""
    localpart, _, server = answer.user_id[1:].partition(":")
    # The longest one first: the id begins with the name.
    names = "|".join(re.escape(name) for name in (answer.user_id[1:], display_name, localpart) if name)
    pattern = re.compile(rf"(?<![\w@])@?(?:{names})(?!\w)", re.IGNORECASE)
    return Me(answer.user_id, pattern, inviters.split() or [server], post_rooms.split())


async def main() -> None:
    """Read the environment, listen for callbacks, and carry messages."""
    environment = os.environ
    secret = environment["KIMAS_HTTP_SECRET"]
    # The bridge waits itself, or lets KIMAs wait.
    config = nio.AsyncClientConfig(max_limit_exceeded=0, max_timeouts=0, request_timeout=TIMEOUT_S)
    client = nio.AsyncClient(environment["MATRIX_URL"].rstrip("/"), config=config)
    client.access_token = environment["MATRIX_TOKEN"]
    try:
        me = await identify(client, environment.get("MATRIX_INVITERS", ""), environment.get("MATRIX_POST_ROOMS", ""))
        memory = Memory(environment.get("BRIDGE_DATABASE", "matrix.db"))
        bridge = Bridge(client, me, memory, environment.get("KIMAS_URL", "http://127.0.0.1:8088"), secret)
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/", make_handler(bridge, secret))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", int(environment.get("BRIDGE_PORT", "8092"))).start()
        print(f"matrix: {me.id}, callbacks at http://127.0.0.1:{runner.addresses[0][1]}", flush=True)  # noqa: T201
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await bridge.run(session)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
