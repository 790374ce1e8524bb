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
    is_bot,
    link,
    listed,
    moment,
    number_of,
    within,
    written_as,
)
from knowledge.web.client import line_of, text_of

STATES = {"open": "opened", "closed": "closed", "all": "all"}


class Gitlab:
    """Implements `Forge` for one project."""

    def __init__(self, api: ForgeApi, settings: GitlabSource) -> None:
        self._api = api
        self._settings = settings
        self._project = f"/projects/{quote(settings.project, safe='')}"

    async def items(self, kind: str, since: float) -> AsyncIterator[Item | None]:
        """Yield as `Forge.items`. What is confidential comes as unwanted."""
        params: dict[str, str] = {}
        if kind == "issues":
            # What was closed since must be seen, to be forgotten where only open ones are wanted.
            state = "all" if since else STATES[self._settings.state]
            params = {"scope": "all", "state": state, "order_by": "updated_at", "sort": "desc"}
            if since:
                params["updated_after"] = written_as(since)
        read = _issue if kind == "issues" else _release
        async for one in self._api.pages(f"{self._project}/{kind}", params, conditional=since > 0):
            yield read(one, asks=self._settings.max_comments > 0) if isinstance(one, Mapping) else None

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Return the first comments of an issue, in one request. Internal notes are for members, not for us."""
        most = self._settings.max_comments
        params = {
            "sort": "asc",
            "order_by": "created_at",
            "activity_filter": "only_comments",
            "per_page": str(most),
        }
        found = listed(await self._api.get(f"{self._project}/{item.path}/notes", params))
        return [_comment(one) for one in found[:most] if one.get("system") is not True and not _internal(one)]

    async def probe(self) -> str:
        """Return the project's name, which is another after it was renamed."""
        return line_of(within(await self._api.get(self._project), "path_with_namespace"))


def _issue(found: Mapping[str, Any], *, asks: bool) -> Item | None:
    number, notes = number_of(found, "iid"), number_of(found, "user_notes_count")
    labels = found.get("labels")
    names = (line_of(one, 60) for one in labels) if isinstance(labels, list) else ()
    item = Item(
        path=f"issues/{number}",
        name=f"issue #{number}",
        title=line_of(found.get("title")) or f"issue #{number}",
        url=link(found.get("web_url")),
        body=text_of(found.get("description")),
        author=line_of(within(found, "author", "username"), 60),
        written=moment(found.get("created_at")),
        updated=moment(found.get("updated_at")),
        stamp=f"{text_of(found.get('updated_at'))} {notes}",
        state="open" if found.get("state") == "opened" else line_of(found.get("state")),
        labels=tuple(filter(None, names)),
        comments=None if notes and asks else (),
        unwanted="confidential" if found.get("confidential") is True else "",
    )
    return item if number > 0 and item.updated else None


def _release(found: Mapping[str, Any], *, asks: bool) -> Item | None:
    del asks  # Nobody can comment on a release.
    tag = line_of(found.get("tag_name"), 200)
    title = line_of(found.get("name")) or tag
    released = moment(found.get("released_at"))
    item = Item(
        path=f"releases/{tag}",
        name=f"release {tag}" + (" (to come)" if found.get("upcoming_release") is True else ""),
        title=title if tag in title else f"{title} ({tag})",
        url=link(within(found, "_links", "self")),
        body=text_of(found.get("description")),
        author=line_of(within(found, "author", "username"), 60),
        written=released,
        updated=released,
        stamp="",
    )
    return item if tag else None


def _comment(found: Mapping[str, Any]) -> Comment:
    author = found.get("author")
    return Comment(
        author=line_of(within(author, "username"), 60),
        text=text_of(found.get("body")),
        written=moment(found.get("created_at")),
        unwanted=is_bot(author),
    )


def _internal(found: Mapping[str, Any]) -> bool:
    return found.get("internal") is True or found.get("confidential") is True
