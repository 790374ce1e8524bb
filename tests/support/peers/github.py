"""GitHub with people, as far as a bot uses it: strict where the real one is, over real sockets.

`fail` makes the next calls of a name fail, such as `POST issues/{}/comments`; `watch` is called with the name of a call
and "before" or "after" it is done. `banned` is a word that no comment may hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from tests.support.peers.discussions import Discussions
from tests.support.peers.github_app import PeerApp

TOKEN = "a-token-of-the-account"
BOT = "kimas"
REPOSITORY = "example/handbook"
MAX_BODY_CHARS = 65_536
# What notifies people and teams, also in code: mail programs and quotations show the source.
NOTIFIES = re.compile(r"(?<![A-Za-z0-9])@([A-Za-z0-9][\w/-]*)")
_CODE = re.compile(r"^ {0,3}(`{3,})[^\n]*\n.*?^ {0,3}\1`*$|(`+).+?\2", re.DOTALL | re.MULTILINE)
REFERS = re.compile(
    r"(?<![\w&])#\d+|\bGH-\d+|https?://(?:www\.)?github\.com/[\w-]+/[\w.-]+/(?:issues|pull|discussions)/\d+",
    re.IGNORECASE,
)


@dataclass
class Note:
    """A comment of an issue."""

    id: int
    number: int
    author: str
    text: str
    created: float
    updated: float


@dataclass
class Issue:
    number: int
    title: str
    text: str
    author: str
    created: float
    # When its labels changed last.
    labelled: float = 0.0
    edited: float = 0.0
    state: str = "open"
    locked: bool = False
    labels: list[str] = field(default_factory=list)
    is_pull: bool = False
    moved_to: str = ""


@dataclass
class Repository:
    issues: dict[int, Issue] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)
    last_number: int = 0
    can_write: bool = True
    archived: bool = False
    has_issues: bool = True
    moved_to: str = ""
    # What tells it apart from another one of its name.
    number: int = 0


class GithubPeer:
    # The call that shows that the bot looks for comments.
    look = "GET issues/comments"

    def __init__(self) -> None:
        self.token = TOKEN
        self.login = BOT
        self.repositories: dict[str, Repository] = defaultdict(Repository)
        self.bots: set[str] = set()
        # What people are called who were renamed, by their first name, and logins that nobody has.
        self.logins: dict[str, str] = {}
        self.gone: set[str] = set()
        # Of whom the forge says no number.
        self.numberless: set[str] = set()
        self._numbers: dict[str, int] = {}
        self.reactions: dict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
        # What stands among the comments of a repository, and is none.
        self.extra_comments: dict[str, list[Any]] = defaultdict(list)
        self.discussions = Discussions(self, REPOSITORY)
        self.app = PeerApp()
        self.calls: list[str] = []
        self.violations: list[str] = []
        self.banned = ""
        self.watch: Callable[[str, str], Awaitable[None]] | None = None
        self._limited_until = 0.0
        # A request that was on its way when a limit began, before its sender could know of it: there may be one.
        self._is_one_on_its_way = False
        self._failures: dict[str, list[tuple[int, str, dict[str, str], str]]] = defaultdict(list)
        self._next_id = 1000
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> GithubPeer:
        app = web.Application(middlewares=[self._check])
        self.add_routes(app.router)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await self.listen()
        return self

    def add_routes(self, router: web.UrlDispatcher) -> None:
        repository = "/repos/{owner}/{name}"
        router.add_get("/user", self._me)
        router.add_get("/users/{login}", self._get_user)
        router.add_post("/graphql", self.discussions.answer)
        router.add_get("/app", self.app.describe)
        router.add_get(f"{repository}/installation", self.app.find_installation)
        router.add_post("/app/installations/77/access_tokens", self.app.grant)
        router.add_get(repository, self._get_repository)
        router.add_get(f"{repository}/issues", self._list_issues)
        router.add_post(f"{repository}/issues", self._open_issue)
        router.add_get(f"{repository}/issues/comments", self._list_comments)
        router.add_get(f"{repository}/issues/comments/{{id}}", self._get_comment)
        router.add_patch(f"{repository}/issues/comments/{{id}}", self._edit_comment)
        router.add_get(f"{repository}/issues/comments/{{id}}/reactions", self._list_reactions)
        router.add_get(f"{repository}/issues/{{number}}", self._get_issue)
        router.add_get(f"{repository}/issues/{{number}}/comments", self._list_below)
        router.add_post(f"{repository}/issues/{{number}}/comments", self._post_comment)
        router.add_post(f"{repository}/issues/{{number}}/labels", self._add_labels)

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def listen(self) -> None:
        """Listen, on the same port again after `away`."""
        assert self._runner is not None
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def away(self) -> None:
        """Refuse connections."""
        assert self._runner is not None
        for site in list(self._runner.sites):
            await site.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def handbook(self) -> Repository:
        return self.repositories[REPOSITORY]

    # What people do.

    def open(
        self,
        title: str,
        text: str = "",
        author: str = "ann",
        *,
        project: str = REPOSITORY,
        age_h: float = 0.0,
        **fields: Any,
    ) -> int:
        """Let somebody open an issue, and return its number."""
        repository = self.repositories[project]
        # The number of what was deleted is not given again.
        repository.last_number += 1
        number = repository.last_number
        repository.issues[number] = Issue(number, title, text, author, time.time() - age_h * 3600, **fields)
        return number

    def comment(
        self, number: int, text: str, author: str = "ann", *, project: str = REPOSITORY, age_h: float = 0.0
    ) -> int:
        """Let somebody comment, and return the comment's id."""
        now = time.time() - age_h * 3600
        note = Note(self.take_id(), number, author, text, now, now)
        self.repositories[project].notes[note.id] = note
        return note.id

    def copy(self, note_id: int, number: int, project: str) -> int:
        """Let somebody copy a comment with its author and times, as GitLab does with an issue, and return its id."""
        note = replace(self.handbook.notes[note_id], id=self.take_id(), number=number)
        self.repositories[project].notes[note.id] = note
        return note.id

    def edit(self, note_id: int, text: str, project: str = REPOSITORY) -> None:
        note = self.repositories[project].notes[note_id]
        note.text = text
        note.updated = time.time()

    def react(self, note_id: int, emoji: str = "+1", author: str = "ann") -> int:
        reaction = self.take_id()
        self.reactions[note_id][reaction] = (author, emoji)
        return reaction

    def posts(self, project: str = REPOSITORY) -> list[Note]:
        """Return the comments of the bot, the oldest first."""
        return [note for note in self.repositories[project].notes.values() if note.author == self.login]

    def notified(self, project: str = REPOSITORY) -> list[str]:
        return [name for note in self.posts(project) for name in NOTIFIES.findall(note.text)]

    def fail(
        self, name: str, status: int = 0, *, times: int = 1, message: str = "failed", drop: str = "", **headers: str
    ) -> None:
        self._failures[name] += [(status, message, headers, drop)] * times

    # What the server does.

    def take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    @web.middleware
    async def _check(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        name = await self._name_query(request) if request.path == "/graphql" else self.name_call(request)
        self.calls.append(name)
        if refusal := self.app.find_fault(request) if self.app.is_used else self._check_token(request):
            return refusal
        if refusal := self.check_headers(request):
            return refusal
        if time.monotonic() < self._limited_until:
            self.violations += [] if self._is_one_on_its_way else [f"{name} while the limit is used up"]
            self._is_one_on_its_way = False
        if self.watch:
            await self.watch(name, "before")
        status, message, headers, drop = self._failures[name].pop(0) if self._failures[name] else (0, "", {}, "")
        if drop == "before":
            return _drop(request)
        if status:
            if "retry_after" in {key.lower() for key in headers}:
                self._limited_until = time.monotonic() + float(headers["Retry_After"])
                self._is_one_on_its_way = True
            return json_error(status, message, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = self._redirect(request) or await handler(request)
        if self.watch:
            await self.watch(name, "after")
        return _drop(request) if drop == "after" else answer

    def name_call(self, request: web.Request) -> str:
        """Return what a request asks for, without names and numbers."""
        path = re.sub(r"\A/(?:repos/[^/]+/[^/]+/?)?", "", request.path)
        return f"{request.method} {re.sub(r'[0-9]+', '{}', path) or 'repository'}"

    def _check_token(self, request: web.Request) -> web.Response | None:
        is_right = request.headers.get("Authorization") == f"Bearer {self.token}"
        return None if is_right else json_error(401, "Bad credentials")

    async def _name_query(self, request: web.Request) -> str:
        return str((await request.json())["query"].split("(")[0].strip())

    def check_headers(self, request: web.Request) -> web.Response | None:
        if not request.headers.get("User-Agent"):
            return json_error(403, "Request forbidden by administrative rules: a User-Agent header is missing")
        if request.headers.get("Accept") != "application/vnd.github+json":
            return json_error(415, "Must accept 'application/json'")
        return None

    def _redirect(self, request: web.Request) -> web.Response | None:
        """Lead on from a repository or an issue that has moved."""
        if not {"owner", "project"} & set(request.match_info):
            return None
        repository = self.repositories.get(self.get_project(request))
        if repository is None:
            return json_error(404, "Not Found")
        number = request.match_info.get("number", "")
        issue = repository.issues.get(int(number)) if number.isdecimal() else None
        target = repository.moved_to or (issue.moved_to if issue and request.path.endswith(f"/{number}") else "")
        return json_error(301, "Moved Permanently", {"Location": f"{self.url}{target}"}) if target else None

    def _repository(self, request: web.Request) -> Repository:
        return self.repositories[self.get_project(request)]

    def get_project(self, request: web.Request) -> str:
        return f"{request.match_info['owner']}/{request.match_info['name']}"

    async def _me(self, request: web.Request) -> web.Response:
        return web.json_response({"login": self.login, "id": 900, "type": "User"})

    async def _get_repository(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "id": self.get_repository_number(request),
                "full_name": self.get_project(request),
                "archived": self._repository(request).archived,
            }
        )

    def get_repository_number(self, request: web.Request) -> int:
        return self._repository(request).number or 42_000 + list(self.repositories).index(self.get_project(request))

    async def _list_issues(self, request: web.Request) -> web.Response:
        if refusal := find_wrong(request, state=("open", "closed", "all"), sort=("created", "updated")):
            return refusal
        issues = [
            issue
            for issue in self._repository(request).issues.values()
            if request.query.get("state", "open") in ("all", issue.state) and not issue.moved_to
        ]
        issues.sort(key=lambda issue: issue.number, reverse=True)
        return self._paged(request, [self.issue_json(self.get_project(request), issue) for issue in issues])

    async def _open_issue(self, request: web.Request) -> web.Response:
        repository = self._repository(request)
        if not repository.can_write:
            return json_error(403, "Resource not accessible by personal access token")
        if not repository.has_issues:
            return json_error(410, "Issues are disabled for this repo")
        self.violations += ["an issue of the bot's"] if (await request.json()).get("title") else []
        return json_error(422, "Validation Failed")

    async def _get_issue(self, request: web.Request) -> web.Response:
        issue = self._issue(request)
        return (
            web.json_response(self.issue_json(self.get_project(request), issue))
            if issue
            else json_error(404, "Not Found")
        )

    def _issue(self, request: web.Request) -> Issue | None:
        return self._repository(request).issues.get(int(request.match_info["number"]))

    async def _list_comments(self, request: web.Request) -> web.Response:
        if refusal := find_wrong(request, sort=("created", "updated"), direction=("asc", "desc"), since=None):
            return refusal
        since = request.query.get("since", "")
        notes = [note for note in self._repository(request).notes.values() if stamp(note.updated) >= since]
        by_update = request.query.get("sort") == "updated"
        notes.sort(
            key=lambda note: (note.updated if by_update else note.created, note.id),
            reverse=request.query.get("direction") == "desc",
        )
        items = [self.comment_json(self.get_project(request), note) for note in notes]
        return self._paged(request, [*items, *self.extra_comments[self.get_project(request)]])

    async def _list_below(self, request: web.Request) -> web.Response:
        if self._issue(request) is None:
            return json_error(404, "Not Found")
        number = int(request.match_info["number"])
        notes = [note for note in self._repository(request).notes.values() if note.number == number]
        if refusal := find_wrong(request, since=None):
            return refusal
        return self._paged(request, [self.comment_json(self.get_project(request), note) for note in notes])

    def _note(self, request: web.Request) -> Note | None:
        return self._repository(request).notes.get(int(request.match_info["id"]))

    async def _get_comment(self, request: web.Request) -> web.Response:
        note = self._note(request)
        if note is None:
            return json_error(404, "Not Found")
        return web.json_response(self.comment_json(self.get_project(request), note))

    async def _list_reactions(self, request: web.Request) -> web.Response:
        note = self._note(request)
        if note is None:
            return json_error(404, "Not Found")
        items = [
            {"id": number, "user": self._user(author), "content": emoji}
            for number, (author, emoji) in self.reactions[note.id].items()
        ]
        return find_wrong(request) or self._paged(request, items)

    async def _post_comment(self, request: web.Request) -> web.Response:
        issue = self._issue(request)
        if issue is None:
            return json_error(404, "Not Found")
        if not self._repository(request).can_write:
            return json_error(403, "Resource not accessible by personal access token")
        if issue.locked:
            return json_error(403, "Unable to create comment because issue is locked.")
        body = (await request.json()).get("body")
        if refusal := self.find_fault(body):
            return refusal
        note_id = self.comment(issue.number, body, self.login, project=self.get_project(request))
        note = self._repository(request).notes[note_id]
        return web.json_response(self.comment_json(self.get_project(request), note), status=201)

    async def _edit_comment(self, request: web.Request) -> web.Response:
        note = self._note(request)
        if note is None:
            return json_error(404, "Not Found")
        if note.author != self.login:
            return json_error(403, "Must have admin rights to Repository.")
        body = (await request.json()).get("body")
        if refusal := self.find_fault(body):
            return refusal
        self.edit(note.id, body, self.get_project(request))
        return web.json_response(self.comment_json(self.get_project(request), note))

    async def _add_labels(self, request: web.Request) -> web.Response:
        issue = self._issue(request)
        if issue is None:
            return json_error(404, "Not Found")
        if not self._repository(request).can_write:
            return json_error(403, "Resource not accessible by personal access token")
        issue.labels += [label for label in (await request.json())["labels"] if label not in issue.labels]
        return web.json_response([{"name": label} for label in issue.labels])

    def find_fault(self, body: Any) -> web.Response | None:
        if not isinstance(body, str) or not body.strip():
            return json_error(422, "Validation Failed: body can't be blank")
        if len(body) > MAX_BODY_CHARS:
            return json_error(422, "Validation Failed: body is too long (maximum is 65536 characters)")
        return json_error(422, "Validation Failed") if self.banned and self.banned in body else None

    def _user(self, person: str) -> dict[str, Any] | None:
        if not person:
            return None
        kind = "Bot" if person in self.bots else "User"
        return {"login": self.get_login(person), "id": self.get_number(person), "type": kind}

    def get_login(self, person: str) -> str:
        """Return what somebody is called now."""
        return self.logins.get(person, person)

    def get_number(self, person: str) -> int:
        """Return the number of an account."""
        if person in self.numberless:
            return 0
        return 900 if person == self.login else self._numbers.setdefault(person, 583_000 + len(self._numbers))

    def find_user(self, login: str) -> dict[str, Any] | None:
        """Return who has a login now: somebody who was renamed has set theirs free."""
        people = {login, *self.logins}
        person = next((name for name in sorted(people) if self.get_login(name).lower() == login.lower()), "")
        return self._user(person) if person and person not in self.gone else None

    async def _get_user(self, request: web.Request) -> web.Response:
        user = self.find_user(request.match_info["login"])
        return web.json_response(user) if user else json_error(404, "Not Found")

    def issue_json(self, project: str, issue: Issue) -> dict[str, Any]:
        notes = [note for note in self.repositories[project].notes.values() if note.number == issue.number]
        kind = "pull" if issue.is_pull else "issues"
        result = {
            "number": issue.number,
            "title": issue.title,
            "body": issue.text or None,
            "user": self._user(issue.author),
            "state": issue.state,
            "locked": issue.locked,
            "comments": len(notes),
            "labels": [{"name": label} for label in issue.labels],
            "html_url": f"https://github.com/{project}/{kind}/{issue.number}",
            "created_at": stamp(issue.created),
            "updated_at": stamp(max([issue.created, issue.edited, *(note.updated for note in notes)])),
        }
        return result | ({"pull_request": {"url": "https://api.github.com"}} if issue.is_pull else {})

    def comment_json(self, project: str, note: Note) -> dict[str, Any]:
        issue = self.repositories[project].issues.get(note.number)
        kind = "pull" if issue and issue.is_pull else "issues"
        return {
            "id": note.id,
            "body": note.text,
            "user": self._user(note.author),
            "html_url": f"https://github.com/{project}/{kind}/{note.number}#issuecomment-{note.id}",
            "issue_url": f"{self.url}/repos/{project}/issues/{note.number}",
            "created_at": stamp(note.created),
            "updated_at": stamp(note.updated),
        }

    def _paged(self, request: web.Request, items: Sequence[Any]) -> web.Response:
        size = int(request.query.get("per_page", 30))
        page = int(request.query.get("page", 1))
        part = items[(page - 1) * size : page * size]
        headers = {"ETag": f'W/"{hashlib.sha256(json.dumps(part).encode()).hexdigest()[:16]}"'}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        if page * size < len(items):
            query = urlencode({**request.query, "page": page + 1})
            headers["Link"] = f'<{self.url}{request.rel_url.raw_path}?{query}>; rel="next"'
        return web.json_response(part, headers=headers)

    async def until_polled(self, times: int = 2, timeout_s: float = 30) -> None:
        """Wait until the bot has looked so many times."""
        count = self.calls.count(self.look) + times
        deadline = time.monotonic() + timeout_s
        while self.calls.count(self.look) < count:
            assert time.monotonic() < deadline, "nobody asks what is new"
            await asyncio.sleep(0.005)


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_references(text: str) -> list[str]:
    """Return what a comment refers to, outside of code."""
    return REFERS.findall(_CODE.sub(" ", text))


def find_wrong(request: web.Request, **known: Sequence[str] | None) -> web.Response | None:
    """Refuse parameters that the original does not know or take."""
    size = request.query.get("per_page", "30")
    names = {"per_page", "page", "direction", *known}
    values = {name: taken for name, taken in known.items() if taken is not None}
    is_wrong = any(request.query.get(name, taken[0]) not in taken for name, taken in values.items())
    if is_wrong or set(request.query) - names or not size.isdigit() or not 1 <= int(size) <= 100:
        return json_error(422, "Validation Failed")
    return None


def json_error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"message": message}, status=status, headers=headers)


def _drop(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
