"""Logins and projects that were set free and taken by strangers: what was theirs stays with the number behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from bots.common.diagnosis import Scope
from bots.forges.diagnosis import diagnose
from core.storage.tables import cursors, feedback, messages, taught_answers
from tests.support.forge_helpers import SMALL_TALK, ForgeBot, settings
from tests.support.peers.github import REPOSITORY, GithubPeer, Note
from tests.support.peers.gitlab import GitlabPeer
from tests.support.waiting import until

ANSWERED = ("answered", "")
OTHER_NUMBER = 77
PAUSED = "I am silent in this chat"


@pytest.fixture
async def bot(forge: GithubPeer, tmp_path: Path) -> AsyncIterator[ForgeBot]:
    """A bot on either forge, of which ann is an owner."""
    bot = make_bot(forge, tmp_path)
    await bot.start()
    yield bot
    await bot.stop()
    assert forge.violations == []


def make_bot(peer: GithubPeer, folder: Path, *owners: str, **section: Any) -> ForgeBot:
    bot = ForgeBot(peer, folder, **section)
    platform = "gitlab" if isinstance(peer, GitlabPeer) else "github"
    bot.people = set(owners or ("ann",))
    bot.changes = {"administration": {"owners": [f"{platform}:{owner}" for owner in bot.people]}}
    if platform == "gitlab":
        bot.changes["gitlab"] = {"token": {"env": "NONE"}, "projects": [REPOSITORY]}
    else:
        bot.changes["github"] = {"token": {"env": "NONE"}, "repositories": [REPOSITORY]}
    return bot


def rename(peer: GithubPeer) -> None:
    """Call ann annie, and let a stranger take her name."""
    peer.logins |= {"ann": "annie", "stranger": "ann"}


def called(peer: GithubPeer, person: str = "stranger") -> str:
    """Return how somebody is known who took a name."""
    return f"{peer.get_login(person)}+{peer.get_number(person)}"


async def ask(bot: ForgeBot, author: str, text: str = "@kimas how do I install it?", **fields: Any) -> Note:
    return await bot.ask(text, author, **fields)


async def may_pause(bot: ForgeBot, author: str) -> bool:
    """Let somebody give a command of owners, and return whether the bot obeys."""
    return PAUSED in await bot.command("/pause 1", author)


async def read_authors(bot: ForgeBot) -> list[str]:
    async with bot.journal.database.connect() as connection:
        authors = select(messages.c.author_id).where(messages.c.text != SMALL_TALK).order_by(messages.c.number)
        rows = await connection.execute(authors)
        return [row.author_id for row in rows]


async def forget_numbers(bot: ForgeBot) -> None:
    """Leave the journal as versions did that knew logins alone."""
    async with bot.journal.database.transaction() as connection:
        names = cursors.c.name
        await connection.execute(delete(cursors).where(names.contains(":person:") | names.contains(":login:")))


async def test_a_stranger_with_the_login_of_an_owner_is_none(bot: ForgeBot, forge: GithubPeer) -> None:
    assert await may_pause(bot, "ann")
    await bot.command("/resume")
    rename(forge)
    assert not await may_pause(bot, "stranger")
    assert await may_pause(bot, "ann")
    assert await read_authors(bot) == ["ann", "ann", called(forge), "ann"]
    await forge.until_polled(3)
    assert f":{called(forge)}" in bot.adapter.connection.warning


async def test_a_stranger_teaches_nothing_and_takes_no_lesson_away(forge: GithubPeer, tmp_path: Path) -> None:
    async def say(text: str, author: str) -> list[str]:
        """Comment, and return who taught what there is now."""
        await bot.outcome(forge.comment(question.number, text, author))
        async with bot.journal.database.connect() as connection:
            rows = await connection.execute(select(taught_answers.c.taught_by))
            return [row.taught_by for row in rows]

    async with make_bot(forge, tmp_path, "ann", "ben") as bot:
        question = await ask(bot, "ann")
        assert await say("> It is in the vault.\n\n@kimas /learn Where is the key?", "ben") == ["ann"]
        rename(forge)
        assert await say("> It is on the table.\n\n@kimas /learn Where is the lock?", "stranger") == ["ann"]
        assert await say("@kimas /forget", "stranger") == ["ann"]
        assert await say("@kimas /forget", "ann") == []


async def test_an_administrator_by_command_is_one_after_a_renaming(bot: ForgeBot, forge: GithubPeer) -> None:
    await ask(bot, "ben")
    await bot.command("/admins add ben")
    forge.logins |= {"ben": "benny", "stranger": "ben"}
    assert not await may_pause(bot, "stranger")
    assert await may_pause(bot, "ben")


async def test_an_account_without_a_number_has_no_name_of_anybody(bot: ForgeBot, forge: GithubPeer) -> None:
    await ask(bot, "ann")
    forge.numberless.add("ann")
    assert not await may_pause(bot, "ann")
    assert await read_authors(bot) == ["ann", "ann+0"]


async def test_who_wrote_old_rows_is_asked_until_the_forge_says_it(forge: GithubPeer, tmp_path: Path) -> None:
    async with make_bot(forge, tmp_path, "ben") as bot:
        await ask(bot, "ann")
        await forget_numbers(bot)
    rename(forge)
    forge.fail("GET issues/{}", 502, times=2)
    async with make_bot(forge, tmp_path) as bot:
        assert not await may_pause(bot, "stranger")
        assert await may_pause(bot, "ann")


async def test_ratings_and_lessons_alone_are_nobodys(forge: GithubPeer, tmp_path: Path) -> None:
    async with make_bot(forge, tmp_path, "ben") as bot:
        answer = await ask(bot, "ben")
        rating = forge.react(answer.id, "-1", "ann")
        await bot.outcome(f"reaction {rating}")
        await forget_numbers(bot)
    rename(forge)
    async with make_bot(forge, tmp_path) as bot:
        assert not await may_pause(bot, "stranger")
        assert not await may_pause(bot, "ann")


async def test_what_deleted_accounts_wrote_is_nobodys(forge: GithubPeer, tmp_path: Path) -> None:
    async with make_bot(forge, tmp_path, "ben") as bot:
        await ask(bot, "ann")
        await forget_numbers(bot)
    # The forge gives it to one account for all of them.
    forge.logins["ann"] = "ghost"
    async with make_bot(forge, tmp_path) as bot:
        assert not await may_pause(bot, "ann")
        assert await read_authors(bot) == ["ann", "ghost+0"]


async def test_an_owner_is_known_before_she_writes(bot: ForgeBot, forge: GithubPeer) -> None:
    rename(forge)
    assert not await may_pause(bot, "stranger")


async def test_who_is_confirmed_has_rights_and_none_of_the_memories(forge: GithubPeer, tmp_path: Path) -> None:
    async with make_bot(forge, tmp_path) as bot:
        await ask(bot, "ann")
        rename(forge)
        await ask(bot, "stranger")
    async with make_bot(forge, tmp_path, "ann", called(forge)) as bot:
        assert await may_pause(bot, "stranger")
        assert bot.adapter.connection.warning == ""
        assert await read_authors(bot) == ["ann", called(forge), called(forge)]


async def test_what_the_first_one_said_is_not_the_strangers_to_forget(bot: ForgeBot, forge: GithubPeer) -> None:
    question = await ask(bot, "ann")
    rename(forge)
    await bot.command("/forget", "stranger")
    comment = forge.comment(question.number, "@kimas /forget", "ann")
    assert (await read_authors(bot))[0] == "ann"
    assert await bot.outcome(comment) == ANSWERED
    assert (await read_authors(bot))[0] == ""


async def test_a_stranger_has_a_rating_of_their_own(bot: ForgeBot, forge: GithubPeer) -> None:
    answer = await ask(bot, "ben")
    first = forge.react(answer.id, "-1", "ann")
    await bot.heard(f"reaction {first}")
    rename(forge)
    second = forge.react(answer.id, "+1", "stranger")
    await bot.outcome(f"reaction {second}")
    async with bot.journal.database.connect() as connection:
        rows = await connection.execute(select(feedback.c.author_id, feedback.c.verdict))
        assert {row.author_id: row.verdict for row in rows} == {"ann": "down", called(forge): "up"}


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_old_rows_under_a_login_are_those_of_who_wrote_them(
    forge: GithubPeer, tmp_path: Path, is_deleted: bool
) -> None:
    bot = make_bot(forge, tmp_path, "ben")
    async with bot:
        question = await ask(bot, "ann")
        comment = forge.comment(question.number, "@kimas and then?", "ann")
        assert await bot.outcome(comment) == ANSWERED
        rating = forge.react(question.id, "-1", "ann")
        await bot.outcome(f"reaction {rating}")
        await forget_numbers(bot)
    rename(forge)
    if is_deleted:
        # Nobody can tell any more who wrote it.
        del forge.handbook.notes[comment]
    bot = make_bot(forge, tmp_path)
    async with bot:
        assert not await may_pause(bot, "stranger")
        assert await may_pause(bot, "ann") != is_deleted
        authors = await read_authors(bot)
        assert authors == ["ann", "ann", "ann", called(forge), "annie" if is_deleted else "ann"]
        await forge.until_polled(3)
        assert "nobody can tell who" in bot.adapter.connection.warning or not is_deleted


async def test_an_owner_whom_nobody_has_is_no_later_account(forge: GithubPeer, tmp_path: Path) -> None:
    forge.gone.add("zoe")
    async with make_bot(forge, tmp_path, "zoe") as bot:
        await forge.until_polled(2)
        assert "nobody can tell who" in bot.adapter.connection.warning
        forge.gone.clear()
        assert not await may_pause(bot, "zoe")
    async with make_bot(forge, tmp_path, called(forge, "zoe")) as bot:
        assert await may_pause(bot, "zoe")


async def test_a_renamed_owner_is_told_under_which_name_she_is_known(forge: GithubPeer, tmp_path: Path) -> None:
    async with make_bot(forge, tmp_path) as bot:
        await ask(bot, "ann")
    forge.logins["ann"] = "annie"
    async with make_bot(forge, tmp_path, "annie") as bot:
        await forge.until_polled(2)
        assert "known here as ann" in bot.adapter.connection.warning
        # Nor is it the right of whoever takes that name next.
        forge.logins |= {"ann": "anna", "stranger": "annie"}
        assert not await may_pause(bot, "stranger")


async def test_another_project_under_the_name_is_not_read_nor_written_in(bot: ForgeBot, forge: GithubPeer) -> None:
    await ask(bot, "ann")
    bot.hold = asyncio.Event()
    waiting = forge.open("A question", "@kimas how?")
    await bot.heard(f"issues/{waiting}")
    forge.handbook.number = OTHER_NUMBER
    bot.hold.set()
    # What was asked in the first one is not answered in this one.
    assert (await bot.outcome(f"issues/{waiting}"))[0] == "silent"
    unread = forge.open("A question", "@kimas how?")
    await forge.until_polled(0)
    await until(lambda: f"{REPOSITORY}+{OTHER_NUMBER}" in bot.adapter.connection.warning)
    assert f"issues/{unread}" not in await bot.list_messages()
    assert len(forge.posts()) == 1


async def test_another_project_that_is_confirmed_is_a_chat_of_its_own(forge: GithubPeer, tmp_path: Path) -> None:
    async with make_bot(forge, tmp_path) as bot:
        await ask(bot, "ann")
    forge.handbook.number = OTHER_NUMBER
    name = f"{REPOSITORY}+{OTHER_NUMBER}"
    section = {"projects" if isinstance(forge, GitlabPeer) else "repositories": (name,)}
    async with make_bot(forge, tmp_path, **section) as bot:
        await ask(bot, "ann")
        assert [question.key and question.key.chat for question in bot.questions] == [name]
        diagnosis = await diagnose(settings(forge, tmp_path, **section), Scope())
        assert diagnosis.problems == ()
        forge.handbook.number += 1
        [problem] = (await diagnose(settings(forge, tmp_path, **section), Scope())).problems
        assert f"write {REPOSITORY}+{OTHER_NUMBER + 1}" in problem.text
