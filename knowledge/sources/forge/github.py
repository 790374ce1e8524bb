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
    as_mappings,
    dig,
    format_iso8601,
    get_int,
    is_bot,
    parse_timestamp,
    to_url,
)
from knowledge.web.client import to_line, to_text

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
# What each kind calls its link, when it was written, when it changed, and who wrote it.
ISSUE_KEYS = ("html_url", "created_at", "updated_at", "user")
DISCUSSION_KEYS = ("url", "createdAt", "updatedAt", "author")
RELEASE_KEYS = ("html_url", "published_at", "published_at", "author")
DISCUSSIONS_PER_PAGE = 20
MAX_DISCUSSION_PAGES = 500
DISCUSSIONS_QUERY = """
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
    """Implements `ForgeClient` for one repository."""

    def __init__(self, api: ForgeApi, settings: GithubSource) -> None:
        self._api = api
        self._settings = settings
        self._repository = f"/repos/{settings.repository}"

    async def items(self, kind: str, since: float) -> AsyncIterator[Item | None]:
        """Yield items as `ForgeClient` says. Pull requests are left out."""
        items = {"issues": self._issues, "discussions": self._discussions, "releases": self._releases}[kind](since)
        async for item in items:
            yield item

    async def comments(self, item: Item) -> Sequence[Comment]:
        """Return the first comments of an issue, in one request."""
        path = f"{self._repository}/{item.path}/comments"
        data = await self._api.get(path, {"per_page": str(self._settings.max_comments)})
        return [
            _to_comment(comment, "created_at", "user") for comment in as_mappings(data)[: self._settings.max_comments]
        ]

    async def probe(self) -> str:
        """Return the repository's name, which is another after it was renamed."""
        return to_line(dig(await self._api.get(self._repository), "full_name"))

    async def _issues(self, since: float) -> AsyncIterator[Item | None]:
        # What was closed since must be seen, to be forgotten where only open ones are wanted.
        params = {"state": "all" if since else self._settings.state, "sort": "updated", "direction": "desc"}
        if since:
            params["since"] = format_iso8601(since)
        async for issue in self._api.pages(f"{self._repository}/issues", params, conditional=since > 0):
            if dig(issue, "pull_request") is None:
                yield self._to_issue_item(issue) if isinstance(issue, Mapping) else None

    async def _releases(self, since: float) -> AsyncIterator[Item | None]:
        async for release in self._api.pages(f"{self._repository}/releases", {}, conditional=since > 0):
            yield _to_release_item(release) if isinstance(release, Mapping) else None

    async def _discussions(self, since: float) -> AsyncIterator[Item | None]:
        owner, _, name = self._settings.repository.partition("/")
        variables: dict[str, Any] = {"owner": owner, "name": name, "after": None, "items": DISCUSSIONS_PER_PAGE}
        variables["comments"] = max(self._settings.max_comments, 1)
        for _ in range(MAX_DISCUSSION_PAGES):
            data = await self._api.query(self._graphql_url(), DISCUSSIONS_QUERY, variables)
            discussions = dig(data, "repository", "discussions")
            if not isinstance(discussions, Mapping):
                raise SourceError(f"{self._settings.api_url} has no discussions of {self._settings.repository}")
            for discussion in as_mappings(discussions.get("nodes")):
                item = self._to_discussion_item(discussion)
                if item is not None and item.updated_at < since:
                    return
                yield item
            after = to_text(dig(discussions, "pageInfo", "endCursor"))
            if dig(discussions, "pageInfo", "hasNextPage") is not True or not after or after == variables["after"]:
                return
            variables["after"] = after
        raise SourceError(f"{self._settings.repository} has more discussions than can be read")

    def _graphql_url(self) -> str:
        base = self._settings.api_url.rstrip("/")
        return f"{base.removesuffix('/v3')}/graphql"

    def _to_issue_item(self, issue: Mapping[str, Any]) -> Item | None:
        number = get_int(issue, "number")
        comment_count = get_int(issue, "comments")
        item = _to_item(issue, path=f"issues/{number}", name=f"issue #{number}", keys=ISSUE_KEYS)
        initial_comments = None if comment_count and self._settings.max_comments else ()
        stamp = f"{to_text(issue.get('updated_at'))} {comment_count}"
        labels = _to_labels(issue.get("labels"))
        complete_item = replace(
            item, state=to_line(issue.get("state")), labels=labels, comments=initial_comments, stamp=stamp
        )
        return complete_item if number > 0 and item.updated_at else None

    def _to_discussion_item(self, discussion: Mapping[str, Any]) -> Item | None:
        number = get_int(discussion, "number")
        item = _to_item(discussion, path=f"discussions/{number}", name=f"discussion #{number}", keys=DISCUSSION_KEYS)
        answer = discussion.get("answer")
        comments = [replace(_to_comment(answer), is_accepted=True)] if isinstance(answer, Mapping) else []
        for comment in as_mappings(dig(discussion, "comments", "nodes"))[: self._settings.max_comments]:
            for node in (comment, *as_mappings(dig(comment, "replies", "nodes"))):
                if node.get("id") != dig(answer, "id") or answer is None:
                    comments.append(_to_comment(node))
        state = "closed" if discussion.get("closed") is True else "open"
        labels = _to_labels(dig(discussion, "labels", "nodes"))
        stamp = (
            f"{to_text(discussion.get('updatedAt'))} {dig(discussion, 'comments', 'totalCount')} {dig(answer, 'id')}"
        )
        complete_item = replace(item, state=state, labels=labels, comments=comments, stamp=stamp)
        return complete_item if number > 0 and item.updated_at else None


def _to_release_item(release: Mapping[str, Any]) -> Item | None:
    tag = to_line(release.get("tag_name"), 200)
    name = f"release {tag}" + (" (a preview)" if release.get("prerelease") is True else "")
    item = _to_item(release, path=f"releases/{tag}", name=name, keys=RELEASE_KEYS)
    title = to_line(release.get("name")) or tag
    title = title if tag in title else f"{title} ({tag})"
    skip_reason = "draft" if release.get("draft") is True else ""
    return replace(item, title=title, skip_reason=skip_reason) if tag else None


def _to_item(data: Mapping[str, Any], *, path: str, name: str, keys: tuple[str, str, str, str]) -> Item:
    """Return what all kinds share; `keys` are a kind's names for the link, both times and the author."""
    url_key, created_key, updated_key, author_key = keys
    return Item(
        path=path,
        name=name,
        title=to_line(data.get("title")) or name,
        url=to_url(data.get(url_key)),
        body=to_text(data.get("body")),
        author=to_line(dig(data.get(author_key), "login"), 60),
        created_at=parse_timestamp(data.get(created_key)),
        updated_at=parse_timestamp(data.get(updated_key)),
        stamp="",
    )


def _to_comment(data: Mapping[str, Any], created_key: str = "createdAt", author_key: str = "author") -> Comment:
    account = data.get(author_key)
    return Comment(
        author=to_line(dig(account, "login"), 60),
        text=to_text(data.get("body")),
        created_at=parse_timestamp(data.get(created_key)),
        is_excluded=is_bot(account) or data.get("isMinimized") is True,
    )


def _to_labels(labels: Any) -> tuple[str, ...]:
    """Return names of labels; an old one may be given as a bare name."""
    names = [dig(label, "name") or label for label in labels] if isinstance(labels, list) else []
    return tuple(filter(None, (to_line(name, 60) for name in names)))
