"""GitLab: what it shares with GitHub, and what only it has: confidential issues, internal notes, quick actions."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from sqlalchemy import select

from bots.common.diagnosis import Scope
from bots.forges.adapter import connect
from bots.forges.diagnosis import diagnose
from core.settings import Secret
from core.storage.reports import QuestionFilter, ReportRepository
from core.storage.tables import messages
from core.types import Citation, ConversationKey, Message, ThreadState
from tests.support.forge_helpers import PACE, ForgeBot, settings
from tests.support.peers.github import REPOSITORY
from tests.support.peers.gitlab import GitlabPeer

POST = "POST issues/{}/notes"


@pytest.fixture
def bot(gitlab: GitlabPeer, tmp_path: Path) -> ForgeBot:
    return ForgeBot(gitlab, tmp_path, answered_label="answered")


async def test_issues_and_comments_are_answered_once(bot: ForgeBot, gitlab: GitlabPeer) -> None:
    old = gitlab.open("Old", "@kimas how was it?")
    gitlab.comment(old, "@kimas how was it?")
    async with bot:
        answer = await bot.ask()
        comment = gitlab.comment(answer.number, "@kimas and on Windows?", "ben.b")
        assert await bot.outcome(comment) == ("answered", "")
        await bot.stop()
        late = gitlab.comment(answer.number, "@kimas and later?", "ben.b")
        issue = gitlab.open("While it was down", "@kimas how?")
        await bot.start()
        assert await bot.outcome(late) == ("answered", "")
        assert await bot.outcome(f"issues/{issue}") == ("answered", "")
        await bot.restart()
        await bot.ask()
    # Threads are answered side by side.
    assert sorted(note.number for note in gitlab.posts()) == [2, 2, 2, 3, 4]
    assert gitlab.handbook.issues[answer.number].labels[:1] == ["answered"]


@pytest.mark.parametrize("text", ["@kimas /admins add ben", "@kimas /forget", "@kimas how do I install it?"])
async def test_a_copied_comment_says_nothing_where_it_was_copied_to(
    gitlab: GitlabPeer, tmp_path: Path, text: str
) -> None:
    """Who clones an issue with its notes, or moves it, chooses the project: its author said them elsewhere."""
    bot = ForgeBot(gitlab, tmp_path, projects=(REPOSITORY, "group/other"))
    bot.changes = {"administration": {"owners": ["gitlab:ann"]}}
    gitlab.repositories["group/other"].can_write = True
    async with bot:
        first = gitlab.comment(gitlab.open("It is hot today"), text)
        assert (await bot.outcome(first))[0] == "answered"
        gitlab.handbook.notes[first].created -= 1
        gitlab.handbook.notes[first].updated -= 1
        clone = gitlab.open("It is hot today", "", "eve", project="group/other")
        gitlab.copy(first, clone, "group/other")
        await bot.skipped("copied from elsewhere")
        # What is said there within the same second counts.
        own = gitlab.comment(clone, "@kimas and how?", project="group/other")
        gitlab.repositories["group/other"].notes[own].created = gitlab.repositories["group/other"].issues[clone].created
        assert (await bot.outcome(own))[0] == "answered"
        assert len(gitlab.posts("group/other")) == 1


async def test_what_is_written_while_the_bot_reads_is_answered(bot: ForgeBot, gitlab: GitlabPeer) -> None:
    issues = [gitlab.open("Old", "Hello.", age_h=2) for _ in range(2)]
    late_notes = list[int]()

    async def write(name: str, phase: str) -> None:
        if (name, phase) == ("GET issues/{}/notes", "after") and not late_notes:
            late_notes.extend(gitlab.comment(number, "@kimas how?", "cat") for number in issues)

    async with bot:
        notes = [gitlab.comment(number, "Hello again.", "ben") for number in issues]
        gitlab.watch = write
        for note in notes:
            await bot.heard(note)
        for note in late_notes:
            assert await bot.outcome(note) == ("answered", "")
        # A minute has not passed: the issues' times have not moved.
        for number in issues:
            assert await bot.outcome(gitlab.comment(number, "@kimas and on Windows?", "cat")) == ("answered", "")


async def test_issues_that_change_without_comments_move_the_position(gitlab: GitlabPeer, tmp_path: Path) -> None:
    began_at = int(time.time())
    for _ in range(120):
        gitlab.comment(gitlab.open("Old", age_h=2), "Hello.", age_h=1)
    for issue in gitlab.handbook.issues.values():
        issue.labelled = began_at
    client = await connect(settings(gitlab, tmp_path), PACE)
    changes = [item async for item in client.list_comments(REPOSITORY, began_at)]
    await client.close()
    assert [isinstance(item, int) and item >= began_at for item in changes] == [True]
    assert gitlab.calls.count("GET issues/{}/notes") == 120


async def test_confidential_issues_and_internal_notes_are_not_read(bot: ForgeBot, gitlab: GitlabPeer) -> None:
    async with bot:
        answer = await bot.ask()
        await bot.stop()
        secret = gitlab.open("A secret", "@kimas how?")
        gitlab.confidential.add(secret)
        gitlab.comment(secret, "@kimas how?", "ben")
        gitlab.confidential.add(gitlab.comment(answer.number, "@kimas an internal question?", "ben"))
        gitlab.comment(answer.number, "@kimas changed the label", "system")
        await bot.start()
        public = gitlab.comment(answer.number, "@kimas a public question?", "ben")
        assert await bot.outcome(public) == ("answered", "")
        async with bot.journal.database.connect() as connection:
            rows = (await connection.exec_driver_sql("SELECT text FROM messages")).fetchall()
    assert len(gitlab.posts()) == 2
    assert not [row.text for row in rows if "secret" in row.text or "internal" in row.text]


async def test_an_issue_that_becomes_confidential_meanwhile_gets_no_answer(bot: ForgeBot, gitlab: GitlabPeer) -> None:
    async with bot:
        bot.hold = asyncio.Event()
        number = gitlab.open("A question", "@kimas how?")
        await bot.heard(f"issues/{number}")
        gitlab.confidential.add(number)
        bot.hold.set()
        assert await bot.outcome(f"issues/{number}") == ("silent", "the thread is confidential now")


@pytest.mark.parametrize("is_member", [True, False])
async def test_what_was_said_below_an_issue_is_told_nowhere_else_once_it_is_hidden(
    bot: ForgeBot, gitlab: GitlabPeer, is_member: bool
) -> None:
    async with bot:
        secret = await bot.ask("@kimas how does the numbat sleep?")
        public = await bot.ask()
        reader = ConversationKey("gitlab", REPOSITORY, f"issues/{public.number}")
        assert len(await list_open(bot, reader)) == 2
        if is_member:
            gitlab.confidential.add(secret.number)
            gitlab.handbook.issues[secret.number].labelled = time.time()
        else:
            # Nothing lists that it is not there any more.
            del gitlab.handbook.issues[secret.number]
        async with asyncio.timeout(30):
            while len(await list_open(bot, reader)) == 2:
                await asyncio.sleep(0.01)
        assert await list_open(bot, reader) == [f"issues/{public.number}"]
        own = ConversationKey("gitlab", REPOSITORY, f"issues/{secret.number}")
        assert len(await list_open(bot, own, is_restricted=True)) == 2, "who reads it reads all"


async def list_open(bot: ForgeBot, reader: ConversationKey, *, is_restricted: bool = False) -> list[str]:
    """Return the ids of the questions that are listed for the readers of a thread."""
    message = Message("", reader, "1", "ann", "", datetime.now(UTC), thread_state=ThreadState(is_restricted))
    question_filter = QuestionFilter(datetime.now(UTC) - timedelta(days=1), reader=message)
    questions = await ReportRepository(bot.journal.database).list_questions(question_filter, 9)
    rows = await bot.journal.database.fetch_all(select(messages.c.number, messages.c.id))
    ids = {row.number: row.id for row in rows}
    return [ids[question.number] for question in questions]


async def test_no_line_of_an_answer_is_carried_out(bot: ForgeBot, gitlab: GitlabPeer) -> None:
    bot.says = "/label ~x\n\nhow? \r/close\n\n> /assign me\n\n```\n/close\n```\n\nSee !7 and #8 [1]."
    url = f"{gitlab.url}/group/project/-/issues/12"
    bot.citations = [Citation(1, "1", "docs", "Guide", "guide.md", url)]
    async with bot:
        answer = await bot.ask("@kimas how? \r/close")
    assert gitlab.actions == []
    assert gitlab.handbook.issues[answer.number].state == "open"
    assert f"`{url}`" in answer.text
    assert "label \\~x" in answer.text


@pytest.mark.parametrize(("status", "drop"), [(502, ""), (0, "before"), (0, "after")])
async def test_a_lost_response_leads_to_no_second_comment(
    bot: ForgeBot, gitlab: GitlabPeer, status: int, drop: str
) -> None:
    async with bot:
        gitlab.fail(POST, status, drop=drop)
        await bot.ask()
    assert len(gitlab.posts()) == 1


async def test_reactions_rate_an_answer(bot: ForgeBot, gitlab: GitlabPeer) -> None:
    async with bot:
        answer = await bot.ask()
        reaction = gitlab.react(answer.id, "-1", "ben")
        assert "down" in (await bot.outcome(f"reaction {reaction}"))[1]


@pytest.mark.parametrize("change", [{"state": "closed"}, {"locked": True}])
async def test_closed_and_locked_issues_are_left_alone(
    bot: ForgeBot, gitlab: GitlabPeer, change: dict[str, object]
) -> None:
    async with bot:
        number = gitlab.open("Old", "Hello.", **change)
        gitlab.comment(number, "@kimas how?")
        await bot.skipped("closed" if "state" in change else "locked")
    assert gitlab.posts() == []


@pytest.mark.parametrize("author", ["project_12_bot_a1", "group_3_bot", "kimas"])
async def test_bots_are_left_alone(bot: ForgeBot, gitlab: GitlabPeer, author: str) -> None:
    async with bot:
        gitlab.open("Hello", "@kimas how?", author)
        await bot.skipped("written by ")
    assert gitlab.posts() == []


async def test_webhooks_have_the_token_and_are_all_taken(bot: ForgeBot, gitlab: GitlabPeer, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("a-secret-of-the-hook")
    bot.section |= {"webhook_secret": Secret(file=tmp_path / "hook"), "port": 0}
    async with bot:
        await bot.restart(poll_s=3600)
        number = gitlab.open("A question", "@kimas how?")
        event = {"object_kind": "issue", "project": {"path_with_namespace": REPOSITORY}}
        url = f"http://127.0.0.1:{bot.adapter.port}/gitlab"
        async with aiohttp.ClientSession() as session:
            for token, kind, status in (
                ("", "Issue Hook", 401),
                ("another", "Issue Hook", 401),
                ("é", "Issue Hook", 401),
                ("a-secret-of-the-hook", "Something New Hook", 202),
                ("a-secret-of-the-hook", "Confidential Issue Hook", 202),
            ):
                headers = {"X-Gitlab-Token": token, "X-Gitlab-Event": kind}
                async with session.post(url, json=event, headers=headers) as response:
                    assert response.status == status
        assert await bot.outcome(f"issues/{number}") == ("answered", "")


async def test_check_names_what_is_wrong(gitlab: GitlabPeer, tmp_path: Path) -> None:
    gitlab.repositories["example/closed"].can_write = False
    gitlab.repositories["example/fine"].can_write = True
    section = settings(gitlab, tmp_path, projects=("example/gone", "example/closed", "example/fine"))
    diagnosis = await diagnose(section, Scope())
    assert [problem.text.partition(" (")[0] for problem in diagnosis.problems] == [
        "example/gone is not there, has moved, has no issues, or the token may not read it",
        "the bot cannot comment in example/closed",
    ]
