"""A forge over real HTTP: GitHub's REST and GraphQL APIs and GitLab's REST API over the same tickets.

    async with ForgePeer() as forge:
        forge.tickets[1] = Ticket(1, "It crashes", remarks=[Remark("Update it.")])
        ...  # GitHub is at forge.url("/api/v3"), GitLab at forge.url("/api/v4")

It refuses what the original would: unknown parameters, pages that are too large, a wrong token, requests beyond the
rate limit. What arrived is in `requests`; `failure_mode` and `status` are those of `WebPeer`, and so are its `pages`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from tests.support.peers.web import WebPeer

TOKEN = "forge-secret-token"
REPOSITORY = "example/handbook"
PROJECT = "group/sub/handbook"
DAY = 86_400.0
NOW = float(int(time.time()))


@dataclass
class Remark:
    """A comment; `internal`, `system` and `hidden` are what GitLab and GitHub say of some."""

    text: str
    author: str = "bob"
    bot: bool = False
    accepted: bool = False
    hidden: bool = False
    internal: bool = False
    system: bool = False
    replies: list[Remark] = field(default_factory=list)


@dataclass
class Ticket:
    """An issue or a discussion. `age` is in days since it changed last."""

    number: int
    title: str
    body: str | None = "Body."
    age: float = 10.0
    state: str = "open"
    labels: Sequence[str] = ()
    author: str | None = "ann"
    remarks: list[Remark] = field(default_factory=list)
    pull: bool = False
    confidential: bool = False

    @property
    def updated(self) -> str:
        return stamp(NOW - self.age * DAY)


@dataclass
class Version:
    """A release."""

    tag: str
    name: str | None = None
    body: str | None = "Fixes."
    draft: bool = False
    preview: bool = False


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ForgePeer(WebPeer):
    """`page_size` caps its pages, `remaining` is what the rate limit leaves, `slow_down` limits all at once with this
    status. `renamed` answers with a redirect to the repository's number. `errors` are what GraphQL answers with,
    `broken` names paths that answer 500, `closed` those that answer 404, `raw` what a path answers in place of the
    truth. The path that it `holds` never answers, and sets `hold_event`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tickets: dict[int, Ticket] = {}
        self.talks: dict[int, Ticket] = {}
        self.versions: list[Version] = []
        self.page_size = 100
        self.remaining: int | None = None
        self.reset = time.time() + 600
        self.slow_down = 0
        self.retry_after = ""
        self.renamed = False
        self.is_private = False
        # Who may see what of a public project on GitLab, by kind.
        self.levels: dict[str, str] = {}
        self.redirect_url = ""
        self.errors: list[Any] = []
        self.broken: set[str] = set()
        self.closed: set[str] = set()
        self.raw: dict[str, Any] = {}
        self.holds = ""
        self.hold_event = asyncio.Event()

    def paths(self) -> list[str]:
        return [request.path.removeprefix("/api") for request in self.requests]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not request.path.startswith("/api/"):
            return await super()._answer(request)
        self.requests.append(request)
        self.bodies.append(await request.json() if request.can_read_body else None)
        if self.failure_mode:
            return await self._misbehave(request)
        if self.holds and request.path == self.holds:
            self.hold_event.set()
            await asyncio.Event().wait()
        error_response = self._refused(request)
        response = self._record_status(error_response or self._routed(request))
        if self.remaining is not None and not error_response and response.status != 304:
            self.remaining -= 1
        self._limits(request, response)
        return response

    def _refused(self, request: web.Request) -> web.Response | None:
        authorization = request.headers.get("Authorization", "")
        if authorization not in ("", f"Bearer {TOKEN}"):
            return json_response({"message": f"Bad credentials: {authorization}"}, 401)
        if not request.headers.get("User-Agent"):
            return json_response({"message": "Please make sure your request has a User-Agent header"}, 403)
        if self.slow_down:
            response = json_response({"message": "You have exceeded a secondary rate limit."}, self.slow_down)
            if self.retry_after:
                response.headers["Retry-After"] = self.retry_after
            return response
        if self.remaining is not None and self.remaining <= 0:
            return json_response({"message": "API rate limit exceeded"}, 403)
        if request.path in self.broken:
            return json_response({"message": "Server Error"}, 500)
        if request.raw_path.partition("?")[0] in self.closed:
            return json_response({"message": "404 Not found"}, 404)
        return json_response({"message": "refused"}, self.status) if self.status else None

    def _limits(self, request: web.Request, response: web.Response) -> None:
        if self.remaining is not None:
            prefix = "RateLimit" if "/api/v4" in request.path else "X-RateLimit"
            response.headers[f"{prefix}-Remaining"] = str(self.remaining)
            response.headers[f"{prefix}-Reset"] = str(int(self.reset))

    def _routed(self, request: web.Request) -> web.Response:
        if request.path in self.raw:
            return json_response(self.raw[request.path])
        if self.redirect_url:
            return web.Response(status=301, headers={"Location": self.redirect_url})
        if request.path == "/api/graphql":
            return self._graphql(request)
        repository = f"/api/v3/repos/{REPOSITORY}"
        if request.path.startswith(repository):
            rest = request.path.removeprefix(repository)
            if self.renamed:
                query = f"?{request.query_string}" if request.query_string else ""
                url = self.url(f"/api/v3/repositories/42{rest}{query}")
                return json_response({"message": "Moved Permanently"}, 301, {"Location": url})
            return self._github(request, rest)
        if self.renamed and request.path.startswith("/api/v3/repositories/42"):
            return self._github(request, request.path.removeprefix("/api/v3/repositories/42"))
        project = f"/api/v4/projects/{PROJECT.replace('/', '%2F')}"
        if request.raw_path.startswith(project):
            return self._gitlab(request, request.raw_path.split("?")[0].removeprefix(project))
        return json_response({"message": "Not Found"}, 404)

    # GitHub

    def _github(self, request: web.Request, rest: str) -> web.Response:
        if request.headers.get("Accept") != "application/vnd.github+json":
            return json_response({"message": "Must accept 'application/json'"}, 415)
        if rest == "":
            name = "example/renamed" if self.renamed else REPOSITORY
            return json_response({"full_name": name, "private": self.is_private})
        if rest == "/issues":
            error_response = wrong(request, {"state", "sort", "direction", "since"})
            return error_response or self._paged(
                request, [self._issue(item) for item in self._changed(request, "since")]
            )
        if rest == "/releases":
            return wrong(request, set()) or self._paged(request, [self._release(version) for version in self.versions])
        if (match := re.fullmatch(r"/issues/(\d+)", rest)) and int(match[1]) in self.tickets:
            return json_response(self._issue(self.tickets[int(match[1])]))
        match = re.fullmatch(r"/issues/(\d+)/comments", rest)
        ticket = self.tickets.get(int(match[1])) if match else None
        if ticket is None:
            return json_response({"message": "Not Found"}, 404)
        return wrong(request, set()) or self._paged(request, [self._comment(remark) for remark in ticket.remarks])

    def _changed(self, request: web.Request, since: str) -> list[Ticket]:
        state = {"opened": "open"}.get(request.query.get("state", "all"), request.query.get("state", "all"))
        since_text = request.query.get(since, "")
        tickets = [
            ticket
            for ticket in self.tickets.values()
            if state in ("all", ticket.state) and (not since_text or ticket.updated >= since_text)
        ]
        return sorted(tickets, key=lambda ticket: ticket.updated, reverse=True)

    def _issue(self, ticket: Ticket) -> dict[str, Any]:
        results: dict[str, Any] = {
            "number": ticket.number,
            "title": ticket.title,
            "body": ticket.body,
            "state": ticket.state,
            "html_url": f"https://github.example/{REPOSITORY}/issues/{ticket.number}",
            "labels": [{"id": 1, "name": name} for name in ticket.labels],
            "comments": len(ticket.remarks),
            "user": ticket.author and {"login": ticket.author, "type": "User"},
            "created_at": "2026-01-02T03:04:05Z",
            "updated_at": ticket.updated,
        }
        return results | ({"pull_request": {"url": "https://x.example"}} if ticket.pull else {})

    def _comment(self, remark: Remark) -> dict[str, Any]:
        kind = "Bot" if remark.bot else "User"
        return {
            "id": 7,
            "body": remark.text,
            "user": {"login": remark.author, "type": kind},
            "created_at": "2026-01-03T03:04:05Z",
        }

    def _release(self, version: Version) -> dict[str, Any]:
        return {
            "tag_name": version.tag,
            "name": version.name,
            "body": version.body,
            "draft": version.draft,
            "prerelease": version.preview,
            "html_url": f"https://github.example/{REPOSITORY}/releases/tag/{version.tag}",
            "author": {"login": "ann"},
            "published_at": None if version.draft else "2026-02-03T04:05:06Z",
        }

    def _graphql(self, request: web.Request) -> web.Response:
        if request.method != "POST" or not request.headers.get("Authorization"):
            return json_response({"message": "This endpoint requires you to be authenticated."}, 401)
        if self.errors:
            return json_response({"data": {"repository": None}, "errors": self.errors})
        body = self.bodies[-1]
        variables = body["variables"]
        text = body["query"]
        fine = (
            text.count("{") == text.count("}")
            and "orderBy: {field: UPDATED_AT, direction: DESC}" in text
            and set(re.findall(r"\$(\w+):", text)) == set(variables)
            and 1 <= variables["items"] <= 100
            and 1 <= variables["comments"] <= 100
            and f"{variables['owner']}/{variables['name']}" == REPOSITORY
        )
        if not fine:
            return json_response({"errors": [{"type": "INVALID", "message": "Parse error"}]})
        talks = sorted(self.talks.values(), key=lambda talk: talk.updated, reverse=True)
        start = int(base64.b64decode(variables["after"])) if variables["after"] else 0
        end = start + min(variables["items"], self.page_size)
        nodes = [self._talk(talk, variables["comments"]) for talk in talks[start:end]]
        info = {"hasNextPage": end < len(talks), "endCursor": base64.b64encode(str(end).encode()).decode()}
        return json_response({"data": {"repository": {"discussions": {"pageInfo": info, "nodes": nodes}}}})

    def _talk(self, talk: Ticket, max_comments: int) -> dict[str, Any]:
        comments = [self._to_comment(remark, f"{talk.number}-{index}") for index, remark in enumerate(talk.remarks)]
        answers = [node for node, remark in zip(comments, talk.remarks, strict=True) if remark.accepted]
        return {
            "number": talk.number,
            "title": talk.title,
            "url": f"https://github.example/{REPOSITORY}/discussions/{talk.number}",
            "body": talk.body,
            "createdAt": "2026-01-02T03:04:05Z",
            "updatedAt": talk.updated,
            "closed": talk.state == "closed",
            "author": talk.author and {"login": talk.author, "__typename": "User"},
            "labels": {"nodes": [{"name": name} for name in talk.labels]},
            "answer": answers[0] if answers else None,
            "comments": {"totalCount": len(comments), "nodes": comments[:max_comments]},
        }

    def _to_comment(self, remark: Remark, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "body": remark.text,
            "createdAt": "2026-01-03T03:04:05Z",
            "isMinimized": remark.hidden,
            "author": {"login": remark.author, "__typename": "Bot" if remark.bot else "User"},
            "replies": {"nodes": [self._to_comment(reply, f"{name}-{at}") for at, reply in enumerate(remark.replies)]},
        }

    # GitLab

    def _gitlab(self, request: web.Request, rest: str) -> web.Response:
        if rest == "":
            visibility = "private" if self.is_private else "public"
            levels = {f"{name}_access_level": level for name, level in self.levels.items()}
            return json_response({"path_with_namespace": PROJECT, "visibility": visibility, **levels})
        if rest == "/issues":
            error_response = wrong(request, {"scope", "state", "order_by", "sort", "updated_after", "iids[]"})
            numbers = {int(number) for number in request.query.getall("iids[]", ())}
            changed_items = [
                item for item in self._changed(request, "updated_after") if {item.number} & numbers or not numbers
            ]
            return error_response or self._paged(request, [self._request(item) for item in changed_items])
        if rest == "/releases":
            return wrong(request, set()) or self._paged(
                request, [self._published(version) for version in self.versions]
            )
        if (match := re.fullmatch(r"/issues/(\d+)", rest)) and int(match[1]) in self.tickets:
            return json_response(self._request(self.tickets[int(match[1])]))
        match = re.fullmatch(r"/issues/(\d+)/notes", rest)
        ticket = self.tickets.get(int(match[1])) if match else None
        if ticket is None:
            return json_response({"message": "404 Not found"}, 404)
        error_response = wrong(request, {"sort", "order_by", "activity_filter"})
        return error_response or self._paged(request, [self._note(remark) for remark in ticket.remarks])

    def _request(self, ticket: Ticket) -> dict[str, Any]:
        return {
            "id": 1000 + ticket.number,
            "iid": ticket.number,
            "title": ticket.title,
            "description": ticket.body,
            "state": {"open": "opened"}.get(ticket.state, ticket.state),
            "labels": list(ticket.labels),
            "author": ticket.author and {"username": ticket.author},
            "web_url": f"https://gitlab.example/{PROJECT}/-/issues/{ticket.number}",
            "created_at": "2026-01-02T03:04:05.000+02:00",
            "updated_at": ticket.updated.replace("Z", ".000Z"),
            "user_notes_count": len([remark for remark in ticket.remarks if not remark.system]),
            "confidential": ticket.confidential,
        }

    def _note(self, remark: Remark) -> dict[str, Any]:
        return {
            "id": 7,
            "body": remark.text,
            "author": {"username": f"project_12_bot_{remark.author}" if remark.bot else remark.author},
            "system": remark.system,
            "internal": remark.internal,
            "confidential": remark.internal,
            "created_at": "2026-01-03T03:04:05.123Z",
        }

    def _published(self, version: Version) -> dict[str, Any]:
        return {
            "tag_name": version.tag,
            "name": version.name,
            "description": version.body,
            "author": {"username": "ann"},
            "released_at": "2026-02-03T04:05:06.000Z",
            "upcoming_release": version.preview,
            "_links": {"self": f"https://gitlab.example/{PROJECT}/-/releases/{version.tag}"},
        }

    def _paged(self, request: web.Request, results: list[dict[str, Any]]) -> web.Response:
        size = min(int(request.query.get("per_page", 30)), self.page_size)
        page = int(request.query.get("page", 1))
        part = results[(page - 1) * size : page * size]
        headers = {"ETag": f'W/"{hashlib.sha256(json.dumps(part).encode()).hexdigest()[:16]}"'}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        if page * size < len(results):
            next_query = urlencode({**request.query, "page": page + 1})
            # As behind a proxy that the server knows nothing of.
            url = f"http://internal.example{request.raw_path.split('?')[0]}"
            headers["Link"] = f'<{url}?page=1>; rel="first", <{url}?{next_query}>; rel="next"'
        return json_response(part, headers=headers)


def wrong(request: web.Request, known_names: set[str]) -> web.Response | None:
    """Refuse parameters that the original would not know or take."""
    size = request.query.get("per_page", "30")
    if set(request.query) - known_names - {"per_page", "page"} or not size.isdigit() or not 1 <= int(size) <= 100:
        return json_response({"message": "Validation Failed"}, 422)
    return None


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=json.dumps(data), content_type="application/json", headers=headers)
