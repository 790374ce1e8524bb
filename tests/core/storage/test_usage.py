"""What answers consume: the ledger, the daily limits, and what is forgotten of it."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.answering.quota import QuotaLimiter
from core.errors import PlatformError, QuotaExceeded, UsageError
from core.llm.role_models import RoleChatModel
from core.runtime.budget import Budget
from core.settings import BudgetSettings
from core.settings.limits import DAILY_LIMITS
from core.storage.engine import Database
from core.storage.overrides import LiveSettings
from core.storage.usage import AgentUsage, HeadStartCount, TokenUsage, UsageRepository, group_by_agent
from core.types import Question, Reply, Turn
from tests.support.answering import GROUP, OTHER, answering, today
from tests.support.deployment import Deployment
from tests.support.fixtures import MemorySink, settings
from tests.support.scripted import ScriptedPeer, models
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

HOW = Question("How do I install the package with pip?", author_id="42", key=GROUP, id="7")
DAY = date(2026, 3, 4)


@pytest.fixture
def usage_repository(database: Database) -> UsageRepository:
    return UsageRepository(database)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer(write="Use pip [p1].") as model_peer:
        yield model_peer


@pytest.fixture
async def model(peer: ScriptedPeer) -> AsyncIterator[RoleChatModel]:
    chat_model = models(peer)
    yield chat_model
    await chat_model.close()


def make_usage(tokens: int, cost: float = 0.0) -> dict[str, TokenUsage]:
    return {"summarizer": TokenUsage(tokens - 1, 1, cost)}


def test_what_a_trace_holds_is_told_apart_by_agent() -> None:
    tokens = {"rewrite.prompt": 10, "rewrite.completion": 2, "look.back.prompt": 5}
    assert group_by_agent(tokens, {"rewrite": 0.5, "main": 1.0}) == {
        "rewrite": TokenUsage(10, 2, 0.5),
        "look.back": TokenUsage(5, 0, 0.0),
        "main": TokenUsage(0, 0, 1.0),
    }


async def test_days_and_agents_are_summed(usage_repository: UsageRepository) -> None:
    for day in (DAY, DAY, DAY + timedelta(days=1)):
        await usage_repository.record(
            HOW, "answered", {"rewrite": TokenUsage(10, 1, 0.25), "main": TokenUsage(100, 20)}, day
        )
    await usage_repository.record(HOW, "cached", {}, DAY)
    await usage_repository.record(HOW, "failed", {"main": TokenUsage(50, 0)}, DAY)
    first, second = await usage_repository.get_daily_usage(DAY)
    assert (first.day, first.answers, first.usage) == ("2026-03-05", 1, TokenUsage(110, 21, 0.25))
    assert (second.answers, second.cached, second.failed) == (4, 1, 1)
    assert second.usage == TokenUsage(270, 42, 0.5)
    assert await usage_repository.get_agent_usage(DAY) == [
        AgentUsage("main", 4, TokenUsage(350, 60)),
        AgentUsage("rewrite", 3, TokenUsage(30, 3, 0.75)),
    ]
    assert [daily_usage.day for daily_usage in await usage_repository.get_daily_usage(DAY + timedelta(days=1))] == [
        "2026-03-05"
    ]
    assert await usage_repository.get_agent_usage(DAY + timedelta(days=2)) == []


async def test_chats_and_people_are_counted_apart(usage_repository: UsageRepository) -> None:
    thread = replace(HOW, key=replace(GROUP, thread="9"))
    for question, tokens in (
        (HOW, 10),
        (thread, 20),
        (replace(HOW, author_id="43"), 100),
        (replace(HOW, key=OTHER), 1000),
        (replace(HOW, key=replace(GROUP, platform="slack")), 10_000),
    ):
        await usage_repository.record(question, "answered", make_usage(tokens), DAY)
    totals = await usage_repository.get_totals(DAY, HOW)
    assert (totals.overall.total_tokens, totals.chat.total_tokens, totals.user.total_tokens) == (11_130, 130, 1030)
    assert (await usage_repository.get_totals(DAY + timedelta(days=1), HOW)).overall == TokenUsage()


async def test_what_is_usual_is_the_average_of_the_last_answers(usage_repository: UsageRepository) -> None:
    assert await usage_repository.get_average() is None
    await usage_repository.record(HOW, "answered", make_usage(1_000_000), DAY)
    for _ in range(50):
        await usage_repository.record(HOW, "answered", make_usage(100, 0.5), DAY)
        await usage_repository.record(HOW, "cached", {}, DAY)
    assert await usage_repository.get_average() == TokenUsage(99, 1, 0.5)


async def test_an_answer_is_written_down_once_with_what_its_trace_says(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel, tmp_path: Path
) -> None:
    reply = await answering(database, model).answer(HOW, MemorySink())
    (day,) = await usage_repository.get_daily_usage(today())
    assert (day.answers, day.failed) == (1, 0)
    assert day.usage.total_tokens == sum(reply.trace.tokens.values()) > 0
    assert {
        agent_usage.agent: agent_usage.usage for agent_usage in await usage_repository.get_agent_usage(today())
    } == group_by_agent(reply.trace.tokens, reply.trace.cost)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        row = connection.execute("SELECT platform, chat, author_id, question_id, outcome FROM answers").fetchall()
    connection.close()
    assert row == [("telegram", "-100", "42", "7", "answered")]


class GoneSink(MemorySink):
    """Its question was deleted meanwhile."""

    async def finish(self, reply: Reply) -> None:
        raise PlatformError("the question is gone")


async def test_an_answer_that_could_not_be_shown_has_consumed_all_the_same(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel
) -> None:
    with pytest.raises(PlatformError):
        await answering(database, model).answer(HOW, GoneSink())
    (day,) = await usage_repository.get_daily_usage(today())
    assert day.failed == 1
    assert day.usage.total_tokens > 0


async def test_a_refused_question_is_no_answer(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel
) -> None:
    with pytest.raises(UsageError, match="empty"):
        await answering(database, model).answer(Question("  "), MemorySink())
    assert await usage_repository.get_daily_usage(today()) == []


async def test_without_a_model_nothing_is_written_down(database: Database, usage_repository: UsageRepository) -> None:
    await answering(database, None, limits={"daily_tokens": 1}).answer(HOW, MemorySink())
    assert await usage_repository.get_daily_usage(today()) == []


@pytest.mark.parametrize(
    ("limits", "allowed_question", "refused_question", "expected_text"),
    [
        ({"daily_tokens": 100}, None, replace(HOW, key=OTHER, author_id="1"), "Today's limit is used up (100 tokens)"),
        ({"daily_tokens_per_chat": 100}, replace(HOW, key=OTHER), replace(HOW, author_id="1"), "limit for this chat"),
        ({"daily_tokens_per_user": 100}, replace(HOW, author_id="1"), replace(HOW, key=OTHER), "limit for you"),
        ({"daily_cost": 1.5}, None, HOW, "Today's limit is used up (1.5)"),
        ({"daily_cost_per_chat": 1.5}, replace(HOW, key=OTHER), HOW, "limit for this chat is used up (1.5)"),
        ({"daily_cost_per_user": 1.5}, replace(HOW, author_id="1"), HOW, "limit for you is used up (1.5)"),
    ],
)
async def test_at_a_limit_the_asker_is_told(
    limits: dict[str, float],
    allowed_question: Question | None,
    refused_question: Question,
    expected_text: str,
    database: Database,
    usage_repository: UsageRepository,
    model: RoleChatModel,
    peer: ScriptedPeer,
) -> None:
    line = answering(database, model, limits=limits)
    await usage_repository.record(HOW, "answered", make_usage(99, 1.4), today())
    await usage_repository.record(HOW, "answered", make_usage(1000, 1000.0), today() - timedelta(days=1))
    await usage_repository.record(HOW, "answered", make_usage(1, 0.1), today())
    with pytest.raises(UsageError) as error_info:
        await line.answer(refused_question, MemorySink())
    assert expected_text in str(error_info.value)
    midnight = today() + timedelta(days=1)
    assert f"ask again after midnight ({midnight} 00:00" in str(error_info.value)
    assert peer.requests == []
    if allowed_question:
        assert (await line.answer(allowed_question, MemorySink())).citations


@pytest.mark.parametrize(
    ("limits", "expected_text"),
    [
        ({"daily_tokens": 100}, "今天的用量已达上限（100 个 token）"),
        ({"daily_tokens_per_chat": 100}, "今天本聊天的用量已达上限（100 个 token）"),
        ({"daily_cost_per_user": 1.5}, "今天你的用量已达上限（1.5）"),
    ],
)
async def test_at_a_limit_the_asker_is_told_in_their_language(
    limits: dict[str, float],
    expected_text: str,
    database: Database,
    usage_repository: UsageRepository,
    model: RoleChatModel,
) -> None:
    await usage_repository.record(HOW, "answered", make_usage(100, 1.5), today())
    with pytest.raises(UsageError) as error_info:
        await answering(database, model, limits=limits).answer(replace(HOW, text="如何安装这个软件包？"), MemorySink())
    text = str(error_info.value)
    assert text.startswith(expected_text)
    assert f"请在午夜（{today() + timedelta(days=1)} 00:00" in text
    assert text.endswith("分钟。")


PAID = {"base_url": "https://api.openai.com/v1", "model": "m"}
LOCAL = {"base_url": "http://127.0.0.1:11434/v1", "model": "m"}


@pytest.mark.parametrize(
    ("main", "is_paid"),
    [
        (PAID, True),
        (LOCAL, False),
        ({**PAID, "price_prompt": 0, "price_completion": 0}, False),
        ({**PAID, "price_prompt": 0}, True),
        ({**LOCAL, "price_completion": 2.5}, True),
        ({**LOCAL, "fallbacks": {"spare": PAID}}, True),
        *(({**LOCAL, "base_url": url}, True) for url in ("https://8.8.8.8/v1", "https://[2001:4860:4860::8888]:8/v1")),
        *(
            ({**LOCAL, "base_url": f"http://{host}:8000/v1"}, False)
            for host in (
                "ollama",
                "localhost",
                "192.168.1.7",
                "10.0.0.2",
                "[::1]",
                "[fd00::5]",
                "gpu.local",
                "a.internal",
            )
        ),
    ],
)
def test_a_paid_model_has_limits_by_default(main: dict[str, Any], is_paid: bool) -> None:
    configuration = settings(models={"main": main})
    limits = [configuration.get_daily_limit(name) for name in DAILY_LIMITS]
    # A question is thought to take twice 4000 + 1024 tokens.
    tokens = [500 * 10_048, 150 * 10_048, 30 * 10_048] if is_paid else [None] * 3
    assert limits == [*tokens, None, None, None]


def test_limits_that_are_configured_hold_each_for_itself() -> None:
    configuration = settings(
        models={"main": PAID}, limits={"daily_tokens": None, "daily_tokens_per_chat": 5, "daily_cost": 2}
    )
    assert [configuration.get_daily_limit(name) for name in DAILY_LIMITS] == [None, 5, 30 * 10_048, 2, None, None]


async def test_a_member_is_stopped_by_the_default_limit(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel, peer: ScriptedPeer
) -> None:
    priced = {"base_url": peer.base_url, "model": "peer", "price_prompt": 1.0, "price_completion": 1.0}
    line = answering(database, model, models={"main": priced})
    await usage_repository.record(HOW, "answered", make_usage(30 * 10_048), today())
    with pytest.raises(QuotaExceeded, match=r"limit for you is used up \(301,440 tokens\)"):
        await line.answer(HOW, MemorySink())
    assert (await line.answer(replace(HOW, author_id="1"), MemorySink())).citations


async def test_who_was_told_is_not_told_again_that_day(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel
) -> None:
    line = answering(database, model, limits={"daily_tokens": 100})
    await usage_repository.record(HOW, "answered", make_usage(100), today())

    async def refuse(question: Question) -> bool:
        with pytest.raises(QuotaExceeded) as error_info:
            await line.answer(question, MemorySink())
        return error_info.value.is_repeated

    assert [await refuse(HOW) for _ in range(3)] == [False, True, True]
    assert [await refuse(replace(HOW, author_id="1")) for _ in range(2)] == [False, True]
    assert await refuse(replace(HOW, key=OTHER)) is False, "another chat has not read it"
    assert [await refuse(Question("How?")) for _ in range(2)] == [False, False], "the terminal is always answered"


async def test_an_answer_counts_while_it_is_made_by_what_it_consumes(usage_repository: UsageRepository) -> None:
    """One that plans takes many calls, and a second answer with more effort is expected to."""
    limits = QuotaLimiter(LiveSettings(settings(limits={"daily_tokens": 1000})), usage_repository, TokenUsage(300, 100))
    budget = Budget(BudgetSettings())
    async with limits.reserve(HOW, budget):
        async with limits.reserve(HOW):
            pass
        budget.add_usage("plan", 900, 100)
        with pytest.raises(QuotaExceeded, match="in progress"):
            async with limits.reserve(HOW):
                pass
    async with limits.reserve(HOW, Budget(BudgetSettings()), 2.5):
        with pytest.raises(QuotaExceeded, match="in progress"):
            async with limits.reserve(HOW):
                pass


async def test_the_terminal_has_neither_chat_nor_name(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel
) -> None:
    line = answering(database, model, limits={"daily_tokens_per_chat": 1, "daily_tokens_per_user": 1})
    await usage_repository.record(Question("How?"), "answered", make_usage(100), today())
    assert (await line.answer(Question(HOW.text), MemorySink())).citations


async def test_a_limit_is_logged_once_a_day(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel, caplog: pytest.LogCaptureFixture
) -> None:
    line = answering(database, model, limits={"daily_tokens_per_user": 100})
    for person in ("42", "43"):
        await usage_repository.record(replace(HOW, author_id=person), "answered", make_usage(100), today())
    with caplog.at_level(logging.WARNING):
        for person in ("42", "43", "42", "42"):
            with pytest.raises(UsageError):
                await line.answer(replace(HOW, author_id=person), MemorySink())
    assert sum("limit.reached" in message for message in caplog.messages) == 2


async def test_many_at_once_do_not_go_far_beyond_a_limit(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel, peer: ScriptedPeer
) -> None:
    await answering(database, model).answer(HOW, MemorySink())
    total_tokens = (await usage_repository.get_daily_usage(today()))[0].usage.total_tokens
    # All twelve ask while the first are in progress.
    peer.ttft_s = 1.5
    line = answering(database, model, limits={"daily_tokens": 4 * total_tokens})
    outcomes = await asyncio.gather(
        *(line.answer(replace(HOW, id=str(number)), MemorySink()) for number in range(12)), return_exceptions=True
    )
    refused_calls = [outcome for outcome in outcomes if isinstance(outcome, UsageError)]
    assert len(refused_calls) == 12 - 3
    assert all("reserved for answers in progress" in str(usage_error) for usage_error in refused_calls)
    assert (await usage_repository.get_daily_usage(today()))[0].usage.total_tokens == 4 * total_tokens
    with pytest.raises(UsageError, match="is used up"):
        await line.answer(HOW, MemorySink())


async def test_an_answer_made_while_another_reads_the_ledger_is_counted(usage_repository: UsageRepository) -> None:
    limits = QuotaLimiter(LiveSettings(settings(limits={"daily_tokens": 1000})), usage_repository, TokenUsage(300, 100))

    async def ask(number: int) -> None:
        question = replace(HOW, id=str(number))
        async with limits.reserve(question):
            await asyncio.sleep(0.01)
            await usage_repository.record(question, "answered", {"write": TokenUsage(100)}, today())

    for crowd in range(5):
        outcomes = await asyncio.gather(*(ask(60 * crowd + number) for number in range(60)), return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, UsageError) for outcome in outcomes)
    (day,) = await usage_repository.get_daily_usage(today())
    assert day.usage.total_tokens == 1000


@pytest.mark.parametrize("limits", [{"daily_tokens": 6000}, {"daily_cost": 0.006}])
async def test_the_first_answers_of_all_are_bounded_too(
    limits: dict[str, float], database: Database, model: RoleChatModel, peer: ScriptedPeer
) -> None:
    """As long as nothing is known, an answer counts as the most that one call may take: 4000 + 1024 tokens."""
    # All nine ask while the first are in progress.
    peer.ttft_s = 1.5
    priced = {"base_url": peer.base_url, "model": "peer", "price_prompt": 1.0, "price_completion": 1.0}
    line = answering(database, model, limits=limits, models={"main": priced})
    outcomes = await asyncio.gather(*(line.answer(HOW, MemorySink()) for _ in range(9)), return_exceptions=True)
    assert sum(isinstance(outcome, Reply) for outcome in outcomes) == 2


async def test_what_several_calls_of_an_agent_consumed_is_added_up(model: RoleChatModel) -> None:
    budget = Budget(BudgetSettings())
    counts = [0]
    for _ in range(2):
        await model.complete("Answer.", [Turn("user", "Hello?")], role="main", budget=budget, agent="write")
        counts.append(sum(budget.tokens.values()))
    assert group_by_agent(budget.tokens, budget.cost)["write"].total_tokens == counts[2] == 2 * counts[1] > 0


async def test_an_answer_that_is_given_up_frees_its_place(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel, peer: ScriptedPeer
) -> None:
    line = answering(database, model, limits={"daily_tokens": 5000})
    peer.hanging = {"write"}
    stuck = asyncio.create_task(line.answer(HOW, MemorySink()))
    await until(lambda: peer.requests)
    with pytest.raises(UsageError, match="in a moment"):
        await line.answer(HOW, MemorySink())
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)
    peer.hanging = set()
    assert (await line.answer(HOW, MemorySink())).citations


async def test_a_ledger_that_refuses_does_not_take_the_answer_back(
    database: Database, model: RoleChatModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = answering(database, model)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        connection.execute("DROP TABLE spending")
    connection.close()
    assert (await line.answer(HOW, MemorySink())).citations
    assert any("usage.not_recorded" in message for message in caplog.messages)


async def test_who_used_what_is_forgotten_and_the_sums_stay(usage_repository: UsageRepository, tmp_path: Path) -> None:
    await usage_repository.record(HOW, "answered", make_usage(100), today() - timedelta(days=5))
    await usage_repository.record(HOW, "answered", make_usage(10), today() - timedelta(days=1))
    assert await usage_repository.anonymize(today(), 3) == 1
    assert await usage_repository.anonymize(today(), 3) == 0
    assert [
        daily_usage.usage.total_tokens
        for daily_usage in await usage_repository.get_daily_usage(today() - timedelta(days=9))
    ] == [10, 100]
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        rows = connection.execute("SELECT chat, author_id, question_id FROM answers ORDER BY number").fetchall()
    connection.close()
    assert rows == [("", "", ""), ("-100", "42", "7")]


async def test_the_command_shows_days_and_agents(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {})
    ask = asyncio.to_thread
    empty_output = (await ask(deployment.call, "usage")).stdout
    assert "nothing has been answered" in empty_output
    assert not (tmp_path / "data").exists(), "looking makes nothing"
    database = await Database.open(tmp_path / "data" / "journal.db")
    await UsageRepository(database).record(HOW, "answered", {"main": TokenUsage(1200, 34, 0.5)}, today())
    await UsageRepository(database).record(HOW, "answered", {"main": TokenUsage(1, 1)}, today() - timedelta(days=7))
    await database.close()
    output = (await ask(deployment.call, "usage")).stdout
    assert f"{today()}" in output
    assert "1,234" in output
    assert "0.5000" in output
    data = json.loads((await ask(deployment.call, "usage", "--json")).stdout)
    amount = {"prompt": 1200, "completion": 34, "cost": 0.5}
    assert data == {
        "days": [{"day": f"{today()}", "answers": 1, "cached": 0, "failed": 0, **amount}],
        "agents": [{"agent": "main", "answers": 1, **amount}],
    }
    assert len(json.loads((await ask(deployment.call, "usage", "--days", "8", "--json")).stdout)["days"]) == 2


async def test_the_command_tells_estimates_and_head_starts(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, {})
    database = await Database.open(tmp_path / "data" / "journal.db")
    usage = {"main": TokenUsage(1200, 34, 0.5), "head_start": TokenUsage(800, 6, 0.0, 806)}
    await UsageRepository(database).record(HOW, "answered", usage, today(), HeadStartCount(4, 3))
    await database.close()
    output = (await asyncio.to_thread(deployment.call, "usage")).stdout
    assert "806 of 2,040 tokens" in output
    assert "head starts: 4 begun, 3 kept (75%)" in output
    data = json.loads((await asyncio.to_thread(deployment.call, "usage", "--json")).stdout)
    assert data["days"][0]["estimated"] == 806
    assert data["days"][0]["head_starts"] == {"begun": 4, "kept": 3}
    assert {row["agent"]: row.get("estimated") for row in data["agents"]} == {"main": None, "head_start": 806}


async def test_a_chat_with_a_language_reads_its_limit_in_it(
    database: Database, usage_repository: UsageRepository, model: RoleChatModel
) -> None:
    line = answering(database, model, limits={"daily_tokens": 100})
    await usage_repository.record(HOW, "answered", make_usage(100), today())
    with pytest.raises(QuotaExceeded, match="已达上限"):
        await line.answer(replace(HOW, language="Chinese"), MemorySink())
