"""Issues and releases of a project on GitLab, by its REST API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from core.settings import GitlabSource
from knowledge.sources.forge.api import (
    Comment,
    ForgeApi,
    Item,
    as_mappings,
    dig,
    format_iso8601,
    get_int,
    is_bot,
    parse_timestamp,
    to_url,
)
from knowledge.web.client import to_line, to_text

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
        to_item = _to_issue_item if kind == "issues" else _to_release_item
        async for data in self._api.pages(f"{self._project}/{kind}", params, conditional=since > 0):
            yield to_item(data, with_comments=self._settings.max_comments > 0) if isinstance(data, Mapping) else None

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Return the first comments of an issue, in one request. Internal notes are for members, not for us."""
        limit = self._settings.max_comments
        params = {
            "sort": "asc",
            "order_by": "created_at",
            "activity_filter": "only_comments",
            "per_page": str(limit),
        }
        notes = as_mappings(await self._api.get(f"{self._project}/{item.path}/notes", params))
        return [
            _to_comment(note) for note in notes[:limit] if note.get("system") is not True and not _is_internal(note)
        ]

    async def probe(self) -> str:
        """Return the project's name, which is another after it was renamed."""
        return to_line(dig(await self._api.get(self._project), "path_with_namespace"))


def _to_issue_item(issue: Mapping[str, Any], *, with_comments: bool) -> Item | None:
    number, note_count = get_int(issue, "iid"), get_int(issue, "user_notes_count")
    labels = issue.get("labels")
    names = (to_line(label, 60) for label in labels) if isinstance(labels, list) else ()
    item = Item(
        path=f"issues/{number}",
        name=f"issue #{number}",
        title=to_line(issue.get("title")) or f"issue #{number}",
        url=to_url(issue.get("web_url")),
        body=to_text(issue.get("description")),
        author=to_line(dig(issue, "author", "username"), 60),
        created_at=parse_timestamp(issue.get("created_at")),
        updated_at=parse_timestamp(issue.get("updated_at")),
        stamp=f"{to_text(issue.get('updated_at'))} {note_count}",
        state="open" if issue.get("state") == "opened" else to_line(issue.get("state")),
        labels=tuple(filter(None, names)),
        comments=None if note_count and with_comments else (),
        skip_reason="confidential" if issue.get("confidential") is True else "",
    )
    return item if number > 0 and item.updated_at else None


def _to_release_item(release: Mapping[str, Any], *, with_comments: bool) -> Item | None:
    del with_comments  # Nobody can comment on a release.
    tag = to_line(release.get("tag_name"), 200)
    title = to_line(release.get("name")) or tag
    released_at = parse_timestamp(release.get("released_at"))
    item = Item(
        path=f"releases/{tag}",
        name=f"release {tag}" + (" (to come)" if release.get("upcoming_release") is True else ""),
        title=title if tag in title else f"{title} ({tag})",
        url=to_url(dig(release, "_links", "self")),
        body=to_text(release.get("description")),
        author=to_line(dig(release, "author", "username"), 60),
        created_at=released_at,
        updated_at=released_at,
        stamp="",
    )
    return item if tag else None


def _to_comment(note: Mapping[str, Any]) -> Comment:
    author = note.get("author")
    return Comment(
        author=to_line(dig(author, "username"), 60),
        text=to_text(note.get("body")),
        created_at=parse_timestamp(note.get("created_at")),
        is_excluded=is_bot(author),
    )


def _is_internal(note: Mapping[str, Any]) -> bool:
    return note.get("internal") is True or note.get("confidential") is True
