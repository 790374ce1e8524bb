"""Issues and releases of a project on GitLab, by its REST API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from core.settings import GitlabSource
from knowledge.sources.forge.api import (
    PER_PAGE,
    ForgeApi,
    ServiceKeys,
    format_iso8601,
    to_comment,
    to_item,
    to_labels,
    to_release,
)
from knowledge.sources.forge.items import Comment, Item
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

ISSUE_KEYS = ServiceKeys("description", ("author", "username"), url=("web_url",))
RELEASE_KEYS = ServiceKeys("description", ("author", "username"), "released_at", "released_at", ("_links", "self"))
COMMENT_KEYS = ServiceKeys(author=("author", "username"))
# Of those that did not change, so many are asked for by each refresh, and so many of what a list lacks one by one.
MAX_CHECKED_ISSUES = 1000
MAX_DOUBTFUL_ISSUES = 20
STATES = {"open": "opened", "closed": "closed", "all": "all"}


class Gitlab:
    """Implements `ForgeClient` for one project."""

    def __init__(self, api: ForgeApi, settings: GitlabSource) -> None:
        self._api = api
        self._settings = settings
        self._project = f"/projects/{quote(settings.project, safe='')}"

    async def items(self, kind: str, since: float) -> AsyncIterator[Item | None]:
        """Yield items as `ForgeClient` says. Confidential items carry a skip reason."""
        params: dict[str, str] = {}
        if kind == "issues":
            # What was closed since must be seen, to be forgotten where only open ones are wanted.
            state = "all" if since else STATES[self._settings.state]
            params = {"scope": "all", "state": state, "order_by": "updated_at", "sort": "desc"}
            if since:
                params["updated_after"] = format_iso8601(since)
        async for data in self._api.pages(f"{self._project}/{kind}", params, conditional=since > 0):
            if not isinstance(data, Mapping):
                yield None
            elif kind == "issues":
                yield _to_issue_item(data, with_comments=self._settings.max_comments > 0)
            else:
                note = " (to come)" if data.get("upcoming_release") is True else ""
                yield to_release(data, note, RELEASE_KEYS)

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Return the first comments of an issue, in one request. Internal notes are for members, not for us."""
        limit = self._settings.max_comments
        params = {"sort": "asc", "order_by": "created_at", "activity_filter": "only_comments", "per_page": str(limit)}
        notes = as_mappings(await self._api.get(f"{self._project}/{item.path}/notes", params))
        flags = ("system", "internal", "confidential")
        visible_notes = (note for note in notes[:limit] if not any(note.get(flag) is True for flag in flags))
        return [to_comment(note, COMMENT_KEYS) for note in visible_notes]

    async def find_gone(self, paths: Sequence[str]) -> tuple[Collection[str], Collection[str]]:
        """Ask for the first issues by a list of their numbers, as `ForgeClient` says.

        What that lacks is asked for once more, one by one: a list may be cut.
        """
        checked = set(paths[:MAX_CHECKED_ISSUES])
        listed = set[str]()
        for start in range(0, len(checked), PER_PAGE):
            numbers = [path.removeprefix("issues/") for path in paths[start : start + PER_PAGE]]
            params = {"scope": "all", "state": "all", "iids[]": numbers}
            async for data in self._api.pages(f"{self._project}/issues", params):
                listed |= set() if dig(data, "confidential") is True else {f"issues/{get_int(data, 'iid')}"}
        missing = [path for path in paths if path in checked - listed]
        doubtful = missing[:MAX_DOUBTFUL_ISSUES]
        issues = {path: await self._api.find(f"{self._project}/{path}") for path in doubtful}
        gone = [path for path, issue in issues.items() if issue is None or issue.get("confidential") is True]
        return gone, checked - set(missing[MAX_DOUBTFUL_ISSUES:])

    async def probe(self) -> str:
        """Return the project's name, which is another after it was renamed."""
        return to_line(dig(await self._api.get(self._project), "path_with_namespace"))

    async def is_private(self) -> bool | None:
        """Return whether the project is private, or what is read of it, or of those who are signed in alone."""
        project = await self._api.get(self._project)
        visibility = to_line(dig(project, "visibility"))
        levels = [dig(project, f"{kind}_access_level") for kind in self._settings.take]
        return visibility != "public" or "private" in levels if visibility else None


def _to_issue_item(issue: Mapping[str, Any], *, with_comments: bool) -> Item | None:
    number = get_int(issue, "iid")
    note_count = get_int(issue, "user_notes_count")
    item = replace(
        to_item(issue, f"issues/{number}", f"issue #{number}", ISSUE_KEYS),
        stamp=f"{to_text(issue.get('updated_at'))} {note_count}",
        state="open" if issue.get("state") == "opened" else to_line(issue.get("state")),
        labels=to_labels(issue.get("labels")),
        comments=None if note_count and with_comments else (),
        skip_reason="confidential" if issue.get("confidential") is True else "",
    )
    return item if number > 0 and item.updated_at else None
