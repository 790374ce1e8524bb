"""Every optional stage made to hang, one at a time and all together: the first token still comes inside the budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from core.answer import answer
from core.types import AgentScore, Passage, Question, Turn
from tests.core.scripted import LIGHT, ScriptedPeer, models
from tests.core.stand import INSTALL, MEMORY, MemorySink, OrderKeeper, ShelfLibrary, parts, passage, settings
from tests.core.test_strategies import left_behind

DEADLINE_S = 2.5
FOLLOW_UP = Question(
    "Does it need a database?",
    (Turn("user", "What does the memory module do?"), Turn("assistant", "It stores messages.")),
)
OTHER = passage("other", "A database keeps the memory of a module on disk.", source="other")


class Stuck(ShelfLibrary):
    """Hangs where it is told to."""

    stages: frozenset[str] = frozenset()

    async def route(self, query: str) -> Sequence[AgentScore]:
        if "route" in self.stages:
            await asyncio.Event().wait()
        return await super().route(query)

    async def search(self, agent: str, query: str, limit: int, *, dense: str = "") -> Sequence[Passage]:
        if "search" in self.stages and agent == "other":
            await asyncio.Event().wait()
        return await super().search(agent, query, limit, dense=dense)

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        if "similarity" in self.stages:
            await asyncio.Event().wait()
        return await super().similarity(query, texts)


class StuckSink(MemorySink):
    async def open(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as running:
        running.replies |= {
            "rewrite": "Does the memory module need a database?",
            "context": "1, 2\nWhether memory needs a database.",
            "choose": "single",
            "write": "Long-term memory needs a vector database.",
            "look_back": "1: p1",
        }
        yield running


STAGES = ("rewrite", "context", "choose", "route", "search", "rerank", "look_back", "open")
CASES = [*((one,) for one in STAGES), ("rewrite", "context", "choose", "look_back"), STAGES]


@pytest.mark.parametrize("stages", CASES, ids=["+".join(one) if len(one) < 5 else "all" for one in CASES])
async def test_what_hangs_is_cut_and_the_first_token_is_in_time(peer: ScriptedPeer, stages: tuple[str, ...]) -> None:
    peer.hanging = {one for one in stages if one in LIGHT}
    library = Stuck((INSTALL, MEMORY, OTHER))
    library.stages = frozenset(stages)
    budget = {"deadline_s": DEADLINE_S, "choose": 0.1, "rewrite": 0.1, "route": 0.05, "search": 0.1, "rerank": 0.05}
    configuration = settings(
        budget={**budget, "look_back": 0.1},
        sources={name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "other")},
        strategies={"allowed": ["single", "planning"]},
    )
    opened = models(peer)
    # As the daemon does: loading the client takes longer than these deadlines.
    await opened.warm_up()
    sink = StuckSink() if "open" in stages else MemorySink()
    reranker = OrderKeeper(60) if "rerank" in stages else None
    reply = await answer(FOLLOW_UP, sink, parts(library, opened, configuration, reranker))
    await opened.close()
    assert reply.trace.timings_ms["first_token"] < DEADLINE_S * 1000
    assert set(reply.trace.cut) == set(stages)
    assert reply.text.startswith("Long-term memory needs a vector database")
    assert {one.source for one in reply.passages} >= {"docs"}
    assert left_behind() == []


async def test_an_answer_given_up_leaves_nothing_behind(peer: ScriptedPeer) -> None:
    peer.hanging = {"rewrite", "context", "write"}
    opened = models(peer)
    task = asyncio.create_task(answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), opened)))
    async with asyncio.timeout(5):
        while "write" not in peer.agents:
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left_behind() == []
    async with asyncio.timeout(5):
        while peer.active:
            await asyncio.sleep(0.02)
    await opened.close()


# The head start


async def test_an_answer_begun_early_is_kept_when_the_rewrite_finds_the_same(peer: ScriptedPeer) -> None:
    peer.ttft_s, peer.tokens_per_s = 0.6, 50
    peer.replies["rewrite"] = (
        "Does the memory module, which stores messages for an agent, need a vector database or not?"
    )
    opened = models(peer)
    await opened.warm_up()
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), opened))
    await opened.close()
    assert sorted(peer.agents) == ["context", "look_back", "rewrite", "write"]
    assert reply.trace.query == peer.replies["rewrite"]
    # One after the other, the rewrite and the first token would take more than 1.5 s.
    assert reply.trace.timings_ms["first_token"] < 1450


async def test_one_that_does_not_fit_is_written_again(peer: ScriptedPeer) -> None:
    peer.ttft_s = 0.3
    peer.replies["rewrite"] = "install pip"
    question = Question("How then?", (Turn("user", "memory module stores"), Turn("assistant", "pip.")))
    opened = models(peer)
    configuration = settings(answer={"passages": 1}, context={"select": False})
    library = Stuck((MEMORY, passage("pip", "To install use pip or conda.")))
    reply = await answer(question, MemorySink(), parts(library, opened, configuration))
    await opened.close()
    assert [one.id for one in reply.passages] == ["pip"]
    assert peer.agents.count("write") == 2


ALONE = Question(
    "Which database does the memory module need to store long messages of an agent?",
    (
        *(Turn("user", "What does the memory module do?"), Turn("assistant", "It stores messages.")),
        *(Turn("user", "Who pays the bill?"), Turn("assistant", "Nobody.")),
    ),
)


@pytest.mark.parametrize(("selected", "written"), [("1, 2", 1), ("1, 2, 3, 4", 2)])
async def test_a_question_that_stands_alone_is_begun_on_a_guess_of_what_matters(
    peer: ScriptedPeer, selected: str, written: int
) -> None:
    peer.ttft_s = 0.4
    peer.replies["context"] = f"{selected}\nWhich database it needs."
    opened = models(peer)
    await opened.warm_up()
    reply = await answer(ALONE, MemorySink(), parts(Stuck((INSTALL, MEMORY)), opened))
    await opened.close()
    assert "rewrite" not in peer.agents
    assert peer.agents.count("write") == written
    # The prompt that the answer was written from holds what was selected, guessed or not.
    assert ("bill" in str(peer.sent("write")[-1]["messages"])) == (written == 2)
    # One after the other, the two calls need 0.8 s to the first token.
    assert (reply.trace.timings_ms["first_token"] < 780) == (written == 1)
    assert reply.trace.cut == ()


async def test_the_head_start_can_be_switched_off(peer: ScriptedPeer) -> None:
    peer.ttft_s = 0.3
    opened = models(peer)
    configuration = settings(context={"head_start": False})
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), opened, configuration))
    await opened.close()
    assert reply.trace.timings_ms["first_token"] > 600
    assert peer.agents.count("write") == 1


async def test_a_rewrite_that_the_router_does_not_need_is_used_by_planning(peer: ScriptedPeer) -> None:
    peer.replies |= {"choose": "planning", "plan": "[]", "filter": '{"keep": "all"}', "decide": "[answer]"}
    opened = models(peer)
    configuration = settings(strategies={"allowed": ["single", "planning"]})
    reply = await answer(FOLLOW_UP, MemorySink(), parts(Stuck((INSTALL, MEMORY)), opened, configuration))
    await opened.close()
    assert reply.trace.strategy == "planning"
    assert reply.trace.query == "Does the memory module need a database?"
    assert peer.agents.count("rewrite") == 1
