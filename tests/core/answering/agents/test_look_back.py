"""The light model decides about the marks that words leave in doubt, all at once, and within its time."""

from __future__ import annotations

import pytest

from core.answering.agents.look_back import look_back
from core.answering.pipeline import answer
from core.citations.markers import resolve_markers
from core.llm.role_models import RoleChatModel
from core.runtime.budget import Budget
from core.settings import ModelsSettings, Settings
from core.types import Question, Reply
from tests.support.fixtures import InMemoryLibrary, MemorySink, parts, passage, settings
from tests.support.scripted import ScriptedPeer

PASSAGES = [
    passage("short", "A failed job is tried again three times."),
    passage("long", "A failed job is tried again three times, with a pause of ten seconds."),
    passage("log", "The log of a job is written to standard error."),
]
# Its first mark is in doubt, its second is not.
ANSWER = "A failed job is tried again, with a pause [{short}]. The log of a job is written to standard error [{log}]."


async def ask(
    peer: ScriptedPeer, look_back: str, *, has_light: bool = True, configuration: Settings | None = None
) -> tuple[Reply, MemorySink, list[str]]:
    """Return the reply, its sink, and the ids of the passages behind its marks."""
    ids: list[str] = []

    def write(body: dict[str, object]) -> str:
        prompt = str(body["messages"])
        order = sorted(PASSAGES, key=lambda item: prompt.index(item.text))
        ids[:] = [item.id for item in order]
        return ANSWER.format(**{item.id: f"p{position}" for position, item in enumerate(order, 1)})

    def judge(body: dict[str, object]) -> str:
        return look_back.format(**{name: f"p{position}" for position, name in enumerate(ids, 1)})

    peer.replies |= {"write": write, "look_back": judge}
    roles = {"main": {"base_url": peer.base_url, "model": "main"}}
    if has_light:
        roles["light"] = {"base_url": peer.base_url, "model": "light"}
    configuration = configuration or settings(models=roles, knowledge={"search": {"rerank": "embedding"}})
    model = RoleChatModel.open(ModelsSettings.model_validate(roles))
    assert model is not None
    sink = MemorySink()
    try:
        reply = await answer(
            Question("What happens to a failed job?"), sink, parts(InMemoryLibrary(PASSAGES), model, configuration)
        )
    finally:
        await model.close()
    return reply, sink, [citation.passage_id for citation in reply.citations]


async def test_one_call_decides_about_all_marks_in_doubt(peer: ScriptedPeer) -> None:
    reply, sink, cited_ids = await ask(peer, "1: {long}")
    assert cited_ids == ["long", "log"]
    assert reply.trace.moved_citations == 1
    [request] = peer.sent("look_back")
    assert request["model"] == "light"
    asked = request["messages"][-1]["content"].partition("<answer>")[2]
    assert "with a pause" in asked
    assert "standard error" not in asked
    assert sink.updates[-1].startswith("A failed job is tried again, with a pause [1].")


@pytest.mark.parametrize(("look_back", "cited_ids"), [("1: {short}", ["short", "log"]), ("none", ["log"])])
async def test_the_model_keeps_or_removes_a_mark(peer: ScriptedPeer, look_back: str, cited_ids: list[str]) -> None:
    assert (await ask(peer, look_back))[2] == cited_ids


async def test_a_failed_call_keeps_the_marks(peer: ScriptedPeer) -> None:
    peer.failing.add("look_back")
    reply, _, cited_ids = await ask(peer, "1: {long}")
    assert cited_ids == ["short", "log"]
    assert reply.trace.degrade_reasons == {"verify": "failed"}


async def test_nobody_is_asked_without_a_light_model(peer: ScriptedPeer) -> None:
    _, _, cited_ids = await ask(peer, "1: {long}", has_light=False)
    assert (cited_ids, peer.sent("look_back")) == (["short", "log"], [])


async def test_an_answer_of_code_alone_costs_no_call(peer: ScriptedPeer) -> None:
    cited_answer = resolve_markers("```sh\nmake retry\n```", PASSAGES)
    configuration = settings()
    model = RoleChatModel.open(ModelsSettings.model_validate({"main": {"base_url": peer.base_url, "model": "main"}}))
    assert model is not None
    try:
        deps = parts(InMemoryLibrary(PASSAGES), model, configuration)
        assert await look_back(cited_answer, PASSAGES, deps, Budget(configuration.budget)) == cited_answer
    finally:
        await model.close()
    assert peer.requests == []
