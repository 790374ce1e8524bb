"""Discussions on GitHub, against a peer that checks each query: threads, chosen answers, categories, points."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.common.diagnosis import Scope
from bots.forges.diagnosis import diagnose
from core.storage.tables import messages
from tests.support.forge_helpers import ForgeBot, settings
from tests.support.peers.discussions import Discussions, Remark
from tests.support.peers.github import BOT, GithubPeer
from tests.support.waiting import until

POST = "mutation AddComment"
LOOK = "query ChangedDiscussions"
ANSWERED = ("answered", "")


@pytest.fixture
def talks(peer: GithubPeer) -> Discussions:
    return peer.discussions


@pytest.fixture
async def bot(peer: GithubPeer, tmp_path: Path) -> AsyncIterator[ForgeBot]:
    bot = ForgeBot(peer, tmp_path, discussions=True)
    await bot.start()
    yield bot
    await bot.stop()
    assert peer.violations == []


def name(remark: Remark) -> str:
    return f"comment-{remark.id}"


async def ask(bot: ForgeBot, author: str = "ann") -> tuple[int, Remark]:
    """Let somebody begin a discussion that asks, and return its number and the answer."""
    talks = bot.peer.discussions
    number = talks.open("A question", "@kimas how do I install it?", author)
    assert await bot.outcome(f"discussions/{number}") == ANSWERED
    return number, talks.posts()[-1]


async def until_looked(peer: GithubPeer, times: int = 2) -> None:
    count = peer.calls.count(LOOK) + times
    await until(lambda: peer.calls.count(LOOK) >= count)


async def test_a_discussion_a_comment_and_a_nested_reply_are_answered(bot: ForgeBot, talks: Discussions) -> None:
    number, answer = await ask(bot)
    assert (answer.top, answer.text.startswith("Use pip.")) == (None, True)
    top = talks.comment(number, "It crashes.", "ben")
    assert await bot.outcome(name(top)) == ("silent", "the bot was not addressed")
    reply = talks.comment(number, "Any idea, @Kimas?", "cat", top)
    assert await bot.outcome(name(reply)) == ANSWERED
    # In the thread, below the comment at its head: there is no reply to a reply.
    assert talks.posts()[-1].top is top
    second = talks.comment(number, "@kimas, and on Windows?", "ben")
    assert await bot.outcome(name(second)) == ANSWERED
    assert talks.posts()[-1].top is second
    assert len(talks.posts()) == 3


async def test_the_thread_below_an_answer_goes_on_with_its_conversation(bot: ForgeBot, talks: Discussions) -> None:
    number, answer = await ask(bot)
    follow_up = talks.comment(number, "And how do I install it on Windows?", top=answer)
    assert await bot.outcome(name(follow_up)) == ANSWERED
    assert talks.posts()[-1].top is answer
    thanks = talks.comment(number, "Thanks a lot.", top=answer)
    assert (await bot.outcome(name(thanks)))[0] == "silent"
    other = talks.comment(number, "@kimas and how do I start it?", "ben")
    assert await bot.outcome(name(other)) == ANSWERED
    threads = [question.key and question.key.thread for question in bot.questions]
    assert threads == [f"discussions/{number}", f"discussions/{number}", f"discussions/{number}/{other.node}"]


async def test_the_first_start_answers_nothing_of_old(peer: GithubPeer, talks: Discussions, tmp_path: Path) -> None:
    for index in range(60):
        number = talks.open(f"Old {index}", "@kimas how?")
        talks.comment(number, "@kimas and how?", top=talks.comment(number, "@kimas how?"))
    bot = ForgeBot(peer, tmp_path, discussions=True)
    async with bot:
        await ask(bot)
        await bot.restart()
        await ask(bot)
    assert len(talks.posts()) == 2


async def test_what_came_while_the_bot_was_down_is_answered_once(
    bot: ForgeBot, peer: GithubPeer, talks: Discussions
) -> None:
    peer.bots.add("robot")
    number, answer = await ask(bot)
    await bot.stop()
    numbers = [talks.open(f"Question {index}", "@kimas how?", f"person{index}") for index in range(3)]
    for _ in range(120):
        talks.comment(number, "Me too.", "robot")
    # The last of many comments, and the last reply to the first one.
    remarks = [talks.comment(number, "@kimas how?", "cat"), talks.comment(number, "@kimas why?", "dan", answer)]
    await bot.start()
    for message in (*(f"discussions/{other}" for other in numbers), *(name(remark) for remark in remarks)):
        assert await bot.outcome(message) == ANSWERED
    await bot.restart()
    await ask(bot)
    assert len(talks.posts()) == 7


async def test_issues_and_discussions_share_numbers_and_hide_none(
    bot: ForgeBot, peer: GithubPeer, talks: Discussions
) -> None:
    await bot.stop()
    issue = peer.open("An issue", "@kimas how?")
    number = talks.open("A discussion", "@kimas how?", "ben")
    later_issue = peer.open("Another issue", "@kimas how?", "cat")
    await bot.start()
    assert await bot.outcome(f"issues/{issue}") == ANSWERED
    assert await bot.outcome(f"discussions/{number}") == ANSWERED
    assert await bot.outcome(f"issues/{later_issue}") == ANSWERED
    # The ids of their comments may be the same, too.
    peer._next_id = 5000
    comment = peer.comment(issue, "@kimas and why?", "dan")
    assert await bot.outcome(comment) == ANSWERED
    peer._next_id = 5000
    remark = talks.comment(number, "@kimas and why?", "dan")
    assert remark.id == comment
    assert await bot.outcome(name(remark)) == ANSWERED


@pytest.mark.parametrize(("change", "reason"), [({"closed": True}, "closed"), ({"locked": True}, "locked")])
async def test_closed_and_locked_discussions_are_left_alone(
    bot: ForgeBot, talks: Discussions, change: dict[str, Any], reason: str
) -> None:
    number = talks.open("Old", "Hello.", **change)
    talks.comment(number, "@kimas how?")
    await bot.skipped(reason)
    talks.open("Older", "@kimas how?", **change)
    await ask(bot)
    assert len(talks.posts()) == 1


async def test_with_a_chosen_answer_only_a_mention_is_answered(bot: ForgeBot, talks: Discussions) -> None:
    number, answer = await ask(bot)
    talks.talks[number].is_answered = True
    talks.comment(number, "And how do I install it on Windows?", top=answer)
    await bot.skipped("has a chosen answer")
    mention = talks.comment(number, "@kimas and on Windows?", "ben")
    assert await bot.outcome(name(mention)) == ANSWERED
    assert len(talks.posts()) == 2


async def test_an_answer_chosen_meanwhile_keeps_the_bot_silent(
    peer: GithubPeer, talks: Discussions, tmp_path: Path
) -> None:
    bot = ForgeBot(peer, tmp_path, discussions=True)
    async with bot:
        number, answer = await ask(bot)
        bot.hold = asyncio.Event()
        follow_up = talks.comment(number, "And how do I install it on Windows?", top=answer)
        await until(lambda: len(bot.questions) >= 2)
        talks.talks[number].is_answered = True
        bot.hold.set()
        assert (await bot.outcome(name(follow_up)))[0] == "silent"
    assert len(talks.posts()) == 1


@pytest.mark.parametrize(("categories", "answered"), [((), "Q&A"), (("ideas",), "Ideas"), (("IDEAS",), "Ideas")])
async def test_categories(
    peer: GithubPeer, talks: Discussions, tmp_path: Path, categories: tuple[str, ...], answered: str
) -> None:
    bot = ForgeBot(peer, tmp_path, discussions=True, discussion_categories=categories)
    async with bot:
        for category in ("Q&A", "Ideas", "General"):
            number = talks.open(category, "@kimas how?", category=category)
            talks.comment(number, "@kimas how?", "ben")
        await until_looked(peer, 3)
        [number] = [talk.number for talk in talks.talks.values() if talk.category == answered]
        assert await bot.outcome(f"discussions/{number}") == ANSWERED
        assert await bot.outcome(name(talks.talks[number].remarks[0])) == ANSWERED
    assert {talk.category for talk in talks.talks.values() if len(talk.remarks) > 1} == {answered}
    assert len(talks.posts()) == 2


@pytest.mark.parametrize(
    ("author", "reason"),
    [(BOT, "written by the bot itself"), ("robot", "written by a bot"), ("", "written by a bot")],
)
async def test_bots_are_left_alone(
    bot: ForgeBot, peer: GithubPeer, talks: Discussions, author: str, reason: str
) -> None:
    peer.bots.add("robot")
    number = talks.open("Hello", "@kimas how?", author)
    talks.comment(number, "@kimas how?", author)
    await bot.skipped(reason)
    await until_looked(peer)
    assert len(talks.posts()) == (author == BOT)


@pytest.mark.parametrize("is_below", [False, True])
@pytest.mark.parametrize(("status", "drop"), [(502, ""), (0, "before"), (0, "after")])
async def test_a_lost_response_leads_to_no_second_comment(
    bot: ForgeBot, peer: GithubPeer, talks: Discussions, is_below: bool, status: int, drop: str
) -> None:
    if is_below:
        number, answer = await ask(bot)
        peer.fail(POST, status, drop=drop)
        reply = talks.comment(number, "@kimas and why?", "ben", answer)
        assert await bot.outcome(name(reply)) == ANSWERED
    else:
        peer.fail(POST, status, drop=drop)
        await ask(bot)
    assert len(talks.posts()) == 1 + is_below


async def test_a_refused_answer_is_not_tried_again(bot: ForgeBot, peer: GithubPeer, talks: Discussions) -> None:
    talks.denied.add("write")
    number = talks.open("A question", "@kimas how?")
    assert (await bot.outcome(f"discussions/{number}"))[0] == "failed"
    assert peer.calls.count(POST) == 1


@pytest.mark.parametrize("has_replies", [False, True])
async def test_a_question_that_is_deleted_meanwhile_gets_no_answer(
    bot: ForgeBot, talks: Discussions, has_replies: bool
) -> None:
    number, _ = await ask(bot)
    bot.hold = asyncio.Event()
    remark = talks.comment(number, "@kimas and why?", "ben")
    await until(lambda: len(bot.questions) >= 2)
    if has_replies:
        talks.comment(number, "I wonder, too.", "cat", remark)
    talks.remove(number, remark)
    bot.hold.set()
    assert await bot.outcome(name(remark)) == ("silent", "the question was deleted before it was answered")
    assert len(talks.posts()) == 1


async def test_reactions_rate_an_answer_although_another_one_is_gone(
    bot: ForgeBot, peer: GithubPeer, talks: Discussions
) -> None:
    number, gone = await ask(bot)
    _, answer = await ask(bot, "ben")
    await until_looked(peer)
    talks.remove(number, gone)
    reaction = peer.react(answer.id, "THUMBS_DOWN", "cat")
    assert "down" in (await bot.outcome(f"reaction REA_{reaction}"))[1]


async def test_a_label_of_the_repository_says_what_the_bot_did(
    peer: GithubPeer, talks: Discussions, tmp_path: Path
) -> None:
    talks.labels.add("bot: answered")
    bot = ForgeBot(peer, tmp_path, discussions=True, answered_label="bot: answered", not_found_label="bot: unknown")
    async with bot:
        number, _ = await ask(bot)
        assert talks.talks[number].labels == ["bot: answered"]
        # One that the repository does not have costs nothing else.
        bot.finds_nothing = True
        number, _ = await ask(bot)
        assert talks.talks[number].labels == []


async def test_a_quiet_look_costs_two_points(bot: ForgeBot, peer: GithubPeer, talks: Discussions) -> None:
    number, _ = await ask(bot)
    peer.bots.add("robot")
    for _ in range(150):
        talks.comment(number, "Me too.", "robot")
    await bot.heard(name(talks.comment(number, "Me too.", "ben")))
    # What was read is not read again.
    await asyncio.sleep(2.5)
    await until_looked(peer)
    looks, points = peer.calls.count(LOOK), talks.points
    reactions = peer.calls.count("query Reactions")
    await until_looked(peer, 10)
    reactions = peer.calls.count("query Reactions") - reactions
    assert talks.points - points - reactions <= 2 * (peer.calls.count(LOOK) - looks + 1)


async def test_a_token_without_discussions_costs_no_issues(bot: ForgeBot, talks: Discussions) -> None:
    talks.denied.add("read")
    await bot.ask()
    assert "example/handbook:discussions" in bot.adapter.connection.warning


@pytest.mark.parametrize("denied", ["", "read", "write"])
async def test_check_names_a_right_that_the_token_lacks(
    peer: GithubPeer, talks: Discussions, tmp_path: Path, denied: str
) -> None:
    peer.handbook.can_write = True
    talks.open("A question", "How?")
    talks.denied.add(denied)
    diagnosis = await diagnose(settings(peer, tmp_path, discussions=True), Scope(()))
    texts = [problem.text.partition(" (")[0] for problem in diagnosis.problems]
    assert texts == ["the bot cannot comment in the discussions of example/handbook"] * bool(denied)
    assert (talks.posts(), peer.violations) == ([], [])


async def test_a_login_that_was_taken_is_another_person_in_discussions(bot: ForgeBot, talks: Discussions) -> None:
    number, answer = await ask(bot)
    rating = bot.peer.react(answer.id, "THUMBS_DOWN", "ann")
    await bot.heard(f"reaction REA_{rating}")
    bot.peer.logins |= {"ann": "annie", "stranger": "ann"}
    stranger = talks.comment(number, "@kimas and how on Windows?", "stranger")
    assert await bot.outcome(name(stranger)) == ANSWERED
    other_rating = bot.peer.react(answer.id, "THUMBS_UP", "stranger")
    await bot.heard(f"reaction REA_{other_rating}")
    renamed = talks.comment(number, "@kimas and how on Linux?", "ann")
    assert await bot.outcome(name(renamed)) == ANSWERED
    async with bot.journal.database.connect() as connection:
        rows = await connection.execute(select(messages.c.author_id).order_by(messages.c.number))
        known = f"ann+{bot.peer.get_number('stranger')}"
        assert [row.author_id for row in rows] == ["ann", "ann", known, known, "ann"]


async def test_another_repository_under_the_name_gets_no_answer(bot: ForgeBot, talks: Discussions) -> None:
    await ask(bot)
    bot.hold = asyncio.Event()
    number = talks.open("A question", "@kimas how?")
    await bot.heard(f"discussions/{number}")
    bot.peer.handbook.number = 77
    bot.hold.set()
    assert (await bot.outcome(f"discussions/{number}"))[0] == "silent"
    assert len(talks.posts()) == 1


async def test_a_command_in_a_discussion_is_a_question(bot: ForgeBot, talks: Discussions) -> None:
    number, _ = await ask(bot)
    # GitHub does not say whether an app, or a mail, wrote it in the person's name.
    command = talks.comment(number, "@kimas /forget", "ann")
    assert await bot.outcome(name(command)) == ANSWERED
    async with bot.journal.database.connect() as connection:
        rows = await connection.execute(select(messages.c.author_id, messages.c.command))
        assert [tuple(row) for row in rows] == [("ann", ""), ("ann", "")]
