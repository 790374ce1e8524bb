"""Notion over real HTTP: the search for pages, pages, and the children of blocks in parts of at most 100."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.peers.service import TOKEN, ServicePeer, find_unknown, match, reply

VERSION = "2022-06-28"
MAX_SIZE = 100


@dataclass
class NotionPage:
    """A page; `blocks` are as `make_block` makes them."""

    title: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    edited: str = "2026-01-02T03:04:00.000Z"
    in_trash: bool = False
    properties: dict[str, Any] = field(default_factory=dict)


def make_block(kind: str, text: str = "", *children: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a block with those in it; `id` is made from its text where it is not given."""
    number = fields.pop("id", f"{kind}-{text}".replace(" ", "-"))
    content = {"rich_text": [{"type": "text", "plain_text": text, "href": None, "annotations": {}}], **fields}
    return {"object": "block", "id": number, "type": kind, kind: content, "children": list(children)}


class NotionPeer(ServicePeer):
    """`shared` by id. `page_size` caps the parts of the search."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: dict[str, NotionPage] = {}
        self.page_size = MAX_SIZE

    def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return fail(401, "unauthorized")
        if request.headers.get("Notion-Version") != VERSION:
            return fail(400, "missing_version")
        if request.method == "POST" and request.path == "/v1/search":
            return self._search(self.bodies[-1])
        if request.method == "GET" and (found := match(r"/v1/pages/([\w-]+)", request)):
            page = self.shared.get(found[0])
            return reply(show(found[0], page)) if page else fail(404, "object_not_found")
        if request.method == "GET" and (found := match(r"/v1/blocks/([\w-]+)/children", request)):
            return self._list_children(request, found[0])
        return fail(400, "invalid_request_url")

    def _search(self, body: Any) -> web.Response:
        known = {"filter", "sort", "page_size", "start_cursor", "query"}
        size = body.get("page_size", MAX_SIZE)
        if not {*body} <= known or not 1 <= size <= MAX_SIZE or body.get("start_cursor") == "":
            return fail(400, "validation_error")
        if body.get("filter", {}).get("value") != "page" or body["sort"]["timestamp"] != "last_edited_time":
            return fail(400, "validation_error")
        pages = sorted(self.shared.items(), key=lambda item: item[1].edited, reverse=True)
        results = [show(number, page) for number, page in pages]
        return paginate(results, body.get("start_cursor", ""), min(size, self.page_size))

    def _list_children(self, request: web.Request, number: str) -> web.Response:
        size = int(request.query.get("page_size", MAX_SIZE))
        if find_unknown(request, "page_size", "start_cursor") or not 1 <= size <= MAX_SIZE:
            return fail(400, "validation_error")
        blocks = self._find_children(number)
        if blocks is None:
            return fail(404, "object_not_found")
        shown = [
            {key: value for key, value in block.items() if key != "children"} | {"has_children": has_children(block)}
            for block in blocks
        ]
        return paginate(shown, request.query.get("start_cursor", ""), size)

    def _find_children(self, number: str) -> list[dict[str, Any]] | None:
        page = self.shared.get(number)
        if page:
            return page.blocks
        waiting = [block for page in self.shared.values() for block in page.blocks]
        while waiting:
            block = waiting.pop()
            if block["id"] == number:
                return list(block["children"])
            waiting += block["children"]
        return None


def has_children(block: dict[str, Any]) -> bool:
    origin = (block.get("synced_block") or {}).get("synced_from")
    return bool(block["children"] or origin or block.get("claims_children"))


def show(number: str, page: NotionPage) -> dict[str, Any]:
    title = {"id": "title", "type": "title", "title": [{"type": "text", "plain_text": page.title}]}
    return {
        "object": "page",
        "id": number,
        "last_edited_time": page.edited,
        "in_trash": page.in_trash,
        "archived": page.in_trash,
        "properties": {"Name": title, **page.properties},
        "url": f"https://www.notion.so/{number}",
        "public_url": None,
    }


def paginate(results: list[dict[str, Any]], cursor: str, size: int) -> web.Response:
    start = int(cursor.removeprefix("cursor-") or "0")
    has_more = start + size < len(results)
    next_cursor = f"cursor-{start + size}" if has_more else None
    part = results[start : start + size]
    return reply({"object": "list", "results": part, "has_more": has_more, "next_cursor": next_cursor})


def fail(status: int, code: str) -> web.Response:
    return reply({"object": "error", "status": status, "code": code, "message": code}, status)
