"""Comments against a strict server: once, whole, in time, and where they may be."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.forges.client import Identity
from bots.forges.convert import to_message
from bots.forges.render import MAX_CHARS
from bots.forges.sink import ForgeSink
from core.errors import CommentSuppressed, UsageError
from core.types import Citation, ConversationKey, Message, Reply
from tests.support.forge_helpers import PACE, ForgeBot
from tests.support.peers.github import BOT, MAX_BODY_CHARS, REPOSITORY, GithubPeer, find_references
from tests.support.sink_helpers import DeliveryLog
from tests.support.waiting import until

POST = "POST issues/{}/comments"
ME = Identity(BOT, "github.com")


async def begin(bot: ForgeBot, peer: GithubPeer) -> tuple[int, str]:
    """Let somebody ask, and return the issue and its id once the answer is being written."""
    bot.hold = asyncio.Event()
    number = peer.open("A question", "@kimas how?")
    await until(lambda: bot.questions)
    return number, f"issues/{number}"


async def test_an_answer_is_a_comment_with_its_sources(bot: ForgeBot, peer: GithubPeer) -> None:
    bot.says = "Use `@scope/tool`, see #7 [1].\n/close"
    bot.citations = [Citation(1, "1", "docs", "Guide", "guide.md", "https://example.org/guide")]
    answer = await bot.ask()
    assert "[[1]](<https://example.org/guide>)" in answer.text
    assert answer.text.endswith("-->")
    assert peer.notified() == []
    assert find_references(answer.text) == []
    assert peer.handbook.issues[answer.number].state == "open"


@pytest.mark.parametrize(("status", "drop"), [(502, ""), (0, "before"), (0, "after")])
async def test_a_lost_response_leads_to_no_second_comment(
    bot: ForgeBot, peer: GithubPeer, status: int, drop: str
) -> None:
    peer.fail(POST, status, drop=drop)
    answer = await bot.ask()
    assert [note.id for note in peer.posts()] == [answer.id]


async def test_the_comment_of_another_answer_is_no_sign_of_this_one(bot: ForgeBot, peer: GithubPeer) -> None:
    first = await bot.ask()
    peer.fail(POST, drop="before")
    comment = peer.comment(first.number, "@kimas how?", "ben")
    assert await bot.outcome(comment) == ("answered", "")
    assert len(peer.posts()) == 2


@pytest.mark.parametrize("status", [403, 429])
async def test_a_limit_without_a_time_is_waited_out_and_the_answer_kept(
    peer: GithubPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("knowledge.sources.forge.api.DEFAULT_WAIT_S", 1.0)
    bot = ForgeBot(peer, tmp_path)
    async with bot:
        peer.fail(POST, status, message="You have exceeded a secondary rate limit.", times=2)
        began_at = time.monotonic()
        await bot.ask()
        # Twice as long after the second refusal.
        assert time.monotonic() - began_at > 3.0
        assert len(bot.questions) == 1
    assert len(peer.posts()) == 1


async def test_nothing_is_asked_while_the_server_wants_a_pause(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.fail(POST, 403, message="You have exceeded a secondary rate limit.", Retry_After="1")
    await bot.ask()
    assert peer.violations == []
    assert len(peer.posts()) == 1


async def test_comments_keep_their_distance(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path)
    bot.pace = replace(PACE, write_s=0.5)
    async with bot:
        began_at = time.monotonic()
        await asyncio.gather(*(bot.ask(author=f"person{number}") for number in range(4)))
        assert time.monotonic() - began_at > 1.5


@pytest.mark.parametrize(("change", "state"), [({"state": "closed"}, "closed"), ({"locked": True}, "locked")])
async def test_an_issue_that_is_closed_meanwhile_gets_no_answer(
    bot: ForgeBot, peer: GithubPeer, change: dict[str, object], state: str
) -> None:
    number, message = await begin(bot, peer)
    for name, value in change.items():
        setattr(peer.handbook.issues[number], name, value)
    assert bot.hold
    bot.hold.set()
    assert await bot.outcome(message) == ("silent", f"the thread is {state} now")
    assert peer.posts() == []


async def test_a_refusal_that_will_not_change_is_not_retried(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.fail(POST, 403, message="Unable to create comment because issue is locked.", times=5)
    number = peer.open("A question", "@kimas how?")
    state, reason = await bot.outcome(f"issues/{number}")
    assert (state, "issue is locked" in reason) == ("failed", True)
    assert peer.calls.count(POST) == 1


async def test_an_issue_that_is_transferred_meanwhile_gets_no_answer(bot: ForgeBot, peer: GithubPeer) -> None:
    number, message = await begin(bot, peer)
    peer.handbook.issues[number].moved_to = "/repos/example/other/issues/9"
    peer.open("The same", project="example/other")
    assert bot.hold
    bot.hold.set()
    assert (await bot.outcome(message))[0] == "silent"
    assert (peer.posts(), peer.posts("example/other"), peer.calls.count(POST)) == ([], [], 0)


@pytest.mark.parametrize("is_comment", [False, True])
async def test_a_question_that_is_deleted_meanwhile_gets_no_answer(
    bot: ForgeBot, peer: GithubPeer, is_comment: bool
) -> None:
    number, message = await begin(bot, peer)
    assert bot.hold
    if is_comment:
        bot.hold.set()
        assert await bot.outcome(message) == ("answered", "")
        bot.hold.clear()
        comment = peer.comment(number, "@kimas and why?")
        message = str(comment)
        await until(lambda: len(bot.questions) >= 2)
        del peer.handbook.notes[comment]
    else:
        del peer.handbook.issues[number]
    bot.hold.set()
    assert await bot.outcome(message) == ("silent", "the question was deleted before it was answered")
    assert len(peer.posts()) == is_comment


async def test_who_was_asked_answers_although_somebody_was_faster(peer: GithubPeer, tmp_path: Path) -> None:
    bot = ForgeBot(peer, tmp_path, wait_h=1)
    async with bot:
        number, message = await begin(bot, peer)
        peer.comment(number, "Use apt.", "ben")
        assert bot.hold
        bot.hold.set()
        # It was asked itself, so it answers all the same.
        assert await bot.outcome(message) == ("answered", "")


@pytest.mark.parametrize(("author", "is_faster"), [("ben", True), ("ann", False), ("robot", False)])
async def test_who_comments_while_the_bot_writes_unasked_was_faster(
    peer: GithubPeer, tmp_path: Path, author: str, is_faster: bool
) -> None:
    peer.bots.add("robot")
    bot = ForgeBot(peer, tmp_path)
    async with bot:
        number = peer.open("How do I install it?")
        message = to_message("github", await bot.adapter._get_client().get_topic(REPOSITORY, f"issues/{number}"), ME)
        peer.comment(number, "Use apt.", author)
        sink = bot.adapter.sink(message, DeliveryLog())
        with pytest.raises(CommentSuppressed, match="a human replied") if is_faster else nullcontext():
            await sink.finish(Reply("Use pip."))
    assert len(peer.posts()) == (not is_faster)


async def test_an_answer_that_is_too_long_is_cut_and_says_so(bot: ForgeBot, peer: GithubPeer) -> None:
    bot.says = "It is in the guide [1].\n\n```\n" + "a line of code\n" * 5000
    bot.citations = [Citation(1, "1", "docs", "Guide", "guide.md", "https://example.org/guide")]
    answer = await bot.ask()
    assert len(answer.text) <= MAX_BODY_CHARS
    assert answer.text.count("\n```") % 2 == 0
    assert "**Sources**" in answer.text
    assert len(peer.posts()) == 1


async def test_an_answer_that_markup_makes_too_long_is_cut(bot: ForgeBot) -> None:
    bot.says = "_ * " * 10_000
    answer = await bot.ask()
    assert len(answer.text) <= MAX_CHARS + 100


async def test_a_passage_that_is_refused_is_left_out(bot: ForgeBot, peer: GithubPeer) -> None:
    peer.banned = "casino"
    bot.says = "\n\n".join(["A word about the start. " * 20, "casino", "A word about the end. " * 20])
    number = peer.open("A question", "@kimas how?")
    assert await bot.outcome(f"issues/{number}") == ("answered", "")
    text = "\n".join(note.text for note in peer.posts())
    assert "about the start" in text
    assert "casino" not in text


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open"])
async def test_a_comment_is_judged_after_the_forge_was_looked_at(
    bot: ForgeBot, peer: GithubPeer, monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    """The forge takes its time, others' comments have their turns, and a source is closed meanwhile."""
    delivery = DeliveryLog()
    check_question = ForgeSink._check_question

    async def check_late(sink: ForgeSink) -> None:
        await check_question(sink)
        delivery.are_rights_lost = is_closed

    monkeypatch.setattr(ForgeSink, "_check_question", check_late)
    await begin(bot, peer)
    key = ConversationKey("github", REPOSITORY, "issues/1")
    reference = {"project": REPOSITORY, "topic": "issues/1", "comment": 0}
    asked = Message("issues/1", key, "1", "ann", "how?", datetime.now(UTC), addressed=True, reference=reference)
    sink = bot.adapter.sink(asked, delivery)
    with pytest.raises(UsageError) if is_closed else nullcontext():
        await sink.finish(Reply("A secret."))
    assert (peer.posts() == []) == is_closed
    assert bot.hold
    monkeypatch.undo()
    bot.hold.set()
