"""Issues, discussions and releases on GitHub: REST for issues and releases, GraphQL for discussions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import SourceError
from core.settings import GithubSource
from knowledge.sources.forge.api import (
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

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
ISSUE_KEYS = ServiceKeys(author=("user", "login"))
DISCUSSION_KEYS = ServiceKeys(created="createdAt", updated="updatedAt", url=("url",))
RELEASE_KEYS = ServiceKeys(created="published_at", updated="published_at")
DISCUSSIONS_PER_PAGE = 20
MAX_DISCUSSION_PAGES = 500
# Of those that did not change, so many are asked for by each refresh.
MAX_CHECKED_ISSUES = 20
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
        return [to_comment(comment, ISSUE_KEYS) for comment in as_mappings(data)[: self._settings.max_comments]]

    async def find_gone(self, paths: Sequence[str]) -> tuple[Collection[str], Collection[str]]:
        """Ask for the first issues one by one, as `ForgeClient` says. Without a token each of few requests counts."""
        checked = paths[:MAX_CHECKED_ISSUES] if self._settings.token else ()
        # One that was moved leads to a number in another repository.
        issues = {path: await self._api.find(f"{self._repository}/{path}") for path in checked}
        return [path for path, issue in issues.items() if path != f"issues/{get_int(issue or {}, 'number')}"], checked

    async def probe(self) -> str:
        """Return the repository's name, which is another after it was renamed."""
        return to_line(dig(await self._api.get(self._repository), "full_name"))

    async def is_private(self) -> bool | None:
        """Return whether the repository is private, or of an organization alone."""
        value = dig(await self._api.get(self._repository), "private")
        return value if isinstance(value, bool) else None

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
            data = await self._api.query(get_graphql_url(self._settings.api_url), DISCUSSIONS_QUERY, variables)
            discussions = dig(data, "repository", "discussions")
            if not isinstance(discussions, Mapping):
                raise SourceError(f"{self._settings.api_url} has no discussions of {self._settings.repository}")
            for discussion in as_mappings(discussions.get("nodes")):
                item = self._to_discussion_item(discussion)
                if item is not None and item.updated_at < since:
                    return
                yield item
            cursor = to_text(dig(discussions, "pageInfo", "endCursor"))
            if dig(discussions, "pageInfo", "hasNextPage") is not True or not cursor or cursor == variables["after"]:
                return
            variables["after"] = cursor
        raise SourceError(f"{self._settings.repository} has more discussions than can be read")

    def _to_issue_item(self, issue: Mapping[str, Any]) -> Item | None:
        number = get_int(issue, "number")
        comment_count = get_int(issue, "comments")
        item = to_item(issue, f"issues/{number}", f"issue #{number}", ISSUE_KEYS)
        initial_comments = None if comment_count and self._settings.max_comments else ()
        stamp = f"{to_text(issue.get('updated_at'))} {comment_count}"
        labels = to_labels(issue.get("labels"))
        complete_item = replace(
            item, state=to_line(issue.get("state")), labels=labels, comments=initial_comments, stamp=stamp
        )
        return complete_item if number > 0 and item.updated_at else None

    def _to_discussion_item(self, discussion: Mapping[str, Any]) -> Item | None:
        number = get_int(discussion, "number")
        item = to_item(discussion, f"discussions/{number}", f"discussion #{number}", DISCUSSION_KEYS)
        answer = discussion.get("answer")
        comments = (
            [replace(to_comment(answer, DISCUSSION_KEYS), is_accepted=True)] if isinstance(answer, Mapping) else []
        )
        for comment in as_mappings(dig(discussion, "comments", "nodes"))[: self._settings.max_comments]:
            for node in (comment, *as_mappings(dig(comment, "replies", "nodes"))):
                if node.get("id") != dig(answer, "id") or answer is None:
                    comments.append(to_comment(node, DISCUSSION_KEYS))
        state = "closed" if discussion.get("closed") is True else "open"
        labels = to_labels(dig(discussion, "labels", "nodes"))
        stamp = (
            f"{to_text(discussion.get('updatedAt'))} {dig(discussion, 'comments', 'totalCount')} {dig(answer, 'id')}"
        )
        complete_item = replace(item, state=state, labels=labels, comments=comments, stamp=stamp)
        return complete_item if number > 0 and item.updated_at else None


def get_graphql_url(api_url: str) -> str:
    """Return where the server whose REST API is at an address takes GraphQL."""
    return f"{api_url.rstrip('/').removesuffix('/v3')}/graphql"


def _to_release_item(release: Mapping[str, Any]) -> Item | None:
    item = to_release(release, " (a preview)" if release.get("prerelease") is True else "", RELEASE_KEYS)
    return replace(item, skip_reason="draft") if item and release.get("draft") is True else item
