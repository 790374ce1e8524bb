"""Issues, discussions and releases on GitHub: REST for issues and releases, GraphQL for discussions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import SourceError
from core.settings import GithubSource
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

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
# What each kind calls its link, when it was written, when it changed, and who wrote it.
OF_ISSUES = ("html_url", "created_at", "updated_at", "user")
OF_DISCUSSIONS = ("url", "createdAt", "updatedAt", "author")
OF_RELEASES = ("html_url", "published_at", "published_at", "author")
DISCUSSIONS_AT_ONCE = 20
MAX_DISCUSSION_PAGES = 500
DISCUSSIONS = """
query($owner: String!, $name: String!, $after: String, $items: Int!, $comments: Int!) {
  repository(owner: $owner, name: $name) {
    discussions(first: $items, after: $after, orderBy: {field: UPDATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes {
        number title url body createdAt updatedAt closed
        author { login __typename }
        labels(first: 20) { nodes { name } }
        answer { id body createdAt isMinimized author { login __typename } }
        comments(first: $comments) {
          totalCount
          nodes {
            id body createdAt isMinimized
            author { login __typename }
            replies(first: 10) { nodes { id body createdAt isMinimized author { login __typename } } }
          }
        }
      }
    }
  }
}
"""


class Github:
    """Implements `Forge` for one repository."""

    def __init__(self, api: ForgeApi, settings: GithubSource) -> None:
        self._api = api
        self._settings = settings
        self._repository = f"/repos/{settings.repository}"

    async def items(self, kind: str, since: float) -> AsyncIterator[Item | None]:
        """Yield as `Forge.items`. Pull requests are no issues here."""
        found = {"issues": self._issues, "discussions": self._discussions, "releases": self._releases}[kind](since)
        async for item in found:
            yield item

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Return the first comments of an issue, in one request."""
        path = f"{self._repository}/{item.path}/comments"
        found = await self._api.get(path, {"per_page": str(self._settings.max_comments)})
        return [_comment(one, "created_at", "user") for one in listed(found)[: self._settings.max_comments]]

    async def probe(self) -> str:
        """Return the repository's name, which is another after it was renamed."""
        return line_of(within(await self._api.get(self._repository), "full_name"))

    async def _issues(self, since: float) -> AsyncIterator[Item | None]:
        # What was closed since must be seen, to be forgotten where only open ones are wanted.
        params = {"state": "all" if since else self._settings.state, "sort": "updated", "direction": "desc"}
        if since:
            params["since"] = written_as(since)
        async for one in self._api.pages(f"{self._repository}/issues", params, conditional=since > 0):
            if within(one, "pull_request") is None:
                yield self._issue(one) if isinstance(one, Mapping) else None

    async def _releases(self, since: float) -> AsyncIterator[Item | None]:
        async for one in self._api.pages(f"{self._repository}/releases", {}, conditional=since > 0):
            yield _release(one) if isinstance(one, Mapping) else None

    async def _discussions(self, since: float) -> AsyncIterator[Item | None]:
        owner, _, name = self._settings.repository.partition("/")
        variables: dict[str, Any] = {"owner": owner, "name": name, "after": None, "items": DISCUSSIONS_AT_ONCE}
        variables["comments"] = max(self._settings.max_comments, 1)
        for _ in range(MAX_DISCUSSION_PAGES):
            data = await self._api.query(self._graphql(), DISCUSSIONS, variables)
            found = within(data, "repository", "discussions")
            if not isinstance(found, Mapping):
                raise SourceError(f"{self._settings.api_url} has no discussions of {self._settings.repository}")
            for one in listed(found.get("nodes")):
                item = self._discussion(one)
                if item is not None and item.updated < since:
                    return
                yield item
            after = text_of(within(found, "pageInfo", "endCursor"))
            if within(found, "pageInfo", "hasNextPage") is not True or not after or after == variables["after"]:
                return
            variables["after"] = after
        raise SourceError(f"{self._settings.repository} has more discussions than can be read")

    def _graphql(self) -> str:
        base = self._settings.api_url.rstrip("/")
        return f"{base.removesuffix('/v3')}/graphql"

    def _issue(self, found: Mapping[str, Any]) -> Item | None:
        number = number_of(found, "number")
        comments = number_of(found, "comments")
        item = _item(found, path=f"issues/{number}", name=f"issue #{number}", keys=OF_ISSUES)
        asked = None if comments and self._settings.max_comments else ()
        stamp = f"{text_of(found.get('updated_at'))} {comments}"
        labels = _labels(found.get("labels"))
        changed = replace(item, state=line_of(found.get("state")), labels=labels, comments=asked, stamp=stamp)
        return changed if number > 0 and item.updated else None

    def _discussion(self, found: Mapping[str, Any]) -> Item | None:
        number = number_of(found, "number")
        item = _item(found, path=f"discussions/{number}", name=f"discussion #{number}", keys=OF_DISCUSSIONS)
        answer = found.get("answer")
        comments = [replace(_comment(answer), accepted=True)] if isinstance(answer, Mapping) else []
        for one in listed(within(found, "comments", "nodes"))[: self._settings.max_comments]:
            for each in (one, *listed(within(one, "replies", "nodes"))):
                if each.get("id") != within(answer, "id") or answer is None:
                    comments.append(_comment(each))
        state = "closed" if found.get("closed") is True else "open"
        labels = _labels(within(found, "labels", "nodes"))
        stamp = f"{text_of(found.get('updatedAt'))} {within(found, 'comments', 'totalCount')} {within(answer, 'id')}"
        changed = replace(item, state=state, labels=labels, comments=comments, stamp=stamp)
        return changed if number > 0 and item.updated else None


def _release(found: Mapping[str, Any]) -> Item | None:
    tag = line_of(found.get("tag_name"), 200)
    name = f"release {tag}" + (" (a preview)" if found.get("prerelease") is True else "")
    item = _item(found, path=f"releases/{tag}", name=name, keys=OF_RELEASES)
    title = line_of(found.get("name")) or tag
    title = title if tag in title else f"{title} ({tag})"
    draft = "draft" if found.get("draft") is True else ""
    return replace(item, title=title, unwanted=draft) if tag else None


def _item(found: Mapping[str, Any], *, path: str, name: str, keys: tuple[str, str, str, str]) -> Item:
    """Return what all kinds share; `keys` are a kind's names for the link, both times and the author."""
    url, written, updated, author = keys
    return Item(
        path=path,
        name=name,
        title=line_of(found.get("title")) or name,
        url=link(found.get(url)),
        body=text_of(found.get("body")),
        author=line_of(within(found.get(author), "login"), 60),
        written=moment(found.get(written)),
        updated=moment(found.get(updated)),
        stamp="",
    )


def _comment(found: Mapping[str, Any], written: str = "createdAt", author: str = "author") -> Comment:
    by = found.get(author)
    return Comment(
        author=line_of(within(by, "login"), 60),
        text=text_of(found.get("body")),
        written=moment(found.get(written)),
        unwanted=is_bot(by) or found.get("isMinimized") is True,
    )


def _labels(found: Any) -> tuple[str, ...]:
    """Return names of labels; an old one may be given as a bare name."""
    names = [within(one, "name") or one for one in found] if isinstance(found, list) else []
    return tuple(filter(None, (line_of(name, 60) for name in names)))
