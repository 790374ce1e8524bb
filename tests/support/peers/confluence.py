"""Confluence over real HTTP: the search of content by CQL, with what is expanded, in parts by a cursor."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from tests.support.peers.service import TOKEN, ServicePeer, find_unknown, match, reply

USERNAME = "reader@example.org"
CONTEXT = "/wiki"
BASIC = "Basic " + base64.b64encode(f"{USERNAME}:{TOKEN}".encode()).decode()
EXPANSIONS = {
    "version",
    "ancestors",
    "body.storage",
    *(f"{above}restrictions.read.restrictions.{kind}" for above in ("", "ancestors.") for kind in ("user", "group")),
}


@dataclass
class WikiPage:
    """A page below `parent`; `users` and `groups` may read it, none: everybody in its space."""

    title: str
    storage: str = "<p>Text.</p>"
    space: str = "DOC"
    parent: int = 0
    version: int = 1
    status: str = "current"
    kind: str = "page"
    users: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


class ConfluencePeer(ServicePeer):
    """`wiki` by id. `page_size` caps its parts; `forgets_cursors` refuses those that it gave.

    A query for a space among `hidden_spaces`, also beside others, is refused; so are the pages of `closed_spaces`, as
    if they were not there, and of `forbidden_spaces`. An index that `is_lost` finds nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wiki: dict[int, WikiPage] = {}
        self.page_size = 50
        self.forgets_cursors = False
        self.hidden_spaces: set[str] = set()
        self.closed_spaces: set[str] = set()
        self.forbidden_spaces: set[str] = set()
        self.is_lost = False
        # What it says is its context, and where the next part is.
        self.next_links = (CONTEXT, f"{CONTEXT}/rest/api/content/search")

    def site(self) -> str:
        return self.url(CONTEXT)

    def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") not in (BASIC, f"Bearer {TOKEN}"):
            return reply({"statusCode": 401, "message": "Unauthorized"}, 401)
        if found := match(CONTEXT + r"/rest/api/content/(\d+)", request):
            return self._show_page(request, int(found[0]))
        if request.path != f"{CONTEXT}/rest/api/content/search":
            return reply({"statusCode": 404, "message": "No such address"}, 404)
        expansions = request.query.get("expand", "").split(",")
        unknown = find_unknown(request, "cql", "expand", "limit", "cursor") or not {*expansions} <= EXPANSIONS
        if unknown or not 1 <= int(request.query.get("limit", "25")) <= 100:
            return reply({"statusCode": 400, "message": "bad parameter"}, 400)
        numbers = self._find(request.query["cql"])
        if numbers is None or (self.forgets_cursors and "cursor" in request.query):
            return reply({"statusCode": 400, "message": "Could not parse cql"}, 400)
        start = int(request.query.get("cursor", "0"))
        size = min(self.page_size, int(request.query.get("limit", "25")))
        results = [self._show(number, expansions) for number in numbers[start : start + size]]
        context, next_url = self.next_links
        links = {"base": self.site(), "context": context}
        if start + size < len(numbers):
            query = {**request.query, "cursor": str(start + size)}
            links["next"] = f"{next_url}?{urlencode(query)}"
        return reply({"results": results, "start": start, "limit": size, "size": len(results), "_links": links})

    def _show_page(self, request: web.Request, number: int) -> web.Response:
        page = self.wiki.get(number)
        if find_unknown(request, "expand"):
            return reply({"statusCode": 400, "message": "bad parameter"}, 400)
        if page is None or page.status == "trashed" or page.space in self.closed_spaces:
            return reply({"statusCode": 404, "message": "No content found"}, 404)
        if page.space in self.forbidden_spaces:
            return reply({"statusCode": 403, "message": "Not permitted"}, 403)
        return reply({**self._show(number, []), "space": {"key": page.space}})

    def _find(self, query: str) -> list[int] | None:
        """Return the ids that a query finds, None for one that cannot be parsed. The trash is not searched."""
        pages = {} if self.is_lost else self.wiki
        found = {
            number: page
            for number, page in pages.items()
            if page.status != "trashed" and page.space not in self.closed_spaces | self.forbidden_spaces
        }
        if parts := re.fullmatch(r'id=(\d+) and space="(\w+)"', query):
            return [number for number, page in found.items() if (str(number), page.space) == parts.groups()]
        if parts := re.fullmatch(r'space="(\w+)" and type=page', query):
            return [number for number, page in found.items() if page.space == parts[1] and page.kind == "page"]
        if parts := re.fullmatch(r'space in \(((?:"\w+"(?:, )?)+)\) and type in \(page, blogpost\)', query):
            spaces = re.findall(r"\w+", parts[1])
            if (self.hidden_spaces | self.closed_spaces | self.forbidden_spaces) & {*spaces}:
                return None
            kinds = ("page", "blogpost")
            return [number for number, page in found.items() if page.space in spaces and page.kind in kinds]
        return None

    def _show(self, number: int, expansions: list[str]) -> dict[str, Any]:
        page = self.wiki[number]
        shown: dict[str, Any] = {
            "id": str(number),
            "type": page.kind,
            "status": page.status,
            "title": page.title,
            "_links": {"webui": f"/spaces/{page.space}/pages/{number}/A+title"},
        }
        if "version" in expansions:
            shown["version"] = {"number": page.version}
        if "body.storage" in expansions:
            shown["body"] = {"storage": {"value": page.storage, "representation": "storage"}}
        if "ancestors" in expansions:
            shown["ancestors"] = [
                {"id": str(ancestor), **self._restrictions(ancestor, expansions, "ancestors.")}
                for ancestor in self._ancestors(number)
            ]
        return shown | self._restrictions(number, expansions, "")

    def _ancestors(self, number: int) -> list[int]:
        parent = self.wiki[number].parent
        return [*self._ancestors(parent), parent] if parent else []

    def _restrictions(self, number: int, expansions: list[str], above: str) -> dict[str, Any]:
        page = self.wiki[number]
        lists = {
            kind: {"results": [{"name": name} for name in names], "size": len(names)}
            for kind, names in (("user", page.users), ("group", page.groups))
            if f"{above}restrictions.read.restrictions.{kind}" in expansions
        }
        return {"restrictions": {"read": {"operation": "read", "restrictions": lists}}} if lists else {}
