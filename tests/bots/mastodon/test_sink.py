"""One reply against a strict server: who reads it, whom it notifies, how long it is, and that it is there once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bots.daemon.posting import make_reference
from bots.mastodon.render import ZERO_WIDTH_SPACE, count_chars, render, split_text
from core.catalogue import messages_for
from core.types import Citation, ConversationKey, Message, Reply
from tests.support.mastodon_helpers import MastodonBot
from tests.support.peers.mastodon import MastodonPeer, count
from tests.support.sink_helpers import DeliveryLog
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("visibility", "expected"),
    [("public", "unlisted"), ("unlisted", "unlisted"), ("private", "direct"), ("direct", "direct"), ("new", "direct")],
)
async def test_an_answer_is_never_wider_than_its_question(bot: MastodonBot, visibility: str, expected: str) -> None:
    assert (await bot.ask(visibility=visibility)).visibility == expected


async def test_a_content_warning_is_kept_and_counts(bot: MastodonBot, peer: MastodonPeer) -> None:
    bot.says = "word " * 300
    reply = await bot.ask(spoiler_text="about " * 20)
    assert [status.spoiler_text for status in peer.posts()] == ["about " * 20] * len(peer.posts())
    assert len(peer.posts()) > 2
    assert all(count(status.text, status.spoiler_text) <= 500 for status in peer.posts())
    bot.says = "Use pip."
    assert (await bot.ask(spoiler_text="w" * 480)).spoiler_text == "w" * 250
    assert (await bot.ask()).spoiler_text == ""
    theirs = await peer.say(peer.account("eve"), "It is broken.", spoiler_text="of a key")
    assert (await bot.ask(spoiler_text="re: of a key", reply_to=theirs)).spoiler_text == "of a key"
    disarmed = (await bot.ask(spoiler_text="for @ben\u202e, evil")).spoiler_text
    assert disarmed == f"for @{ZERO_WIDTH_SPACE}ben, evil", (
        "the bot repeats it: it calls nobody, and turns nothing round"
    )
    assert reply.text.startswith("@ann ")
    assert bot.questions[0].text.startswith("about"), "a warning is a part of what was said"


@pytest.mark.parametrize(
    "answer",
    [
        "Write `@pytest.fixture` above it.",
        "Use @app.route or @types/node, says **@pytest**.",
        "See [the page](https://example.org/-@pytest) by ＠pytest, (@pytest) and pytest@pytest.",
    ],
)
@pytest.mark.parametrize("visibility", ["public", "direct"])
async def test_an_answer_mentions_nobody_but_the_asker(
    bot: MastodonBot, peer: MastodonPeer, answer: str, visibility: str
) -> None:
    for name in ("pytest", "app", "types", "app.route", "pytest.fixture"):
        peer.account(name)
    bot.says = answer
    reply = await bot.ask(visibility=visibility)
    assert [account.acct for account in reply.mentions] == ["ann"]
    assert "pytest" in reply.text


async def test_an_asker_of_another_server_is_mentioned_with_it(bot: MastodonBot, peer: MastodonPeer) -> None:
    reply = await bot.ask(domain="b.example", visibility="direct")
    assert reply.text == "@ann@b.example Use pip."
    assert (await bot.ask(name="ben")).text == "@ben Use pip."
    # Somebody of this server has the same name.
    assert (await bot.ask(visibility="private")).mentions[0].domain == ""


async def test_a_private_question_to_several_is_answered_to_the_asker_alone(
    bot: MastodonBot, peer: MastodonPeer
) -> None:
    """So it may tell what the asker alone may see."""
    bot.says = "word " * 300
    ben = peer.account("ben")
    question = await peer.say(peer.account("ann"), "@kimas @ben how do I install it?", visibility="direct")
    await bot.outcome(question)
    assert len(peer.posts()) > 1
    assert {status.visibility for status in peer.posts()} == {"direct"}
    assert ben not in [account for status in peer.posts() for account in status.mentions]


async def test_every_part_of_a_private_answer_reaches_its_asker(bot: MastodonBot, peer: MastodonPeer) -> None:
    bot.says = "word " * 300
    await bot.ask(domain="b.example", visibility="direct")
    private = peer.posts()
    assert len(private) > 2
    assert all([account.acct for account in status.mentions] == ["ann@b.example"] for status in private)
    assert [status.reply_to for status in private[1:]] == [status.id for status in private[:-1]], "a thread"
    await bot.ask(name="ben")
    public = peer.posts()[len(private) :]
    assert [len(status.mentions) for status in public] == [1] + [0] * (len(public) - 1), "nobody is called twice"


def test_a_server_counts_addresses_and_mentions_short() -> None:
    text = f"@ann@long.example {'x' * 440} https://example.org/{'a' * 160}"
    assert len(text) > 600
    assert count_chars(text) == count(text) == 4 + 1 + 440 + 1 + 23
    assert len(split_text(text, 500)) == 1
    for other in ("https://e.org/a.", "(https://e.org/a_(b)c)", "a@b.example", "http://localhost/" + "a" * 90, "é" * 9):
        assert count_chars(other) >= count(other), other


@pytest.mark.parametrize(("limit", "parts"), [(500, 6), (5000, 1), (1000, 3)])
async def test_the_limit_of_the_server_is_used(bot: MastodonBot, peer: MastodonPeer, limit: int, parts: int) -> None:
    peer.max_chars = limit
    await bot.restart()
    bot.says = "\n\n".join(f"Paragraph {number}. " + "word " * 20 for number in range(22))
    await bot.ask()
    assert len(peer.posts()) == parts
    assert peer.violations == []


@pytest.mark.parametrize("limit", [240, 470])
async def test_an_answer_takes_ten_posts_at_most(bot: MastodonBot, peer: MastodonPeer, limit: int) -> None:
    peer.max_chars = limit
    await bot.restart()
    bot.citations = [
        Citation(number, "a", "docs", "The guide " * 9, "guide.md", f"https://example.org/{number}")
        for number in range(1, 20)
    ]
    bot.says = "\n\n".join(f"Paragraph [{number}]. " + "word " * (limit // 9) for number in range(1, 20))
    await bot.ask()
    assert 5 < len(peer.posts()) <= 10
    text = "\n".join(status.text for status in peer.posts())
    assert messages_for("en").answer_cut.strip("*") in text
    assert "[1] The guide" in text


async def test_addresses_that_a_server_does_not_know_are_split_when_it_refuses(
    bot: MastodonBot, peer: MastodonPeer
) -> None:
    bot.says = " ".join(f"https://host.internal/{'a' * 90}{number}" for number in range(9))
    await bot.ask()
    text = " ".join(status.text for status in peer.posts())
    assert all(f"https://host.internal/{'a' * 90}{number}" in text for number in range(9))


async def test_sources_stand_below_an_answer_with_whole_addresses(bot: MastodonBot) -> None:
    bot.citations = [Citation(1, "a", "docs", "The guide", "guide.md", "https://example.org/guide?a=1&b=(2)")]
    bot.says = "看[指南](https://example.org/中)。**Run** it [1]."
    reply = await bot.ask()
    assert "[1] The guide (https://example.org/guide?a=1&b=(2))" in reply.text
    assert "**" not in reply.text


@pytest.mark.parametrize(
    ("question", "answer", "language"),
    [
        ("how do I install it?", "You can install it with pip, and then it works.", "en"),
        ("怎么安装？", "用 pip 安装这个软件包。", "zh"),
        ("Wie geht das?", "pip", "de"),
    ],
)
async def test_an_answer_says_its_language(bot: MastodonBot, question: str, answer: str, language: str) -> None:
    bot.says = answer
    assert (await bot.ask(f"@kimas {question}", language="de")).language == language


@pytest.mark.parametrize("seconds_later", [0, 4000])
async def test_a_post_whose_confirmation_is_lost_is_there_once(
    bot: MastodonBot, peer: MastodonPeer, seconds_later: int
) -> None:
    peer.fail("POST statuses", drop="after")
    if seconds_later:
        # Servers forget a key after an hour, and some know none.
        peer.watch = forget_keys(peer)
    await bot.ask()
    assert len(peer.posts()) == 1
    assert peer.posts()[0].edits == 0
    assert len(set(peer.used_keys)) == 1


def forget_keys(peer: MastodonPeer):  # type: ignore[no-untyped-def]
    async def forget(name: str, phase: str) -> None:
        if name == "GET statuses/{}/context":
            peer.keys.clear()

    return forget


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("parts", [1, 4])
async def test_after_a_crash_between_post_and_journal_it_is_there_once(
    bot: MastodonBot, peer: MastodonPeer, has_key: bool, parts: int
) -> None:
    if parts > 1:
        bot.says = "\n\n".join(f"Paragraph {number}. " + "word " * 80 for number in range(parts))
    stored = asyncio.Event()

    async def hang(name: str, phase: str) -> None:
        # The last part is stored, and nobody hears of it.
        if (name, phase) == ("POST statuses", "after") and len(peer.posts()) == parts and not stored.is_set():
            stored.set()
            await asyncio.Event().wait()

    peer.watch = hang
    bot.pace = replace(bot.pace, shutdown_grace_s=0.1)
    await bot.restart()
    question = await peer.say(peer.account("ann"), "@kimas how do I install it?")
    await asyncio.wait_for(stored.wait(), 30)
    await bot.stop()
    if not has_key:
        peer.keys.clear()
    await bot.start()
    assert await bot.outcome(question) == ("answered", "")
    assert len(peer.posts()) == parts
    assert len(bot.questions) == 1, "the answer is not made again"


async def test_a_question_deleted_meanwhile_gets_no_answer(bot: MastodonBot, peer: MastodonPeer) -> None:
    bot.hold = asyncio.Event()
    for visibility in ("public", "direct"):
        question = await peer.say(peer.account("ann"), f"@kimas how? {visibility}", visibility=visibility)
        async with asyncio.timeout(30):
            while not any(visibility in item.text for item in bot.questions):
                await asyncio.sleep(0.01)
        peer.delete(question)
        bot.hold.set()
        assert await bot.outcome(question) == ("silent", "the question was deleted before it was answered")
        bot.hold = asyncio.Event()
    assert peer.posts() == []
    assert "POST statuses" not in peer.calls


@pytest.mark.parametrize("header", ["reset", "retry"])
async def test_a_rate_limit_is_waited_for_in_silence(
    bot: MastodonBot, peer: MastodonPeer, header: str, time_lapse: object
) -> None:
    bot.hold = asyncio.Event()
    question = await peer.say(peer.account("ann"), "@kimas how do I install it?")
    await until(lambda: bot.questions)
    if header == "reset":
        peer.calls_left = 0
        peer.reset_s = 3.0
    else:
        peer.fail("POST statuses", 429, Retry_After="3")
    bot.hold.set()
    assert await bot.outcome(question) == ("answered", "")
    assert peer.violations == []
    assert len(peer.posts()) == 1


async def test_a_refused_language_is_left_out(bot: MastodonBot, peer: MastodonPeer) -> None:
    peer.fail("POST statuses", 422, error="Validation failed: Language is not included in the list")
    assert (await bot.ask(language="tlh")).language is None


def test_what_mentions_is_disarmed_where_it_stands() -> None:
    assert split_text("write @ann", 500) == [f"write @{ZERO_WIDTH_SPACE}ann"]
    assert split_text("a@b.example and https://e.org/@ann", 500) == ["a@b.example and https://e.org/@ann"]


def _make_post(chat: str) -> Message:
    """Return what the bot posts to a chat by itself."""
    key = ConversationKey("mastodon", chat)
    return Message("entry-1", key, "", "", "", datetime.now(UTC), reference=make_reference("mastodon", chat))


@pytest.mark.parametrize(
    ("chat", "visibility", "text"),
    [
        ("home", "unlisted", "News."),
        ("tag/diving", "unlisted", "News."),
        ("ann@social.example", "direct", "@ann@social.example News."),
    ],
)
async def test_a_chat_that_nobody_wrote_in_is_posted_to(
    bot: MastodonBot, peer: MastodonPeer, chat: str, visibility: str, text: str
) -> None:
    peer.account("ann")
    message = _make_post(chat)
    await bot.adapter.sink(message, DeliveryLog()).finish(Reply("News."))
    [status] = peer.posts()
    assert (status.visibility, status.text, status.reply_to) == (visibility, text, "")


async def test_what_goes_to_two_chats_is_posted_in_both(bot: MastodonBot, peer: MastodonPeer) -> None:
    peer.account("ann")
    for chat in ("home", "ann@social.example", "home"):
        await bot.adapter.sink(_make_post(chat), DeliveryLog()).finish(Reply("News."))
    assert [status.visibility for status in peer.posts()] == ["unlisted", "direct"]


async def test_a_call_mentions_who_is_configured_and_nobody_else(bot: MastodonBot, peer: MastodonPeer) -> None:
    await bot.restart(handoff={"people": ["mastodon:helper@b.example", "telegram:@somebody"]})
    peer.account("helper", "b.example")
    bot.says = "Ask @somebody or @helper@b.example."
    answer = await bot.ask("@kimas does @somebody know?")
    assert [account.acct for account in answer.mentions] == ["ann"]
    await peer.say(peer.account("ann"), "@kimas /escalate", reply_to=answer.id)
    await until(lambda: any("helper@b.example" in [account.acct for account in post.mentions] for post in peer.posts()))
    assert "somebody" not in [account.acct for post in peer.posts() for account in post.mentions]


async def test_no_comment_comes_after_its_deadline_from_a_slow_server(bot: MastodonBot, peer: MastodonPeer) -> None:
    peer.followed = {"ann"}
    await bot.restart(auto_comment={"chats": ["mastodon:home"], "needs_citation": False, "deadline_s": 1.5})

    async def be_slow(name: str, phase: str) -> None:
        # The bot looks whether the post is still there, and hears of it when its time is over.
        if (name, phase) == ("GET statuses/{}/context", "before") and bot.questions:
            await asyncio.sleep(2)

    peer.watch = be_slow
    post = await peer.say(peer.account("ann"), "The final was won by Brazil")
    assert await bot.outcome(post) == ("silent", "not finished within 1.5 s after the post (auto_comment.deadline_s)")
    assert "POST statuses" not in peer.calls


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("[example.org](https://example.org)", "https://example.org"),
        ("[www.Example.org/a/](https://example.org/a)", "https://example.org/a"),
        ("[the guide](https://example.org)", "the guide (https://example.org)"),
    ],
)
def test_an_address_that_is_its_own_name_is_shown_once(markdown: str, shown: str) -> None:
    assert render(f"See {markdown}.", [], 500) == [f"See {shown}."]
