"""What changes in the middle of an answer counts for its next word: a small test for each kind of moment.

The state machine of `test_audience_property.py` finds such moments by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bots.api.running import RunningAnswers
from bots.common.caches import TtlCache
from bots.slack.app_home import HomeSink
from core.errors import KimasError, MessageDeleted, UsageError
from core.llm import repetition
from core.messaging.journaling import JournaledDelivery
from core.ports import Sink
from core.types import ConversationKey, Message, Question, Reply
from tests.support.audience_truth import Truth
from tests.support.audience_world import (
    MEMBER,
    ON_DISCORD,
    PLACES,
    PUBLIC,
    QUESTION,
    Configuration,
    format_said,
    write_documents,
)
from tests.support.interleaving import (
    PLACE,
    Interruption,
    Interruptions,
    Watch,
    interrupt,
    watch_models,
)
from tests.support.recording_bot import Bot, Sender
from tests.support.sink_helpers import DeliveryLog
from tests.support.watched_bot import open_watched_bot
from tests.support.watched_doors import watch_doors

GROUP = PLACES[0]
ON_SLACK = Sender("C9", MEMBER, platform="slack")
BY_COMMAND = Sender(ON_DISCORD, MEMBER, platform="discord")
CLOSED = ("owners",)


@dataclass
class Watched:
    """A bot whose sources are all open, with what watches it."""

    bot: Bot
    models: Sequence[object]
    interruptions: Interruptions
    watch: Watch
    truth: Truth
    folders: tuple[Path, Path]

    async def reload(self, configuration: Configuration) -> None:
        folder, documents = self.folders
        settings = configuration.make_settings(folder, documents, self.models)  # type: ignore[arg-type]
        await self.bot.dispatcher.context.reload(settings)

    async def close(self) -> None:
        await self.reload(Configuration(CLOSED))
        self.truth.audiences.append(CLOSED)

    async def ask(self, sender: Sender, text: str = QUESTION) -> Message:
        PLACE.set(sender)
        return await self.bot.deliver(sender, text)


@pytest.fixture
async def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(repetition, "ECHO_SHARE", 2.0)
    documents = tmp_path / "documents"
    documents.mkdir()
    write_documents(documents)
    interruptions = Interruptions()
    truth = Truth([("everyone",)])
    watch = Watch(truth)
    interrupt(monkeypatch, interruptions)
    watch_models(monkeypatch, watch)
    watch_doors(monkeypatch, watch, interruptions)
    async with open_watched_bot(tmp_path, documents, Configuration(("everyone",)), interruptions, watch) as opened:
        truth.own_model = opened.models[1].base_url
        await opened.bot.app.refresh()
        yield Watched(opened.bot, opened.models, interruptions, watch, truth, (tmp_path, documents))


@pytest.mark.parametrize("sender", [GROUP, ON_SLACK, BY_COMMAND], ids=["telegram", "slack", "discord"])
@pytest.mark.parametrize("point", ["search", "model", "token", "try", "retry", "journal", "acknowledge"])
@pytest.mark.parametrize("count", [0, 6])
async def test_a_source_that_is_closed_in_between_is_told_of_no_more(
    watched: Watched, sender: Sender, point: str, count: int
) -> None:
    watched.interruptions.planned.append(Interruption(point, count, watched.close))
    await watched.ask(sender)
    assert watched.watch.leaks == []
    if not watched.interruptions.happened:
        assert any("numbat" in text for text in watched.watch.shown), "it was open"


async def test_a_platform_that_is_slow_gets_no_words_after_their_source_was_closed(watched: Watched) -> None:
    """Telegram takes a placeholder first, and the words afterwards."""
    watched.interruptions.planned.append(Interruption("try", 0, watched.close))
    await watched.ask(GROUP)
    assert watched.interruptions.happened
    assert watched.watch.leaks == []


@pytest.mark.parametrize(("point", "count"), [("embed", 0), ("search", 1), ("journal", 4)])
async def test_a_model_that_a_chat_uses_no_more_is_told_nothing(watched: Watched, point: str, count: int) -> None:
    """The answer in progress has begun with the former one."""

    async def use_own_models() -> None:
        chat = f"telegram:{PUBLIC}"
        await watched.reload(Configuration(("everyone",), local=frozenset({chat})))
        watched.truth.local.add(chat)

    watched.interruptions.planned.append(Interruption(point, count, use_own_models))
    await watched.ask(GROUP)
    assert watched.interruptions.happened
    assert watched.watch.leaks == []
    await watched.ask(GROUP)
    assert any("numbat" in text for text in watched.watch.shown), "the next answer is from the new one"
    assert watched.watch.leaks == []


@pytest.mark.parametrize("point", ["search", "token", "try", "journal"])
async def test_nothing_more_is_shown_to_who_was_forgotten_in_between(watched: Watched, point: str) -> None:
    watched.truth.said["potoroo1x"] = GROUP

    async def forget() -> None:
        key = ConversationKey("telegram", PUBLIC, "elsewhere")
        command = Message("f", key, MEMBER, "Ann", "", datetime.now(UTC), command="forget")
        await watched.bot.journal.record_message(replace(command, addressed=True))
        await watched.bot.journal.erase_author(command)
        watched.truth.forget(GROUP)

    watched.interruptions.planned.append(Interruption(point, 0, forget))
    await watched.ask(GROUP, format_said("potoroo1x"))
    assert watched.interruptions.happened
    assert watched.watch.leaks == []


async def test_who_is_forgotten_while_a_platform_says_who_reads_is_told_nothing(watched: Watched) -> None:
    """Slack is asked right before each word, which may take a while."""
    asked = await watched.ask(ON_SLACK)
    second = replace(asked, id="2", text="And what else?")
    await watched.bot.journal.record_message(second)
    delivery = JournaledDelivery(watched.bot.journal, second)

    async def check_rights() -> None:
        command = replace(asked, id="f", text="", command="forget")
        await watched.bot.journal.record_message(command)
        await watched.bot.journal.erase_author(command)
        await delivery.require_left()

    delivery.check_rights = check_rights
    with pytest.raises(MessageDeleted):
        await delivery.require_rights()


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_home_tab_has_nothing_of_a_source_that_is_closed_while_slack_says_whose_it_is(is_closed: bool) -> None:
    delivery = DeliveryLog()
    shown = list[object]()

    class Client:
        async def is_member(self, user: str) -> bool:
            delivery.are_rights_lost = is_closed
            return True

        async def publish_home(self, user: str, view: object) -> None:
            shown.append(view)

    client: Any = Client()
    opened = Message("1", ConversationKey("slack", "D1"), MEMBER, "Ann", "", datetime.now(UTC), command="start")
    sink = HomeSink(client, TtlCache(60, 10), opened, delivery)
    with pytest.raises(UsageError) if is_closed else nullcontext():
        await sink.finish(Reply("numbat"))
    assert bool(shown) != is_closed


async def test_a_program_gets_no_answer_whose_source_was_closed_while_it_was_slow() -> None:
    is_open = True
    written = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        written.set()
        return Reply("numbat")

    async def may_tell() -> bool:
        return is_open

    async with RunningAnswers(answer, 1).join("key", Question("How?"), may_tell) as (running, task):
        assert (await task).text == "numbat"
        is_open = False
        with pytest.raises(KimasError, match="closed"):
            await running.require_rights()
