"""`make compare`: what a worker measures of KIMAs and of the bare loop, the pins, the table and the picture."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from core.answering.agents.context_manager import apply_rewrite
from core.answering.agents.conversation import format_numbered_turns
from core.language.keywords import content_words
from core.llm.client import OpenAIClient
from core.llm.prompts import Prompts
from core.types import Question, Turn
from tests.lab.comparison import report, worker
from tests.lab.comparison.contract import DIMENSION, EMBEDDING_MODEL, TOKENS, SystemConfig
from tests.lab.comparison.environments import REQUIREMENTS, versions
from tests.lab.comparison.peers import ComparisonModel
from tests.lab.comparison.systems import OWN, SYSTEMS
from tests.lab.comparison.workload import Case, make_documents, make_follow_ups, make_standalone
from tests.support.deployment import ROOT
from tests.support.peers.language_model import LanguageModelPeer, ToolCall, split_pieces

CROWD = 2
FOLLOW_UPS = make_follow_ups(4)


@pytest.mark.parametrize("name", ["kimas", "bare"])
async def test_a_worker_measures_a_system(name: str, tmp_path: Path) -> None:
    """The contract: it indexes, answers alone, in conversations and in a crowd, and names what it retrieved."""
    documents = make_documents(30)
    (tmp_path / "documents.jsonl").write_text("\n".join(json.dumps(asdict(document)) for document in documents))
    cases = [case.for_model() for case in FOLLOW_UPS]
    async with (
        ComparisonModel(cases, ttft_s=0, tokens_per_s=0) as model,
        LanguageModelPeer(dimension=DIMENSION, models=(EMBEDDING_MODEL,)) as embedder,
    ):
        config = SystemConfig(tmp_path / "index", model.base_url, embedder.base_url)
        standalone_queries, follow_up_queries = (
            [case.query for case in cases] for cases in (make_standalone(2), FOLLOW_UPS)
        )
        result = tmp_path / "result.json"
        lines = tmp_path / "documents.jsonl"
        job = worker.Job(
            config, result, 0.0, lines, standalone_queries, follow_up_queries, [CROWD], rounds=1, spread_s=0.01
        )
        await worker.run(name, "index", job)
        await worker.run(name, "measure", job)
        measured = json.loads(result.read_text("utf-8"))
        await worker.run(name, "retrieve", job)
    assert measured["ready_s"] > 0
    assert measured["memory_mib"] > 10
    assert measured["alone"]["calls"] == 1
    assert measured["following"]["calls"] >= 2
    assert measured["alone"]["answer_tokens"] == measured["alone"]["prompt_tokens"] + TOKENS
    assert measured["following"]["answer_tokens"] < measured["following"]["prompt_tokens"] + TOKENS
    crowd = measured[f"crowd_{CROWD}"]
    assert (crowd["answers"], crowd["rounds"]) == (CROWD, 1)
    assert 0 < crowd["first_p50_ms"] <= crowd["first_p95_ms"] < crowd["wall_s"] * 1000
    retrieved = json.loads(result.read_text("utf-8"))["found"]
    assert any(retrieved)
    assert all(set(ids) <= {document.id for document in documents} for ids in retrieved)


def test_the_model_completes_calls_the_tool_and_answers_at_fixed_length() -> None:
    case = FOLLOW_UPS[0]
    turns: list[Any] = [{"role": role, "content": text} for role, text in case.query.history]
    turns.append({"role": "user", "content": case.query.question})
    cases = [*make_standalone(108), *FOLLOW_UPS]
    model = ComparisonModel([case.for_model() for case in cases], ttft_s=0, tokens_per_s=0)
    system = {"role": "system", "content": "Given this, rephrase it to be a standalone question."}
    assert model.reply_to({"messages": [system, *turns]}) == case.completed
    tools = [{"type": "function", "function": {"name": "search_knowledge"}}]
    tool_reply = model.reply_to({"messages": turns, "tools": tools})
    assert tool_reply == ToolCall("search_knowledge", {"query": case.completed})
    evidence = {"role": "system", "content": '<passage id="p1" source="a">\nWords of it.\n</passage>'}
    for messages in (turns, [evidence, *turns]):
        assert len(split_pieces(str(model.reply_to({"messages": messages})))) == TOKENS
    # KIMAs and LlamaIndex put everything into one text. Earlier questions are in it, and may have a case of their own.
    text = "\n".join(turn["content"] for turn in turns)
    assert (
        model.reply_to({"messages": [{**system, "content": f"{system['content']}\n{text}\nQuery:"}]}) == case.completed
    )
    assert (model.calls, model.unknown) == (5, 0)
    model.reply_to({"messages": [system, {"role": "user", "content": "Something else?"}]})
    assert model.unknown == 1


def test_the_model_completes_in_the_form_that_is_asked_for() -> None:
    """KIMAs wants what is missing, and gets of the same completion no less than that."""
    cases = [*make_follow_ups(240), *make_standalone(3)]
    model = ComparisonModel([case.for_model() for case in cases], ttft_s=0, tokens_per_s=0)
    system = {"role": "system", "content": Prompts.read().fill("rewrite")}
    for case in cases:
        turns = [Turn(role, text) for role, text in case.query.history if role in ("user", "assistant")]
        question = Question(case.query.question, tuple(turns))
        lines = format_numbered_turns(question, turns)
        request = f"<conversation>\n{lines}\n</conversation>\n<question>\n{question.text}\n</question>"
        reply = str(model.reply_to({"messages": [system, {"role": "user", "content": request}]}))
        assert len(reply.split()) <= len(case.completed.split())
        query = apply_rewrite(reply, question, turns)
        assert {*content_words(case.completed)} <= {*content_words(query)} <= _all_words(case)
    assert model.unknown == 0
    assert model.answer_tokens == 0


def _all_words(case: Case) -> set[str]:
    return {*content_words(case.completed), *content_words(case.query.question)}


async def test_a_provider_bills_what_was_made_for_a_client_that_left() -> None:
    request = {"model": "peer", "messages": [{"role": "user", "content": "How?"}]}
    async with ComparisonModel([], ttft_s=0.02, tokens_per_s=100) as model:
        client = OpenAIClient.open(model.base_url, "", 30)
        async with aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    break
        await client.close()
        while model.active:
            await asyncio.sleep(0.01)
    assert model.prompt_tokens < model.answer_tokens < model.prompt_tokens + TOKENS


def test_every_system_has_its_script_and_pins_with_versions() -> None:
    for entry in SYSTEMS.values():
        assert (ROOT / f"tests/lab/comparison/systems/{entry.module}.py").is_file()
        assert versions(entry.environment) or entry.environment == OWN
    for file in REQUIREMENTS.glob("*.txt"):
        lines = file.read_text("utf-8").splitlines()
        assert [line for line in lines if not re.match(r"[a-z0-9._\[\]-]+==\S+( ; .*)?$", line)] == []


def test_documents_are_short_and_no_question_is_put_twice() -> None:
    documents = make_documents(300)
    assert len({document.id for document in documents}) == len(documents)
    assert all(0 < len(document.text) <= 500 for document in documents)
    follow_up_cases = make_follow_ups(260)
    assert len({case.query for case in follow_up_cases}) == 260 == len({case.for_model() for case in follow_up_cases})
    assert len({case.query for case in make_standalone(21)}) == 21


def test_the_table_says_where_kimas_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = {"answers": 64, "wall_s": 4.0, "first_p50_ms": 310.0, "first_p95_ms": 320.0, "stall_ms": 5.0}
    load |= {"cpu_ms": 40.0, "calls": 2.0, "prompt_tokens": 900.0, "answer_tokens": 1000.0}
    parts: dict[str, Any] = dict.fromkeys(("alone", "following", "crowd_16", "crowd_64"), load)
    dear = {**load, "answer_tokens": 1100.0}
    parts |= {"following": dear, "without_head_starts": {name: {**load, "first_p50_ms": 500.0} for name in parts}}
    ours = {"ready_s": 1.004, "cold_first_ms": 310.0, "memory_mib": 200.0, "peak_mib": 210.0, "passages": 50, **parts}
    theirs = {name: part for name, part in ours.items() if name != "without_head_starts"}
    theirs |= {"ready_s": 1.0, "memory_mib": 100.0, "alone": {**load, "cpu_ms": 50.0}}
    reports = {"kimas": ours, "bare": {**ours, "cold_first_ms": 300.0}, "haystack": theirs}
    # The bare loop is no framework, and what is rounded to the same is the same.
    assert [(row.name, lead) for row, lead in report.behind(reports)] == [
        ("memory after the answers one at a time", ["Haystack"])
    ]
    monkeypatch.setattr(report, "FIGURES", tmp_path / "comparison.json")
    monkeypatch.setattr(report, "PICTURE", tmp_path / "comparison.svg")
    machine = {"date": "2026-01-01", "commit": "abc", "processor": "2 x any", "memory": "4 GiB"}
    report.save(reports, {**machine, "system": "Linux 6", "python": "3.11"})
    lines = list(report.page_lines())
    assert "| memory after the answers one at a time, MiB | 200 | 200 | 100 |" in lines
    assert not any(line.startswith("| recall@5") for line in lines), "it was measured of none"
    tokens = "| main model's tokens, of those without, {}, % | {} | {} |"
    assert tokens.format("one at a time", "110.0", "110.0") in lines
    assert tokens.format("all together", "103.3", "103.3") in lines
    assert f"| {report.FIRST} without them, p50, one at a time, ms | 200 | 200 |" in lines
    assert any(line.startswith("- Start and memory, memory after") for line in lines)
    assert [line for text in lines for line in text.split("\n") if len(line) > 120 and not line.startswith("|")] == []
    ElementTree.fromstring((tmp_path / "comparison.svg").read_text("utf-8"))  # noqa: S314  our own picture


def test_head_starts_cost_at_most_15_percent_more_of_the_main_model() -> None:
    """Over all conversations that were measured, every call that was cancelled included."""
    [row] = [row for row in report.ROWS if "all together" in row.name]
    for name, entry in report.committed_reports().items():
        if SYSTEMS[name].has_head_starts:
            value = row.value(entry)
            assert value is None or value <= 115


def test_the_committed_figures_are_drawn() -> None:
    picture = report.draw(report.committed_reports())
    assert report.PICTURE.read_text("utf-8") == picture, "run: python -m tests.lab.comparison --save"
