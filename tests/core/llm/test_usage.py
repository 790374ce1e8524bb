"""Every token that a provider would bill is counted, also of calls that nobody waited for; head starts pay off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from bots.daemon.bootstrap import make_answer_service, make_live_settings
from core.answering.head_start_policy import MIN_SAMPLES, PAUSE_S, START_DELAY_S, HeadStartPolicy
from core.answering.pipeline import answer
from core.errors import ModelError
from core.llm.role_models import RoleChatModel
from core.llm.usage import estimate_prompt_tokens
from core.runtime.budget import Budget
from core.settings import BudgetSettings, ModelsSettings
from core.settings.answering import ContextSettings
from core.storage.engine import Database
from core.storage.usage import TokenUsage, UsageRepository, group_by_agent, total_usage
from core.types import Question, Turn
from tests.support.answering import GROUP, no_versions, today
from tests.support.fixtures import MemorySink, parts, settings
from tests.support.peers.language_model import BODY, split_pieces
from tests.support.scripted import Body, ScriptedPeer, get_agent, models
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")
NUMBER = web.RequestKey("number", int)
ASK = [Turn("user", "How do I install it?")]
REPLY = "Use pip to install the package, and say so to everybody who asks for it [p1]."


class BillingPeer(ScriptedPeer):
    """Knows what it bills: the prompt of every call that it begins, and every token that it has sent or made.

    A stream stops for good after so many tokens when its agent is in `stalls`; `without_usage` sends no counts. A
    refused request is not billed. It counts a prompt as the estimate does, so that bills can be compared exactly.
    """

    def __init__(self, **replies: Any) -> None:
        super().__init__(**replies)
        self.stalls: dict[str, int] = {}
        self.without_usage = False
        self.billed: list[tuple[int, int]] = []

    @property
    def bill(self) -> tuple[int, int]:
        return sum(prompt for prompt, _ in self.billed), sum(completion for _, completion in self.billed)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        if get_agent(body) in self.failing:
            return await super()._chat(request)
        self.billed.append((estimate_prompt_tokens(body), 0))
        if not body.get("stream") and get_agent(body) not in self.hanging:
            self._add(len(self.billed) - 1, len(split_pieces(self._scripted(body))))
        request[NUMBER] = len(self.billed) - 1
        return await super()._chat(request)

    def _add(self, number: int, tokens: int) -> None:
        prompt, completion = self.billed[number]
        self.billed[number] = prompt, completion + tokens

    async def _pace(self, request: web.Request, index: int) -> None:
        if not request[BODY].get("stream"):
            return
        if self.stalls.get(get_agent(request[BODY])) == index:
            await asyncio.Event().wait()
        self._add(request[NUMBER], 1)
        await super()._pace(request, index)

    def _count_usage(self, body: Body, completion: int) -> Body:
        if self.without_usage:
            return {}
        prompt = estimate_prompt_tokens(body)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


@pytest.fixture
async def peer() -> AsyncIterator[BillingPeer]:
    async with BillingPeer(write=REPLY) as model_peer:
        yield model_peer


@pytest.fixture
async def model(peer: BillingPeer) -> AsyncIterator[RoleChatModel]:
    chat_model = models(peer)
    yield chat_model
    await chat_model.close()


def total(budget: Budget, *agents: str) -> tuple[int, int, int]:
    """Return the tokens of prompts and of completions, and how much of both is estimated, of some agents or all."""
    usages = [usage for agent, usage in group_by_agent(budget.tokens, {}).items() if agent in agents or not agents]
    return (
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
        sum(usage.estimated_tokens for usage in usages),
    )


async def read(model: RoleChatModel, budget: Budget, pieces: int = 1000) -> None:
    stream = model.stream("Be kind.", ASK, role="main", budget=budget, agent="writer")
    try:
        async for _ in stream:
            pieces -= 1
            if not pieces:
                return
    finally:
        await stream.aclose()


async def test_a_stream_that_nobody_reads_to_its_end_is_estimated(peer: BillingPeer, model: RoleChatModel) -> None:
    peer.stalls = {"write": 5}
    peer.tokens_per_s = 200
    budget = Budget(BudgetSettings())
    task = asyncio.create_task(read(model, budget))
    await until(lambda: peer.billed and peer.bill[1] >= 5)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert total(budget)[:2] == peer.bill
    assert total(budget)[2] == sum(peer.bill)
    assert peer.bill[1] == 5


async def test_a_call_that_is_cancelled_before_its_first_word_costs_its_prompt(
    peer: BillingPeer, model: RoleChatModel
) -> None:
    peer.hanging = {"write"}
    for call in (
        lambda budget: read(model, budget),
        lambda budget: model.complete("Be kind.", ASK, role="light", budget=budget, agent="writer"),
    ):
        budget = Budget(BudgetSettings())
        earlier_bill = peer.bill
        task = asyncio.create_task(call(budget))
        while peer.bill == earlier_bill:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert total(budget) == (peer.bill[0] - earlier_bill[0], 0, peer.bill[0] - earlier_bill[0])


async def test_counts_of_the_provider_are_no_estimates(peer: BillingPeer, model: RoleChatModel) -> None:
    budget = Budget(BudgetSettings())
    await read(model, budget)
    await model.complete("Be kind.", ASK, role="light", budget=budget, agent="writer")
    assert total(budget) == (*peer.bill, 0)


async def test_a_provider_without_counts_is_estimated(peer: BillingPeer, model: RoleChatModel) -> None:
    peer.without_usage = True
    budget = Budget(BudgetSettings())
    await read(model, budget)
    assert total(budget) == (*peer.bill, sum(peer.bill))


async def test_what_was_refused_or_never_arrived_costs_nothing(peer: BillingPeer, model: RoleChatModel) -> None:
    peer.failing = {"write"}
    budget = Budget(BudgetSettings())
    unreachable = RoleChatModel.open(
        ModelsSettings.model_validate({"main": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}})
    )
    assert unreachable is not None
    for failing in (model, unreachable):
        with pytest.raises(ModelError):
            await read(failing, budget)
        with pytest.raises(ModelError):
            await failing.complete("Be kind.", ASK, role="light", budget=budget)
    assert total(budget) == (0, 0, 0)
    await unreachable.close()


async def test_a_call_that_fails_over_costs_at_both_endpoints(peer: BillingPeer) -> None:
    async with BillingPeer(write=REPLY) as backup:
        peer.hanging = {"write"}
        fallbacks = {"b": {"base_url": backup.base_url, "model": "backup"}}
        model = models(peer, fallbacks=fallbacks, first_token_s=2.0, price_prompt=1.0)
        budget = Budget(BudgetSettings())
        await read(model, budget)
        await model.close()
    assert total(budget) == (peer.bill[0] + backup.bill[0], backup.bill[1], peer.bill[0])
    assert budget.cost["writer"] == pytest.approx(peer.bill[0] / 1_000_000)


async def test_usage_is_the_bill_over_thirty_questions(
    peer: BillingPeer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With head starts that are discarded, askers who go away, streams that stop, failures and repairs."""
    monkeypatch.setattr("core.llm.role_models.STALL_S", 0.4)
    database = await Database.open(tmp_path / "journal.db")
    model = models(peer)
    # Where messages are selected, no head start begins.
    configuration = settings(context={"select": False})
    head_starts = HeadStartPolicy(configuration.context, max_extra=1.0, min_kept=0.0)
    deps = replace(parts(model=model, configuration=configuration), head_starts=head_starts)
    service = make_answer_service(deps, no_versions, database, make_live_settings(configuration, database))
    history = (Turn("user", "What does the memory module do?"), Turn("assistant", "It stores messages."))
    peer.replies |= {"rewrite": "memory module database"}
    peer.tokens_per_s = 1500
    for number in range(30):
        kind = number % 6
        peer.stalls = {"write": 4} if kind in (1, 2) else {}
        peer.failing = {"rewrite"} if kind == 3 else set()
        peer.without_usage = kind == 4
        peer.replies["rewrite"] = "how to install with pip" if kind == 5 else "memory module database"
        text = "How do I install the package with pip?" if kind in (0, 1) else "Does it need one?"
        question = Question(text, history if kind > 1 else (), id=str(number), author_id="42", key=GROUP)
        task = asyncio.create_task(service.answer(question, MemorySink()))
        if kind == 1:
            # The asker deletes the question while the answer is being written.
            await asyncio.sleep(0.3)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.05)
    days = await UsageRepository(database).get_daily_usage(today())
    usage = days[0].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == peer.bill
    assert 0 < usage.estimated_tokens < usage.total_tokens
    assert days[0].head_starts.started_count > 0
    by_agent = await UsageRepository(database).get_agent_usage(today())
    assert sum(row.usage.total_tokens for row in by_agent) == sum(peer.bill)
    assert sum(row.usage.estimated_tokens for row in by_agent) == usage.estimated_tokens
    await model.close()
    await database.close()


