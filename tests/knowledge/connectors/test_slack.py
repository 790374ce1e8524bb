"""Channels of Slack: consent in the channel, names left out, deletions followed, small limits, what check says."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

import pytest

from core.errors import SourceError
from core.language.tokens import lexical_tokens
from knowledge.connectors.channels import CONSENT_MISSING
from knowledge.ports import Store
from knowledge.sources.plugin import PluginSource
from tests.support.connectors import OpenSource, Update, read_documents
from tests.support.peers.slack_history import Channel, SlackHistoryPeer

OpenSlack = Callable[..., PluginSource]
NOW = int(time.time())
LONG = "The nightly build is published at two o'clock. " * 3


def stamp(age_s: int) -> str:
    return f"{NOW - age_s}.000100"


def say(age_s: int, text: str, **fields: object) -> dict[str, object]:
    return {"type": "message", "user": "UBEN", "ts": stamp(age_s), "text": text, **fields}


@pytest.fixture
async def slack() -> AsyncIterator[SlackHistoryPeer]:
    async with SlackHistoryPeer() as peer:
        peer.channels["C01"] = Channel(
            messages={
                stamp(500): {"text": "How do I rotate the log, <@UBEN|ben>?"},
                stamp(400): {"text": "lol"},
                stamp(300): {"text": f"{LONG} Ask <@UCLEO>."},
            },
            threads={stamp(500): [say(490, "Use `rotate`, see <https://e.org/log|the page> &amp; <#C02|help>.")]},
        )
        yield peer


@pytest.fixture
def open_slack(slack: SlackHistoryPeer, open_connector: OpenSource) -> OpenSlack:
    def open_source(*channels: str, **options: object) -> PluginSource:
        fields = {"channels": channels or ["C01"], **options}
        return open_connector("slack_channels", slack.url(), token="SERVICE_TOKEN", **fields)

    return open_source


async def test_threads_and_long_messages_are_read_without_names(slack: SlackHistoryPeer, open_slack: OpenSlack) -> None:
    documents = await read_documents(open_slack())
    assert set(documents) == {f"C01/{stamp(500)}", f"C01/{stamp(300)}"}
    thread = documents[f"C01/{stamp(500)}"]
    assert thread.text == (
        "How do I rotate the log, @somebody?\n\nReply: Use `rotate`, see the page (https://e.org/log) & #help."
    )
    assert thread.url == f"https://example.slack.com/archives/C01/p{stamp(500).replace('.', '')}"
    everything = repr(documents)
    for name in ("UBEN", "UANN", "UCLEO", "ben", "lol"):
        assert name not in everything


async def test_only_threads_that_changed_are_read_again(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update
) -> None:
    await update(open_slack())
    slack.paths()
    assert (await update(open_slack())).unchanged == 2
    assert slack.paths() == ["/api/conversations.info", "/api/conversations.history"]
    slack.channels["C01"].threads[stamp(500)].append(say(10, "Thanks!"))
    assert (await update(open_slack())).updated == 1
    assert slack.paths().count("/api/conversations.replies") == 1


async def test_deletions_are_followed(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update, store: Store
) -> None:
    slack.channels["C01"].threads[stamp(500)].append(say(480, "zebra secret"))
    await update(open_slack())
    slack.channels["C01"].threads[stamp(500)].pop()
    await update(open_slack())
    assert not [row for row in await store.search("zebra", None, ["docs"], 9) if "zebra" in row.text]
    slack.channels["C01"].messages[stamp(500)] = {"subtype": "tombstone", "text": "This message was deleted."}
    assert (await update(open_slack())).deleted == 1
    await update(open_slack(days=365))
    slack.channels["C01"].messages[stamp(300)]["reactions"] = [{"name": "no_entry_sign", "count": 1}]
    slack.channels["C01"].messages[stamp(200)] = {"text": LONG}
    await update(open_slack())
    assert {row.path for row in await store.search(lexical_tokens("nightly"), None, ["docs"], 9)} == {
        f"C01/{stamp(200)}"
    }


async def test_what_is_not_of_people_or_is_old_is_left_out(slack: SlackHistoryPeer, open_slack: OpenSlack) -> None:
    channel = slack.channels["C01"]
    channel.messages |= {
        stamp(100): {"text": LONG, "bot_id": "B1"},
        stamp(90): {"text": LONG, "subtype": "channel_topic"},
        stamp(9 * 86_400): {"text": f"{LONG} Long ago."},
    }
    channel.threads[stamp(500)] += [
        say(480, "by a bot", bot_id="B1"),
        say(470, "withdrawn", reactions=[{"name": "no_entry_sign"}]),
    ]
    documents = await read_documents(open_slack(days=7))
    assert set(documents) == {f"C01/{stamp(500)}", f"C01/{stamp(300)}"}
    assert "by a bot" not in repr(documents)
    assert "withdrawn" not in repr(documents)


@pytest.mark.parametrize("how", ["topic", "removed", "deleted"])
async def test_where_consent_ends_everything_is_forgotten(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update, store: Store, how: str
) -> None:
    await update(open_slack())
    assert await store.search(lexical_tokens("rotate nightly"), None, ["docs"], 9)
    if how == "topic":
        slack.channels["C01"].topic = "Support"
    elif how == "removed":
        slack.channels["C01"].is_member = False
    else:
        del slack.channels["C01"]
    report = await update(open_slack())
    assert report.stale == ""
    assert set(report.unreadable) == {"C01"}
    assert await store.search(lexical_tokens("rotate nightly"), None, ["docs"], 9) == []


async def test_the_only_message_that_is_left_is_left_out_as_well(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update, store: Store
) -> None:
    del slack.channels["C01"].messages[stamp(500)]
    await update(open_slack())
    assert await store.search(lexical_tokens("nightly"), None, ["docs"], 9)
    slack.channels["C01"].messages[stamp(300)]["reactions"] = [{"name": "no_entry_sign", "count": 1}]
    await update(open_slack())
    assert await store.search(lexical_tokens("nightly"), None, ["docs"], 9) == []


async def test_the_only_message_that_is_deleted_is_forgotten(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update
) -> None:
    slack.channels["C01"].messages = {stamp(40): {"text": LONG}}
    await update(open_slack())
    slack.channels["C01"].messages = {}
    report = await update(open_slack())
    assert (report.stale, len(report.unreadable)) == ("", 1)


async def test_consent_ends_also_where_another_channel_fails(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update, store: Store
) -> None:
    slack.channels["C02"] = Channel(messages={stamp(50): {"text": "zebra " * 30}})
    await update(open_slack("C01", "C02"))
    slack.channels["C01"].topic = ""
    slack.broken = {"/api/conversations.history": 500}
    assert "status 500" in (await update(open_slack("C01", "C02"))).stale
    passages = await store.search(lexical_tokens("rotate nightly zebra"), None, ["docs"], 9)
    assert {row.path for row in passages} == {f"C02/{stamp(50)}"}


async def test_a_limit_of_fifteen_messages_is_followed_by_cursor(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update
) -> None:
    slack.channels["C01"] = Channel(messages={stamp(n): {"text": f"{LONG} Number {n}."} for n in range(1, 41)})
    slack.channels["C02"] = Channel(messages={stamp(50): {"text": LONG}})
    slack.page_size = 15
    slack.limits = ["1"]
    report = await update(open_slack("C01", "C02"))
    assert (report.added, report.stale) == (41, "")


async def test_an_outage_loses_nothing(slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update) -> None:
    await update(open_slack())
    for status in (401, 403, 500):
        slack.status = status
        report = await update(open_slack())
        assert f"status {status}" in report.stale
        assert report.unchanged == 2


@pytest.mark.parametrize("method", ["conversations.info", "conversations.history"])
async def test_a_channel_that_is_refused_keeps_what_is_known_and_stops_no_other(
    slack: SlackHistoryPeer, open_slack: OpenSlack, update: Update, method: str
) -> None:
    slack.channels |= {"G02": Channel(messages={stamp(50): {"text": LONG}}), "C03": Channel()}
    slack.channels["C03"].messages = {stamp(40): {"text": LONG}}
    assert (await update(open_slack("G02", "C03", "C01"))).added == 4
    slack.scopes_missing, slack.scoped_prefix = {method}, "G"
    slack.channels["C03"].messages = {}
    report = await update(open_slack("G02", "C03", "C01"))
    assert report.stale.startswith(f"Slack: G02: Slack answered to {method} with missing_scope")
    assert (report.unchanged, report.deleted) == (3, 1)


async def test_check_says_what_is_wrong(
    slack: SlackHistoryPeer, open_slack: OpenSlack, open_connector: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await open_slack().probe() == "Slack: answers for C01"
    slack.channels |= {"C02": Channel(topic=""), "C03": Channel(is_member=False), "D04": Channel(is_im=True)}
    with pytest.raises(SourceError, match=f"channel C02: {CONSENT_MISSING}"):
        await open_slack("C01", "C02").probe()
    with pytest.raises(SourceError, match="channel C03: the bot is not in it: invite it"):
        await open_slack("C03").probe()
    with pytest.raises(SourceError, match="channel_not_found: is the bot in the channel"):
        await open_slack("C09").probe()
    with pytest.raises(SourceError, match=r"channels\.0"):
        await open_slack("D04").probe()
    slack.scopes_missing = {"conversations.history"}
    with pytest.raises(SourceError, match="missing_scope: the token lacks the scope channels:history"):
        await open_slack().probe()
    monkeypatch.setenv("SERVICE_TOKEN", "xoxb-wrong")
    with pytest.raises(SourceError, match="invalid_auth: the token is not accepted") as error_info:
        await open_slack().probe()
    assert "xoxb-wrong" not in str(error_info.value)
