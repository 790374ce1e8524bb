"""What `kimas init` and `kimas check --live` learn about an account and its projects; nothing is changed."""

from __future__ import annotations

from bots.common.connection import NotAllowed, Refused
from bots.common.diagnosis import Diagnosis, Problem, Scope
from bots.forges.adapter import OTHER_PROJECT, connect, get_projects, has_discussions
from bots.forges.client import DISCUSSIONS, NUMBER_SIGN, ForgeClient
from bots.forges.connection import ForgeIntervals
from core.errors import MessageDeleted
from core.settings import GithubSettings, GitlabSettings
from knowledge.web.values import get_int

RIGHTS = "give the token the right to write there (docs/forges.md)"
DISCUSSIONS_OF = "the discussions of {project}"


async def diagnose(settings: GithubSettings | GitlabSettings, scope: Scope) -> Diagnosis:
    """Return what is known of the account and its projects. Raises `PlatformError` for a token that does not work."""
    client = await connect(settings, ForgeIntervals())
    try:
        me = await client.get_identity()
        problems = [problem for project in get_projects(settings) for problem in await _check_project(client, project)]
        if has_discussions(settings):
            for project in get_projects(settings):
                problems += await _check_project(client.at(DISCUSSIONS), project, DISCUSSIONS_OF)
    finally:
        await client.close()
    problems += [
        Problem(f"the chat {chat} is in no project that the bot reads: add it there", is_error=False)
        for chat in scope.chats
        if chat not in get_projects(settings)
    ]
    return Diagnosis(f"{me.login} on {me.host}", f"mention @{me.name} in an issue", tuple(problems))


async def _check_project(client: ForgeClient, project: str, place: str = "{project}") -> list[Problem]:
    try:
        description = await client.get_project(project)
        is_archived = description.get("archived") is True
        name, _, number = project.partition(NUMBER_SIGN)
        if number and int(number) != get_int(description, "id"):
            return [Problem(OTHER_PROJECT.format(path=name, number=get_int(description, "id")))]
        await client.get_last_comment(project)
        if not is_archived:
            await client.try_empty_write(project)
    except MessageDeleted as error:
        return [Problem(f"{project} is not there, has moved, has no issues, or the token may not read it ({error})")]
    except NotAllowed as error:
        return [Problem(f"the bot cannot comment in {place.format(project=project)} ({error}): {RIGHTS}")]
    except Refused:
        # What has no title is refused to who may write.
        return []
    return [Problem(f"{project} is archived: nobody can comment there")] if is_archived else []