# Head starts
CONVERSATION = (
    ("How do I install the package?", "x"),
    ("Does it need pip?", "need pip install package"),
    ("And what does it store?", "memory module stores messages"),
    ("Does it need a database?", "vector database memory"),
) * 6


async def converse(peer: BillingPeer, *, head_start: bool) -> int:
    """Return the main model's tokens for a conversation in which the light model often overrules the rules."""
    configuration = settings(context={"select": False, "head_start": head_start})
    model = models(peer)
    deps = replace(parts(model=model, configuration=configuration), head_starts=HeadStartPolicy(configuration.context))
    turns: list[Turn] = []
    tokens = 0
    peer.ttft_s = 0.15
    for text, query in CONVERSATION:
        peer.replies["rewrite"] = query
        budget = Budget(configuration.budget)
        reply = await answer(Question(text, tuple(turns[-6:])), MemorySink(), deps, budget)
        turns += [Turn("user", text), Turn("assistant", reply.text)]
        tokens += sum(total(budget, "summarizer", "head_start")[:2])
    await model.close()
    return tokens


async def test_a_conversation_costs_at_most_15_percent_more_with_head_starts(peer: BillingPeer) -> None:
    peer.replies["look_back"] = "none"
    without = await converse(peer, head_start=False)
    assert await converse(peer, head_start=True) <= 1.15 * without


