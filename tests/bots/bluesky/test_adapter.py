"""Notifications and feeds against a strict server: each mention once, in order, whatever breaks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from bots.bluesky.adapter import BlueskyAdapter
from bots.bluesky.diagnosis import diagnose
from bots.bluesky.reading import REWIND_MS
from bots.common.bounded_response import BoundedResponse
from bots.common.diagnosis import Scope
from bots.common.namespaced import NamespacedAdapter
from core.errors import PlatformError
from core.types import ConversationKey, Message, SkipReason, skip
from tests.support.bluesky_helpers import AT, PACE, BlueskyBot, settings
from tests.support.free_ports import free_port
from tests.support.journalled_bot import MemoryPositions
from tests.support.peers.bluesky import BOT, BlueskyPeer, make_cid, make_error
from tests.support.waiting import until

LOGIN = "POST createSession"


async def test_a_mention_is_answered_below_it(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    reply = await bot.ask(f"{AT}how do I install it?")
    assert reply.text == "Use pip."
    assert bot.questions[0].text == "how do I install it?"
    assert peer.violations == []


async def test_what_came_while_the_server_was_away_is_answered_once_and_in_order(
    bot: BlueskyBot, peer: BlueskyPeer
) -> None:
    await bot.ask()
    await peer.away()
    await until(lambda: not bot.adapter.connection.is_connected)
    questions = [peer.say(peer.account("ann"), f"{AT}question {number}?") for number in range(3)]
    await peer.listen()
    questions.append(peer.say(peer.account("ann"), f"{AT}question 3?"))
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    assert [item.text for item in bot.questions[1:]] == [f"question {number}?" for number in range(4)]
    assert len(peer.posts()) == 5
    assert bot.adapter.connection.outages == 1


async def test_what_came_while_the_daemon_was_down_is_answered_after_the_start(
    bot: BlueskyBot, peer: BlueskyPeer
) -> None:
    await bot.stop()
    # More than one page of them.
    questions = [peer.say(peer.account(f"person{number}"), f"{AT}how?") for number in range(75)]
    await bot.start()
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    await bot.restart()
    assert len(peer.posts()) == 75


async def test_a_post_whose_clock_is_slow_is_answered(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    """It appears below newer ones, which were read already."""
    await bot.stop()
    bot.peer._newest = bot.peer._newest.replace(year=2020)
    await bot.start()
    await bot.ask()
    late = peer.say(peer.account("ben"), f"{AT}how?", age_s=REWIND_MS / 2000)
    # After the first start nothing older than it counts.
    assert late not in await bot.list_messages()
    assert await bot.outcome(late) == ("answered", "")


async def test_the_first_start_answers_nothing_of_old(peer: BlueskyPeer, tmp_path: Path) -> None:
    old = [peer.say(peer.account("ann"), f"{AT}how was it?") for _ in range(2)]
    bot = BlueskyBot(peer, tmp_path)
    await bot.start()
    await bot.ask()
    await bot.restart()
    await bot.ask()
    await bot.stop()
    assert [post for post in peer.posts() if post.reply_to in old] == []
    assert len(peer.posts()) == 2


async def test_a_post_that_is_shown_later_than_its_notification_is_answered(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    peer.fail("GET getPostThread", 400, error="NotFound")
    await bot.ask()
    peer.fail("GET getPostThread", 400, error="NotFound", times=2)
    peer.say(peer.account("ann"), f"{AT}how?")
    await bot.skipped("deleted before it was read")
    await bot.ask()


async def test_a_notification_that_is_shown_again_changes_nothing(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    answer = await bot.ask()
    question = peer.posts_by_uri[answer.reply_to]
    for _ in range(2):
        peer.notify("mention", question.author, question.uri, question.record)
        await bot.ask(name="ben")
        await bot.restart()
    assert len(peer.posts()) == 3


async def test_what_is_too_large_to_be_read_holds_up_nobody(
    bot: BlueskyBot, peer: BlueskyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedResponse, "max_bytes", 60_000)
    await bot.stop()
    questions = [peer.say(peer.account(f"person{number}"), f"{AT}how?", padding="x" * 12_000) for number in range(6)]
    thread = peer.say(peer.account("ben"), "a long thread", padding="x" * 70_000)
    peer.say(peer.account("ann"), f"{AT}what does that mean?", reply_to=thread)
    questions.append(peer.say(peer.account("ann"), f"{AT}and now?"))
    await bot.start()
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    assert bot.adapter.skipped["in a thread that is too large to be read"] == 1


async def test_one_login_lasts_for_polls_and_starts(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    for _ in range(3):
        await peer.until_polled(count=7)
        await bot.restart()
    assert peer.calls.count(LOGIN) == 1
    file = bot.folder / "bluesky.session"
    assert file.stat().st_mode & 0o777 == 0o600
    assert peer.password not in file.read_text()


async def test_an_expired_session_is_renewed_once_for_all_calls(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    peer.fail("POST refreshSession", 503)
    peer.expire_sessions()
    questions = [peer.say(peer.account(name), f"{AT}how?") for name in ("ann", "ben", "cleo")]
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    assert (peer.calls.count(LOGIN), peer.calls.count("POST refreshSession")) == (1, 2)
    # The next one, after a start, as well.
    peer.expire_sessions()
    await bot.restart()
    await bot.ask()
    assert (peer.calls.count(LOGIN), peer.calls.count("POST refreshSession")) == (1, 3)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"did": 7}'])
async def test_a_session_that_is_gone_or_unreadable_costs_a_login(
    bot: BlueskyBot, peer: BlueskyPeer, content: str | None
) -> None:
    await bot.stop()
    if content is None:
        peer.expire_sessions(for_good=True)
    else:
        (bot.folder / "bluesky.session").write_text(content)
    await bot.start()
    await bot.ask()
    assert peer.calls.count(LOGIN) == 2


async def test_a_session_is_used_where_the_account_is(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    values = json.loads((bot.folder / "bluesky.session").read_text())
    assert (values["url"], values["did"]) == (peer.url, BOT.did)


async def test_a_session_whose_server_is_gone_costs_one_login(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    await bot.stop()
    file = bot.folder / "bluesky.session"
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "url": f"http://127.0.0.1:{free_port()}"}))
    await bot.start()
    await bot.ask()
    assert peer.calls.count(LOGIN) == 2
    assert json.loads(file.read_text())["url"] == peer.url
    # A server that is only away for a while costs none.
    await peer.away()
    await asyncio.sleep(0.1)
    await peer.listen()
    await bot.ask()
    assert peer.calls.count(LOGIN) == 2


async def test_what_is_nested_too_deeply_holds_up_nobody(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    peer.raw['"DEEP"'] = '{"in": [' * 3000 + "1" + "]}" * 3000
    question = peer.say(peer.account("ann"), f"{AT}how?", extra="DEEP")
    assert await bot.outcome(question) == ("answered", "")
    await bot.ask(name="ben")


async def test_a_forged_root_leads_nobody_into_another_thread(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    victim = peer.posts_by_uri[peer.say(peer.account("victim"), "Good morning")]
    top = peer.posts_by_uri[peer.say(peer.account("ann"), "Releases")]
    forged = {"root": victim.ref, "parent": top.ref}
    answer = await bot.ask(f"{AT}how?", reply=forged)
    assert answer.root == top.uri
    # Of a thread whose beginning is gone, its posts alone say where it began.
    other = peer.posts_by_uri[peer.say(peer.account("ann"), "Old news")]
    middle = peer.posts_by_uri[peer.say(peer.account("ben"), "Indeed", reply_to=other.uri)]
    peer.delete(other.uri)
    assert (await bot.ask(f"{AT}how?", reply_to=middle.uri)).root == other.uri


async def test_a_refused_password_ends_it(peer: BlueskyPeer, bot: BlueskyBot) -> None:
    configured = bot.adapter._settings
    peer.password = "another"
    peer.expire_sessions(for_good=True)
    with pytest.raises(PlatformError, match="Invalid identifier or password") as raised:
        await asyncio.wait_for(bot._task, 30)
    assert "abcd" not in str(raised.value)
    adapter = BlueskyAdapter(configured, MemoryPositions(), (), None, PACE)
    with pytest.raises(PlatformError, match="Invalid identifier or password"):
        await adapter.open()
    bot._task = asyncio.create_task(asyncio.sleep(0))


async def test_a_redirect_is_told_and_gets_no_password(peer: BlueskyPeer, tmp_path: Path) -> None:
    peer.redirects_to = "https://elsewhere.example"
    adapter = BlueskyAdapter(settings(peer, tmp_path), MemoryPositions(), (), None, PACE)
    with pytest.raises(PlatformError, match=r"bluesky\.url redirects to elsewhere\.example"):
        await adapter.open()


async def test_a_redirect_that_comes_later_is_told_and_gets_nothing(
    bot: BlueskyBot, peer: BlueskyPeer, caplog: pytest.LogCaptureFixture
) -> None:
    async with BlueskyPeer() as other:
        peer.redirects_to = other.url
        question = peer.say(peer.account("ann"), f"{AT}how?")
        await until(lambda: "bluesky.url redirects to 127.0.0.1" in caplog.text)
        peer.redirects_to = ""
        assert await bot.outcome(question) == ("answered", "")
        assert other.calls == []


@pytest.mark.parametrize("name", ["GET listNotifications", "GET getPostThread"])
async def test_a_rate_limit_of_what_is_read_loses_nothing(
    bot: BlueskyBot, peer: BlueskyPeer, name: str, time_lapse: object
) -> None:
    peer.fail(name, 429, error="RateLimitExceeded", Retry_After="3")
    await bot.ask()
    assert len(peer.posts()) == 1
    assert peer.violations == []


async def test_a_post_that_is_put_anew_is_no_second_question(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    bot.hold = asyncio.Event()
    question = peer.say(peer.account("ann"), f"{AT}how do I instal it?")
    await bot.heard(question)
    post = peer.posts_by_uri[question]
    post.record = {**post.record, "text": f"{AT}how do I install it?"}
    peer.notify("mention", post.author, question, post.record)
    bot.hold.set()
    assert await bot.outcome(question) == ("answered", "")
    await bot.restart()
    await bot.ask(name="ben")
    assert [item.reply_to for item in peer.posts()].count(question) == 1


@pytest.mark.parametrize("name", ["GET getPostThread", "POST putRecord"])
async def test_a_reply_of_null_costs_no_answer(bot: BlueskyBot, peer: BlueskyPeer, name: str) -> None:
    bot.hold = asyncio.Event()
    question = peer.say(peer.account("ann"), f"{AT}how?")
    await bot.heard(question)
    peer.nulls.append(name)
    bot.hold.set()
    assert await bot.outcome(question) == ("answered", "")
    assert (peer.nulls, len(peer.posts())) == ([], 1)


async def test_an_answer_that_is_refused_fails_alone(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    peer.fail("POST putRecord", 400, error="InvalidRequest", times=9)
    question = peer.say(peer.account("ann"), f"{AT}how do I install it?")
    assert (await bot.outcome(question))[0] == "failed"
    peer._failures.clear()
    await bot.ask(name="ben")
    assert len(peer.posts()) == 1


@pytest.mark.parametrize("text", ["how?", f"{AT}and now?", "thanks, but how?"])
async def test_an_account_that_replies_to_each_answer_hears_nothing_after_the_fifth(
    bot: BlueskyBot, peer: BlueskyPeer, text: str
) -> None:
    other = peer.account("echo")
    answer = await bot.ask(name="echo")
    for _ in range(4):
        question = peer.say(other, text, reply_to=answer.uri)
        assert await bot.outcome(question) == ("answered", "")
        answer = peer.posts()[-1]
    peer.say(other, text, reply_to=answer.uri)
    await bot.skipped("5 answers in this thread already")
    assert len(peer.posts()) == 5
    await bot.ask(name="ann")
    assert peer.violations == []


async def test_bots_and_the_bot_itself_are_not_heard(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    peer.say(peer.account("robot", bot=True), f"{AT}how?")
    await bot.skipped("written by a bot")
    own = peer.say(BOT, f"{AT}how?")
    peer.notify("mention", BOT, own, {})
    await bot.skipped("written by the bot itself")
    # A label that somebody else gave says nothing.
    peer.say(peer.account("ben"), f"{AT}how?")
    await bot.ask()
    assert len(bot.questions) == 2


async def test_only_who_means_the_bot_is_answered_in_a_thread(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    answer = await bot.ask()
    ben = peer.account("ben")
    follow_up = peer.say(peer.account("ann"), "and with conda?", reply_to=answer.uri)
    assert await bot.outcome(follow_up) == ("answered", "")
    # The server tells of all that is below the bot's posts, and of who quotes them.
    for aside in (
        peer.say(ben, "I had that as well", reply_to=follow_up),
        peer.say(ben, "look at this answer", quote=answer.uri),
    ):
        assert await bot.outcome(aside) == ("silent", "the bot was not addressed")
    for text, parent in ((f"{AT}and on Windows?", follow_up), (f"what does it mean, {AT}?", peer.say(ben, "error 42"))):
        assert await bot.outcome(peer.say(ben, text, reply_to=parent)) == ("answered", "")
    quoting = peer.say(ben, f"{AT}is that so?", quote=answer.uri)
    assert await bot.outcome(quoting) == ("answered", "")
    assert [item.text for item in bot.questions[1:4]] == ["and with conda?", "and on Windows?", "what does it mean, ?"]
    assert [turn.text for turn in bot.questions[3].history] == ["error 42"]
    assert "Use pip." in str(bot.questions[4].history)
    assert peer.violations == []


@pytest.mark.parametrize("reason", ["like", "repost"])
async def test_a_like_or_repost_of_an_answer_is_a_thumb_up(bot: BlueskyBot, peer: BlueskyPeer, reason: str) -> None:
    answer = await bot.ask()
    for name in ("ben", "ben", "cleo"):
        peer.like(peer.account(name), answer, reason)
    peer.like(peer.account("robot", bot=True), answer, reason)
    await bot.skipped("a like written by a bot")
    await bot.ask()
    async with bot.journal.database.connect() as connection:
        rows = (await connection.exec_driver_sql("SELECT verdict FROM feedback")).all()
    assert [row.verdict for row in rows] == ["up", "up"]
    assert len(peer.posts()) == 2, "nothing answers it"


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_reply_names_the_first_post_of_its_thread(bot: BlueskyBot, peer: BlueskyPeer, depth: int) -> None:
    parent = top = peer.say(peer.account("ben"), "it fails")
    for number in range(depth - 1):
        parent = peer.say(peer.account("cleo"), f"and here {number}", reply_to=parent)
    answer = await bot.ask(reply_to=parent)
    assert (answer.root, peer.posts_by_uri[answer.reply_to].reply_to) == (top, parent)
    assert peer.violations == []


@pytest.mark.parametrize(
    "root",
    [
        {},
        {"uri": "at://x", "cid": "y"},
        {"uri": "javascript:", "cid": make_cid({})},
        {"uri": f"at://{BOT.did}/app.bsky.feed.post/3kzzzzzzzzzzz", "cid": "a" * 59},
    ],
)
async def test_a_root_that_is_none_is_not_passed_on(bot: BlueskyBot, peer: BlueskyPeer, root: object) -> None:
    question = peer.say(peer.account("ann"), f"{AT}how?", reply={"root": root, "parent": root})
    assert await bot.outcome(question) == ("answered", "")
    assert peer.posts()[-1].root == question


async def test_posts_of_feeds_get_one_comment_where_their_author_agreed(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    ann, ben, cleo = (peer.account(name) for name in ("ann", "ben", "cleo"))
    peer.lists["3kzzzzzzzzzzz"] = {ben.handle, ann.handle}
    peer.followed = {ann.handle, cleo.handle}
    bot.comment_below = (ann.did, ben.did)
    comments = {"chats": ["bluesky:home", "bluesky:list/3kzzzzzzzzzzz"], "needs_citation": False}
    await bot.restart(auto_comment=comments)
    await peer.until_polled("GET getListFeed")
    await peer.until_polled("GET getTimeline")
    posts = [peer.say(ann, "The final was won by Brazil"), peer.say(ben, "What a jump in the final")]
    for post in posts:
        assert await bot.outcome(post) == ("answered", "")
    assert sorted(post.reply_to for post in peer.posts()) == sorted(posts)
    await bot.skipped("a post of two feeds")
    uninvited = peer.say(cleo, "Rain at the pool today")
    assert await bot.outcome(uninvited) == (
        "silent",
        "its author has not agreed to comments (bluesky.comment_below)",
    )
    peer.say(ann, "one more", reply_to=posts[0])
    await bot.skipped("a reply in a feed")
    assert await bot.outcome(peer.say(ann, f"{AT}who won it?")) == ("answered", "")
    await bot.skipped("a post that asks the bot")
    await bot.restart()
    assert len(peer.posts()) == 3
    assert len(bot.questions) == 3, "nothing is written for who has not agreed"


async def test_a_post_that_comes_by_another_feed_after_a_restart_has_one_comment(
    bot: BlueskyBot, peer: BlueskyPeer
) -> None:
    ann = peer.account("ann")
    peer.lists["one"] = peer.lists["two"] = {ann.handle}
    bot.comment_below = (ann.did,)
    for chats in (["bluesky:list/one"], ["bluesky:list/two"]):
        await bot.restart(auto_comment={"chats": chats, "needs_citation": False})
        await peer.until_polled("GET getListFeed")
    await bot.restart(auto_comment={"chats": ["bluesky:list/one"], "needs_citation": False})
    post = peer.say(ann, "The final was won by Brazil")
    assert await bot.outcome(post) == ("answered", "")
    bot.says = "Another comment."
    await bot.restart(auto_comment={"chats": ["bluesky:list/two"], "needs_citation": False})
    await peer.until_polled("GET getListFeed")
    await until(lambda: len(bot.questions) >= 2)
    await bot.restart()
    assert [comment.text for comment in peer.posts()] == ["Use pip."]


async def test_a_feed_that_was_quiet_at_the_first_start_is_followed_after_the_next(
    bot: BlueskyBot, peer: BlueskyPeer
) -> None:
    ann = peer.account("ann")
    peer.followed = {ann.handle}
    bot.comment_below = (ann.did,)
    old = peer.say(ann, "What a jump in the final")
    for _ in range(2):
        await bot.restart(auto_comment={"chats": ["bluesky:home"], "needs_citation": False})
        await peer.until_polled("GET getTimeline")
    assert await bot.outcome(peer.say(ann, "The final was won by Brazil")) == ("answered", "")
    assert old not in await bot.list_messages()


@pytest.mark.parametrize(
    ("agreed", "follows", "state"),
    [
        ((), True, "silent"),
        (("followers",), False, "silent"),
        (("followers",), True, "answered"),
    ],
)
async def test_who_follows_the_bot_has_agreed_where_the_settings_say_so(
    bot: BlueskyBot, peer: BlueskyPeer, agreed: tuple[str, ...], state: str, *, follows: bool
) -> None:
    ann = peer.account("ann")
    peer.followed = {ann.handle}
    peer.followers = {ann.handle} if follows else set()
    bot.comment_below = agreed
    await bot.restart(auto_comment={"chats": ["bluesky:home"], "needs_citation": False})
    await peer.until_polled("GET getTimeline")
    assert (await bot.outcome(peer.say(ann, "The final was won by Brazil")))[0] == state
    # Whoever asks is answered.
    assert await bot.outcome(peer.say(ann, f"{AT}who won it?")) == ("answered", "")


async def test_who_follows_no_more_when_a_comment_is_written_gets_none(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    ann = peer.account("ann")
    peer.followed = peer.followers = {ann.handle}
    bot.comment_below = ("followers",)
    await bot.restart(auto_comment={"chats": ["bluesky:home"], "needs_citation": False})
    await peer.until_polled("GET getTimeline")
    bot.hold = asyncio.Event()
    post = peer.say(ann, "The final was won by Brazil")
    await until(lambda: bot.questions)
    peer.followers = set()
    bot.hold.set()
    assert (await bot.outcome(post))[0] == "silent"
    assert peer.posts() == []


async def test_a_named_bot_asks_for_consent_as_well(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    named = NamespacedAdapter("sky", bot.adapter)
    reference = {"uri": "at://a", "follows": True}
    post = Message(
        "1", ConversationKey("bluesky", "home@sky"), "did:plc:a", "", "", datetime.now(UTC), reference=reference
    )
    assert named.refuse_comment(post) == skip(SkipReason.AUTHOR_NOT_AGREED)
    # What the bot posts by itself is below nobody's post.
    assert named.refuse_comment(replace(post, reference={"uri": ""})) is None


@pytest.mark.parametrize("others", [0, 1, 2, 3])
async def test_never_a_third_bot_below_a_post(bot: BlueskyBot, peer: BlueskyPeer, others: int) -> None:
    ann = peer.account("ann")
    peer.followed = {ann.handle}
    bot.comment_below = (ann.did,)
    await bot.restart(auto_comment={"chats": ["bluesky:home"], "needs_citation": False})
    await peer.until_polled("GET getTimeline")
    bot.hold = asyncio.Event()
    post = peer.say(ann, "The final was won by Brazil")
    await until(lambda: bot.questions)
    # They were faster than the answer; people do not count, nor do bots deeper in the thread.
    for number in range(others):
        robot = peer.say(peer.account(f"robot{number}", bot=True), "Hooray", reply_to=post)
        peer.say(peer.account("robot9", bot=True), "Hooray", reply_to=robot)
        peer.say(peer.account(f"fan{number}"), "Hooray", reply_to=post)
    bot.hold.set()
    reason = "the network has enough replies of bots below this post"
    assert await bot.outcome(post) == (("answered", "") if others < 2 else ("silent", reason))
    assert len(peer.posts()) == (others < 2)


async def test_check_says_what_is_wrong_with_an_account(peer: BlueskyPeer, tmp_path: Path) -> None:
    configured = settings(peer, tmp_path, comment_below=("followers",))
    peer.lists["diving"] = set()
    diagnosis = await diagnose(configured, Scope(("mentions", "home", "list/diving")))
    assert diagnosis.identity == f"@{BOT.handle} ({BOT.did})"
    assert diagnosis.problems == ()
    peer.password = "the-password-of-the-account"
    peer.accounts[BOT.handle] = type(BOT)(BOT.did, BOT.handle)
    problems = (await diagnose(settings(peer, tmp_path), Scope(("list/swimming",)))).problems
    texts = " ".join(problem.text for problem in problems)
    for words in ("app password", "does not say that it is a bot", "swimming cannot be read", "comment_below is empty"):
        assert words in texts
    assert [problem.is_error for problem in problems] == [False, False, True, False]
    assert peer.posts() == []


@pytest.mark.parametrize(
    ("status", "error"), [(400, "InvalidRequest"), (403, "Forbidden"), (500, "InternalServerError")]
)
async def test_a_thread_that_cannot_be_read_holds_up_nobody_else(
    bot: BlueskyBot, peer: BlueskyPeer, status: int, error: str
) -> None:
    await bot.ask()
    bad_uri = peer.say(peer.account("mallory"), f"{AT}hi")
    check_access = peer.check_access

    def check(request: web.Request) -> web.Response | None:
        if request.path.endswith("getPostThread") and request.query["uri"] == bad_uri:
            return make_error(status, error, message="boom")
        return check_access(request)

    peer.check_access = check  # type: ignore[method-assign]
    question = peer.say(peer.account("ben"), f"{AT}how?")
    assert await bot.outcome(question) == ("answered", "")


async def test_a_not_found_without_a_name_is_no_deletion(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    bot.hold = asyncio.Event()
    question = peer.say(peer.account("ann"), f"{AT}how?")
    await until(lambda: bot.questions)
    peer.fail("GET getPostThread", 404, error="")
    bot.hold.set()
    assert await bot.outcome(question) == ("answered", "")
