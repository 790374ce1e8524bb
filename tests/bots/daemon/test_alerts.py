"""Alerts: what is wrong, said once in the chats of whoever runs the bot, on every platform, and over when it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from bots.daemon.alerts import AlertRules, Alerts, AlertSender, Watched
from bots.daemon.monitor import Monitor
from bots.daemon.operator_page import find_problems
from core.errors import UsageError
from core.llm.model_sets import ModelSets
from core.ports import ConnectionStatus
from core.runtime.clock import ClockWatch
from core.settings import Settings
from core.storage.activity import ActivityRepository
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.tables import messages
from core.storage.usage import TokenUsage, UsageRepository
from core.types import ConversationKey, Message, Question, Reply, SkipReason, SourceState, skip
from tests.conformance.bot import Bot
from tests.conformance.platforms import Discord, Driver, Slack, Telegram
from tests.support.deployment import Deployment
from tests.support.journal import read_history

pytestmark = pytest.mark.slow

DRIVERS: Mapping[str, Callable[[], Driver]] = {"telegram": Telegram, "discord": Discord, "slack": Slack}
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
PROBLEM = {"source docs": "The source `docs` could not be read yet: no route"}


@dataclass
class World:
    """What the rules watch, to be changed."""

    journal: Journal
    states_: Sequence[SourceState] = ()
    connections: dict[str, bool] = field(default_factory=dict)
    endpoints: dict[str, bool] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    clock: ClockWatch = field(default_factory=ClockWatch)

    async def states(self) -> Sequence[SourceState]:
        return self.states_

    async def load(self) -> None:
        return None

    def limit(self, name: str) -> float | None:
        return self.limits.get(name)

    def rules(self, **alerts: object) -> AlertRules:
        settings = Settings.model_validate({"alerts": {"chats": ["telegram:-1"], **alerts}})
        database: Any = self.journal.database
        parts: Any = self
        return AlertRules(
            settings.alerts,
            Watched(
                self.states,
                lambda: self.connections,
                lambda: self.endpoints,
                parts,
                UsageRepository(database),
                ActivityRepository(database),
                self.clock,
            ),
        )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    journal = await Journal.open(tmp_path / "journal.db")
    yield World(journal)
    await journal.close()


async def test_a_source_that_fails_for_long_is_a_problem(world: World) -> None:
    recent_time = NOW - timedelta(hours=2)
    old_time = NOW - timedelta(hours=30)
    world.states_ = [
        SourceState("fresh", "files", last_success=recent_time, error="gone"),
        SourceState("stale", "files", last_success=old_time, error="no\nroute to host"),
        SourceState("weekly", "files", last_success=old_time),
        SourceState("paused", "files", last_success=old_time, error="gone", paused=True),
        SourceState("never", "git", error="refused"),
    ]
    problems = await world.rules().find_problems(NOW)
    assert set(problems) == {"source stale", "source never"}
    assert "failing: no route to host" in problems["source stale"]
    assert "could not be read yet" in problems["source never"]
    assert await world.rules(source_hours=None).find_problems(NOW) == {}
    assert "上次更新于" in (await world.rules(language="zh").find_problems(NOW))["source stale"]


async def test_who_looks_now_sees_what_alerts_would_report_if_it_lasted(world: World) -> None:
    failing_state = SourceState("docs", "files", last_success=datetime.now(UTC), error="no route to host")
    world.states_ = [failing_state, SourceState("well", "files", last_success=datetime.now(UTC))]
    world.endpoints = {"gpt at host": False}
    world.connections = {"telegram": False}
    rules = world.rules(language="zh")
    assert await rules.find_problems(datetime.now(UTC)) == {}
    monitor = Monitor()
    connection = ConnectionStatus()
    adapter: Any = SimpleNamespace(label="telegram", connection=connection)
    refresher: Any = SimpleNamespace(store_problem="")
    monitor.attach([adapter], refresher, refresher, ModelSets())
    lines = await find_problems(monitor, rules.at_once())
    assert [line.split(" was ")[0].split(" has ")[0] for line in lines] == [
        "telegram is not connected",
        "The source docs",
        "The model gpt at host",
    ]
    assert "no route to host" in lines[1]


@pytest.mark.parametrize("chats", [[], ["telegram:-1"]])
async def test_who_looks_late_sees_since_when_a_model_is_away(world: World, time_lapse: None, chats: list[str]) -> None:
    rules = world.rules(chats=chats, down_minutes=None)
    settings = Settings.model_validate({"alerts": {"chats": chats}, "telegram": {"token": {"env": "A"}}})
    sender = AlertSender(LiveSettings(settings), ChatRecorder().handler_for, {})
    page_rules = rules.at_once()
    world.endpoints = {"gpt at host": False}
    async with Alerts(rules, sender).run():
        await asyncio.sleep(2 * 60)
        problems = await page_rules.find_problems(NOW + timedelta(seconds=30))
    since = NOW.astimezone() - timedelta(minutes=2)
    assert f"has not answered since {since:%Y-%m-%d %H:%M}" in problems["endpoint gpt at host"]


async def test_what_is_away_is_a_problem_after_some_minutes(world: World, time_lapse: None) -> None:
    rules = world.rules(down_minutes=5)
    world.connections = {"telegram": False, "slack": True}
    world.endpoints = {"gpt at host": False}
    assert await rules.find_problems(NOW) == {}
    world.connections["telegram"] = True
    await asyncio.sleep(4 * 60)
    assert set(await rules.find_problems(NOW + timedelta(minutes=4))) == set()
    world.connections["telegram"] = False
    await asyncio.sleep(2 * 60)
    problems = await rules.find_problems(NOW - timedelta(days=1))
    assert set(problems) == {"endpoint gpt at host"}, "telegram was back in between, and the clock does not matter"
    await asyncio.sleep(6 * 60)
    problems = await rules.find_problems(NOW + timedelta(minutes=12))
    assert set(problems) == {"endpoint gpt at host", "platform telegram"}
    assert "12:00" not in problems["platform telegram"]


async def test_a_daemon_on_standby_misses_no_platform() -> None:
    monitor = Monitor()
    connection = ConnectionStatus()
    adapter: Any = SimpleNamespace(label="telegram", connection=connection)
    nothing: Any = None
    monitor.attach([adapter], nothing, nothing, ModelSets())
    assert monitor.get_connections() == {"telegram": False}
    connection.is_standby = True
    assert monitor.get_connections() == {"telegram": True}


async def test_a_limit_that_is_nearly_used_up_is_a_problem(world: World) -> None:
    world.limits = {"daily_tokens": 1000, "daily_cost": 10}
    question = Question("?", key=ConversationKey("telegram", "1"))
    await UsageRepository(world.journal.database).record(
        question, "answered", {"write": TokenUsage(700, 150, 1.0)}, NOW.astimezone().date()
    )
    problems = await world.rules().find_problems(NOW)
    assert set(problems) == {"limit daily_tokens"}
    assert "85% of the daily limit `daily_tokens` is used up: 850 of 1,000" in problems["limit daily_tokens"]
    world.limits = {"daily_tokens": 1100, "daily_cost": 10}
    assert await world.rules().find_problems(NOW) == {}


async def _write(world: World, moment: datetime, count: int, *, is_answered: bool) -> None:
    """Let people write in a group without addressing the bot."""
    for number in range(count):
        message_id = f"{moment.isoformat()}-{number}-{is_answered}"
        message = Message(message_id, ConversationKey("telegram", "-5"), "9", "Ann", "How does it work?", moment)
        await world.journal.record_message(message)
        if is_answered:
            await world.journal.mark_answered(message, Reply("So."))
        else:
            await world.journal.mark_skipped(message, skip(SkipReason.NOT_ADDRESSED))
        await world.journal.database.write(
            update(messages).where(messages.c.id == message_id).values(received_at=moment)
        )


async def test_a_bot_that_falls_silent_is_a_problem(world: World) -> None:
    for days in range(2, 8):
        await _write(world, NOW - timedelta(days=days), 2, is_answered=True)
    assert await world.rules().find_problems(NOW) == {}, "nobody wrote anything"
    await _write(world, NOW - timedelta(hours=5), 25, is_answered=False)
    problem = (await world.rules().find_problems(NOW))["gate"]
    assert "25 messages" in problem
    assert "1.7 such answers a day" in problem
    await _write(world, NOW - timedelta(hours=1), 1, is_answered=True)
    assert await world.rules().find_problems(NOW) == {}


async def test_a_bot_that_never_spoke_unasked_is_not_missed(world: World) -> None:
    await _write(world, NOW - timedelta(hours=5), 25, is_answered=False)
    assert await world.rules().find_problems(NOW) == {}


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


async def _return_nothing() -> None:
    return None


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def _make_open_task() -> asyncio.Task[None]:
    """Return the task of an adapter that is open."""
    task = asyncio.create_task(_return_nothing())
    await task
    return task


async def _sender(bot: Bot) -> AlertSender:
    settings = Settings.model_validate({"alerts": {"chats": [f"{bot.platform}:{bot.group().id}"]}})
    return AlertSender(LiveSettings(settings), bot.processor.handler_for, {bot.adapter: await _make_open_task()})


async def _get_texts(bot: Bot) -> list[str]:
    await bot.processor.join()
    return bot.texts(bot.group())


async def test_a_problem_is_said_once_and_its_end_too(bot: Bot) -> None:
    sender = await _sender(bot)
    await sender.report(PROBLEM, NOW)
    await sender.report(PROBLEM, NOW + timedelta(minutes=1))
    [text] = await _get_texts(bot)
    assert "docs" in text
    assert "could not be read yet: no route" in text
    await sender.report({}, NOW + timedelta(minutes=2))
    assert len(await _get_texts(bot)) == 2
    assert "Resolved:" in bot.texts(bot.group())[1]
    # A daemon that starts again on the same day has the journal to know it from.
    restarted = await _sender(bot)
    await restarted.report(PROBLEM, NOW + timedelta(minutes=3))
    assert len(await _get_texts(bot)) == 2
    await restarted.report({}, NOW + timedelta(minutes=4))
    await restarted.report(PROBLEM, NOW + timedelta(days=1))
    assert len(await _get_texts(bot)) == 3


async def test_an_alert_is_no_question_of_anybody(bot: Bot) -> None:
    await (await _sender(bot)).report(PROBLEM, NOW)
    await _get_texts(bot)
    assert bot.script.question_texts == []
    assert (await bot.journal.get_recent_questions(5)) == []
    key = ConversationKey(bot.platform, bot.group().chat)
    assert await read_history(bot.journal, key, 5) == []


async def test_a_chat_that_no_bot_can_write_to_is_an_error() -> None:
    settings = Settings.model_validate({"alerts": {"chats": ["slack:C1"]}})
    parts: Any = SimpleNamespace(live=LiveSettings(settings))
    with pytest.raises(UsageError, match=r"alerts\.chats is slack:C1, but there is no slack bot"):
        async with Alerts(parts, parts).run():
            pass


def test_the_check_names_a_chat_that_no_bot_can_write_to(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {"alerts": {"chats": ["slack:C1"]}})
    result = deployment.call("check", "--json", code=1)
    assert "there is no slack bot: add a slack section" in result.stdout


class ChatRecorder:
    """Stands where messages are processed, and for the adapter, and remembers in which chats they are."""

    name = "telegram"
    label = "telegram"
    bot_id = ""

    def __init__(self) -> None:
        self.chats: list[str] = []

    async def has_guests(self, chat: str) -> bool:
        return False

    def handler_for(self, adapter: object) -> Callable[[Message], Any]:
        async def receive(message: Message) -> None:
            self.chats.append(message.key.chat)

        return receive


async def test_a_chat_is_told_of_the_sources_alone_that_it_may_see() -> None:
    adapter: Any = ChatRecorder()
    secret = {"kind": "faq", "path": "a.yaml", "audience": "telegram:-2"}
    settings = Settings.model_validate(
        {
            "sources": {"docs": {"kind": "faq", "path": "b.yaml"}, "secret": secret},
            "telegram": {"token": {"env": "A"}},
            "administration": {"owners": ["telegram:7"]},
            "alerts": {"chats": ["telegram:-1", "telegram:-2", "telegram:7"]},
        }
    )
    sender = AlertSender(LiveSettings(settings), adapter.handler_for, {adapter: await _make_open_task()})
    for problems, chats in (({"source secret": "It fails."}, ["-2", "7"]), ({"source docs": "So."}, ["-1", "-2", "7"])):
        adapter.chats.clear()
        sender.active = {}
        await sender.report(problems, NOW)
        assert adapter.chats == chats


async def test_what_was_closed_since_the_start_is_told_to_nobody_else(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "telegram": {"token": {"env": "A"}},
        "administration": {"owners": ["telegram:7", "telegram:8"]},
        "alerts": {"chats": ["telegram:-1", "telegram:7", "telegram:8"]},
    }
    source = {"kind": "faq", "path": "a.yaml"}
    adapter: Any = ChatRecorder()
    journal = await Journal.open(tmp_path / "journal.db")
    live = LiveSettings(
        Settings.model_validate({**values, "sources": {"docs": source}}), RuntimeOverrides(journal.database)
    )
    sender = AlertSender(live, adapter.handler_for, {adapter: await _make_open_task()})
    values["administration"] = {"owners": ["telegram:7"]}
    reloaded = Settings.model_validate({**values, "sources": {"docs": {**source, "audience": "owners"}}})
    await live.reload(reloaded)
    await live.publish_audiences(reloaded)
    await sender.report({"source docs": "It fails."}, NOW)
    await journal.close()
    assert adapter.chats == ["7"]


async def test_a_platform_that_is_away_holds_up_no_alerts_to_others() -> None:
    away: Any = ChatRecorder()
    present: Any = ChatRecorder()
    present.name = present.label = "slack"
    recorders = {away: away, present: present}
    settings = Settings.model_validate({"alerts": {"chats": ["telegram:-1", "slack:C1"]}})
    is_there = asyncio.Event()
    tasks = {
        away: asyncio.create_task(_wait_for(is_there)),
        present: await _make_open_task(),
    }
    sender = AlertSender(LiveSettings(settings), lambda adapter: recorders[adapter].handler_for(adapter), tasks)
    for _ in range(2):
        await asyncio.wait_for(sender.report(PROBLEM, NOW), 10)
    assert (away.chats, present.chats) == ([], ["C1"])
    is_there.set()
    await tasks[away]
    # On the next day: who was told is not told again.
    for _ in range(2):
        await sender.report(PROBLEM, NOW + timedelta(days=1))
    assert (away.chats, present.chats) == (["-1"], ["C1"])
    await sender.report({}, NOW + timedelta(days=1))
    assert (away.chats, present.chats) == (["-1", "-1"], ["C1", "C1"])


async def test_a_chat_over_http_with_the_name_of_an_owner_is_not_private() -> None:
    adapter: Any = ChatRecorder()
    adapter.name = adapter.label = "http"
    secret = {"kind": "faq", "path": "a.yaml", "audience": "owners"}
    settings = Settings.model_validate(
        {
            "sources": {"secret": secret},
            "http": {"secret": {"env": "A"}, "callback_url": "https://example.org"},
            "administration": {"owners": ["http:lobby"]},
            "alerts": {"chats": ["http:lobby"]},
        }
    )
    sender = AlertSender(LiveSettings(settings), adapter.handler_for, {adapter: await _make_open_task()})
    await sender.report({"source secret": "It fails."}, NOW)
    assert adapter.chats == []