def test_the_first_loss_is_lent_and_later_ones_are_paid_by_answers() -> None:
    head_starts = HeadStartPolicy(ContextSettings(), min_kept=0.0)
    lost_counts = 0
    needed_count = 0
    begin_count = 0
    for _ in range(200):
        if head_starts.may_begin(1000):
            begin_count += 1
            head_starts.record_outcome(is_kept=False)
            head_starts.record_loss(1100)
            lost_counts += 1100
        head_starts.record_answer(1000, 100)
        needed_count += 1100
        assert lost_counts <= max(1100, 0.15 * needed_count)
    assert begin_count == 30


def test_head_starts_that_are_kept_go_on() -> None:
    head_starts = HeadStartPolicy(ContextSettings())
    for _ in range(100):
        assert head_starts.may_begin(1000)
        head_starts.record_begin(1000)
        head_starts.record_outcome(is_kept=True, prompt_tokens=1000)
        head_starts.record_answer(1000, 100)
    assert not HeadStartPolicy(ContextSettings(), max_extra=0).may_begin(1000)


def test_a_crowd_begins_no_more_than_what_it_will_probably_lose_allows() -> None:
    def begin_all(head_starts: HeadStartPolicy) -> int:
        begin_count = 0
        while begin_count < 100 and head_starts.may_begin(1000):
            head_starts.record_begin(1000)
            begin_count += 1
        return begin_count

    assert begin_all(HeadStartPolicy(ContextSettings())) == 1
    for kept_of_20, expected in ((20, range(100, 101)), (14, range(5, 20))):
        head_starts = HeadStartPolicy(ContextSettings())
        for number in range(20):
            head_starts.record_outcome(is_kept=number < kept_of_20)
            head_starts.record_answer(1000, 0)
        assert begin_all(head_starts) in expected


def test_the_wait_for_a_fast_light_model_ends_where_it_is_known_to_be_slow() -> None:
    head_starts = HeadStartPolicy(ContextSettings())
    assert head_starts.delay_s == START_DELAY_S
    head_starts.record_light_call(0.05)
    assert head_starts.delay_s == START_DELAY_S
    for _ in range(5):
        head_starts.record_light_call(0.5)
    assert head_starts.delay_s == 0


def test_too_few_that_are_kept_switch_them_off_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    head_starts = HeadStartPolicy(ContextSettings(), max_extra=1.0)
    head_starts.record_answer(1_000_000, 1000)
    for number in range(MIN_SAMPLES):
        assert head_starts.may_begin(100)
        head_starts.record_outcome(is_kept=number % 3 == 0)
    assert not head_starts.may_begin(100)
    now[0] += PAUSE_S - 1
    assert not head_starts.may_begin(100)
    now[0] += 2
    assert head_starts.may_begin(100)


def test_usage_of_agents_adds_up_with_its_estimates() -> None:
    counts = {"a.prompt": 10, "a.completion": 5, "b.prompt": 7, "b.completion": 0, "b.estimated": 7}
    assert group_by_agent(counts, {"a": 0.5})["b"] == TokenUsage(7, 0, 0.0, 7)
    assert total_usage(counts, {"a": 0.5}) == TokenUsage(17, 5, 0.5, 7)
