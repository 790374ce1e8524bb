"""The methods of Slack by which channels are read: errors have status 200, limits 429 with `Retry-After`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.peers.service import TOKEN, ServicePeer, reply

WORKSPACE = "https://example.slack.com/"
KNOWN = {
    "auth.test": set[str](),
    "conversations.info": {"channel"},
    "conversations.history": {"channel", "limit", "oldest", "cursor"},
    "conversations.replies": {"channel", "ts", "limit", "cursor"},
}


@dataclass
class Channel:
    """`messages` by ts, the replies of a thread by that of their parent in `threads`."""

    topic: str = "Support #kimas-knowledge"
    is_member: bool = True
    is_im: bool = False
    is_private: bool = False
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    threads: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class SlackHistoryPeer(ServicePeer):
    """`channels` by id; `page_size` caps what it answers with, `scopes_missing` are methods without their scope, in all
    channels or those that begin with `scoped_prefix`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.channels: dict[str, Channel] = {}
        self.page_size = 1000
        self.scopes_missing: set[str] = set()
        self.scoped_prefix = ""

    def answer(self, request: web.Request) -> web.Response:
        method = request.path.removeprefix("/api/")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return fail("invalid_auth")
        if method not in KNOWN:
            return fail("unknown_method")
        if not {*request.query} <= KNOWN[method]:
            return fail("invalid_arguments")
        if method in self.scopes_missing and request.query.get("channel", "").startswith(self.scoped_prefix):
            return reply({"ok": False, "error": "missing_scope", "needed": "channels:history"})
        if method == "auth.test":
            return reply({"ok": True, "url": WORKSPACE, "user_id": "UBOT"})
        channel = self.channels.get(request.query.get("channel", ""))
        if channel is None:
            return fail("channel_not_found")
        if method == "conversations.info":
            shown = {"is_member": channel.is_member, "is_im": channel.is_im, "topic": {"value": channel.topic}}
            shown["is_private"] = channel.is_private
            return reply({"ok": True, "channel": {"id": request.query["channel"], **shown, "purpose": {"value": ""}}})
        if not channel.is_member:
            return fail("not_in_channel")
        return self._list(request, channel, method)

    def _list(self, request: web.Request, channel: Channel, method: str) -> web.Response:
        limit = int(request.query.get("limit", "100"))
        if not 1 <= limit <= 999:
            return fail("invalid_limit")
        if method == "conversations.history":
            oldest = float(request.query.get("oldest", "0"))
            messages = [
                {"type": "message", "user": "UANN", "ts": ts, **self._count(channel, ts), **message}
                for ts, message in sorted(channel.messages.items(), reverse=True)
                if float(ts) > oldest
            ]
        else:
            ts = request.query.get("ts", "")
            if ts not in channel.messages:
                return fail("thread_not_found")
            parent = {"type": "message", "user": "UANN", "ts": ts, **channel.messages[ts]}
            messages = [parent, *channel.threads.get(ts, [])]
        cursor = request.query.get("cursor", "c0")
        if not cursor.removeprefix("c").isdecimal():
            return fail("invalid_cursor")
        start, size = int(cursor.removeprefix("c")), min(limit, self.page_size)
        has_more = start + size < len(messages)
        metadata = {"response_metadata": {"next_cursor": f"c{start + size}" if has_more else ""}}
        return reply({"ok": True, "messages": messages[start : start + size], "has_more": has_more, **metadata})

    def _count(self, channel: Channel, ts: str) -> dict[str, Any]:
        replies = channel.threads.get(ts, [])
        return {"thread_ts": ts, "reply_count": len(replies), "latest_reply": replies[-1]["ts"]} if replies else {}


def fail(code: str) -> web.Response:
    return reply({"ok": False, "error": code})
