"""A waterfall picture of every strategy, from real answers: what ran when, and when the first token came.

`make bench` writes them to `docs/images/waterfall-*.svg`; `docs/answering.md` shows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from bots.daemon.bootstrap import open_app
from core.answering.context import AnswerDependencies
from core.answering.pipeline import answer
from core.ports import ChatModel, ModelRole, RequestBudget
from core.runtime.budget import Budget
from core.settings import Strategy
from core.settings.loader import load_settings
from core.types import Question, ResponseSchema, Turn
from tests.lab.benchmarks.corpus import ingested
from tests.lab.benchmarks.drawing import Bar, Waterfall, draw
from tests.lab.benchmarks.figures import Figure
from tests.lab.benchmarks.line import RATE, TTFT_S, StopWatch
from tests.support.deployment import ROOT, Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body, get_agent

PICTURES = ROOT / "docs" / "images"
RUNS = 5
WARM_UP = 2
QUESTION = Question("How does the client retry a request that timed out?")
TALK = (Turn("user", "How does the client handle timeouts?", "Ann"), Turn("assistant", "It retries the request."))
REPLIES = {
    "rewrite": "+ client timeouts\n",
    "split": '{"questions": ["How does the client retry a request?", "How is a timeout of a request set?"]}',
    "plan": '{"steps": ["retries of a request", "timeout of a request"]}',
    "filter": '{"keep": ["p1", "p2"], "missing": "how many retries"}',
    "write": "word " * 39 + "[p1].",
    "talk": "word " * 40,
}
# What goes around a model call, or is only the sum of the stages inside.
FRAMES = frozenset({"gather", "write"})


@dataclass(frozen=True, slots=True)
class Case:
    """One picture: what is asked of which strategy."""

    name: str
    strategy: Strategy
    title: str
    question: Question


CASES = (
    Case("none", "none", "none: no search", Question("Hello, what can you do?")),
    Case("single", "single", "single, without a conversation", QUESTION),
    Case("single-history", "single", "single, in a conversation", Question("And how is that configured?", TALK)),
    Case("parallel", "parallel", "parallel: two sub-questions", QUESTION),
    Case("planning", "planning", "planning: two rounds", QUESTION),
    Case("react", "react", "react: one search", QUESTION),
    Case("simple", "simple", "simple: one search with the raw question", QUESTION),
)


class Recorder:
    """A `ChatModel` that notes when each call of another one began, spoke first and ended, in ms of `clock`."""

    def __init__(self, model: ChatModel, clock: Budget) -> None:
        self._model = model
        # A head start has an account of its own, without a clock.
        self._clock = clock
        self.bars: list[Bar] = []

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        started_ms = self._clock.elapsed_ms()
        first = 0.0
        pieces = self._model.stream(system, turns, role=role, budget=budget, agent=agent)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    first = first or self._clock.elapsed_ms()
                    yield piece
        finally:
            self.bars.append(Bar(f"model: {agent}", started_ms, self._clock.elapsed_ms() - started_ms, first))

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: ModelRole,
        budget: RequestBudget,
        response_schema: ResponseSchema | None = None,
        agent: str = "",
    ) -> str:
        started_ms = self._clock.elapsed_ms()
        try:
            return await self._model.complete(
                system, turns, role=role, budget=budget, response_schema=response_schema, agent=agent
            )
        finally:
            self.bars.append(Bar(f"model: {agent}", started_ms, self._clock.elapsed_ms() - started_ms))


async def measure(folder: Path) -> list[Figure]:
    source_settings = await asyncio.to_thread(ingested, folder)
    figures: list[Figure] = []
    async with LanguageModelPeer(reply=_reply, ttft_s=TTFT_S, tokens_per_s=RATE) as peer:
        model = {"base_url": peer.base_url, "model": "peer"}
        config = Deployment(folder, {**source_settings, "models": {"main": model}, "budget": {"deadline_s": 60}}).config
        async with open_app(load_settings([config])) as app:
            for case in CASES:
                parts = _only(case.strategy, app.deps)
                runs = [await _run(case, parts) for _ in range(WARM_UP + RUNS)][WARM_UP:]
                typical = sorted(runs, key=lambda run: run.first_token_ms)[RUNS // 2]
                await asyncio.to_thread((PICTURES / f"waterfall-{case.name}.svg").write_text, draw(typical), "utf-8")
                figures += _figures(case, typical)
    return figures


def _reply(body: Body) -> str:
    agent = get_agent(body)
    text = str(body["messages"])
    if "You prepare a conversation" in text:
        return '{"analysis": "They ask how to configure the retries.", "indices_of_related_messages": [1, 2]}'
    # A second look at what was gathered suffices; before it, one more search.
    if agent == "decide":
        enough = "number of attempts" in text
        return (
            '{"quality": "good", "action": "answer"}'
            if enough
            else ('{"quality": "poor", "reason": "no numbers", "action": "search", "query": "number of attempts"}')
        )
    if agent == "react":
        return "[answer]" if "<evidence>" in text else "[retrieve_knowledge: retries of a request that timed out]"
    return REPLIES.get(agent, REPLIES["write"])


def _only(strategy: Strategy, parts: AnswerDependencies) -> AnswerDependencies:
    strategies = parts.settings.strategies.model_copy(update={"allowed": (strategy,)})
    return replace(parts, settings=parts.settings.model_copy(update={"strategies": strategies}))


async def _run(case: Case, parts: AnswerDependencies) -> Waterfall:
    assert parts.model is not None
    budget = Budget(parts.settings.budget)
    recorder = Recorder(parts.model, budget)
    watch = StopWatch()
    reply = await answer(case.question, watch, replace(parts, model=recorder), budget)
    assert not reply.is_extractive, reply.trace
    calls = {bar.name.removeprefix("model: ") for bar in recorder.bars}
    stages = [
        Bar(span.stage, span.start_ms, span.spent_ms) for span in budget.spans if span.stage not in FRAMES | calls
    ]
    return Waterfall(case.title, (*stages, *recorder.bars), reply.trace.timings_ms["first_token"])


def _figures(case: Case, run: Waterfall) -> list[Figure]:
    own_ms = run.first_token_ms - TTFT_S * 1000
    limit = 20 if case.name == "single" else None
    earlier_bars = [bar for bar in run.bars if bar.of_model and bar.start_ms < run.first_token_ms]
    name = f"waterfall {case.name}"
    return [
        Figure(f"{name}: first token less the answering model's", own_ms, "ms", limit),
        Figure(f"{name}: model calls before and including the answer", len(earlier_bars), "calls"),
        Figure(f"{name}: time before the first token without any call", run.without_model_ms(), "ms"),
    ]
