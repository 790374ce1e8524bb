"""Every optional stage made to hang, one at a time and all together: the first token still comes inside the budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.answering.cache import CachedAnswers, answer_with_cache
from core.answering.pipeline import answer
from core.ports import Sink
from core.runtime.budget import Budget
from core.settings import BudgetSettings, Settings
from core.settings.audience import Audiences
from core.storage.answer_cache import AnswerCache
from core.storage.engine import Database
from core.types import AgentScore, Passage, Question, Reply, Turn
from tests.support.fixtures import INSTALL, MEMORY, InMemoryLibrary, MemorySink, OrderKeeper, parts, passage, settings
from tests.support.images import png
from tests.support.scripted import LIGHT, ScriptedPeer, left_behind, models
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

DEADLINE_S = 6.0
FOLLOW_UP = Question(
    "Does it need a database?",
    (Turn("user", "What does the memory module do?"), Turn("assistant", "It stores messages.")),
)
OTHER = passage("other", "A database keeps the memory of a module on disk.", source="other")


class Stuck(InMemoryLibrary):
    """Hangs where it is told to."""

    stages: frozenset[str] = frozenset()

    async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
        if "route" in self.stages:
            await asyncio.Event().wait()
        return await super().route(query, at_least_one=at_least_one)

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        if "search" in self.stages and agent == "other":
            await asyncio.Event().wait()
        return await super().search(agent, query, limit, dense_query=dense_query)

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        if "similarity" in self.stages:
            await asyncio.Event().wait()
        return await super().similarity(query, texts)


class StuckSink(MemorySink):
    async def open(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as model_peer:
        model_peer.replies |= {
            "rewrite": "Does the memory module need a database?",
            "context": "1, 2\nWhether memory needs a database.",
            "choose": "single",
            "write": "Long-term memory needs a vector database.",
            "look_back": "1: p1",
        }
        yield model_peer


STAGES = ("rewrite", "context", "choose", "route", "search", "rerank", "look_back", "open")
CASES = [*((stage,) for stage in STAGES), ("rewrite", "context", "choose", "look_back"), STAGES]


@pytest.mark.parametrize("stages", CASES, ids=["+".join(group) if len(group) < 5 else "all" for group in CASES])
async def test_what_hangs_is_cut_and_the_first_token_is_in_time(peer: ScriptedPeer, stages: tuple[str, ...]) -> None:
    peer.hanging = {stage for stage in stages if stage in LIGHT}
    library = Stuck((INSTALL, MEMORY, OTHER))
    library.stages = frozenset(stages)
    configuration = settings(
        budget={"deadline_s": DEADLINE_S, "step": 0.1, "search": 0.1},
        sources={name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "other")},
        strategies={"allowed": ["single", "planning"]},
    )
    chat_model = models(peer)
    # As the daemon does: loading the client takes longer than these deadlines.
    await chat_model.warm_up()
    sink = StuckSink() if "open" in stages else MemorySink()
    reranker = OrderKeeper(60) if "rerank" in stages else None
    reply = await answer(FOLLOW_UP, sink, parts(library, chat_model, configuration, reranker))
    await chat_model.close()
    assert reply.trace.timings_ms["first_token"] < DEADLINE_S * 1000
    assert set(reply.trace.degraded) == set(stages)
    assert reply.text.startswith("Long-term memory needs a vector database")
    assert {entry.source for entry in reply.passages} >= {"docs"}
    assert left_behind() == []


# Every optional stage at once, with the shares of the default configuration

EVERY_S = 5.0
ALONE_NOW = Question("Which database does the long-term memory module need to store the messages of an agent?")
ALLOWED = (
    ("single",),
    ("parallel",),
    ("planning",),
    ("react",),
    ("simple",),
    *(("single", name) for name in ("parallel", "planning", "react")),
)


async def _picture() -> bytes:
    return png()


async def _no_version(_sources: Collection[str], _oldest_s: float) -> Mapping[str, str]:
    await asyncio.Event().wait()
    return {}


def _everything(strategies: Sequence[str], **changes: object) -> Settings:
    agents = {name: {"sources": [name], "compression": "model", "rewrites": ["keyword"]} for name in ("docs", "other")}
    return settings(
        budget={"deadline_s": EVERY_S},
        sources={name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "other")},
        agents=agents,
        strategies={"allowed": list(strategies), "default": strategies[-1]},
        **changes,
    )


async def _answer_question(
    peer: ScriptedPeer, question: Question, strategies: Sequence[str], database: Database | None, *, stuck: bool = True
) -> Reply:
    """Ask with everything stuck around the model, or with nothing; what of the model hangs is up to the peer."""
    library = Stuck((INSTALL, MEMORY, OTHER))
    library.stages = frozenset(("route", "search", "similarity") if stuck else ())
    sink = StuckSink() if stuck else MemorySink()
    images = {"main": {"base_url": peer.base_url, "model": "test-model", "images": True}}
    configuration = _everything(strategies, models=images)
    chat_model = models(peer, images=True)
    await chat_model.warm_up()
    line = parts(library, chat_model, configuration, OrderKeeper(60 if stuck else 0))

    async def make(question: Question, sink: Sink, budget: Budget) -> Reply:
        return await answer(question, sink, line, budget)

    try:
        if database is None:
            return await answer(question, sink, line)
        cache = AnswerCache(database, configuration.cache, "as it is")
        repeated = CachedAnswers(cache, library, _no_version, ("docs", "other"), 0.9, Audiences)
        return await answer_with_cache(question, sink, make, repeated, Budget(configuration.budget))
    finally:
        await chat_model.close()


@pytest.mark.parametrize("strategy", ["conversation", "picture", "look-up"])
async def test_when_all_of_them_hang_the_answer_is_still_written(
    peer: ScriptedPeer, strategy: str, tmp_path: Path
) -> None:
    peer.hanging = set(LIGHT)
    picture = replace(FOLLOW_UP, image_loaders=(_picture,))
    question = {"conversation": FOLLOW_UP, "picture": picture, "look-up": ALONE_NOW}[strategy]
    database = await Database.open(tmp_path / "journal.db") if strategy == "look-up" else None
    replies = await asyncio.gather(*(_answer_question(peer, question, allowed, database) for allowed in ALLOWED))
    if database:
        await database.close()
    for allowed, reply in zip(ALLOWED, replies, strict=True):
        messages = (allowed, reply.trace)
        assert reply.trace.timings_ms.get("first_token", EVERY_S * 1000) < EVERY_S * 1000, messages
        assert reply.text.startswith("Long-term memory needs a vector database"), messages
        assert "docs" in {entry.source for entry in reply.passages}, messages
        assert set(reply.trace.degrade_reasons) == set(reply.trace.degraded), messages
        assert set(reply.trace.degrade_reasons.values()) == {"late"}, messages
        assert set(reply.trace.degraded) >= _expected(strategy, allowed), messages
    assert left_behind() == []


SANE = {
    "see": "A question about the memory module.",
    "rewrite_keyword": '{"query": "memory module database"}',
    "compress": "p1: The memory module needs a database.",
    "split": '["Does the memory module need a database?"]',
    "plan": '["memory module database"]',
    "filter": '{"keep": "all"}',
    "decide": "[answer]",
    "react": lambda body: "[answer]" if "<evidence>" in str(body) else "[retrieve_knowledge: memory module]",
}
ONE_AT_A_TIME = (
    ("vision", "see", "single"),
    ("look_up", "", "single"),
    ("compress", "compress", "single"),
    ("rewrite_keyword", "rewrite_keyword", "single"),
    ("split", "split", "parallel"),
    ("react", "react", "react"),
    ("plan", "plan", "planning"),
    ("filter", "filter", "planning"),
    ("decide", "decide", "planning"),
)


@pytest.mark.parametrize(("stage", "agent", "strategy"), ONE_AT_A_TIME, ids=[group[0] for group in ONE_AT_A_TIME])
async def test_one_that_hangs_is_the_one_that_is_cut(
    peer: ScriptedPeer, stage: str, agent: str, strategy: str, tmp_path: Path
) -> None:
    peer.replies |= SANE
    peer.hanging = {agent}
    question = replace(ALONE_NOW, image_loaders=(_picture,)) if stage == "vision" else ALONE_NOW
    database = await Database.open(tmp_path / "journal.db") if stage == "look_up" else None
    reply = await _answer_question(peer, question, (strategy,), database, stuck=False)
    if database:
        await database.close()
    assert reply.trace.timings_ms["first_token"] < EVERY_S * 1000
    assert dict(reply.trace.degrade_reasons) == {stage: "late"}
    assert reply.text.startswith("Long-term memory needs a vector database")
    assert "docs" in {entry.source for entry in reply.passages}
    assert left_behind() == []


def _expected(strategy: str, strategies: Sequence[str]) -> set[str]:
    """Return the stages that hang in every case of a kind, however the times fall."""
    stages = {"route", "search", "look_back", "open"}
    if strategy != "conversation":
        stages |= {"vision"} if strategy == "picture" else {"look_up"}
    by_strategy = {"single": {"compress"}, "parallel": {"split"}, "planning": {"plan"}, "react": {"react"}}
    stages |= by_strategy.get(strategies[-1], set())
    if strategies[-1] != "simple":
        stages |= {"rewrite_keyword"}
        stages |= {"context"} if strategy != "look-up" else set()
    # A choice that needs another query cancels the single search that was made ahead of it.
    stages |= {"rewrite"} if strategy != "look-up" and strategies[-1] in ("single", "planning") else set()
    return stages | ({"choose"} if len(strategies) > 1 else set())


async def test_the_trace_says_why_something_was_cut(peer: ScriptedPeer) -> None:
    peer.hanging = {"rewrite"}
    peer.failing = {"context", "look_back"}
    peer.replies["choose"] = "As you like it."
    library = Stuck((INSTALL, MEMORY, OTHER))
    library.broken = {"other"}
    configuration = _everything(("planning", "single"), context={"head_start": False})
    # What fails must not be late before it has said so.
    budget = BudgetSettings(deadline_s=10 * EVERY_S)
    configuration = configuration.model_copy(update={"budget": budget})
    chat_model = models(peer)
    await chat_model.warm_up()
    reply = await answer(FOLLOW_UP, MemorySink(), parts(library, chat_model, configuration))
    await chat_model.close()
    reasons = reply.trace.degrade_reasons
    assert set(reasons) == set(reply.trace.degraded)
    expected = {"rewrite": "late", "context": "failed", "choose": "unreadable", "search": "failed"}
    assert expected.items() <= reasons.items()
    assert reasons["look_back"] == "failed"


async def test_an_answer_given_up_leaves_nothing_behind(peer: ScriptedPeer) -> None:
    peer.hanging = {"rewrite", "context", "write"}
    chat_model = models(peer)
    task = asyncio.create_task(answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), chat_model)))
    await until(lambda: "write" in peer.agents)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left_behind() == []
    await until(lambda: not peer.active)
    await chat_model.close()


# The head start


async def test_an_answer_begun_early_is_kept_when_the_rewrite_finds_the_same(peer: ScriptedPeer) -> None:
    peer.ttft_s = 0.6
    peer.tokens_per_s = 50
    peer.replies["rewrite"] = (
        "Does the memory module, which stores messages for an agent, need a vector database or not?"
    )
    chat_model = models(peer)
    await chat_model.warm_up()
    configuration = settings(context={"select": False})
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), chat_model, configuration))
    await chat_model.close()
    assert sorted(peer.agents) == ["look_back", "rewrite", "write"]
    assert reply.trace.query == peer.replies["rewrite"]
    # One after the other, the rewrite and the first token take the time of both.
    assert reply.trace.timings_ms["first_token"] < reply.trace.timings_ms["rewrite"] + 600


async def test_one_that_does_not_fit_is_written_again(peer: ScriptedPeer) -> None:
    peer.ttft_s = 0.3
    peer.replies["rewrite"] = "install pip"
    question = Question("How then?", (Turn("user", "memory module stores"), Turn("assistant", "pip.")))
    chat_model = models(peer)
    configuration = settings(answer={"passages": 1}, context={"select": False})
    library = Stuck((MEMORY, passage("pip", "To install use pip or conda.")))
    reply = await answer(question, MemorySink(), parts(library, chat_model, configuration))
    await chat_model.close()
    assert [item.id for item in reply.passages] == ["pip"]
    assert peer.agents.count("write") == 2


async def test_nothing_is_begun_where_messages_are_selected(peer: ScriptedPeer) -> None:
    peer.ttft_s = 0.3
    peer.replies["context"] = "1, 2\nWhether the memory module needs a database."
    chat_model = models(peer)
    await chat_model.warm_up()
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), chat_model))
    await chat_model.close()
    assert peer.agents.count("write") == 1
    assert "<analysis>\nWhether the memory" in str(peer.sent("write")[0]["messages"][-1]["content"])
    assert reply.trace.degraded == ()


async def test_the_head_start_can_be_switched_off(peer: ScriptedPeer) -> None:
    peer.ttft_s = 0.3
    chat_model = models(peer)
    configuration = settings(context={"head_start": False})
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), chat_model, configuration))
    await chat_model.close()
    assert reply.trace.timings_ms["first_token"] >= 600
    assert peer.agents.count("write") == 1


async def test_a_rewrite_that_the_router_does_not_need_is_used_by_planning(peer: ScriptedPeer) -> None:
    peer.replies |= {"choose": "planning", "plan": "[]", "filter": '{"keep": "all"}', "decide": "[answer]"}
    chat_model = models(peer)
    configuration = settings(strategies={"allowed": ["single", "planning"]})
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), chat_model, configuration))
    await chat_model.close()
    assert reply.trace.strategy == "planning"
    assert reply.trace.query == "Does the memory module need a database?"
    assert peer.agents.count("rewrite") == 1
