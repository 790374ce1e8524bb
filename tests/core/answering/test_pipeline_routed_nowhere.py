"""A question that no agent's knowledge has to do with: whoever asks the bot itself gets a search, nobody else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from core.answering.pipeline import answer
from core.types import AgentScore, Question
from tests.support.fixtures import InMemoryLibrary, MemorySink, parts
from tests.support.scripted import Body, ScriptedPeer, models


class HardlyKnows(InMemoryLibrary):
    """Scores every question below the threshold."""

    async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
        return [AgentScore("docs", 0.1)] if at_least_one else []


QUESTION = Question("How do I install the memory module?")
UNPROMPTED = replace(QUESTION, is_unprompted=True)


async def test_the_bot_itself_was_asked_and_the_best_agent_is_searched() -> None:
    library = HardlyKnows()
    reply = await answer(QUESTION, MemorySink(), parts(library))
    assert library.queries
    assert reply.trace.agents == ("docs",)
    assert reply.passages


async def test_without_a_model_the_answer_says_that_nothing_was_found() -> None:
    library = HardlyKnows()
    reply = await answer(UNPROMPTED, MemorySink(), parts(library))
    assert library.queries == []
    assert (reply.passages, reply.citations, reply.trace.agents, reply.trace.degraded) == ((), (), (), ())
    assert reply.trace.saved_searches == 1
    assert "nothing" in reply.text
    assert "pip" not in reply.text


@pytest.mark.parametrize("question", [QUESTION, UNPROMPTED])
async def test_with_a_model_it_writes_from_what_was_searched(question: Question) -> None:
    requests: list[Body] = []

    def write(body: Body) -> str:
        requests.append(body)
        return "I found nothing about that."

    library = HardlyKnows()
    async with ScriptedPeer(write=write) as peer:
        model = models(peer)
        try:
            reply = await answer(question, MemorySink(), parts(library, model))
        finally:
            await model.close()
    assert bool(library.queries) is not question.is_unprompted
    assert bool(reply.passages) is not question.is_unprompted
    assert ("<passage" in str(requests[-1]["messages"])) is not question.is_unprompted
