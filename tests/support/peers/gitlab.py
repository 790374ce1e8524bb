"""GitLab with people, as far as a bot uses it: `GithubPeer` with the paths, the words and the strictness of GitLab.

A line of a comment that begins with a slash is carried out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tests.support.peers.github import GithubPeer, Issue, Note, find_wrong, json_error, stamp

_ISSUE_ORDERS = ("created_at", "updated_at")
# A note moves its issue's time only if that is older.
TOUCH_S = 60


class GitlabPeer(GithubPeer):
    """`confidential` holds numbers of issues and ids of notes that only members see."""

    look = "GET issues"

    def __init__(self) -> None:
        super().__init__()
        self.confidential: set[int] = set()
        self.actions: list[str] = []

    def add_routes(self, router: web.UrlDispatcher) -> None:
        project = "/projects/{project}"
        issue = f"{project}/issues/{{number}}"
        router.add_get("/user", self._me)
        router.add_get("/users", self._find_users)
        router.add_get(project, self._get_repository)
        router.add_get(f"{project}/issues", self._list_issues)
        router.add_post(f"{project}/issues", self._open_issue)
        router.add_get(issue, self._get_issue)
        router.add_put(issue, self._add_labels)
        router.add_get(f"{issue}/notes", self._list_below)
        router.add_post(f"{issue}/notes", self._post_comment)
        router.add_get(f"{issue}/notes/{{id}}", self._get_comment)
        router.add_put(f"{issue}/notes/{{id}}", self._edit_comment)
        router.add_get(f"{issue}/notes/{{id}}/award_emoji", self._list_reactions)

    def name_call(self, request: web.Request) -> str:
        path = re.sub(r"\A/(?:projects/[^/]+/?)?", "", request.rel_url.raw_path)
        return f"{request.method} {re.sub(r'[0-9]+', '{}', path) or 'project'}"

    def get_project(self, request: web.Request) -> str:
        return request.match_info["project"]

    def check_headers(self, request: web.Request) -> web.Response | None:
        return None

    async def _me(self, request: web.Request) -> web.Response:
        return web.json_response({"username": self.login, "id": 900, "bot": False})

    async def _get_repository(self, request: web.Request) -> web.Response:
        archived = self._repository(request).archived
        number = self.get_repository_number(request)
        return web.json_response({"id": number, "path_with_namespace": self.get_project(request), "archived": archived})

    async def _list_issues(self, request: web.Request) -> web.Response:
        refusal = find_wrong(
            request,
            scope=("all",),
            state=("opened", "closed", "all"),
            order_by=_ISSUE_ORDERS,
            sort=("asc", "desc"),
            updated_after=None,
        )
        if refusal:
            return refusal
        project = self.get_project(request)
        state = {"opened": "open"}.get(request.query.get("state", "all"), request.query.get("state", "all"))
        order = request.query.get("order_by", "created_at")
        items = [
            self.issue_json(project, issue)
            for issue in self._repository(request).issues.values()
            if state in ("all", issue.state)
        ]
        since = request.query.get("updated_after", "")[:19]
        items = [item for item in items if item["updated_at"][:19] >= since]
        items.sort(key=lambda item: (item[order], item["iid"]), reverse=request.query.get("sort", "desc") == "desc")
        return self._paged(request, [*items, *self.extra_comments[project]])

    async def _list_below(self, request: web.Request) -> web.Response:
        refusal = find_wrong(
            request, sort=("asc", "desc"), order_by=_ISSUE_ORDERS, activity_filter=("only_comments", "all_notes")
        )
        if refusal or self._issue(request) is None:
            return refusal or json_error(404, "404 Not found")
        number = int(request.match_info["number"])
        notes = [note for note in self._repository(request).notes.values() if note.number == number]
        notes.sort(key=lambda note: note.id, reverse=request.query.get("sort", "desc") == "desc")
        return self._paged(request, [self.comment_json(self.get_project(request), note) for note in notes])

    async def _add_labels(self, request: web.Request) -> web.Response:
        issue = self._issue(request)
        if issue is None or not self._repository(request).can_write:
            return json_error(403, "403 Forbidden")
        issue.labels += (await request.json())["add_labels"].split(",")
        issue.labelled = time.time()
        return web.json_response(self.issue_json(self.get_project(request), issue))

    def find_fault(self, body: Any) -> web.Response | None:
        if not isinstance(body, str) or not body.strip():
            return json_error(400, '400 Bad request - Note {:note=>["can\'t be blank"]}')
        self.actions += re.findall(r"^[ \t]*(/\w+)", body, re.MULTILINE)
        return json_error(400, "400 Bad request") if self.banned and self.banned in body else None

    def _user(self, person: str) -> dict[str, Any] | None:
        return {"username": self.get_login(person), "id": self.get_number(person)} if person else None

    async def _find_users(self, request: web.Request) -> web.Response:
        user = self.find_user(request.query["username"])
        return web.json_response([user] if user else [])

    def issue_json(self, project: str, issue: Issue) -> dict[str, Any]:
        notes = [note for note in self.repositories[project].notes.values() if note.number == issue.number]
        return {
            "id": 5000 + issue.number,
            "iid": issue.number,
            "title": issue.title,
            "description": issue.text,
            "author": self._user(issue.author),
            "state": "opened" if issue.state == "open" else issue.state,
            "discussion_locked": issue.locked or None,
            "confidential": issue.number in self.confidential,
            "labels": issue.labels,
            "user_notes_count": len(notes),
            "created_at": stamp(issue.created).replace("Z", ".250Z"),
            "updated_at": stamp(_find_last_change(issue, notes)).replace("Z", ".250Z"),
        }

    def comment_json(self, project: str, note: Note) -> dict[str, Any]:
        return {
            "id": note.id,
            "body": note.text,
            "author": self._user(note.author),
            "system": note.author == "system",
            "internal": note.id in self.confidential,
            "created_at": stamp(note.created).replace("Z", ".250Z"),
            "updated_at": stamp(note.updated).replace("Z", ".250Z"),
        }

    async def _list_reactions(self, request: web.Request) -> web.Response:
        if int(request.match_info["number"]) not in self.handbook.issues:
            return web.json_response({"message": "404 Not found"}, status=404)
        items = [
            {"id": number, "user": self._user(author), "name": {"+1": "thumbsup", "-1": "thumbsdown"}[emoji]}
            for number, (author, emoji) in self.reactions[int(request.match_info["id"])].items()
        ]
        return self._paged(request, items)


def _find_last_change(issue: Issue, notes: Sequence[Note]) -> float:
    last_change = issue.created
    for moment in sorted(moment for note in notes for moment in (note.created, note.updated)):
        if moment > last_change + TOUCH_S:
            last_change = moment
    return max(last_change, issue.labelled)
