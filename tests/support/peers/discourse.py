"""A Discourse forum over real HTTP: lists of topics, topics with their first posts, further posts by their ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.peers.service import TOKEN, ServicePeer, find_unknown, match, reply

FIRST_POSTS = 20
MAX_IDS = 20
DAY = "2026-01-02T03:04:05.000Z"


@dataclass
class Entry:
    """A post; `kind` is 1, or 4 for a whisper. `fields` are added to its JSON."""

    text: str
    kind: int = 1
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Topic:
    title: str
    posts: list[Entry]
    category: str = "support/5"
    bumped_at: str = DAY
    fields: dict[str, Any] = field(default_factory=dict)


class DiscoursePeer(ServicePeer):
    """`topics` by number. `is_closed` asks for a token; `page_size` topics are on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[int, Topic] = {}
        self.is_closed = False
        self.page_size = 30

    def answer(self, request: web.Request) -> web.Response:
        key = request.headers.get("Api-Key", "")
        if (key and key != TOKEN) or (self.is_closed and not key):
            return reply({"errors": ["You are not permitted to view it."], "error_type": "invalid_access"}, 403)
        if (found := match(r"(?:/c/([\w/-]+)/l)?/latest\.json", request)) is not None:
            return self._list(request, found[0])
        if (found := match(r"/t/(\d+)(/posts)?\.json", request)) is not None:
            topic = self.topics.get(int(found[0]))
            if topic is None:
                return reply({"errors": ["Gone."], "error_type": "not_found"}, 404)
            return (
                self._posts(request, int(found[0]), topic) if found[1] else self._topic(request, int(found[0]), topic)
            )
        return reply({"errors": ["no such address"]}, 404)

    def _list(self, request: web.Request, category: str | None) -> web.Response:
        if find_unknown(request, "page", "order") or request.query.get("order") != "created":
            return reply({"errors": ["invalid parameter"]}, 400)
        topics = [
            (number, topic)
            for number, topic in sorted(self.topics.items(), reverse=True)
            if category in (None, topic.category)
        ]
        start = int(request.query.get("page", "0")) * self.page_size
        more = {"more_topics_url": "/latest?page=next"} if start + self.page_size < len(topics) else {}
        entries = [
            {
                "id": number,
                "title": topic.title,
                "slug": "a-slug",
                "posts_count": len(topic.posts),
                "highest_post_number": len(topic.posts),
                "bumped_at": topic.bumped_at,
                "visible": True,
                "archetype": "regular",
                **topic.fields,
            }
            for number, topic in topics[start : start + self.page_size]
        ]
        return reply({"topic_list": {"per_page": self.page_size, "topics": entries, **more}})

    def _topic(self, request: web.Request, number: int, topic: Topic) -> web.Response:
        if find_unknown(request, "include_raw"):
            return reply({"errors": ["invalid parameter"]}, 400)
        posts = [to_json(request, number, position, entry) for position, entry in enumerate(topic.posts, 1)]
        stream = {"posts": posts[:FIRST_POSTS], "stream": [post["id"] for post in posts]}
        return reply({"id": number, "title": topic.title, "slug": "a-slug", "post_stream": stream})

    def _posts(self, request: web.Request, number: int, topic: Topic) -> web.Response:
        ids = request.query.getall("post_ids[]", [])
        if find_unknown(request, "include_raw", "post_ids[]") or not 0 < len(ids) <= MAX_IDS:
            return reply({"errors": ["invalid parameter"]}, 400)
        posts = [to_json(request, number, position, entry) for position, entry in enumerate(topic.posts, 1)]
        return reply({"post_stream": {"posts": [post for post in posts if str(post["id"]) in ids]}})


def to_json(request: web.Request, number: int, position: int, entry: Entry) -> dict[str, Any]:
    raw = {"raw": entry.text} if request.query.get("include_raw") and not entry.fields.get("hidden") else {}
    return {
        "id": number * 1000 + position,
        "username": "ann",
        "name": "Ann Example",
        "created_at": DAY,
        "post_number": position,
        "post_type": entry.kind,
        "cooked": f"<p>{entry.text}</p>",
        **raw,
        **entry.fields,
    }
