"""A question that no agent's knowledge has to do with: nothing is searched, and the answer says so."""

from __future__ import annotations

from collections.abc import Sequence

from core.answering.pipeline import answer
from core.types import AgentScore, Question
from tests.support.fixtures import InMemoryLibrary, MemorySink, parts
from tests.support.scripted import Body, ScriptedPeer, models


class NobodyKnows(InMemoryLibrary):
    """Routes every question nowhere, as a threshold does."""

    async def route(self, query: str) -> Sequence[AgentScore]:
        return []


QUESTION = Question("How do I install the memory module?")


async def test_without_a_model_the_answer_says_that_nothing_was_found() -> None:
    library = NobodyKnows()
    reply = await answer(QUESTION, MemorySink(), parts(library))
    assert library.queries == []
    assert (reply.passages, reply.citations, reply.trace.agents, reply.trace.degraded) == ((), (), (), ())
    assert reply.trace.saved_searches == 1
    assert "nothing" in reply.text
    assert "pip" not in reply.text


async def test_with_a_model_it_writes_from_no_evidence() -> None:
    requests: list[Body] = []

    def reply_without_evidence(body: Body) -> str:
        requests.append(body)
        return "I found nothing about that."

    library = NobodyKnows()
    async with ScriptedPeer(write=reply_without_evidence) as peer:
        model = models(peer)
        try:
            reply = await answer(QUESTION, MemorySink(), parts(library, model))
        finally:
            await model.close()
    assert library.queries == []
    assert reply.text.startswith("I found nothing")
    assert (reply.passages, reply.citations) == ((), ())
    text = str(requests[-1]["messages"])
    assert "pip install" not in text
    assert "<passage" not in text
