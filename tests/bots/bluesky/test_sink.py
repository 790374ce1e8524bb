"""One reply against a strict server: its facets, how long it is, whom it notifies, and that it is there once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bots.bluesky.render import count_chars, render, to_post
from bots.bluesky.sink import make_key
from bots.daemon.posting import make_reference
from core.catalogue import messages_for
from core.types import Citation, ConversationKey, Message, Reply
from tests.support.bluesky_helpers import AT, BlueskyBot
from tests.support.peers.bluesky import BOT, BlueskyPeer, count_graphemes
from tests.support.sink_helpers import DeliveryLog
from tests.support.waiting import until

GUIDE = Citation(1, "a", "docs", "The guide", "guide.md", "https://example.org/guide?a=1&b=(2)")
FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize(
    ("text", "shown", "byte_start"),
    [
        ("你好 😀 https://e.org", "e.org", 12),
        ("see [the guide](https://e.org), it says", "the guide", 4),
        (f"{FAMILY}é[the guide](https://e.org)", "the guide", 27),
    ],
)
async def test_a_link_stands_where_its_bytes_are(
    bot: BlueskyBot, peer: BlueskyPeer, text: str, shown: str, byte_start: int
) -> None:
    bot.says = text
    reply = await bot.ask()
    assert reply.links() == [(shown, "https://e.org")]
    assert reply.record["facets"][0]["index"]["byteStart"] == byte_start
    assert peer.violations == []


async def test_a_long_address_is_shown_short_and_leads_there(bot: BlueskyBot) -> None:
    address = "https://example.org/" + "a" * 400
    bot.says = f"See {address}."
    reply = await bot.ask()
    assert reply.text == "See example.org/aaaaaaaaaaaaaaaaa…."
    assert reply.links() == [("example.org/aaaaaaaaaaaaaaaaa…", address)]


async def test_sources_stand_below_an_answer_and_are_links(bot: BlueskyBot) -> None:
    bot.citations = [GUIDE]
    bot.says = "**Run** it [1]."
    reply = await bot.ask()
    assert reply.text == "Run it [1].\n\nSources:\n[1] The guide"
    assert reply.links() == [("[1]", GUIDE.url), ("The guide", GUIDE.url)]


@pytest.mark.parametrize(
    "text",
    [
        "a [https://bank.example](https://evil.example/)",
        "a [x\ue002https://evil.example\ue003](https://e.org) b",
        "a [&#xE001;bank.example&#xE002;https://evil.example/&#xE003; b",
        "a [x](javascript:alert(1))",
    ],
)
def test_no_text_of_an_answer_makes_a_link_that_deceives(text: str) -> None:
    [part] = render(text, ())
    shown, facets = to_post(part)
    links = [feature["uri"] for facet in facets for feature in facet["features"]]
    assert "https://evil.example" not in links or "evil.example" in shown
    assert all(mark not in shown for mark in "\ue001\ue002\ue003")


@pytest.mark.parametrize(
    "answer", ["Write `@pytest.fixture`.", "Use @app.route.", f"Ask @ben.{'bsky'}.example [x](did:plc:a)"]
)
async def test_an_answer_mentions_nobody(bot: BlueskyBot, peer: BlueskyPeer, answer: str) -> None:
    peer.account("ben")
    bot.says = answer
    assert (await bot.ask()).mentioned() == []


@pytest.mark.parametrize("letter", ["a", "好", "é", FAMILY, "a "])
async def test_every_post_fits_and_nothing_is_lost(bot: BlueskyBot, peer: BlueskyPeer, letter: str) -> None:
    bot.says = letter * 299
    await bot.ask()
    assert all(count_graphemes(post.text) <= 300 for post in peer.posts())
    assert all(len(post.text.encode()) <= 3000 for post in peer.posts())
    assert "".join(post.text for post in peer.posts()).replace(" ", "") == (letter * 299).replace(" ", "")


async def test_a_long_answer_is_a_thread(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    bot.says = "\n\n".join(f"Paragraph {number}. " + "word " * 30 for number in range(6))
    first = await bot.ask()
    posts = peer.posts()
    assert len(posts) > 2
    assert [post.reply_to for post in posts[1:]] == [post.uri for post in posts[:-1]]
    assert {post.root for post in posts} == {first.reply_to}
    assert peer.violations == []


async def test_an_answer_takes_ten_posts_at_most(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    bot.citations = [replace(GUIDE, n=number, title="The guide " * 9) for number in range(1, 20)]
    bot.says = "\n\n".join(f"Paragraph [{number}]. " + "word " * 40 for number in range(1, 20))
    await bot.ask()
    assert 5 < len(peer.posts()) <= 10
    text = "\n".join(post.text for post in peer.posts())
    assert messages_for("en").answer_cut.strip("*") in text
    assert "[1] The guide" in text


@pytest.mark.parametrize(
    ("question", "answer", "language"),
    [
        ("how do I install it?", "You can install it with pip, and then it works.", "en"),
        ("怎么安装？", "用 pip 安装这个软件包。", "zh"),
        ("Wie geht das?", "pip", "de"),
    ],
)
async def test_an_answer_says_its_language(bot: BlueskyBot, question: str, answer: str, language: str) -> None:
    bot.says = answer
    assert (await bot.ask(f"{AT}{question}", langs=["de"])).record["langs"] == [language]


@pytest.mark.parametrize("language", ["english please", "x", "de_DE", "en-" + "x" * 9])
async def test_a_language_that_is_none_is_not_passed_on(bot: BlueskyBot, language: str) -> None:
    bot.says = "pip"
    assert "langs" not in (await bot.ask(langs=[language])).record


def test_a_key_is_a_timestamp_in_form_and_always_the_same() -> None:
    keys = {make_key("did", "mentions", f"at://{number}", 0) for number in range(1000)}
    assert len(keys) == 1000
    assert make_key("did", "mentions", "at://1", 0) in keys
    assert all(len(key) == 13 and key[0] == "2" and set(key) <= set("234567abcdefghijklmnopqrstuvwxyz") for key in keys)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("is_posted", [False, True])
async def test_a_post_whose_confirmation_is_lost_is_there_once(
    bot: BlueskyBot, peer: BlueskyPeer, parts: int, *, is_posted: bool
) -> None:
    bot.says = "\n\n".join(f"Paragraph {number}. " + "word " * 50 for number in range(parts))
    peer.fail("POST putRecord", drop="after" if is_posted else "before")
    await bot.ask()
    assert len(peer.posts()) == parts
    assert peer.violations == []


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("parts", [1, 4])
async def test_after_a_crash_around_a_post_each_part_is_there_once(
    bot: BlueskyBot, peer: BlueskyPeer, phase: str, parts: int
) -> None:
    bot.says = "\n\n".join(f"Paragraph {number}. " + "word " * 50 for number in range(parts))
    is_reached = asyncio.Event()

    async def hang(name: str, current_phase: str) -> None:
        # Around the last part; nobody hears of it.
        is_last = len(peer.posts()) == parts - (phase == "before")
        if (name, current_phase) == ("POST putRecord", phase) and is_last and not is_reached.is_set():
            is_reached.set()
            await asyncio.Event().wait()

    peer.watch = hang
    bot.pace = replace(bot.pace, shutdown_grace_s=0.1)
    await bot.restart()
    question = peer.say(peer.account("ann"), f"{AT}how do I install it?")
    await asyncio.wait_for(is_reached.wait(), 30)
    await bot.stop()
    await bot.start()
    assert await bot.outcome(question) == ("answered", "")
    assert len(peer.posts()) == parts
    assert len(bot.questions) == 1, "the answer is not made again"
    assert peer.violations == []


async def test_a_journal_that_forgot_a_post_makes_no_second_one(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    """The key is taken, whatever the journal says: it may be an old copy."""
    answer = await bot.ask()
    question = peer.posts_by_uri[answer.reply_to]
    for name in ("bluesky.session", "journal.db", "journal.db-wal", "journal.db-shm"):
        await bot.stop()
        (bot.folder / name).unlink(missing_ok=True)
        await bot.start()
    bot.says = "Another answer."
    peer.notify("mention", question.author, question.uri, question.record)
    assert await bot.outcome(question.uri) == ("answered", "")
    assert [post.text for post in peer.posts()] == ["Use pip."]


@pytest.mark.parametrize("how", ["deleted", "closed", "blocked", "blocked by the bot"])
async def test_a_question_that_cannot_be_answered_any_more_gets_no_answer(
    bot: BlueskyBot, peer: BlueskyPeer, how: str
) -> None:
    bot.hold = asyncio.Event()
    ann = peer.account("ann")
    question = peer.say(ann, f"{AT}how?")
    await until(lambda: bot.questions)
    reason = "of somebody who blocks the bot, or whom it blocks"
    match how:
        case "deleted":
            peer.delete(question)
        case "closed":
            peer.posts_by_uri[question].viewer = {"replyDisabled": True}
            reason = "closed to replies"
        case "blocked":
            peer.blockers = {ann.handle}
        case _:
            peer.posts_by_uri[question].viewer = {"blocking": "at://a/app.bsky.graph.block/b"}
    bot.hold.set()
    expected = "the question was deleted before it was answered" if how == "deleted" else f"the thread is {reason} now"
    assert await bot.outcome(question) == ("silent", expected)
    assert "POST putRecord" not in peer.calls


@pytest.mark.parametrize("header", ["reset", "retry"])
async def test_a_rate_limit_is_waited_for_in_silence(
    bot: BlueskyBot, peer: BlueskyPeer, header: str, time_lapse: object
) -> None:
    bot.hold = asyncio.Event()
    question = peer.say(peer.account("ann"), f"{AT}how do I install it?")
    await until(lambda: bot.questions)
    if header == "reset":
        peer.calls_left = 0
        peer.reset_s = 3.0
    else:
        peer.fail("POST putRecord", 429, error="RateLimitExceeded", Retry_After="3")
    bot.hold.set()
    assert await bot.outcome(question) == ("answered", "")
    assert peer.violations == []
    assert len(peer.posts()) == 1


@pytest.mark.parametrize("chat", ["home", "mentions"])
async def test_a_chat_that_nobody_wrote_in_is_posted_to(bot: BlueskyBot, peer: BlueskyPeer, chat: str) -> None:
    key = ConversationKey("bluesky", chat)
    message = Message("entry-1", key, "", "", "", datetime.now(UTC), reference=make_reference("bluesky", chat))
    await bot.adapter.sink(message, DeliveryLog()).finish(Reply("News. " * 90))
    first, *others = peer.posts()
    assert (first.reply_to, {post.root for post in others}) == ("", {first.uri})
    assert peer.violations == []


async def test_the_rest_of_a_post_of_its_own_follows_after_a_crash(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    key = ConversationKey("bluesky", "home")
    message = Message("entry-1", key, "", "", "", datetime.now(UTC), reference=make_reference("bluesky", "home"))
    await bot.adapter.sink(message, DeliveryLog()).finish(Reply("News."))
    [first] = peer.posts()
    await bot.adapter.sink(message, DeliveryLog(), first.uri).finish(Reply("News. " * 90))
    assert {post.root for post in peer.posts()} == {first.uri}
    assert len(peer.posts()) > 1
    assert peer.violations == []


async def test_a_call_mentions_who_is_configured_and_nobody_else(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    helper, gone = peer.account("helper"), "did:plc:" + "z" * 24
    await bot.restart(handoff={"people": [f"bluesky:{helper.did}", f"bluesky:{gone}", "telegram:@somebody"]})
    answer = await bot.ask(f"{AT}does @somebody.bsky.example know?")
    assert answer.mentioned() == []
    peer.say(peer.account("ann"), f"{AT}/escalate", reply_to=answer.uri)
    await until(lambda: any(post.mentioned() for post in peer.posts()))
    assert [did for post in peer.posts() for did in post.mentioned()] == [helper.did]
    call = next(post for post in peer.posts() if post.mentioned())
    assert call.text.startswith(f"@{helper.handle} ")
    assert call.author == BOT
    assert peer.violations == []


def test_a_part_counts_what_is_shown() -> None:
    [part] = render(f"[{'the guide ' * 20}](https://example.org/{'a' * 500})", ())
    assert count_chars(part) == len(to_post(part)[0]) < 160


async def test_no_comment_comes_after_its_deadline_from_a_slow_server(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    ann = peer.account("ann")
    peer.followed = {ann.handle}
    bot.comment_below = (ann.did,)
    await bot.restart(auto_comment={"chats": ["bluesky:home"], "needs_citation": False, "deadline_s": 1.5})

    async def be_slow(name: str, phase: str) -> None:
        # The bot looks whether the post is still there, and hears of it when its time is over.
        if (name, phase) == ("GET getPostThread", "before") and bot.questions:
            await asyncio.sleep(2)

    peer.watch = be_slow
    post = peer.say(ann, "The final was won by Brazil")
    assert await bot.outcome(post) == ("silent", "not finished within 1.5 s after the post (auto_comment.deadline_s)")
    assert "POST putRecord" not in peer.calls
