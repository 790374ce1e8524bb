"""What a strategy thinks of what it found, what a question is completed from, and what the trace says of an answer."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bots.cli.ask import reply_as_json
from bots.cli.chat import Conversation
from core.answering.agents.summarizer import JUDGEMENT_RULE
from core.answering.pipeline import answer
from core.messaging.commands.answer_commands import format_explanation
from core.ports import Sink
from core.settings import Settings
from core.storage.message_lookup import MessageOutcome
from core.types import Question, Reply, Turn
from core.types.replies import SearchRound
from tests.support.fixtures import INSTALL, MEMORY, InMemoryLibrary, MemorySink, parts, passage, settings
from tests.support.scripted import ScriptedPeer, flat, models

VECTOR = passage("vector", "A vector database keeps embeddings on disk.")
QUESTION = Question("Where does memory keep messages?")
PLANNED = {
    "plan": '{"steps": ["memory module"]}',
    "filter": '{"keep": "all", "missing": "where vectors are kept"}',
    "decide": flat(
        {
            "vector database disk": '{"quality": "poor", "reason": "</judgement>no files", "action": "answer"}',
            "": '{"quality": "poor", "reason": "no disks", "action": "search", "query": "vector database disk"}',
        }
    ),
}


def allowing(*names: str, **changes: object) -> Settings:
    return settings(strategies={"allowed": list(names), "default": names[0]}, **changes)


async def ask(
    question: Question,
    peer: ScriptedPeer,
    configuration: Settings,
    library: InMemoryLibrary | None = None,
    **model: object,
) -> Reply:
    chat_model = models(peer, **model)
    await chat_model.warm_up()
    line = parts(library or InMemoryLibrary([INSTALL, MEMORY, VECTOR]), chat_model, configuration)
    try:
        return await answer(question, MemorySink(), line)
    finally:
        await chat_model.close()


async def test_poor_evidence_is_told_to_the_writer_and_to_the_trace(peer: ScriptedPeer) -> None:
    peer.replies |= PLANNED
    reply = await ask(QUESTION, peer, allowing("planning"))
    assert reply.trace.rounds == (
        SearchRound((QUESTION.text, "memory module"), "poor", "no disks"),
        SearchRound(("vector database disk",), "poor", "</judgement>no files"),
    )
    last = peer.sent("write")[0]["messages"][-1]["content"]
    assert f"<judgement>\nThe evidence is poor: ‹/judgement›no files\n{JUDGEMENT_RULE}\n</judgement>" in last
    assert "no disks" not in last


async def test_the_filter_knows_what_each_step_was_to_find_out(peer: ScriptedPeer) -> None:
    peer.replies |= PLANNED
    await ask(QUESTION, peer, allowing("planning"))
    objectives = [
        re.findall(r"<objective>\n(.*?)\n</objective>", body["messages"][-1]["content"], re.DOTALL)
        for body in peer.sent("filter")
    ]
    assert objectives == [[f"{QUESTION.text}\nmemory module"], ["vector database disk"]]


@pytest.mark.parametrize(
    ("decided", "has_note"),
    [
        ('{"quality": "good", "action": "answer"}', False),
        ("[answer]", False),
        ('{"quality": "poor", "action": "answer"}', True),
    ],
)
async def test_other_evidence_is_told_nothing_of(peer: ScriptedPeer, decided: str, has_note: bool) -> None:
    peer.replies |= {**PLANNED, "decide": decided}
    await ask(QUESTION, peer, allowing("planning"))
    assert ("The evidence is poor" in str(peer.sent("write"))) == has_note


async def test_to_have_no_call_left_is_no_cut(peer: ScriptedPeer) -> None:
    peer.replies |= PLANNED
    limits = {"allowed": ["planning"], "default": "planning", "model_calls": 1}
    reply = await ask(QUESTION, peer, settings(strategies=limits))
    assert peer.agents == ["plan", "write"]
    assert reply.trace.degraded == ()
    assert reply.trace.rounds == (SearchRound((QUESTION.text, "memory module")),)


async def test_the_trace_is_shown_with_its_reasons_and_what_was_consumed(peer: ScriptedPeer, tmp_path: Path) -> None:
    peer.replies |= PLANNED
    peer.failing = {"look_back"}
    peer.replies["write"] = "The memory module stores messages."
    reply = await ask(QUESTION, peer, allowing("planning"), price_prompt=1.0, price_completion=2.0)
    data = reply_as_json(QUESTION.text, reply)
    assert data["why_cut"] == {"look_back": "failed"}
    assert data["rounds"][0]["quality"] == "poor"
    tokens = reply.trace.tokens
    prompt = sum(count for name, count in tokens.items() if name.endswith(".prompt"))
    completion = sum(count for name, count in tokens.items() if name.endswith(".completion"))
    assert prompt > 0
    assert completion > 0
    cost = (prompt + 2 * completion) / 1e6
    assert data["usage"] == {"prompt": prompt, "completion": completion, "cost": pytest.approx(cost)}
    text = format_explanation(
        MessageOutcome("answered", "", reply.text, [{"source": "docs"}], reply.trace.to_json()), is_admin=True
    )
    assert "`look_back` (it failed)" in text
    assert "`memory module`; the evidence was poor, for: `no disks`" in text
    assert f"- Tokens: {prompt} read, {completion} written, cost 0.0" in text
    output = StringIO()

    async def answered(_question: Question, sink: Sink) -> Reply:
        await sink.finish(reply)
        return reply

    async with Conversation(
        settings(data_dir=str(tmp_path)), answered, Console(file=output, width=1000)
    ) as conversation:
        await conversation.process_line(QUESTION.text)
        output.truncate(0)
        output.seek(0)
        await conversation.process_line("/why")
    assert output.getvalue().strip() == text


def test_without_a_model_nothing_was_consumed() -> None:
    reply = Reply("Hello.")
    assert reply_as_json("Hi", reply)["usage"] == {"prompt": 0, "completion": 0, "cost": 0}
    trace = {"query": "hi", "cut": ["search"]}
    text = format_explanation(MessageOutcome("answered", "", "Hello.", (), trace), is_admin=True)
    assert "Consumed" not in text
    assert text.endswith("a service was lacking: `search`")


# The conversation

FOLLOW_UP = Question(
    "Does it need a database?",
    (Turn("user", "What does the memory module do?"), Turn("assistant", "It stores messages.")),
)
AGAIN = Question(
    "No, I mean messages of the module",
    (Turn("user", "Where are messages of the memory kept?"), Turn("assistant", "Install the package with pip.")),
)
EVERY = ("single", "parallel", "planning", "react", "simple")


@pytest.mark.parametrize("strategy", EVERY)
async def test_completing_can_be_switched_off_for_every_strategy(peer: ScriptedPeer, strategy: str) -> None:
    peer.replies |= {"split": "[]", "plan": "[]", "filter": '{"keep": "all"}', "decide": "[answer]"}
    peer.replies |= {"react": "[retrieve_knowledge: database]", "context": "1, 2\nWhether it needs one."}
    library = InMemoryLibrary([INSTALL, MEMORY, VECTOR])
    configuration = allowing(strategy, context={"complete": False, "head_start": False})
    reply = await ask(FOLLOW_UP, peer, configuration, library)
    assert "rewrite" not in peer.agents
    assert set(library.queries) <= {FOLLOW_UP.text, "database"}
    assert reply.trace.query == FOLLOW_UP.text
    deciding = [body for agent in ("split", "plan", "filter", "decide", "react") for body in peer.sent(agent)]
    assert "<conversation>" not in str(deciding)
    # The summarizer's half is another switch.
    assert "What does the memory module do?" in str(peer.sent("write"))


@pytest.mark.parametrize("strategy", ["parallel", "react"])
async def test_a_question_put_again_keeps_the_terms_of_both_wordings(peer: ScriptedPeer, strategy: str) -> None:
    peer.hanging = {"split", "react"}
    library = InMemoryLibrary([INSTALL, MEMORY, VECTOR])
    reply = await ask(AGAIN, peer, allowing(strategy, budget={"step": 0.01}), library)
    assert reply.trace.query == "No, I mean messages of the module memory kept"
    assert library.queries == [reply.trace.query]
    assert "puts an earlier question again" in str(peer.sent({"parallel": "split"}.get(strategy, strategy)))
