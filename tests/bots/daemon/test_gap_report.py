"""The weekly report: once a week, to those alone who may see what it tells, and without words that are kept."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bots.daemon import gap_report
from bots.daemon.alerts import AlertSender
from bots.daemon.gap_report import GapReporter
from core.messaging.policy.permissions import make_reader
from core.runtime.clock import MIN_JUMP_S, ClockWatch
from core.settings import Settings
from core.settings.audience import ALL_OPEN
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.reports import ReportRepository
from core.storage.tables import messages
from core.types import ConversationKey, Message, PlatformName, Reply
from core.types.replies import Trace
from tests.conformance.bot import Bot
from tests.conformance.platforms import Discord, Driver, Slack, Telegram
from tests.support.fixtures import InMemoryLibrary, passage

pytestmark = pytest.mark.slow

DRIVERS: Mapping[str, Callable[[], Driver]] = {"telegram": Telegram, "discord": Discord, "slack": Slack}
# A Monday, in the local zone.
MONDAY = datetime(2026, 11, 16).astimezone()
NOW = MONDAY + timedelta(hours=12)
LAST_WEEK = NOW - timedelta(days=4)
NOTHING = Reply("Nothing found.", trace=Trace("q", "single", ("docs",), {}))
NUMBERS = count(10_000)
PAGES = InMemoryLibrary(
    (passage("proxy", "Behind a proxy."), passage("safe", "proxy of the vault", source="secret")),
)


class Recorder:
    """Stands where messages are processed, and for the adapter, and keeps what is posted by chat."""

    name = "telegram"
    label = "telegram"
    bot_id = ""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}

    async def has_guests(self, chat: str) -> bool:
        return False

    def handler_for(self, adapter: object) -> Callable[[Message], Any]:
        async def receive(message: Message) -> None:
            self.texts.setdefault(message.key.chat, []).append(message.text)

        return receive


async def _return_nothing() -> None:
    return None


async def ask(
    journal: Journal, text: str, at: datetime = LAST_WEEK, chat: tuple[str, str] = ("telegram", "-1"), **changes: Any
) -> None:
    message = Message(str(next(NUMBERS)), ConversationKey(*chat), "7", "Ann", text, at, addressed=True)
    await journal.record_message(message)
    await journal.begin_answer(message, None)
    await journal.mark_answered(message, NOTHING)
    values = {"received_at": at, **changes}
    await journal.database.write(update(messages).filter_by(id=message.id).values(values))


def make_reporter(journal: Journal, adapter: Any, receiver: Any, **values: Any) -> GapReporter:
    live = LiveSettings(Settings.model_validate(values), RuntimeOverrides(journal.database))
    sender = AlertSender(live, receiver.handler_for, {adapter: adapter.opening})
    return GapReporter(sender, ReportRepository(journal.database), PAGES, ClockWatch())


@pytest.fixture
async def recorder() -> Recorder:
    recorder: Any = Recorder()
    import asyncio

    recorder.opening = asyncio.create_task(_return_nothing())
    await recorder.opening
    return recorder


def configure(**alerts: Any) -> dict[str, Any]:
    secret = {"kind": "faq", "path": "a.yaml", "audience": "telegram:-2"}
    return {
        "sources": {"docs": {"kind": "faq", "path": "b.yaml"}, "secret": secret},
        "telegram": {"token": {"env": "A"}},
        "administration": {"owners": ["telegram:7"]},
        "alerts": {"chats": ["telegram:-1", "telegram:-2", "telegram:-3", "telegram:7"], **alerts},
    }


async def test_each_chat_is_told_what_its_readers_may_see(journal: Journal, recorder: Any) -> None:
    await ask(journal, "proxy how do I set it?", chat=("telegram", "-1"))
    await ask(journal, "vault who has the key?", chat=("telegram", "-2"))
    await ask(journal, "payroll when is it run?", chat=("telegram", "77"), private=True)
    await ask(journal, "merger when is it announced?", chat=("telegram", "-1"), in_restricted_thread=True)
    # Once the chat saw what is closed today.
    await ask(journal, "safe where is it?", chat=("telegram", "-1"), visible_sources=["secret#1"])
    await make_reporter(journal, recorder, recorder, **configure()).post_due(NOW)
    words = ("proxy how", "vault who", "payroll when", "merger when", "safe where")
    told = {chat: [word for word in words if word in texts[0]] for chat, texts in recorder.texts.items()}
    assert told == {"-1": ["proxy how"], "-3": ["proxy how"], "-2": ["proxy how", "vault who"], "7": list(words)}
    assert "Safe" in recorder.texts["-2"][0], "the nearest page by words"
    assert not any("Safe" in recorder.texts[chat][0] for chat in ("-1", "-3"))


async def test_a_channel_that_is_listed_as_an_owner_is_no_private_chat(journal: Journal) -> None:
    """On Discord nothing tells the id of a channel from that of a person."""
    values = {"discord": {"token": {"env": "A"}}, "administration": {"owners": ["discord:5"]}}
    live = LiveSettings(Settings.model_validate({**configure(chats=["discord:5"]), **values}))
    reader = make_reader(live, PlatformName("discord", "5"), has_guests=False)
    assert (reader.is_private, "secret" in live.audiences.visible_sources(reader)) == (False, False)


async def test_the_week_is_the_one_that_ended_on_monday(journal: Journal, recorder: Any) -> None:
    await ask(journal, "licence too old?", NOW - timedelta(days=17))
    await ask(journal, "proxy in the week before?", NOW - timedelta(days=10))
    await ask(journal, "proxy in the week?")
    await ask(journal, "windows this week?", NOW - timedelta(hours=1))
    await make_reporter(journal, recorder, recorder, **configure(chats=["telegram:-1"])).post_due(NOW)
    [text] = recorder.texts["-1"]
    assert text.startswith("**What people asked from 2026-11-09 to 2026-11-15 and I could not answer well**: 1 que")
    assert "1× (before: 1) `proxy in the week?`; nearest page: [Proxy]" in text
    assert "windows" not in text
    assert "licence" not in text


@pytest.mark.parametrize(
    ("hours", "alerts"),
    [
        (8.9, {}),
        (-24, {}),
        # The daemon started on Tuesday, or on Sunday.
        (24, {}),
        (33, {}),
        (7 * 24 - 1, {}),
        (12, {"gap_report": False}),
        (12, {"chats": []}),
    ],
)
async def test_nothing_is_posted_but_on_mondays_or_unwanted(
    journal: Journal, recorder: Any, hours: float, alerts: Mapping[str, Any]
) -> None:
    await ask(journal, "proxy in the week?")
    reporter = make_reporter(journal, recorder, recorder, **configure(**alerts))
    await reporter.post_due(MONDAY + timedelta(hours=hours))
    assert recorder.texts == {}


async def test_a_clock_that_jumped_to_a_monday_posts_nothing(
    journal: Journal, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(journal, "proxy in the week?")
    reporter = make_reporter(journal, recorder, recorder, **configure(chats=["telegram:-1"]))
    monotonic = time.monotonic
    with monkeypatch.context() as context:
        time_of_day = time.time
        context.setattr(time, "time", lambda: time_of_day() + 2 * MIN_JUMP_S)
        await reporter.clock.look()
    await reporter.post_due(NOW)
    assert recorder.texts == {}
    # An hour later the day is believed.
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 3600)
    await reporter.post_due(NOW + timedelta(hours=1))
    assert len(recorder.texts["-1"]) == 1


async def test_a_week_without_gaps_is_silent(journal: Journal, recorder: Any) -> None:
    reporter = make_reporter(journal, recorder, recorder, **configure())
    await reporter.post_due(NOW)
    # A question of this week is none of the last one, however late somebody looks.
    await ask(journal, "proxy now?", NOW)
    await reporter.post_due(NOW + timedelta(hours=1))
    assert recorder.texts == {}


async def test_secrets_are_removed(journal: Journal, recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "1234567:the-token-of-the-bot")
    await ask(journal, "proxy with 1234567:the-token-of-the-bot how?")
    await make_reporter(journal, recorder, recorder, **configure(chats=["telegram:-1"], language="zh")).post_due(NOW)
    [text] = recorder.texts["-1"]
    assert "the-token" not in text
    assert "没能答好" in text


@pytest.fixture(params=DRIVERS)
async def bot(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bot]:
    async with AsyncExitStack() as stack:
        driver = DRIVERS[request.param]()
        await driver.open(stack)
        bot = Bot(driver, tmp_path)
        stack.push_async_callback(bot.stop)
        bot.changes = {"alerts": {"chats": [f"{bot.platform}:{bot.group().id}"]}}
        await bot.start()
        # The platform knows a group in which somebody has written.
        await bot.say_and_wait(bot.group(), "hi all")
        yield bot


async def test_it_is_posted_once_and_its_words_are_not_kept(bot: Bot, recorder: Any) -> None:
    await ask(bot.journal, "proxy how do I set it?", chat=(bot.platform, "C9"))
    values = {"alerts": {"chats": [f"{bot.platform}:{bot.group().id}"]}}
    for _ in range(2):
        # A daemon that starts again has the journal to know it from.
        live = LiveSettings(Settings.model_validate(values), RuntimeOverrides(bot.journal.database))
        sender = AlertSender(live, bot.processor.handler_for, {bot.adapter: recorder.opening})
        reporter = GapReporter(sender, ReportRepository(bot.journal.database), PAGES, ClockWatch())
        await reporter.post_due(NOW)
        await reporter.post_due(NOW + timedelta(hours=1))
        await bot.processor.join()
    [text] = bot.texts(bot.group())
    assert "proxy how do I set it?" in text
    row = await bot.journal.database.fetch_first(select(messages).filter_by(purpose="report"))
    assert row is not None
    assert (row.state, row.text, row.reply, row.delivery) == ("answered", "", "", None)
    assert bot.script.question_texts == []


@pytest.mark.parametrize("bot", ["telegram"], indirect=True)
@pytest.mark.parametrize("is_owner", [True, False])
async def test_who_is_no_owner_any_more_gets_no_report_of_private_chats(
    bot: Bot, recorder: Any, is_owner: bool
) -> None:
    """It was made while the platform was away."""
    place = bot.private()
    owners = [f"{bot.platform}:{place.chat}"]
    # A private chat begins with a word of the person.
    await bot.say_and_wait(place, "thanks")
    await ask(bot.journal, "payroll when is it run?", chat=(bot.platform, "C9"), private=True)
    made: list[Message] = []

    def receiver(_: object) -> Callable[[Message], Any]:
        async def receive(message: Message) -> None:
            made.append(message)

        return receive

    values = {"alerts": {"chats": owners}, "administration": {"owners": owners}}
    live = LiveSettings(Settings.model_validate(values), RuntimeOverrides(bot.journal.database))
    sender = AlertSender(live, receiver, {bot.adapter: recorder.opening})
    await GapReporter(sender, ReportRepository(bot.journal.database), PAGES, ClockWatch()).post_due(NOW)
    assert "payroll" in made[0].text
    # It had begun: only its delivery is left.
    await bot.journal.record_message(made[0])
    await bot.journal.begin_answer(made[0], frozenset({ALL_OPEN}))
    await bot.journal.mark_delivery(made[0], Reply(made[0].text), {})
    await bot.stop()
    bot.changes = {"alerts": {"chats": owners}, "administration": {"owners": owners if is_owner else []}}
    await bot.start()
    await bot.wait_until_finished(place, made[0].id)
    await bot.idle()
    assert ("payroll when is it run" in str(bot.texts(place))) == is_owner


def test_the_report_is_due_on_mondays() -> None:
    for day in range(7):
        moment = datetime(2026, 11, 16 + day, 12).astimezone()
        assert gap_report._get_monday(moment) == datetime(2026, 11, 16).astimezone()
    assert replace(PAGES).passages
