"""Channels of Discord: consent in the channel, forums and threads, names left out, deletions, what check says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from core.errors import SourceError
from core.language.tokens import lexical_tokens
from knowledge.connectors.channels import CONSENT_MISSING
from knowledge.connectors.discord import NO_HISTORY
from knowledge.ports import Store
from knowledge.sources.plugin import PluginSource
from tests.support.connectors import OpenSource, Update, read_documents
from tests.support.peers.discord_history import GUILD, NOW, DiscordHistoryPeer, DiscordPlace, make_id, say

OpenDiscord = Callable[..., PluginSource]
DAY_S = 86_400
LONG = "The nightly build is published at two o'clock. " * 3
TALK = make_id(900 * DAY_S)
FORUM = make_id(901 * DAY_S)
THREAD = make_id(5000)
POST = make_id(6000)


@pytest.fixture
async def discord() -> AsyncIterator[DiscordHistoryPeer]:
    async with DiscordHistoryPeer() as peer:
        question = say(5000, "How do I rotate the log, <@77>?", thread={"id": THREAD})
        peer.places[TALK] = DiscordPlace(
            messages=[question, say(400, "lol"), say(300, f"{LONG} Ask <@!78> in <#1> <:party:99>.")]
        )
        starter = say(4990, "", type=21)
        answer = say(4980, "Use `rotate`.", type=19)
        peer.places[THREAD] = DiscordPlace("Rotation", None, 11, [starter, answer], TALK)
        yield peer


@pytest.fixture
def open_discord(discord: DiscordHistoryPeer, open_connector: OpenSource) -> OpenDiscord:
    def open_source(*channels: str, **options: object) -> PluginSource:
        fields = {"channels": channels or [TALK], **options}
        return open_connector("discord_channels", discord.url(), token="SERVICE_TOKEN", **fields)

    return open_source


async def test_threads_and_long_messages_are_read_without_names(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord
) -> None:
    documents = await read_documents(open_discord())
    assert set(documents) == {f"{TALK}/{THREAD}", f"{TALK}/{make_id(300)}"}
    thread = documents[f"{TALK}/{THREAD}"]
    assert thread.text == "How do I rotate the log, @somebody?\n\nReply: Use `rotate`."
    assert (thread.title, thread.url) == ("Rotation", f"{discord.url()}/channels/{GUILD}/{THREAD}")
    message = documents[f"{TALK}/{make_id(300)}"]
    assert message.text.endswith("Ask @somebody in :party:.")
    assert message.url == f"{discord.url()}/channels/{GUILD}/{TALK}/{make_id(300)}"
    for name in ("ann", "77", "78"):
        assert name not in thread.text + message.text


async def test_posts_of_a_forum_are_read_also_when_archived(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update
) -> None:
    discord.places[FORUM] = DiscordPlace("forum", kind=15)
    for number in range(130):
        posted = say(6000 + number, f"Question {number}?")
        archived_at = 0.0 if number < 5 else NOW - 10 * number
        discord.places[posted["id"]] = DiscordPlace(f"Post {number}", None, 11, [posted], FORUM, archived_at)
    hidden = DiscordPlace("hidden", None, 12, [say(100, LONG)], FORUM)
    old = DiscordPlace("old", None, 11, [say(40 * DAY_S, LONG)], FORUM, NOW - 39 * DAY_S)
    discord.places |= {make_id(100): hidden, make_id(40 * DAY_S): old}
    report = await update(open_discord(FORUM, TALK, days=30))
    assert (report.added, report.stale) == (132, "")
    discord.paths()
    assert (await update(open_discord(FORUM, TALK, days=30))).unchanged == 132
    assert {path for path in discord.paths() if path.endswith("/messages")} == {f"/api/v10/channels/{TALK}/messages"}


async def test_a_long_thread_is_read_to_its_end_and_only_after_changes(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update, store: Store
) -> None:
    discord.places[THREAD].messages += [say(4900 - number, f"Line {number}.") for number in range(250)]
    await update(open_discord())
    discord.paths()
    discord.places[THREAD].messages.append(say(10, "zebra secret"))
    assert (await update(open_discord())).updated == 1
    assert discord.paths().count(f"/api/v10/channels/{THREAD}/messages") == 3
    assert await store.search("zebra", None, ["docs"], 9)
    discord.places[THREAD].messages.pop()
    await update(open_discord())
    assert not [row for row in await store.search("zebra", None, ["docs"], 9) if "zebra" in row.text]


async def test_deletions_edits_and_withdrawals_are_followed(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update
) -> None:
    await update(open_discord())
    message = discord.places[TALK].messages[2]
    message |= {"content": f"{LONG} Changed.", "edited_timestamp": "2026-01-02T03:04:05+00:00"}
    assert (await update(open_discord())).updated == 1
    message["reactions"] = [{"count": 1, "emoji": {"id": None, "name": "🚫"}}]
    assert list((await update(open_discord())).unreadable.values()) == ["somebody marked it with 🚫"]
    del discord.places[THREAD]
    discord.places[TALK].messages = [say(50, LONG), say(40, LONG, author={"bot": True}), say(30, LONG, webhook_id="1")]
    report = await update(open_discord())
    assert (report.added, report.deleted) == (1, 2)


async def test_the_only_message_that_is_left_is_left_out_as_well(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update, store: Store
) -> None:
    del discord.places[THREAD]
    message = say(50, f"{LONG} zebra")
    discord.places[TALK].messages = [message]
    await update(open_discord())
    assert await store.search("zebra", None, ["docs"], 9)
    message["reactions"] = [{"count": 1, "emoji": {"id": None, "name": "🚫"}}]
    await update(open_discord())
    assert await store.search("zebra", None, ["docs"], 9) == []


async def test_the_only_message_that_is_deleted_is_forgotten(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update
) -> None:
    del discord.places[THREAD]
    discord.places[TALK].messages = [say(300, LONG)]
    await update(open_discord(TALK))
    discord.places[TALK].messages = []
    report = await update(open_discord(TALK))
    assert (report.stale, len(report.unreadable)) == ("", 1)


@pytest.mark.parametrize("how", ["deleted", "withdrawn"])
async def test_a_thread_keeps_no_question_that_was_withdrawn(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, how: str
) -> None:
    await read_documents(open_discord())
    if how == "deleted":
        del discord.places[TALK].messages[0]
    else:
        discord.places[TALK].messages[0]["reactions"] = [{"count": 1, "emoji": {"id": None, "name": "🚫"}}]
    discord.places[THREAD].messages.append(say(20, "Thanks!"))
    documents = await read_documents(open_discord())
    assert documents[f"{TALK}/{THREAD}"].text == "Use `rotate`.\n\nReply: Thanks!"


@pytest.mark.parametrize("how", ["topic", "hidden", "deleted"])
async def test_where_consent_ends_everything_is_forgotten(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update, store: Store, how: str
) -> None:
    await update(open_discord())
    assert await store.search(lexical_tokens("rotate nightly"), None, ["docs"], 9)
    if how == "topic":
        discord.places[TALK].topic = None
    elif how == "hidden":
        discord.places[TALK].is_visible = False
    else:
        del discord.places[TALK]
    report = await update(open_discord())
    assert (report.stale, set(report.unreadable)) == ("", {TALK})
    assert await store.search(lexical_tokens("rotate nightly"), None, ["docs"], 9) == []


async def test_an_outage_or_a_lost_intent_loses_nothing(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update
) -> None:
    await update(open_discord())
    discord.flags = 0
    report = await update(open_discord())
    assert "Message Content Intent" in report.stale
    assert report.unchanged == 2
    for status in (401, 403, 500):
        discord.status = status
        report = await update(open_discord())
        assert f"status {status}" in report.stale
        assert report.unchanged == 2


async def test_a_channel_without_the_right_to_its_history_costs_only_itself(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update
) -> None:
    discord.places[FORUM] = DiscordPlace("forum", kind=15)
    posted = say(6000, f"How? {LONG}")
    discord.places[POST] = DiscordPlace("Post", None, 11, [posted], FORUM)
    assert (await update(open_discord(FORUM, TALK))).added == 3
    discord.places[FORUM].has_history = False
    report = await update(open_discord(FORUM, TALK))
    assert (report.stale, report.unreadable) == ("", {FORUM: NO_HISTORY})
    assert (report.unchanged, report.deleted) == (2, 1)
    with pytest.raises(SourceError, match=f"channel {FORUM}: the bot may not read its history"):
        await open_discord(FORUM, TALK).probe()


async def test_a_channel_that_is_refused_keeps_what_is_known_and_stops_no_other(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, update: Update
) -> None:
    other = make_id(902 * DAY_S)
    discord.places[other] = DiscordPlace("other", messages=[say(300, LONG)])
    await update(open_discord(TALK, other, FORUM))
    discord.places[other].messages = []
    discord.broken = {f"/api/v10/channels/{TALK}": 403}
    report = await update(open_discord(TALK, other, FORUM))
    assert f"Discord: {TALK}: " in report.stale
    assert "status 403" in report.stale
    assert (report.unchanged, report.deleted) == (3, 1), "a deletion elsewhere is followed"


async def test_check_says_what_is_wrong(
    discord: DiscordHistoryPeer, open_discord: OpenDiscord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await open_discord().probe() == f"Discord: answers for {TALK}"
    voice, silent = make_id(9000), make_id(9001)
    discord.places |= {voice: DiscordPlace(kind=2), silent: DiscordPlace(topic="#kimas-knowledgeable")}
    for channel, reason in ((silent, CONSENT_MISSING), (voice, "no text channel"), (make_id(1), "does not see it")):
        with pytest.raises(SourceError, match=reason):
            await open_discord(TALK, channel).probe()
    with pytest.raises(SourceError, match=r"channels\.0"):
        await open_discord("general").probe()
    discord.flags = 0
    with pytest.raises(SourceError, match="switch on Message Content Intent"):
        await open_discord().probe()
    monkeypatch.setenv("SERVICE_TOKEN", "wrong-token")
    with pytest.raises(SourceError, match="the token is not accepted") as error_info:
        await open_discord().probe()
    assert "wrong-token" not in str(error_info.value)
