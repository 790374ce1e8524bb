"""A Matrix server with people, as far as a bridge uses it: strict where a real one is, over real sockets.

A bot hears of events in a sync: the newest ones of each room, as many as its filter asks for, with a token that leads
to those before. `fail` and `watch` name a call such as `PUT send`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aiohttp import web

from tests.support.peers.social import SocialPeer, make_error

SERVER = "hs.example"
BOT = f"@kimas:{SERVER}"
BOT_NAME = "Kim As"
TOKEN = "syt_token_of_the_bot"
MAX_EVENT_BYTES = 65_536
# What clients show of HTML.
TAGS = re.compile("a|b|blockquote|br|code|del|em|h[1-6]|hr|i|li|ol|p|pre|s|strong|table|tbody|td|th|thead|tr|u|ul")
_TAG = re.compile(r"</?([a-z0-9]+)")
_HREF = re.compile(r'href="([^"]*)"')


@dataclass
class Room:
    id: str
    title: str = ""
    members: list[str] = field(default_factory=list)
    invited: dict[str, str] = field(default_factory=dict)
    join_rule: str = "invite"
    encrypted: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)


class MatrixPeer(SocialPeer):
    def __init__(self) -> None:
        super().__init__()
        self.token = TOKEN
        self.rooms: dict[str, Room] = {}
        self.transactions: dict[str, str] = {}
        self.sent_at: list[float] = []
        self.typing: list[str] = []
        self._number = 0

    def add_routes(self, router: web.UrlDispatcher) -> None:
        base = "/_matrix/client/v3"
        router.add_get(f"{base}/account/whoami", self._whoami)
        router.add_get(f"{base}/profile/{{user}}/displayname", self._get_name)
        router.add_get(f"{base}/sync", self._sync)
        router.add_post(f"{base}/join/{{room}}", self._join)
        router.add_post(f"{base}/rooms/{{room}}/leave", self._leave)
        router.add_get(f"{base}/rooms/{{room}}/joined_members", self._get_members)
        router.add_get(f"{base}/rooms/{{room}}/messages", self._get_messages)
        router.add_get(f"{base}/rooms/{{room}}/event/{{event}}", self._get_event)
        router.add_put(f"{base}/rooms/{{room}}/typing/{{user}}", self._type)
        router.add_put(f"{base}/rooms/{{room}}/send/{{type}}/{{key}}", self._send)
        relations = "/_matrix/client/v1/rooms/{room}/relations/{event}/m.thread"
        router.add_get(relations, self._get_relations)

    # What people do.

    def make_room(self, *people: str, has_bot: bool = True, **fields: Any) -> Room:
        """Open a room; the bot comes in before anything is said, if it is there."""
        self._number += 1
        room = Room(f"!room{self._number}:{SERVER}", **fields)
        self.rooms[room.id] = room
        for person in people:
            self.enter(room, person)
        if has_bot:
            self.enter(room, BOT)
        return room

    def invite(self, room: Room, inviter: str) -> None:
        self._number += 1
        room.invited[BOT] = inviter

    def say(self, room: Room, author: str, text: str, *, thread: str = "", reply_to: str = "", **content: Any) -> str:
        """Let somebody say something, and return its id."""
        relation: dict[str, Any] = {"m.in_reply_to": {"event_id": reply_to}} if reply_to else {}
        relation |= {"rel_type": "m.thread", "event_id": thread} if thread else {}
        relates = {"m.relates_to": relation} if relation else {}
        return self.add(room, author, "m.room.message", {"msgtype": "m.text", "body": text, **relates, **content})

    def edit(self, room: Room, author: str, event_id: str, text: str) -> str:
        relation = {"rel_type": "m.replace", "event_id": event_id}
        content = {"msgtype": "m.text", "body": text}
        return self.say(room, author, f"* {text}", **{"m.new_content": content, "m.relates_to": relation})

    def redact(self, room: Room, author: str, event_id: str) -> None:
        self.add(room, author, "m.room.redaction", {"redacts": event_id}, redacts=event_id)
        event = self.get(room, event_id)
        event["content"] = {}
        event["unsigned"] = {"redacted_because": {"event_id": "$redaction"}}

    def encrypt(self, room: Room, author: str) -> None:
        room.encrypted = True
        self.add(room, author, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, state_key="")

    def add(self, room: Room, author: str, kind: str, content: dict[str, Any], **fields: Any) -> str:
        self._number += 1
        event_id = f"$event{self._number:06}"
        moment = int(time.time() * 1000)
        event = {"event_id": event_id, "type": kind, "sender": author, "origin_server_ts": moment, "content": content}
        room.events.append({**event, "number": self._number, "unsigned": {}, **fields})
        return event_id

    def get(self, room: Room, event_id: str) -> dict[str, Any]:
        return next(event for event in room.events if event["event_id"] == event_id)

    def posts(self, room: Room) -> list[dict[str, Any]]:
        """Return what the bot said in a room, without the events that change others."""
        return [item["content"] for item in room.events if item["sender"] == BOT and item["type"] == "m.room.message"]

    async def until_synced(self, count: int = 2, timeout_s: float = 30) -> None:
        """Wait until the bot asks for more again: what the last sync told was handled."""
        deadline = time.monotonic() + timeout_s
        for _ in range(count):
            target = self.calls.count("GET sync") + 1
            self._number += 1
            while self.calls.count("GET sync") < target:
                assert time.monotonic() < deadline, "nobody asks what is new"
                await asyncio.sleep(0.01)

    def leave(self, room: Room, person: str) -> None:
        room.members.remove(person)
        self.add(room, person, "m.room.member", {"membership": "leave"}, state_key=person)

    # What the server does.

    def enter(self, room: Room, person: str) -> None:
        room.members.append(person)
        content = {"membership": "join", "displayname": BOT_NAME if person == BOT else person[1:].partition(":")[0]}
        self.add(room, person, "m.room.member", content, state_key=person)

    def name_call(self, request: web.Request) -> str:
        path = re.sub(r"^/_matrix/client/v\d/", "", request.path)
        path = re.sub(r"^(?:rooms/[^/]+/)?(\w+)(?:/.*)?$", r"\1", path)
        return f"{request.method} {path}"

    def check_access(self, request: web.Request) -> web.Response | None:
        is_known = request.headers.get("Authorization") == f"Bearer {self.token}"
        return None if is_known else _refuse(401, "M_UNKNOWN_TOKEN")

    def make_limit_headers(self, reset: datetime) -> dict[str, str]:
        return {"Retry-After": "1"}

    def _room(self, request: web.Request) -> Room:
        return self.rooms[request.match_info["room"]]

    async def _whoami(self, request: web.Request) -> web.Response:
        return web.json_response({"user_id": BOT, "device_id": "BRIDGE"})

    async def _get_name(self, request: web.Request) -> web.Response:
        return web.json_response({"displayname": BOT_NAME})

    async def _sync(self, request: web.Request) -> web.Response:
        since = int(request.query.get("since", "0"))
        wait_s = 0 if request.query.get("full_state") == "true" else int(request.query.get("timeout", "0")) / 1000
        deadline = time.monotonic() + wait_s
        while self._number <= since and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        limit = json.loads(request.query["filter"])["room"]["timeline"]["limit"]
        joined = {
            room.id: self._to_joined(room, since, limit, request.query.get("full_state") == "true")
            for room in self.rooms.values()
            if BOT in room.members
        }
        invited = {
            room.id: {"invite_state": {"events": [_make_invitation(room.invited[BOT])]}}
            for room in self.rooms.values()
            if BOT in room.invited
        }
        rooms = {"join": joined, "invite": invited, "leave": {}}
        return web.json_response({"next_batch": str(self._number), "rooms": rooms})

    def _to_joined(self, room: Room, since: int, limit: int, is_full: bool) -> dict[str, Any]:
        news = [event for event in room.events if event["number"] > since]
        # Of a room that the bot just came into, it is told all.
        is_full = is_full or any(event.get("state_key") == BOT for event in news)
        timeline = news[-limit:]
        shown = {event["event_id"] for event in timeline}
        state = [
            event
            for event in room.events
            if "state_key" in event and event["event_id"] not in shown and (is_full or event in news)
        ]
        state += [_make_state("m.room.join_rules", join_rule=room.join_rule)] if is_full else []
        state += [_make_state("m.room.name", name=room.title)] if is_full and room.title else []
        start = str(timeline[0]["number"] if timeline else since)
        return {
            "timeline": {"events": timeline, "limited": len(news) > limit, "prev_batch": start},
            "state": {"events": state},
            "ephemeral": {"events": []},
            "account_data": {"events": []},
            "summary": {"m.joined_member_count": len(room.members), "m.invited_member_count": 0},
            "unread_notifications": {},
        }

    async def _join(self, request: web.Request) -> web.Response:
        room = self._room(request)
        if room.invited.pop(BOT, None) is None:
            return _refuse(403, "M_FORBIDDEN")
        self.enter(room, BOT)
        return web.json_response({"room_id": room.id})

    async def _leave(self, request: web.Request) -> web.Response:
        room = self._room(request)
        room.invited.pop(BOT, None)
        room.members = [member for member in room.members if member != BOT]
        return web.json_response({})

    async def _get_members(self, request: web.Request) -> web.Response:
        room = self._room(request)
        if BOT not in room.members:
            return _refuse(403, "M_FORBIDDEN")
        return web.json_response({"joined": {member: {"display_name": member} for member in room.members}})

    async def _get_messages(self, request: web.Request) -> web.Response:
        query = request.query
        if query["dir"] != "b" or not 1 <= int(query["limit"]) <= 1000:
            return _refuse(400, "M_INVALID_PARAM")
        end = int(query.get("to", "0"))
        older = [event for event in self._room(request).events if end < event["number"] < int(query["from"])]
        page = older[-int(query["limit"]) :]
        more = {"end": str(page[0]["number"])} if len(page) < len(older) else {}
        return web.json_response({"start": query["from"], "chunk": page[::-1], "state": [], **more})

    async def _get_event(self, request: web.Request) -> web.Response:
        found = [item for item in self._room(request).events if item["event_id"] == request.match_info["event"]]
        return web.json_response(found[0]) if found else _refuse(404, "M_NOT_FOUND")

    async def _get_relations(self, request: web.Request) -> web.Response:
        below = [
            event
            for event in self._room(request).events
            if (event["content"].get("m.relates_to") or {}).get("rel_type") == "m.thread"
            and event["content"]["m.relates_to"]["event_id"] == request.match_info["event"]
        ]
        return web.json_response({"chunk": below[::-1]})

    async def _type(self, request: web.Request) -> web.Response:
        self.typing.append(request.match_info["room"])
        return web.json_response({})

    async def _send(self, request: web.Request) -> web.Response:
        room = self._room(request)
        key = f"{room.id} {request.match_info['key']}"
        if BOT not in room.members:
            return _refuse(403, "M_FORBIDDEN")
        if key not in self.transactions:
            body = await request.read()
            if len(body) > MAX_EVENT_BYTES:
                return _refuse(413, "M_TOO_LARGE")
            content = json.loads(body)
            self.violations += self._find_faults(room, content)
            self.transactions[key] = self.add(room, BOT, "m.room.message", content)
        return web.json_response({"event_id": self.transactions[key]})

    def _find_faults(self, room: Room, content: dict[str, Any]) -> list[str]:
        relation = content.get("m.relates_to") or {}
        named = [relation.get("event_id"), (relation.get("m.in_reply_to") or {}).get("event_id")]
        known = {event["event_id"] for event in room.events}
        markup = content.get("formatted_body", "")
        links = _HREF.findall(markup)
        faults = [f"an event that is not there: {event_id}" for event_id in named if event_id and event_id not in known]
        faults += [f"a tag that nobody shows: {tag}" for tag in _TAG.findall(markup) if not TAGS.fullmatch(tag)]
        faults += [f"a link of another kind: {link}" for link in links if not link.startswith(("https:", "http:"))]
        faults += [] if "m.mentions" in content else ["a message that may notify anybody"]
        faults += [] if content.get("msgtype") == "m.notice" else ["a bot that does not say that it is one"]
        return faults


def _refuse(status: int, code: str) -> web.Response:
    return make_error(status, code, errcode=code)


def _make_invitation(inviter: str) -> dict[str, Any]:
    return {"type": "m.room.member", "sender": inviter, "state_key": BOT, "content": {"membership": "invite"}}


def _make_state(kind: str, **content: str) -> dict[str, Any]:
    event = {"event_id": f"${kind}", "sender": f"@ann:{SERVER}", "origin_server_ts": 1, "state_key": ""}
    return {**event, "type": kind, "content": content}
