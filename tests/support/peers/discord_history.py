"""The part of Discord's API by which channels are read: snowflakes, newest first, archived threads by their time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.support.peers.service import TOKEN, ServicePeer, find_unknown, match, reply

GUILD = "9000000000000000001"
INTENT = 1 << 18
NOW = time.time()


def make_id(age_s: float) -> str:
    """Return the id of what was made so long ago."""
    return str(int((NOW - age_s - 1_420_070_400) * 1000) << 22)


def say(age_s: float, text: str, **fields: Any) -> dict[str, Any]:
    author = {"id": "77", "username": "ann", "bot": False}
    message = {"id": make_id(age_s), "type": 0, "content": text, "author": author, "edited_timestamp": None}
    return {**message, **fields}


@dataclass
class DiscordPlace:
    """A channel, or a thread where it has a `parent`."""

    name: str = "support"
    topic: str | None = "Help for all #kimas-knowledge"
    kind: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    parent: str = ""
    archived_at: float = 0.0
    is_visible: bool = True
    has_history: bool = True
    is_private: bool = False
    # It says itself that everybody may see it.
    is_shown: bool = False
    guild: str = GUILD


class DiscordHistoryPeer(ServicePeer):
    """`places` by id. `flags` are those of the application."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, DiscordPlace] = {}
        self.flags = INTENT
        # What the role of everybody may in the server: to see channels.
        self.rights = 1 << 10

    def answer(self, request: web.Request) -> web.Response:
        if not request.headers["User-Agent"].startswith("DiscordBot ("):
            return reply({"message": "blocked"}, 403)
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return fail(401, 0, "401: Unauthorized")
        if request.path == "/api/v10/applications/@me":
            return reply({"id": "1", "flags": self.flags})
        if request.path == f"/api/v10/guilds/{GUILD}/threads/active":
            threads = [number for number, place in self.places.items() if place.parent and not place.archived_at]
            return reply({"threads": [self._show(number) for number in threads], "members": []})
        if request.path == f"/api/v10/guilds/{GUILD}/roles":
            return reply(
                [{"id": "333333333333333333", "permissions": "8"}, {"id": GUILD, "permissions": str(self.rights)}]
            )
        if origin := match(r"/api/v10/channels/(\d+)/messages/(\d+)", request):
            shown = [message for message in self.places[origin[0]].messages if message["id"] == origin[1]]
            return reply(shown[0]) if shown else fail(404, 10008, "Unknown Message")
        found = match(r"/api/v10/channels/(\d+)(/messages|/threads/archived/public)?", request)
        place = self.places.get(found[0]) if found else None
        if not found or place is None:
            return fail(404, 10003, "Unknown Channel")
        if not place.is_visible:
            return fail(403, 50001, "Missing Access")
        if found[1] and not place.has_history:
            # Of messages Discord shows none then.
            return reply([]) if found[1] == "/messages" else fail(403, 50013, "Missing Permissions")
        if found[1] == "/messages":
            return self._list_messages(request, place)
        return self._list_archived(request, found[0]) if found[1] else reply(self._show(found[0]))

    def _list_messages(self, request: web.Request, place: DiscordPlace) -> web.Response:
        limit = int(request.query.get("limit", "50"))
        if find_unknown(request, "limit", "before", "after") or not 1 <= limit <= 100:
            return fail(400, 50035, "Invalid Form Body")
        messages = sorted(place.messages, key=lambda message: int(message["id"]), reverse=True)
        if "after" in request.query:
            messages = [message for message in messages if int(message["id"]) > int(request.query["after"])][-limit:]
        elif "before" in request.query:
            messages = [message for message in messages if int(message["id"]) < int(request.query["before"])]
        shown = messages[:limit]
        return reply(shown if self.flags & INTENT else [{**message, "content": ""} for message in shown])

    def _list_archived(self, request: web.Request, parent: str) -> web.Response:
        limit = int(request.query.get("limit", "50"))
        if find_unknown(request, "limit", "before") or not 2 <= limit <= 100:
            return fail(400, 50035, "Invalid Form Body")
        before = datetime.fromisoformat(request.query["before"]).timestamp() if "before" in request.query else NOW + 99
        threads = [
            (place.archived_at, number)
            for number, place in self.places.items()
            if place.parent == parent and place.kind == 11 and 0 < place.archived_at < before
        ]
        threads.sort(reverse=True)
        shown = [self._show(number) for _, number in threads[:limit]]
        return reply({"threads": shown, "members": [], "has_more": len(threads) > limit})

    def _show(self, number: str) -> dict[str, Any]:
        place = self.places[number]
        data = {"id": number, "type": place.kind, "name": place.name, "topic": place.topic, "guild_id": place.guild}
        # What is denied to the role of everybody: other rights, and that to see the channel.
        deny = str((1 << 11) + ((1 << 10) if place.is_private else 0))
        data["permission_overwrites"] = [
            {"id": "222222222222222222", "type": 1, "allow": "1024", "deny": "0"},
            {"id": place.guild, "type": 0, "allow": "1024" if place.is_shown else "0", "deny": deny},
        ]
        if not place.parent:
            return data
        moment = datetime.fromtimestamp(place.archived_at, UTC).isoformat() if place.archived_at else None
        ids = [message["id"] for message in place.messages]
        counts = {"message_count": len(ids), "total_message_sent": len(ids), "last_message_id": max(ids, default=None)}
        metadata = {"archived": bool(place.archived_at), "archive_timestamp": moment}
        return {**data, **counts, "parent_id": place.parent, "thread_metadata": metadata}


def fail(status: int, code: int, message: str) -> web.Response:
    return reply({"message": message, "code": code}, status)
