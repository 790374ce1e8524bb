"""Streams and notifications against a strict server: each mention once, in order, whatever breaks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bots.common.bounded_response import BoundedResponse
from bots.common.diagnosis import Scope
from bots.mastodon.adapter import MastodonAdapter
from bots.mastodon.diagnosis import diagnose
from core.errors import PlatformError
from core.types import Message
from tests.support.journalled_bot import MemoryPositions
from tests.support.mastodon_helpers import PACE, MastodonBot, settings
from tests.support.peers.mastodon import BOT, MastodonPeer
from tests.support.waiting import until


async def test_what_came_while_the_stream_was_down_is_answered_once_and_in_order(
    bot: MastodonBot, peer: MastodonPeer
) -> None:
    await bot.ask()
    peer.drop_streams()
    questions = [await peer.say(peer.account("ann"), f"@kimas question {number}?") for number in range(3)]
    await peer.until_streaming()
    questions.append(await peer.say(peer.account("ann"), "@kimas question 3?"))
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    assert [item.text for item in bot.questions[1:]] == [f"question {number}?" for number in range(4)]
    assert len(peer.posts()) == 5


async def test_what_came_while_the_daemon_was_down_is_answered_after_the_start(
    bot: MastodonBot, peer: MastodonPeer
) -> None:
    await bot.stop()
    # More than one page of them.
    people = [peer.account(f"person{number}") for number in range(45)]
    questions = [await peer.say(person, "@kimas how?") for person in people]
    await bot.start()
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    assert len(peer.posts()) == 45


async def test_what_is_too_large_to_be_read_holds_up_nobody(
    bot: MastodonBot, peer: MastodonPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedResponse, "max_bytes", 30_000)
    await bot.stop()
    ann = peer.account("ann")
    people = [peer.account(f"person{number}") for number in range(4)]
    questions = [await peer.say(person, "@kimas how?", padding="x" * 12_000) for person in people]
    await peer.say(ann, "@kimas a huge one?", padding="x" * 40_000)
    parent = await peer.say(peer.account("ben"), "a long thread", padding="x" * 40_000)
    await peer.say(ann, "@kimas what does that mean?", reply_to=parent)
    questions.append(await peer.say(ann, "@kimas and now?"))
    await bot.start()
    for question in questions:
        assert await bot.outcome(question) == ("answered", "")
    assert bot.adapter.skipped["too large to be read"] == 1
    assert bot.adapter.skipped["in a thread that is too large to be read"] == 1
    assert len(peer.posts()) == 5


async def test_the_first_start_gets_past_a_newest_mention_that_is_too_large(
    peer: MastodonPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedResponse, "max_bytes", 30_000)
    await peer.say(peer.account("ann"), "@kimas a huge one?", padding="x" * 40_000)
    bot = MastodonBot(peer, tmp_path)
    await bot.start()
    await bot.ask()
    await bot.stop()


async def test_the_first_start_answers_nothing_of_old(peer: MastodonPeer, tmp_path: Path) -> None:
    old = await peer.say(peer.account("ann"), "@kimas how was it?")
    bot = MastodonBot(peer, tmp_path)
    await bot.start()
    await bot.ask()
    await bot.restart()
    await bot.ask()
    await bot.stop()
    assert [status.reply_to for status in peer.posts() if status.reply_to == old] == []
    assert len(peer.posts()) == 2


@pytest.mark.parametrize("how", ["silent", "ends", "refused", "nowhere"])
async def test_a_stream_that_is_dead_is_opened_anew(
    peer: MastodonPeer, tmp_path: Path, how: str, time_lapse: object
) -> None:
    bot = MastodonBot(peer, tmp_path)
    bot.pace = replace(PACE, silence_s=1.5)
    await bot.start()
    if how == "silent":
        # The connection stands, and nothing comes any more.
        peer.thump_s = None
        peer.streams["user"].clear()
    elif how == "refused":
        peer.fail("GET streaming/user", 503, times=5)
        peer.drop_streams()
    elif how == "nowhere":
        peer.fail("GET streaming/user", 404, times=10_000)
        peer.drop_streams()
    else:
        peer.drop_streams()
    await bot.ask()
    peer._failures.clear()
    await peer.until_streaming()
    await bot.stop()
    assert len(peer.posts()) == 1


async def test_a_server_that_is_away_is_waited_for(bot: MastodonBot, peer: MastodonPeer) -> None:
    await peer.away()
    await until(lambda: not bot.adapter.connection.is_connected)
    await peer.listen()
    await bot.ask()
    assert bot.adapter.connection.is_connected
    assert bot.adapter.connection.outages == 1


async def test_a_redirect_is_told_and_gets_no_token(peer: MastodonPeer, tmp_path: Path) -> None:
    peer.redirects_to = "https://elsewhere.example"
    adapter = MastodonAdapter(settings(peer, tmp_path), MemoryPositions(), (), PACE)
    with pytest.raises(PlatformError, match=r"mastodon\.url redirects to elsewhere\.example"):
        await adapter.open()


async def test_a_refused_token_ends_it(peer: MastodonPeer, bot: MastodonBot, tmp_path: Path) -> None:
    peer.token = "another"
    peer.drop_streams()
    with pytest.raises(PlatformError, match="status 401"):
        await asyncio.wait_for(bot._task, 30)
    adapter = MastodonAdapter(bot.adapter._settings, MemoryPositions(), (), PACE)
    with pytest.raises(PlatformError, match="status 401"):
        await adapter.open()
    bot._task = asyncio.create_task(asyncio.sleep(0))


async def test_a_redirect_that_comes_later_is_told_and_gets_nothing(
    bot: MastodonBot, peer: MastodonPeer, caplog: pytest.LogCaptureFixture
) -> None:
    async with MastodonPeer() as other:
        peer.redirects_to = other.url
        peer.drop_streams()
        question = await peer.say(peer.account("ann"), "@kimas how do I install it?")
        await until(lambda: "mastodon.url redirects to 127.0.0.1" in caplog.text)
        peer.redirects_to = ""
        assert await bot.outcome(question) == ("answered", "")
        assert other.calls == []


@pytest.mark.parametrize("name", ["GET notifications", "GET statuses/{}/context"])
async def test_a_rate_limit_of_what_is_read_loses_nothing(
    bot: MastodonBot, peer: MastodonPeer, name: str, time_lapse: object
) -> None:
    peer.fail(name, 429, error="Too many requests", Retry_After="3")
    peer.drop_streams()
    await bot.ask()
    assert len(peer.posts()) == 1
    assert peer.violations == []


@pytest.mark.parametrize("status", [403, 422])
async def test_an_answer_that_is_refused_fails_alone(bot: MastodonBot, peer: MastodonPeer, status: int) -> None:
    peer.fail("POST statuses", status, times=9)
    question = await peer.say(peer.account("ann"), "@kimas how do I install it?")
    assert (await bot.outcome(question))[0] == "failed"
    peer._failures.clear()
    await bot.ask(name="ben")
    assert len(peer.posts()) == 1


@pytest.mark.parametrize("text", ["how?", "and now?", "thanks, but how?"])
async def test_an_account_that_replies_to_each_answer_hears_nothing_after_the_fifth(
    bot: MastodonBot, peer: MastodonPeer, text: str
) -> None:
    other = peer.account("echo")
    status = await bot.ask(name="echo")
    for _ in range(4):
        question = await peer.say(other, f"@kimas {text}", reply_to=status.id)
        assert await bot.outcome(question) == ("answered", "")
        status = peer.posts()[-1]
    await peer.say(other, f"@kimas {text}", reply_to=status.id)
    await bot.skipped("5 answers in this thread already")
    assert len(peer.posts()) == 5
    await bot.ask(name="ann")


async def test_an_answer_of_several_posts_counts_once_in_a_thread(bot: MastodonBot, peer: MastodonPeer) -> None:
    bot.says = "word " * 500
    await bot.ask()
    assert len(peer.posts()) > 5
    bot.says = "Use pip."
    await bot.ask(reply_to=peer.posts()[-1].id)


@pytest.mark.parametrize("visibility", ["public", "direct"])
async def test_bots_and_the_bot_itself_are_not_heard(bot: MastodonBot, peer: MastodonPeer, visibility: str) -> None:
    await peer.say(peer.account("robot", bot=True), "@kimas how?", visibility=visibility)
    await bot.skipped("written by a bot")
    await peer.say(BOT, "@kimas how?", visibility=visibility)
    await bot.skipped("written by the bot itself")
    await bot.ask()
    assert len(bot.questions) == 1


async def test_only_who_means_the_bot_is_answered_in_a_thread(bot: MastodonBot, peer: MastodonPeer) -> None:
    answer = await bot.ask()
    ben = peer.account("ben")
    # A reply begins with the names of all who were mentioned before.
    aside = await peer.say(ben, "@ann @kimas I had that as well", reply_to=answer.reply_to)
    assert await bot.outcome(aside) == ("silent", "the bot was not addressed")
    for text, parent in (
        ("@ann can @kimas say it for Windows?", answer.reply_to),
        ("@kimas @ann and with conda?", answer.id),
        ("@kimas what does that mean?", await peer.say(ben, "error 42")),
    ):
        question = await peer.say(ben, text, reply_to=parent)
        assert await bot.outcome(question) == ("answered", "")
    texts = [item.text for item in bot.questions]
    assert texts[1:] == ["can say it for Windows?", "and with conda?", "what does that mean?"]
    assert [turn.text for turn in bot.questions[-1].history] == ["error 42"]


@pytest.mark.parametrize("kind", ["favourite", "reblog"])
async def test_a_favourite_or_boost_of_an_answer_is_a_thumb_up(bot: MastodonBot, peer: MastodonPeer, kind: str) -> None:
    answer = await bot.ask()
    for name in ("ben", "ben", "cleo"):
        await peer.notify(kind, peer.account(name), answer)
    await peer.notify(kind, peer.account("robot", bot=True), answer)
    await bot.skipped("a favourite of a bot")
    await bot.ask()
    async with bot.journal.database.connect() as connection:
        rows = (await connection.exec_driver_sql("SELECT verdict FROM feedback")).all()
    assert [row.verdict for row in rows] == ["up", "up"]
    assert len(peer.posts()) == 2, "nothing answers it"


async def test_an_edit_before_the_answer_counts_where_the_author_is_followed(
    bot: MastodonBot, peer: MastodonPeer
) -> None:
    bot.hold = asyncio.Event()
    ann = peer.account("ann")
    peer.followed.add("ann")
    first = await peer.say(ann, "@kimas the first question?", visibility="direct")
    second = await peer.say(ann, "@kimas the sceond question?", visibility="direct")
    await bot.heard(second)
    await peer.edit(second, "@kimas the second question?")
    # What comes later is heard later.
    await bot.heard(await peer.say(ann, "@kimas and this?", visibility="direct"))
    bot.hold.set()
    for question in (first, second, list(peer.statuses)[-1]):
        assert await bot.outcome(question) == ("answered", "")
    assert [item.text for item in bot.questions] == ["the first question?", "the second question?", "and this?"]


async def test_a_followers_only_question_shares_no_memory_with_what_all_read(
    bot: MastodonBot, peer: MastodonPeer
) -> None:
    answer = await bot.ask()
    hidden = await bot.ask("@kimas my secret plan", reply_to=answer.id, visibility="private")
    assert bot.questions[1].in_restricted_thread
    await bot.ask("@kimas what was said?", reply_to=answer.id)
    assert "secret" not in str(bot.questions[2].history)
    assert hidden.visibility == "direct"


async def test_two_peoples_followers_share_nothing_below_one_post(bot: MastodonBot, peer: MastodonPeer) -> None:
    """Each is answered alone, though both wrote below the same post of a third one."""
    post = await peer.say(peer.account("cleo"), "What is new?")
    await bot.ask("@kimas my secret plan", reply_to=post, visibility="private")
    explanation = await bot.ask("@kimas /why", "ben", reply_to=post, visibility="private")
    assert explanation.text.startswith("@ben I know nothing about that message")
    await bot.ask("@kimas what was said?", "ben", reply_to=post, visibility="private")
    assert "secret" not in str(bot.questions[1].history)
    await bot.ask("@kimas what was said?", "ann", reply_to=post, visibility="private")
    assert "secret" in str(bot.questions[2].history)
    await bot.ask("@kimas /forget", "ann", reply_to=post, visibility="private")
    async with bot.journal.database.connect() as connection:
        rows = (await connection.exec_driver_sql("SELECT * FROM messages")).all()
    assert "ben@" in str(rows)
    assert "ann@" not in str(rows), "nor is the thread called after her"


@pytest.mark.parametrize("visibility", ["direct", "private", "public"])
async def test_words_that_the_asker_may_not_read_are_quoted_to_nobody(
    bot: MastodonBot, peer: MastodonPeer, visibility: str
) -> None:
    """Another server may say that its user replies to anything whose address it guesses."""
    eve = peer.account("eve", "evil.example")
    hidden = await peer.say(peer.account("ann"), "@kimas the plan is secret", visibility=visibility)
    bot.says = "It is in the safe."
    await bot.outcome(hidden)
    bot.says = "Use pip."
    answer = peer.posts()[0]
    for parent in (hidden, answer.id):
        for text in ("@kimas what was said?", "@kimas"):
            question = await peer.say(eve, text, reply_to=parent, visibility="direct")
            await bot.outcome(question)
    heard = [item for item in bot.questions if item.author_id == "eve@evil.example"]
    heard_texts = str([(item.text, item.history) for item in heard])
    assert ("secret" in heard_texts) == (visibility == "public")
    assert ("in the safe" in heard_texts) == (visibility == "public")


@pytest.mark.parametrize("visibility", ["private", "direct"])
async def test_private_words_are_repeated_to_nobody_but_who_may_read_them(
    bot: MastodonBot, peer: MastodonPeer, visibility: str
) -> None:
    """Ben may read what Ann wrote to him, and asks about it where everybody reads the answer."""
    ann, _ = peer.account("ann"), peer.account("ben")
    hidden = await peer.say(ann, "@ben the plan is secret", visibility=visibility)
    for is_public, asked in ((True, "public"), (True, "unlisted"), (False, "private"), (False, "direct")):
        await bot.ask("@kimas what does this mean?", "ben", reply_to=hidden, visibility=asked)
        assert ("secret" not in str(bot.questions[-1].history)) == is_public, asked


async def test_posts_of_timelines_get_one_comment(bot: MastodonBot, peer: MastodonPeer) -> None:
    comments = {"chats": ["mastodon:home", "mastodon:list/7", "mastodon:tag/diving"], "needs_citation": False}
    peer.lists["7"] = {"ben"}
    peer.followed = {"ann", "cleo"}
    await bot.restart(auto_comment=comments)
    for stream in ("list 7", "hashtag diving"):
        await peer.until_streaming(stream)
    ann, ben, cleo = (peer.account(name) for name in ("ann", "ben", "cleo"))
    posts = [
        await peer.say(ann, "The final was won by Brazil #diving"),
        await peer.say(ben, "What a jump in the final"),
        await peer.say(cleo, "Rain at the pool today"),
    ]
    for post in posts:
        assert await bot.outcome(post) == ("answered", "")
    assert sorted(status.reply_to for status in peer.posts()) == posts
    assert {status.visibility for status in peer.posts()} == {"unlisted"}
    await bot.skipped("a post of two timelines")
    ignored = {
        "a boost": {"reblog": {"id": "1"}},
        "a reply in a timeline": {"reply_to": posts[0]},
        "no public post": {"visibility": "private"},
    }
    for reason, fields in ignored.items():
        await peer.say(ann, "one more", **fields)  # type: ignore[arg-type]
        await bot.skipped(reason)
    old = await peer.say(ann, "yesterday", age_s=60)
    assert (await bot.outcome(old))[0] == "silent"
    assert await bot.outcome(await peer.say(ann, "@kimas who won it?")) == ("answered", "")
    assert len(peer.posts()) == 4


async def test_mentions_and_timelines_have_names(peer: MastodonPeer, tmp_path: Path) -> None:
    peer.lists = {"7": {"ben"}, "8": {"cleo"}}
    peer.list_titles["7"] = "Divers"
    peer.followed = {"ann"}
    received = list[Message]()

    async def receive(message: Message) -> None:
        received.append(message)

    timelines = ("home", "list/7", "list/8", "tag/diving")
    adapter = MastodonAdapter(settings(peer, tmp_path), MemoryPositions(), timelines, PACE)
    await adapter.open()
    listening = asyncio.create_task(adapter.listen(receive))
    for stream in ("user", "list 7", "list 8", "hashtag diving"):
        await peer.until_streaming(stream)
    for name, text in (
        ("ann", "@kimas how was it?"),
        ("ann", "A jump"),
        ("ben", "Another"),
        ("cleo", "One more"),
        ("dan", "#diving"),
    ):
        await peer.say(peer.account(name), text)
    await peer.say(peer.account("ann"), "@kimas in private?", visibility="direct")
    await until(lambda: len(received) >= 6)
    listening.cancel()
    await adapter.close()
    assert {message.key.chat: message.chat_title for message in received} == {
        "mentions": "@kimas@social.example",
        "home": "home of @kimas@social.example",
        "list/7": "Divers",
        "list/8": "",
        "tag/diving": "#diving",
        "ann@social.example": "",
    }


async def test_a_post_after_a_long_silence_is_not_lost(bot: MastodonBot, peer: MastodonPeer) -> None:
    peer.followed = {"ann"}
    bot.pace = replace(PACE, read_s=0.0)
    await bot.restart(auto_comment={"chats": ["mastodon:home"], "needs_citation": False})
    post = await peer.say(peer.account("ann"), "The final was won by Brazil")
    assert await bot.outcome(post) == ("answered", "")


async def test_a_server_whose_ids_are_no_numbers_is_named(peer: MastodonPeer, tmp_path: Path) -> None:
    await peer.say(peer.account("ann"), "@kimas how was it?")
    peer.notifications[0]["id"] = "01HZX"
    adapter = MastodonAdapter(settings(peer, tmp_path), MemoryPositions(), (), PACE)
    await adapter.open()
    with pytest.raises(PlatformError, match="no numbers as ids"):
        await adapter._read_notifications(adapter.open)  # type: ignore[arg-type]
    await adapter.close()


@pytest.mark.parametrize("others", [0, 1, 2, 3])
async def test_never_a_third_bot_below_a_post(bot: MastodonBot, peer: MastodonPeer, others: int) -> None:
    peer.followed = {"ann"}
    await bot.restart(auto_comment={"chats": ["mastodon:home"], "needs_citation": False})
    bot.hold = asyncio.Event()
    post = await peer.say(peer.account("ann"), "The final was won by Brazil")
    await until(lambda: bot.questions)
    for number in range(others):
        robot = peer.account(f"robot{number}", "bots.example", bot=True)
        await peer.say(robot, "Wow", reply_to=post)
    await peer.say(peer.account("ben"), "People do not count", reply_to=post)
    bot.hold.set()
    state, _ = await bot.outcome(post)
    assert state == ("answered" if others < 2 else "silent")
    assert len(peer.posts()) == (others < 2)


async def test_an_old_server_is_understood(peer: MastodonPeer, tmp_path: Path) -> None:
    peer.is_old = True
    peer.max_chars = 777
    bot = MastodonBot(peer, tmp_path)
    await bot.start()
    assert bot.adapter._me.max_chars == 777
    assert (await bot.ask()).text == "@ann Use pip."
    await bot.stop()


async def test_check_says_which_scopes_are_missing(peer: MastodonPeer, tmp_path: Path) -> None:
    configured = settings(peer, tmp_path)
    peer.lists["7"] = set()
    diagnosis = await diagnose(configured, Scope(("mentions", "home", "list/7", "tag/news")))
    assert diagnosis.identity == "@kimas@social.example, whose server takes 500 characters"
    assert diagnosis.problems == ()
    peer.scopes = ("read:accounts", "read:notifications", "read:statuses")
    diagnosis = await diagnose(configured, Scope(("list/7", "list/8")))
    problems = " ".join(problem.text for problem in diagnosis.problems)
    for words in ("write:statuses is missing", "list/7 cannot be read", "list/8 cannot be read"):
        assert words in problems
    assert all(problem.is_error for problem in diagnosis.problems)
    assert peer.statuses == {}, "nothing is posted"


@pytest.mark.parametrize(
    ("name", "action"),
    [("for_private_mentions", "filter"), ("for_new_accounts", "drop"), ("for_not_following", "filter")],
)
async def test_check_says_what_the_server_holds_back(
    peer: MastodonPeer, tmp_path: Path, name: str, action: str
) -> None:
    peer.policy[name] = action
    [problem] = (await diagnose(settings(peer, tmp_path), Scope())).problems
    assert name.replace("_", " ") in problem.text
    assert action in problem.text
    assert not problem.is_error


@pytest.mark.parametrize("call", ["GET notifications", "GET statuses/{}", "POST statuses"])
async def test_an_answer_of_null_is_an_outage(bot: MastodonBot, peer: MastodonPeer, call: str) -> None:
    peer.nulls.append(call)
    await bot.ask()
    assert (peer.nulls, len(peer.posts())) == ([], 1)
