"""GitHub's discussions, by its GraphQL API: they have no REST.

Below a discussion stand comments, and below a comment replies, no deeper. A comment with its replies is a thread, at
the path `discussions/NUMBER/NODE`: what is posted there is a reply to the comment, as there is no reply to a reply.
There are no ETags either: a look that finds nothing costs a point each for what is new and for what changed. Nor does
it say whether an app wrote something in a person's name: all of it may be relayed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from bots.common.caches import BoundedDict
from bots.common.connection import Refused
from bots.forges.client import (
    BOT_SUFFIX,
    COMMENT_PREFIX,
    DISCUSSIONS,
    Account,
    Comment,
    HiddenTopic,
    Reaction,
    Topic,
    remove_number,
    to_account,
)
from bots.forges.github import GithubClient
from bots.forges.transport import ForgeTransport, Json
from core.errors import MessageDeleted
from core.settings import GithubSettings
from knowledge.sources.forge.api import is_bot, parse_timestamp
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

# A discussion that was read so long after its last change was seen has nothing more of that second.
SETTLE_S = 2.0
SETTLED = -1.0
MAX_SETTLED = 1000
MAX_PAGES = 500
REACTIONS = {"THUMBS_UP": "+1", "THUMBS_DOWN": "-1"}

_ACCOUNT_FIELDS = """
fragment AccountFields on Actor {
  login __typename
  ... on User { databaseId }
  ... on Bot { databaseId }
  ... on Mannequin { databaseId }
  ... on Organization { databaseId }
}
"""
_TOPIC_FIELDS = """
fragment TopicFields on Discussion {
  number title body createdAt updatedAt closed locked isAnswered
  category { name slug isAnswerable }
  author { ...AccountFields }
  comments { totalCount }
}
"""
_COMMENT_FIELDS = """
fragment CommentFields on DiscussionComment {
  id databaseId body createdAt lastEditedAt deletedAt
  author { ...AccountFields }
}
"""
_NEW = f"""
query NewDiscussions($owner: String!, $name: String!, $after: String, $items: Int!) {{
  repository(owner: $owner, name: $name, followRenames: false) {{
    discussions(first: $items, after: $after, orderBy: {{field: CREATED_AT, direction: DESC}}) {{
      pageInfo {{ hasNextPage endCursor }}
      nodes {{ id ...TopicFields }}
    }}
  }}
}}
{_TOPIC_FIELDS}{_ACCOUNT_FIELDS}"""
_CHANGED = """
query ChangedDiscussions($owner: String!, $name: String!, $after: String, $items: Int!) {
  repository(owner: $owner, name: $name, followRenames: false) {
    discussions(first: $items, after: $after, orderBy: {field: UPDATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes { number updatedAt category { name slug isAnswerable } }
    }
  }
}
"""
_NEWEST_COMMENTS = """
query NewestComments($owner: String!, $name: String!) {
  repository(owner: $owner, name: $name, followRenames: false) {
    discussions(first: 10, orderBy: {field: UPDATED_AT, direction: DESC}) {
      nodes {
        updatedAt
        comments(last: 50) { nodes { databaseId replies(last: 20) { nodes { databaseId } } } }
      }
    }
  }
}
"""
_TOPIC = f"""
query Discussion($owner: String!, $name: String!, $number: Int!) {{
  repository(owner: $owner, name: $name, followRenames: false) {{ discussion(number: $number) {{ id ...TopicFields }} }}
}}
{_TOPIC_FIELDS}{_ACCOUNT_FIELDS}"""
_COMMENTS = f"""
query DiscussionComments($owner: String!, $name: String!, $number: Int!, $after: String) {{
  repository(owner: $owner, name: $name, followRenames: false) {{
    discussion(number: $number) {{
      comments(first: 50, after: $after) {{
        pageInfo {{ hasNextPage endCursor }}
        nodes {{ ...CommentFields replies(last: 100) {{ nodes {{ ...CommentFields }} }} }}
      }}
    }}
  }}
}}
{_COMMENT_FIELDS}{_ACCOUNT_FIELDS}"""
_THREAD = f"""
query DiscussionThread($node: ID!) {{
  node(id: $node) {{
    ... on DiscussionComment {{ ...CommentFields replies(last: 100) {{ nodes {{ ...CommentFields }} }} }}
  }}
}}
{_COMMENT_FIELDS}{_ACCOUNT_FIELDS}"""
_REACTIONS = """
query Reactions($nodes: [ID!]!) {
  nodes(ids: $nodes) {
    ... on DiscussionComment { id reactions(last: 100) { nodes { id content user { login databaseId } } } }
  }
}
"""
_POST = """
mutation AddComment($discussion: ID!, $comment: ID, $body: String!) {
  addDiscussionComment(input: {discussionId: $discussion, replyToId: $comment, body: $body}) {
    comment { id databaseId }
  }
}
"""
_EDIT = """
mutation UpdateComment($comment: ID!, $body: String!) {
  updateDiscussionComment(input: {commentId: $comment, body: $body}) { comment { id } }
}
"""
_LABEL = """
query Label($owner: String!, $name: String!, $label: String!) {
  repository(owner: $owner, name: $name, followRenames: false) { label(name: $label) { id } }
}
"""
_ADD_LABEL = """
mutation AddLabel($discussion: ID!, $labels: [ID!]!) {
  addLabelsToLabelable(input: {labelableId: $discussion, labelIds: $labels}) { clientMutationId }
}
"""


class GithubDiscussions(GithubClient):
    """Implements `ForgeClient` for discussions of some categories."""

    def __init__(self, settings: GithubSettings, transport: ForgeTransport) -> None:
        super().__init__(settings, transport)
        self._categories = {name.casefold() for name in settings.discussion_categories}
        # When a discussion was first read as it was at a change, with all that changed since a time.
        self._first_reads = BoundedDict[tuple[str, int, str, int], float](MAX_SETTLED)

    async def get_last_number(self, project: str) -> int:
        """Return the number of the newest discussion."""
        return max([get_int(item, "number") async for item in self._list(_NEW, project, 1, max_pages=1)], default=0)

    async def list_topics(self, project: str, after: int, *, is_conditional: bool) -> AsyncIterator[Topic]:
        """Yield the open discussions with a higher number, as `ForgeClient` says."""
        async for item in self._list(_NEW, project):
            if get_int(item, "number") <= after:
                return
            if self._is_wanted(item) and item.get("closed") is not True:
                yield _to_topic(project, f"{DISCUSSIONS}/{get_int(item, 'number')}", item)

    async def get_topic(self, project: str, path: str) -> Topic:
        """Return a discussion, as `ForgeClient` says, also for the path of a thread in it."""
        return _to_topic(project, path, await self._get_discussion(project, path))

    async def get_last_comment(self, project: str) -> tuple[int, int]:
        """Return when a discussion changed last, and the highest number of a comment below those that did."""
        data = await self._transport.query(_NEWEST_COMMENTS, _split_name(project))
        discussions = as_mappings(dig(data, "repository", "discussions", "nodes"))
        comments = [node for item in discussions for node in _flatten(dig(item, "comments", "nodes"))]
        return (
            max((int(parse_timestamp(item.get("updatedAt"))) for item in discussions), default=0),
            max((get_int(comment, "databaseId") for comment in comments), default=0),
        )

    async def list_comments(self, project: str, since: int) -> AsyncIterator[Comment | HiddenTopic | int | None]:
        """Yield the comments that changed, as `ForgeClient` says. A discussion that did not change is read no more."""
        now = time.monotonic()
        keys = list[tuple[str, int, str, int]]()
        comments = list[Comment]()
        newest_change = 0.0
        async for item in self._list(_CHANGED, project):
            changed_at = parse_timestamp(item.get("updatedAt"))
            if changed_at < since:
                break
            newest_change = max(newest_change, changed_at)
            key = (project, get_int(item, "number"), to_line(item.get("updatedAt")), since)
            if not self._is_wanted(item) or self._first_reads.setdefault(key, now) == SETTLED:
                continue
            keys.append(key)
            try:
                below = await self.list_comments_below(project, f"{DISCUSSIONS}/{key[1]}")
            except (MessageDeleted, Refused):
                yield None
                continue
            # What came after the list was made waits for the next one, which may name earlier ones elsewhere.
            comments += [
                comment for comment in below if int(comment.updated_at) >= since and comment.created_at <= newest_change
            ]
        for comment in sorted(comments, key=lambda comment: (comment.updated_at, comment.number)):
            yield comment
        yield int(newest_change)
        # Whoever is here has received all of them.
        for key in keys:
            if now - self._first_reads.get(key, now) >= SETTLE_S:
                self._first_reads[key] = SETTLED

    async def get_comment(self, project: str, path: str, number: int) -> Comment:
        """Return a comment, as `ForgeClient` says."""
        return await self._find_comment(project, path, f"{COMMENT_PREFIX}{number}")

    async def list_comments_below(self, project: str, path: str) -> Sequence[Comment]:
        """Return the comments of a thread, or of all threads of a discussion, by their number."""
        _, number, *nodes = path.split("/")
        if nodes:
            data = await self._transport.query(_THREAD, {"node": nodes[0]})
            tops = [data["node"]] if dig(data, "node", "id") else []
            if not tops:
                raise MessageDeleted(f"a thread in {project}, {DISCUSSIONS}/{number}, was deleted")
        else:
            tops = [top async for top in self._list_tops(project, int(number))]
        comments = list[Comment]()
        for top in tops:
            thread = f"{DISCUSSIONS}/{number}/{to_line(top.get('id'))}"
            comments += [_to_comment(thread, item) for item in _flatten([top]) if item.get("deletedAt") is None]
        return sorted(comments, key=lambda comment: comment.number)

    async def list_reactions(
        self, project: str, comments: Sequence[Comment]
    ) -> AsyncIterator[tuple[Comment, Reaction | None]]:
        """Yield the reactions to some comments, as `ForgeClient` says: all at once, unless one of them is gone."""
        if not comments:
            return
        try:
            data = await self._transport.query(_REACTIONS, {"nodes": [comment.node for comment in comments]})
        except MessageDeleted:
            if len(comments) == 1:
                yield comments[0], None
                return
            for comment in comments:
                async for found in self.list_reactions(project, [comment]):
                    yield found
            return
        comments_by_node = {comment.node: comment for comment in comments}
        for node in as_mappings(data.get("nodes")):
            for item in as_mappings(dig(node, "reactions", "nodes")):
                content = to_line(item.get("content"))
                author = _to_account(item.get("user"))
                yield (
                    comments_by_node[to_line(node.get("id"))],
                    Reaction(
                        to_line(item.get("id")), author, REACTIONS.get(content, content), is_bot(item.get("user"))
                    ),
                )

    async def post_comment(self, project: str, path: str, text: str) -> str:
        """Comment on a discussion, or reply in a thread, and return the comment's id."""
        discussion = await self._get_discussion(project, path)
        top = path.partition("/")[2].partition("/")[2] or None
        variables = {"discussion": discussion["id"], "comment": top, "body": text}
        data = await self._transport.mutate(_POST, variables)
        return _to_comment(path, data["addDiscussionComment"]["comment"]).id

    async def edit_comment(self, project: str, path: str, comment_id: str, text: str) -> None:
        """Replace the text of a comment of the bot's."""
        comment = await self._find_comment(project, path, comment_id)
        await self._transport.mutate(_EDIT, {"comment": comment.node, "body": text})

    async def add_label(self, project: str, path: str, label: str) -> None:
        """Put a label of the repository on a discussion."""
        data = await self._transport.query(_LABEL, {**_split_name(project), "label": label})
        node = to_line(dig(data, "repository", "label", "id"))
        if not node:
            raise Refused(f"{project} has no label {label}: make it there")
        discussion = await self._get_discussion(project, path)
        await self._transport.mutate(_ADD_LABEL, {"discussion": discussion["id"], "labels": [node]})

    async def try_empty_write(self, project: str) -> None:
        """Comment on the newest discussion without a word, which is refused; nothing where there is none."""
        async for item in self._list(_NEW, project, 1, max_pages=1):
            await self._transport.mutate(_POST, {"discussion": item["id"], "comment": None, "body": ""})

    async def _find_comment(self, project: str, path: str, comment_id: str) -> Comment:
        for comment in await self.list_comments_below(project, path):
            if comment.id == comment_id:
                return comment
        raise MessageDeleted(f"{comment_id} in {project}, {path}, was deleted")

    async def _get_discussion(self, project: str, path: str) -> Json:
        variables = {**_split_name(project), "number": int(path.split("/")[1])}
        discussion = dig(await self._transport.query(_TOPIC, variables), "repository", "discussion")
        if not dig(discussion, "id"):
            raise MessageDeleted(f"{path} is not in {project}")
        result: Json = discussion
        return result

    async def _list(
        self, query: str, project: str, per_page: int = 20, max_pages: int = MAX_PAGES
    ) -> AsyncIterator[Json]:
        """Yield the discussions of a project, page by page."""
        variables = {**_split_name(project), "items": per_page}
        async for item in self._pages(query, variables, ("repository", "discussions"), max_pages):
            yield item

    async def _list_tops(self, project: str, number: int) -> AsyncIterator[Json]:
        """Yield the comments of a discussion, each with the newest of its replies."""
        variables = {**_split_name(project), "number": number}
        async for item in self._pages(_COMMENTS, variables, ("repository", "discussion", "comments"), MAX_PAGES):
            yield item

    async def _pages(self, query: str, variables: Json, keys: Sequence[str], max_pages: int) -> AsyncIterator[Json]:
        """Yield the nodes of a connection, which lies at the end of some keys."""
        after: str | None = None
        for _ in range(max_pages):
            data = await self._transport.query(query, {**variables, "after": after})
            connection = dig(data, *keys)
            if connection is None:
                raise MessageDeleted(f"{variables['owner']}/{variables['name']} has no such discussions")
            for node in as_mappings(connection.get("nodes")):
                yield node
            cursor = to_text(dig(connection, "pageInfo", "endCursor"))
            if dig(connection, "pageInfo", "hasNextPage") is not True or not cursor or cursor == after:
                return
            after = cursor

    def _is_wanted(self, item: Json) -> bool:
        """Return whether the bot answers in the category of a discussion."""
        if not self._categories:
            return dig(item, "category", "isAnswerable") is True
        names = (dig(item, "category", "name"), dig(item, "category", "slug"))
        return any(to_line(name).casefold() in self._categories for name in names)


def _split_name(project: str) -> dict[str, Any]:
    owner, _, name = remove_number(project).partition("/")
    return {"owner": owner, "name": name}


def _to_account(author: Any) -> Account:
    """Return an account as REST calls it, which has more to say of that of an app."""
    account = to_account(author, "login", "databaseId")
    is_app = dig(author, "__typename") == "Bot" and not account.login.endswith(BOT_SUFFIX)
    return replace(account, login=f"{account.login}{BOT_SUFFIX}") if is_app else account


def _flatten(tops: Any) -> list[Json]:
    """Return comments with their replies."""
    return [node for top in as_mappings(tops) for node in (top, *as_mappings(dig(top, "replies", "nodes")))]


def _to_topic(project: str, path: str, item: Json) -> Topic:
    return Topic(
        project,
        path,
        get_int(item, "number"),
        to_line(item.get("title")),
        to_text(item.get("body")),
        _to_account(item.get("author")),
        parse_timestamp(item.get("createdAt")),
        is_by_bot=is_bot(item.get("author")),
        is_open=item.get("closed") is not True,
        is_locked=item.get("locked") is True,
        is_answered=item.get("isAnswered") is True,
        comment_count=get_int(dig(item, "comments") or {}, "totalCount"),
        updated_at=parse_timestamp(item.get("updatedAt")),
        is_relayed=True,
    )


def _to_comment(thread: str, item: Json) -> Comment:
    created_at = parse_timestamp(item.get("createdAt"))
    return Comment(
        get_int(item, "databaseId"),
        thread,
        to_text(item.get("body")),
        _to_account(item.get("author")),
        created_at,
        parse_timestamp(item.get("lastEditedAt")) or created_at,
        is_by_bot=is_bot(item.get("author")),
        node=to_line(item.get("id")),
        is_relayed=True,
    )
