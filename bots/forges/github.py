"""GitHub, by its REST API: issues of repositories and the comments below them. Pull requests are left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bots.forges.client import (
    DISCUSSIONS,
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
from bots.forges.connection import platform_errors
from bots.forges.transport import ForgeTransport, Json
from core.errors import MessageDeleted
from core.settings import GithubSettings
from knowledge.sources.forge.api import is_bot, parse_timestamp
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

if TYPE_CHECKING:
    from bots.forges.app_client import AppClient

MAX_REACTIONS = "100"


class GithubClient(ForgeClient):
    """Implements `ForgeClient` for issues."""

    def __init__(
        self,
        settings: GithubSettings,
        transport: ForgeTransport,
        discussions: ForgeClient | None = None,
        app: AppClient | None = None,
    ) -> None:
        super().__init__(transport)
        self._app = app
        self._discussions = discussions
        self._host = get_web_host(settings.api_url)

    def at(self, path: str) -> ForgeClient:
        """Return the client for a kind of topics, as `ForgeClient` says."""
        return self._discussions if self._discussions and path.startswith(DISCUSSIONS) else self

    async def get_identity(self) -> Identity:
        """Return who the bot is."""
        if self._app is None:
            return Identity(to_line(dig(await self._transport.get("/user"), "login")), self._host)
        with platform_errors():
            return Identity(await self._app.get_login(), self._host)

    async def get_account(self, login: str) -> Account:
        """Return who has a login now, as `ForgeClient` says."""
        return to_account(await self._transport.get(f"/users/{login}"), "login")

    async def get_project(self, project: str) -> Json:
        """Return a repository, as `ForgeClient` says."""
        result: Json = await self._transport.get(f"{_to_path(project)}")
        return result

    async def get_last_number(self, project: str) -> int:
        """Return the number of the newest issue or pull request: they share their numbers."""
        params = {"state": "all", "sort": "created", "direction": "desc", "per_page": "1"}
        items = as_mappings(await self._transport.get(f"{_to_path(project)}/issues", params))
        return max((get_int(item, "number") for item in items), default=0)

    async def list_topics(self, project: str, after: int, *, is_conditional: bool) -> AsyncIterator[Topic]:
        """Yield the open issues with a higher number, as `ForgeClient` says."""
        params = {"state": "open", "sort": "created", "direction": "desc"}
        async for item in self._transport.pages(f"{_to_path(project)}/issues", params, is_conditional=is_conditional):
            if not isinstance(item, Mapping):
                continue
            if get_int(item, "number") <= after:
                return
            topic = _to_topic(project, item)
            yield topic if dig(item, "pull_request") is None else replace(topic, path="")

    async def get_topic(self, project: str, path: str) -> Topic:
        """Return an issue, as `ForgeClient` says."""
        return _to_topic(project, await self._transport.get(f"{_to_path(project)}/{path}"))

    async def get_last_comment(self, project: str) -> tuple[int, int]:
        """Return when a comment changed last, and the highest number of one."""
        comments = f"{_to_path(project)}/issues/comments"
        params = {"direction": "desc", "per_page": "1"}
        changed = as_mappings(await self._transport.get(comments, {**params, "sort": "updated"}))
        created = as_mappings(await self._transport.get(comments, {**params, "sort": "created"}))
        return (
            max((int(parse_timestamp(item.get("updated_at"))) for item in changed), default=0),
            max((get_int(item, "id") for item in created), default=0),
        )

    async def list_comments(self, project: str, since: int) -> AsyncIterator[Comment | HiddenTopic | int | None]:
        """Yield the comments that changed, as `ForgeClient` says. Those below pull requests have no topic."""
        params = {"sort": "updated", "direction": "asc"}
        async for item in self._transport.changes(f"{_to_path(project)}/issues/comments", params, "since", since):
            if not (isinstance(item, Mapping) and get_int(item, "id")):
                yield None
                continue
            comment = _to_comment(item)
            yield comment
            yield int(comment.updated_at)

    async def get_comment(self, project: str, path: str, number: int) -> Comment:
        """Return a comment, as `ForgeClient` says."""
        return _to_comment(await self._transport.get(f"{_to_path(project)}/issues/comments/{number}"))

    async def list_comments_below(self, project: str, path: str) -> Sequence[Comment]:
        """Return the comments below an issue, as `ForgeClient` says."""
        pages = self._transport.pages(f"{_to_path(project)}/{path}/comments", {})
        return [_to_comment(item) async for item in pages if isinstance(item, Mapping)]

    async def list_reactions(
        self, project: str, comments: Sequence[Comment]
    ) -> AsyncIterator[tuple[Comment, Reaction | None]]:
        """Yield the reactions to some comments, as `ForgeClient` says."""
        for comment in comments:
            url = f"{_to_path(project)}/issues/comments/{comment.number}/reactions"
            try:
                items = as_mappings(await self._transport.get(url, {"per_page": MAX_REACTIONS}))
            except MessageDeleted:
                yield comment, None
                continue
            for item in items:
                emoji = to_line(item.get("content"))
                yield (
                    comment,
                    Reaction(
                        str(get_int(item, "id")),
                        to_account(item.get("user"), "login"),
                        emoji,
                        is_bot(item.get("user")),
                    ),
                )

    async def post_comment(self, project: str, path: str, text: str) -> str:
        """Comment on an issue, and return the comment's id."""
        return str((await self._transport.change("POST", f"{_to_path(project)}/{path}/comments", {"body": text}))["id"])

    async def edit_comment(self, project: str, path: str, comment_id: str, text: str) -> None:
        """Replace the text of a comment of the bot's."""
        await self._transport.change("PATCH", f"{_to_path(project)}/issues/comments/{comment_id}", {"body": text})

    async def add_label(self, project: str, path: str, label: str) -> None:
        """Put a label on an issue; one that the repository does not have yet is made."""
        await self._transport.change("POST", f"{_to_path(project)}/{path}/labels", {"labels": [label]})

    async def try_empty_write(self, project: str) -> None:
        """Open an issue without a title, which is refused."""
        await self._transport.change("POST", f"{_to_path(project)}/issues", {"title": ""})


def _to_path(project: str) -> str:
    return f"/repos/{remove_number(project)}"


def _is_relayed(item: Json) -> bool:
    """Return whether an app wrote in a person's name."""
    return item.get("performed_via_github_app") is not None


def _to_topic(project: str, item: Json) -> Topic:
    number = get_int(item, "number")
    return Topic(
        project,
        f"issues/{number}",
        number,
        to_line(item.get("title")),
        to_text(item.get("body")),
        to_account(item.get("user"), "login"),
        parse_timestamp(item.get("created_at")),
        is_by_bot=is_bot(item.get("user")),
        is_open=item.get("state") == "open",
        is_locked=item.get("locked") is True,
        comment_count=get_int(item, "comments"),
        updated_at=parse_timestamp(item.get("updated_at")),
        is_relayed=_is_relayed(item),
    )


def _to_comment(item: Json) -> Comment:
    number = to_line(item.get("issue_url")).rpartition("/")[2]
    is_below_issue = number.isdecimal() and "/pull/" not in to_line(item.get("html_url"))
    return Comment(
        get_int(item, "id"),
        f"issues/{number}" if is_below_issue else "",
        to_text(item.get("body")),
        to_account(item.get("user"), "login"),
        parse_timestamp(item.get("created_at")),
        parse_timestamp(item.get("updated_at")),
        is_by_bot=is_bot(item.get("user")),
        is_relayed=_is_relayed(item),
    )
