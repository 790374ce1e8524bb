"""GitHub's GraphQL with discussions, as far as a bot uses it: a query that its schema does not know is refused.

The schema is an excerpt of GitHub's. `points` counts what the queries cost: a hundredth of the
connections that they go through, and one at least.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from aiohttp import web
from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    GraphQLResolveInfo,
    build_schema,
    execute_sync,
    parse,
    validate,
)

if TYPE_CHECKING:
    from tests.support.peers.github import GithubPeer

MAX_PER_PAGE = 100
SCHEMA = build_schema("""
scalar DateTime
enum DiscussionOrderField { CREATED_AT UPDATED_AT }
enum OrderDirection { ASC DESC }
enum ReactionContent { THUMBS_UP THUMBS_DOWN HEART }
input DiscussionOrder { field: DiscussionOrderField! direction: OrderDirection! }
interface Node { id: ID! }
interface Actor { login: String! }
type User implements Actor { login: String! databaseId: Int }
type Bot implements Actor { login: String! databaseId: Int }
type Mannequin implements Actor { login: String! databaseId: Int }
type Organization implements Actor { login: String! databaseId: Int }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type Label implements Node { id: ID! name: String! }
type DiscussionCategory { name: String! slug: String! isAnswerable: Boolean! }
type Reaction implements Node { id: ID! content: ReactionContent! user: User }
type ReactionConnection { nodes: [Reaction] }
type DiscussionComment implements Node {
  id: ID! databaseId: Int body: String! createdAt: DateTime! lastEditedAt: DateTime deletedAt: DateTime
  author: Actor discussion: Discussion replyTo: DiscussionComment
  replies(first: Int last: Int after: String): DiscussionCommentConnection!
  reactions(first: Int last: Int): ReactionConnection!
}
type DiscussionCommentConnection { totalCount: Int! pageInfo: PageInfo! nodes: [DiscussionComment] }
type Discussion implements Node {
  id: ID! number: Int! title: String! body: String! createdAt: DateTime! updatedAt: DateTime!
  closed: Boolean! locked: Boolean! isAnswered: Boolean category: DiscussionCategory! author: Actor
  comments(first: Int last: Int after: String): DiscussionCommentConnection!
}
type DiscussionConnection { totalCount: Int! pageInfo: PageInfo! nodes: [Discussion] }
type Repository implements Node {
  id: ID! discussion(number: Int!): Discussion label(name: String!): Label
  discussions(first: Int last: Int after: String orderBy: DiscussionOrder): DiscussionConnection!
}
type Query {
  repository(owner: String! name: String! followRenames: Boolean = true): Repository
  node(id: ID!): Node
  nodes(ids: [ID!]!): [Node]!
}
input AddDiscussionCommentInput { discussionId: ID! replyToId: ID body: String! clientMutationId: String }
input UpdateDiscussionCommentInput { commentId: ID! body: String! clientMutationId: String }
input AddLabelsToLabelableInput { labelableId: ID! labelIds: [ID!]! clientMutationId: String }
type CommentPayload { comment: DiscussionComment clientMutationId: String }
type LabelsPayload { clientMutationId: String }
type Mutation {
  addDiscussionComment(input: AddDiscussionCommentInput!): CommentPayload
  updateDiscussionComment(input: UpdateDiscussionCommentInput!): CommentPayload
  addLabelsToLabelable(input: AddLabelsToLabelableInput!): LabelsPayload
}
""")


class Refusal(Exception):
    """What the service does not do, with its type of error."""

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(text)
        self.type_name = type_name


@dataclass
class Remark:
    """A comment of a discussion; `top` is the one that it replies to."""

    id: int
    author: str
    text: str
    created: float
    top: Remark | None = None
    edited: float = 0.0
    is_deleted: bool = False

    @property
    def node(self) -> str:
        return f"DC_{self.id}"


@dataclass
class Talk:
    """A discussion."""

    number: int
    title: str
    text: str
    author: str
    created: float
    updated: float
    category: str = "Q&A"
    closed: bool = False
    locked: bool = False
    is_answered: bool = False
    labels: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def node(self) -> str:
        return f"D_{self.number}"


class Discussions:
    """The discussions of one repository; issues share its numbers. `denied` holds what the token may not do."""

    def __init__(self, peer: GithubPeer, project: str) -> None:
        self.peer = peer
        self.project = project
        self.talks: dict[int, Talk] = {}
        self.labels: set[str] = set()
        self.denied: set[str] = set()
        self.points = 0
        self._requests = 0

    # What people do.

    def open(self, title: str, text: str = "", author: str = "ann", *, age_h: float = 0.0, **fields: Any) -> int:
        repository = self.peer.repositories[self.project]
        repository.last_number += 1
        now = time.time() - age_h * 3600
        talk = Talk(repository.last_number, title, text, author, now, now, **fields)
        self.talks[talk.number] = talk
        return talk.number

    def comment(self, number: int, text: str, author: str = "ann", top: Remark | None = None) -> Remark:
        assert top is None or top.top is None
        remark = Remark(self.peer.take_id(), author, text, time.time(), top)
        self.talks[number].remarks.append(remark)
        self.talks[number].updated = time.time()
        return remark

    def remove(self, number: int, remark: Remark) -> None:
        """Delete a comment; one with replies leaves a gap."""
        remarks = self.talks[number].remarks
        if any(other.top is remark for other in remarks):
            remark.is_deleted = True
        else:
            remarks.remove(remark)

    def posts(self) -> list[Remark]:
        """Return the comments of the bot, the oldest first."""
        return [remark for talk in self.talks.values() for remark in talk.remarks if remark.author == self.peer.login]

    # What the server does.

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        if set(body) != {"query", "variables"}:
            return web.json_response({"message": "Problems parsing JSON"}, status=400)
        self._requests = 0
        result = self._execute(body["query"], body["variables"])
        self.points += max(1, round(self._requests / 100))
        errors = [_to_error(error) for error in result.errors or ()]
        if any("type" not in error for error in errors):
            self.peer.violations.append(f"GraphQL: {errors}")
        return web.json_response({"data": result.data} | ({"errors": errors} if errors else {}))

    def _execute(self, query: str, variables: dict[str, Any]) -> ExecutionResult:
        try:
            document = read_query(query)
        except GraphQLError as error:
            return ExecutionResult(None, [error])
        result = execute_sync(
            SCHEMA,
            document,
            variable_values=variables,
            field_resolver=self._resolve,
            type_resolver=lambda value, info, kind: value["__typename"],
        )
        assert isinstance(result, ExecutionResult)
        return result

    def _resolve(self, source: Any, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
        if source is None:
            return getattr(self, f"_{info.field_name}")(**arguments)
        value = source[info.field_name]
        if not callable(value):
            return value
        if {"first", "last"} & set(arguments):
            self._requests += 1
        return value(**arguments)

    def _repository(self, owner: str, name: str, followRenames: bool) -> dict[str, Any]:
        repository = self.peer.repositories.get(f"{owner}/{name}")
        if repository is None or (repository.moved_to and not followRenames):
            raise Refusal("NOT_FOUND", f"Could not resolve to a Repository with the name '{owner}/{name}'.")
        self._check_right("read")
        return {
            "id": f"R_{name}",
            "discussion": lambda number: self._discussion(self._find_talk(lambda talk: talk.number == number)),
            "discussions": self._discussions,
            "label": lambda name: {"id": f"LA_{name}", "name": name} if name in self.labels else None,
        }

    def _check_right(self, right: str) -> None:
        if right in self.denied:
            raise Refusal("FORBIDDEN", "Resource not accessible by personal access token")

    def _find_talk(self, is_wanted: Any) -> Talk:
        for talk in self.talks.values():
            if is_wanted(talk):
                return talk
        raise Refusal("NOT_FOUND", "Could not resolve to a Discussion.")

    def _find_remark(self, node: str) -> tuple[Talk, Remark]:
        for talk in self.talks.values():
            for remark in talk.remarks:
                if remark.node == node:
                    return talk, remark
        raise Refusal("NOT_FOUND", f"Could not resolve to a node with the global id of '{node}'")

    def _discussions(self, orderBy: Mapping[str, str], **page: Any) -> dict[str, Any]:
        name = "updated" if orderBy["field"] == "UPDATED_AT" else "created"
        talks = sorted(
            self.talks.values(),
            key=lambda talk: (getattr(talk, name), talk.number),
            reverse=orderBy["direction"] == "DESC",
        )
        return _connect([self._discussion(talk) for talk in talks], **page)

    def _discussion(self, talk: Talk) -> dict[str, Any]:
        tops = [remark for remark in talk.remarks if remark.top is None]
        return {
            "__typename": "Discussion",
            "id": talk.node,
            "number": talk.number,
            "title": talk.title,
            "body": talk.text,
            "createdAt": _stamp(talk.created),
            "updatedAt": _stamp(talk.updated),
            "closed": talk.closed,
            "locked": talk.locked,
            "isAnswered": talk.is_answered,
            "category": {
                "name": talk.category,
                "slug": talk.category.lower().replace("&", "-"),
                "isAnswerable": talk.category == "Q&A",
            },
            "author": self._actor(talk.author),
            "comments": lambda **page: _connect([self._comment(talk, remark) for remark in tops], **page),
        }

    def _comment(self, talk: Talk, remark: Remark) -> dict[str, Any]:
        replies = [other for other in talk.remarks if other.top is remark]
        return {
            "__typename": "DiscussionComment",
            "id": remark.node,
            "databaseId": remark.id,
            "body": "" if remark.is_deleted else remark.text,
            "createdAt": _stamp(remark.created),
            "lastEditedAt": _stamp(remark.edited) if remark.edited else None,
            "deletedAt": _stamp(remark.created) if remark.is_deleted else None,
            "author": self._actor(remark.author),
            "discussion": lambda: self._discussion(talk),
            "replyTo": lambda: self._comment(talk, remark.top) if remark.top else None,
            "replies": lambda **page: _connect([self._comment(talk, reply) for reply in replies], **page),
            "reactions": lambda **page: _connect(
                [
                    {"id": f"REA_{number}", "content": content, "user": self._actor(author)}
                    for number, (author, content) in self.peer.reactions[remark.id].items()
                ],
                **page,
            ),
        }

    def _actor(self, person: str) -> dict[str, Any] | None:
        kind = "Bot" if person in self.peer.bots else "User"
        login, number = self.peer.get_login(person), self.peer.get_number(person)
        return {"__typename": kind, "login": login, "databaseId": number} if person else None

    def _node(self, id: str) -> dict[str, Any]:
        return self._comment(*self._find_remark(id))

    def _nodes(self, ids: Sequence[str]) -> list[Any]:
        return [self._node(node) for node in ids]

    def _addDiscussionComment(self, input: Mapping[str, Any]) -> dict[str, Any]:
        talk = self._find_talk(lambda talk: talk.node == input["discussionId"])
        self._check_right("write")
        top = self._find_remark(input["replyToId"])[1] if input.get("replyToId") else None
        if talk.locked:
            raise Refusal("FORBIDDEN", "Discussion is locked")
        if top and top.top:
            raise Refusal("UNPROCESSABLE", "Parent comment is already in a thread, cannot reply to it")
        if self.peer.find_fault(input["body"]):
            raise Refusal("UNPROCESSABLE", "Body is not acceptable")
        return {"comment": self._comment(talk, self.comment(talk.number, input["body"], self.peer.login, top))}

    def _updateDiscussionComment(self, input: Mapping[str, Any]) -> dict[str, Any]:
        talk, remark = self._find_remark(input["commentId"])
        if remark.author != self.peer.login:
            raise Refusal("FORBIDDEN", "must have push access")
        remark.text = input["body"]
        remark.edited = talk.updated = time.time()
        return {"comment": self._comment(talk, remark)}

    def _addLabelsToLabelable(self, input: Mapping[str, Any]) -> dict[str, Any]:
        talk = self._find_talk(lambda talk: talk.node == input["labelableId"])
        talk.labels += [label.removeprefix("LA_") for label in input["labelIds"]]
        return {"clientMutationId": None}


@cache
def read_query(text: str) -> DocumentNode:
    """Parse and check a query, once: this takes many times longer than to answer it. Raises `GraphQLError`."""
    document = parse(text)
    if errors := validate(SCHEMA, document):
        raise errors[0]
    return document


def _connect(
    nodes: Sequence[Any], first: int | None = None, last: int | None = None, after: str | None = None
) -> dict[str, Any]:
    """Return a page of some nodes; its size has to be given, but for their number."""
    size = last if first is None else first
    if size is None:
        return {"totalCount": len(nodes), "pageInfo": _refuse_page, "nodes": _refuse_page}
    if not 1 <= size <= MAX_PER_PAGE:
        _refuse_page()
    start = int(after or 0) if first else max(len(nodes) - size, 0)
    end = min(start + size, len(nodes))
    return {
        "totalCount": len(nodes),
        "pageInfo": {"hasNextPage": end < len(nodes), "endCursor": str(end) if end else None},
        "nodes": list(nodes[start:end]),
    }


def _refuse_page() -> None:
    raise Refusal("MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value of at most 100")


def _to_error(error: GraphQLError) -> dict[str, Any]:
    cause = error.original_error
    return {"message": error.message} | ({"type": cause.type_name} if isinstance(cause, Refusal) else {})


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
