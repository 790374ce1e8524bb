"""GitLab, by its REST API: issues of projects and the comments below them.

Confidential issues and internal notes are for members: the bot reads neither, so that it answers none and learns
nothing from them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import quote

from bots.forges.client import (
    Account,
    Comment,
    ForgeClient,
    HiddenTopic,
    Identity,
    Reaction,
    Topic,
    get_web_host,
    remove_number,
    to_account,
)
from bots.forges.transport import ForgeTransport, Json
from core.errors import MessageDeleted
from core.settings import GitlabSettings
from knowledge.sources.forge.api import is_bot, parse_timestamp
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

# Of the issues that changed last so many are asked for their newest note at the first look.
FIRST_LOOK_ISSUES = 20
NEWEST_FIRST = {"sort": "desc", "order_by": "created_at"}
OLDEST_FIRST = {"sort": "asc", "order_by": "created_at", "activity_filter": "only_comments"}


class GitlabClient(ForgeClient):
    """Implements `ForgeClient`."""

    def __init__(self, settings: GitlabSettings, transport: ForgeTransport) -> None:
        super().__init__(transport)
        self._host = get_web_host(settings.api_url)

    async def get_identity(self) -> Identity:
        """Return who the bot is."""
        return Identity(to_line(dig(await self._transport.get("/user"), "username")), self._host)

    async def get_account(self, login: str) -> Account:
        """Return who has a login now, as `ForgeClient` says."""
        users = as_mappings(await self._transport.get("/users", {"username": login}))
        if not users:
            raise MessageDeleted(f"nobody is called {login}")
        return to_account(users[0], "username")

    async def get_project(self, project: str) -> Json:
        """Return a project, as `ForgeClient` says."""
        result: Json = await self._transport.get(_to_path(project))
        return result

    async def get_last_number(self, project: str) -> int:
        """Return the number of the newest issue."""
        issues = await self._transport.get(
            f"{_to_path(project)}/issues", {"scope": "all", **NEWEST_FIRST, "per_page": "1"}
        )
        return max((get_int(item, "iid") for item in as_mappings(issues)), default=0)

    async def list_topics(self, project: str, after: int, *, is_conditional: bool) -> AsyncIterator[Topic]:
        """Yield the open issues with a higher number, as `ForgeClient` says; confidential ones are left out."""
        params = {"scope": "all", "state": "opened", **NEWEST_FIRST}
        async for item in self._transport.pages(f"{_to_path(project)}/issues", params, is_conditional=is_conditional):
            if not isinstance(item, Mapping):
                continue
            if get_int(item, "iid") <= after:
                return
            topic = _to_topic(project, item)
            if not topic.is_confidential:
                yield topic

    async def get_topic(self, project: str, path: str) -> Topic:
        """Return an issue, as `ForgeClient` says."""
        return _to_topic(project, await self._transport.get(f"{_to_path(project)}/{path}"))

    async def get_last_comment(self, project: str) -> tuple[int, int]:
        """Return when an issue changed last, and the highest number of a note below those that did."""
        params = {"scope": "all", "sort": "desc", "order_by": "updated_at", "per_page": str(FIRST_LOOK_ISSUES)}
        issues = as_mappings(await self._transport.get(f"{_to_path(project)}/issues", params))
        number = 0
        for issue in issues:
            path = f"{_to_path(project)}/issues/{get_int(issue, 'iid')}/notes"
            notes = as_mappings(await self._transport.get(path, {**NEWEST_FIRST, "per_page": "1"}))
            number = max([number, *(get_int(note, "id") for note in notes)])
        return max((int(parse_timestamp(issue.get("updated_at"))) for issue in issues), default=0), number

    async def list_comments(self, project: str, since: int) -> AsyncIterator[Comment | HiddenTopic | int | None]:
        """Yield the comments that changed, as `ForgeClient` says: a project's are not listed but issue by issue.

        The time of the listing comes last. Notes that are written while others are read are listed the next time.
        """
        params = {"scope": "all", "sort": "asc", "order_by": "updated_at"}
        listed_at = 0.0
        paths = dict[str, None]()
        async for issue in self._transport.changes(f"{_to_path(project)}/issues", params, "updated_after", since):
            # By the server's clock, when it had listed the first page.
            listed_at = listed_at or self._transport.replied_at or parse_timestamp(dig(issue, "updated_at"))
            if not isinstance(issue, Mapping) or not get_int(issue, "iid"):
                yield None
            elif _is_confidential(issue):
                yield HiddenTopic(f"issues/{get_int(issue, 'iid')}")
            elif get_int(issue, "user_notes_count"):
                paths[f"issues/{get_int(issue, 'iid')}"] = None
        comments = dict[int, Comment]()
        for path in paths:
            below = await self.list_comments_below(project, path)
            comments |= {comment.number: comment for comment in below if int(comment.updated_at) >= since}
        for comment in sorted(comments.values(), key=lambda comment: (comment.updated_at, comment.number)):
            yield comment
        yield int(listed_at)

    async def get_comment(self, project: str, path: str, number: int) -> Comment:
        """Return a comment, as `ForgeClient` says."""
        return _to_comment(path, await self._transport.get(f"{_to_path(project)}/{path}/notes/{number}"))

    async def list_comments_below(self, project: str, path: str) -> Sequence[Comment]:
        """Return the comments below an issue, as `ForgeClient` says, without internal notes."""
        pages = self._transport.pages(f"{_to_path(project)}/{path}/notes", OLDEST_FIRST)
        return [
            _to_comment(path, item)
            async for item in pages
            if isinstance(item, Mapping) and not (_is_confidential(item) or item.get("system") is True)
        ]

    async def list_reactions(
        self, project: str, comments: Sequence[Comment]
    ) -> AsyncIterator[tuple[Comment, Reaction | None]]:
        """Yield the reactions to some comments, as `ForgeClient` says."""
        for comment in comments:
            url = f"{_to_path(project)}/{comment.topic_path}/notes/{comment.number}/award_emoji"
            try:
                items = as_mappings(await self._transport.get(url, {"per_page": "100"}))
            except MessageDeleted:
                yield comment, None
                continue
            for item in items:
                user = item.get("user")
                emoji = to_line(item.get("name"))
                yield comment, Reaction(str(get_int(item, "id")), to_account(user, "username"), emoji, is_bot(user))

    async def post_comment(self, project: str, path: str, text: str) -> str:
        """Comment on an issue, and return the comment's id."""
        return str((await self._transport.change("POST", f"{_to_path(project)}/{path}/notes", {"body": text}))["id"])

    async def edit_comment(self, project: str, path: str, comment_id: str, text: str) -> None:
        """Replace the text of a comment of the bot's."""
        await self._transport.change("PUT", f"{_to_path(project)}/{path}/notes/{comment_id}", {"body": text})

    async def add_label(self, project: str, path: str, label: str) -> None:
        """Put a label on an issue; one that the project does not have yet is made."""
        await self._transport.change("PUT", f"{_to_path(project)}/{path}", {"add_labels": label})

    async def try_empty_write(self, project: str) -> None:
        """Open an issue without a title, which is refused."""
        await self._transport.change("POST", f"{_to_path(project)}/issues", {"title": ""})


def _to_path(project: str) -> str:
    return f"/projects/{quote(remove_number(project), safe='')}"


def _is_confidential(item: Json) -> bool:
    return item.get("confidential") is True or item.get("internal") is True


def _to_topic(project: str, item: Json) -> Topic:
    number = get_int(item, "iid")
    return Topic(
        project,
        f"issues/{number}",
        number,
        to_line(item.get("title")),
        to_text(item.get("description")),
        to_account(item.get("author"), "username"),
        parse_timestamp(item.get("created_at")),
        is_by_bot=is_bot(item.get("author")),
        is_open=item.get("state") == "opened",
        is_locked=item.get("discussion_locked") is True,
        is_confidential=_is_confidential(item),
        comment_count=get_int(item, "user_notes_count"),
        updated_at=parse_timestamp(item.get("updated_at")),
    )


def _to_comment(path: str, item: Json) -> Comment:
    return Comment(
        get_int(item, "id"),
        path,
        to_text(item.get("body")),
        to_account(item.get("author"), "username"),
        parse_timestamp(item.get("created_at")),
        parse_timestamp(item.get("updated_at")),
        is_by_bot=is_bot(item.get("author")),
    )
