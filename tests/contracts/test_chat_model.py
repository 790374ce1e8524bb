"""What every `ChatModel` keeps, run over one with a single endpoint and over one whose first endpoint is broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import ModelError
from core.llm.role_models import RoleChatModel
from core.ports import ChatModel, ModelRole
from core.runtime.budget import Budget
from core.settings import BudgetSettings, ModelsSettings
from core.types import ResponseSchema, Turn
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

ROOT = Path(__file__).parents[2]
REPLY = "A tree has leaves, and a trunk."
ASK = [Turn("user", "What is a tree?"), Turn("assistant", "A plant."), Turn("user", "What has it?")]
ROLES: tuple[ModelRole, ...] = ("main", "light")
FORM = ResponseSchema("answer", "What a tree has.", {"type": "object", "properties": {"parts": {"type": "string"}}})


@dataclass(frozen=True, slots=True)
class Harness:
    """A model, the peer that answers for it, and all peers that it may talk to."""

    model: ChatModel
    peer: LanguageModelPeer
    peers: tuple[LanguageModelPeer, ...]

    async def idle(self, but: int = 0) -> None:
        """Wait until no request is open any more, but for so many."""
        await until(lambda: sum(peer.active for peer in self.peers) == but)


@pytest.fixture(params=["one endpoint", "the second endpoint"])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    async with LanguageModelPeer(reply=REPLY) as peer, LanguageModelPeer() as error:
        error.status = 500
        model_settings = {"base_url": peer.base_url, "model": "good"}
        role: dict[str, object] = dict(model_settings)
        if request.param == "the second endpoint":
            role = {"base_url": error.base_url, "model": "bad", "fallbacks": {"good": model_settings}}
        light = role if request.param == "one endpoint" else None
        models = RoleChatModel.open(ModelsSettings.model_validate({"main": role, "light": light}))
        assert models is not None
        # The first client takes a second to load, which is not what is measured here.
        await models.warm_up()
        yield Harness(models, peer, (peer, error))
        await models.close()
        await models.close()


def budget(deadline_s: float = 60.0) -> Budget:
    return Budget(BudgetSettings(deadline_s=deadline_s))


async def streamed(model: ChatModel, time_budget: Budget, role: ModelRole = "main", agent: str = "") -> list[str]:
    return [piece async for piece in model.stream("Be brief.", ASK, role=role, budget=time_budget, agent=agent)]


async def completed(model: ChatModel, time_budget: Budget, role: ModelRole = "main", agent: str = "") -> str:
    return await model.complete("Be brief.", ASK, role=role, budget=time_budget, agent=agent)


@pytest.mark.parametrize("role", ROLES)
async def test_the_pieces_joined_are_the_whole_reply(harness: Harness, role: ModelRole) -> None:
    pieces = await streamed(harness.model, budget(), role)
    assert all(pieces)
    assert "".join(pieces) == await completed(harness.model, budget(), role) == REPLY


async def test_pieces_come_as_they_are_made(harness: Harness) -> None:
    harness.peer.tokens_per_s = 5
    time_budget = budget()
    arrivals = list[float]()
    async for _ in harness.model.stream("", ASK, role="main", budget=time_budget):
        arrivals.append(time_budget.elapsed_ms())
    assert len(arrivals) > 3
    assert arrivals[-1] - arrivals[0] > 200


async def test_the_instructions_and_the_turns_arrive_in_order(harness: Harness) -> None:
    await completed(harness.model, budget())
    messages = [(message["role"], message["content"]) for message in harness.peer.requests[-1]["messages"]]
    assert messages == [("system", "Be brief."), *((turn.role, turn.text) for turn in ASK)]


@pytest.mark.parametrize("role", ROLES)
async def test_tokens_are_counted_by_agent_or_role(harness: Harness, role: ModelRole) -> None:
    time_budget = budget()
    await completed(harness.model, time_budget, role, "rewrite")
    await streamed(harness.model, time_budget, role, "summarizer")
    await completed(harness.model, time_budget, role)
    assert set(time_budget.tokens) == {
        f"{name}.{kind}" for name in ("rewrite", "summarizer", role) for kind in ("prompt", "completion")
    }
    assert min(time_budget.tokens.values()) > 0
    assert time_budget.tokens["rewrite.completion"] == time_budget.tokens["summarizer.completion"]


async def test_a_form_is_a_wish(harness: Harness) -> None:
    for form in (FORM, ResponseSchema("search", "Searches.", FORM.schema, is_tool=True)):
        assert await harness.model.complete("", ASK, role="light", budget=budget(), response_schema=form) == REPLY


async def test_both_calls_end_by_the_deadline(harness: Harness) -> None:
    harness.peer.hang = True
    for call in (streamed, completed):
        time_budget = budget(0.7)
        with pytest.raises(ModelError, match=harness.peer.base_url):
            await call(harness.model, time_budget)
        assert 700 <= time_budget.elapsed_ms() < 30_000
    await harness.idle()


async def test_a_reply_that_is_too_long_for_the_deadline_ends_with_it(harness: Harness) -> None:
    harness.peer.tokens_per_s = 2
    time_budget = budget(1.5)
    chunks = list[str]()

    async def read() -> None:
        async for piece in harness.model.stream("", ASK, role="main", budget=time_budget):
            chunks.append(piece)

    with pytest.raises(ModelError, match="did not finish in time"):
        await read()
    assert chunks
    assert REPLY.startswith("".join(chunks))
    assert time_budget.elapsed_ms() < 30_000
    await harness.idle()


async def test_a_budget_that_is_spent_is_an_error(harness: Harness) -> None:
    time_budget = budget(0.001)
    await asyncio.sleep(0.01)
    for call in (streamed, completed):
        with pytest.raises(ModelError):
            await call(harness.model, time_budget)
    await harness.idle()


@pytest.mark.parametrize("failure_mode", [{"status": 500}, {"status": 401}, {"drop_after": 0}], ids=str)
async def test_failures_are_model_errors(harness: Harness, failure_mode: dict[str, int]) -> None:
    for name, value in failure_mode.items():
        setattr(harness.peer, name, value)
    with pytest.raises(ModelError, match=harness.peer.base_url):
        await streamed(harness.model, budget())
    await harness.idle()


async def test_cancellation_leaves_no_connection_open(harness: Harness) -> None:
    harness.peer.hang = True
    for call in (streamed, completed):
        request_count = len(harness.peer.requests)
        request = asyncio.create_task(call(harness.model, budget()))
        while len(harness.peer.requests) == request_count:
            await asyncio.sleep(0.005)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await harness.idle()
    assert [task for task in asyncio.all_tasks() if f"{ROOT}/core/" in repr(task)] == []


async def test_a_reader_who_leaves_leaves_no_connection_open(harness: Harness) -> None:
    harness.peer.stall_after = 2
    async with aclosing(harness.model.stream("", ASK, role="main", budget=budget())) as pieces:
        assert REPLY.startswith(await anext(pieces))
        await harness.idle(but=1)
    await harness.idle()


async def test_calls_at_once_do_not_mix(harness: Harness) -> None:
    harness.peer.reply = lambda body: f"You said {body['messages'][-1]['content']}"
    harness.peer.ttft_s = 0.01

    async def ask(number: int) -> str:
        turns = [Turn("user", f"number {number}")]
        if number % 2:
            return await harness.model.complete("", turns, role="light", budget=budget())
        return "".join([piece async for piece in harness.model.stream("", turns, role="main", budget=budget())])

    replies = await asyncio.gather(*(ask(number) for number in range(24)))
    assert replies == [f"You said number {number}" for number in range(24)]
