"""`kimas eval answers`: whole answers, their times and tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bots.evaluation.answers import _format_lines, answer_charts, answers_as_json, measure_answers
from bots.evaluation.datasets import ANSWERS_LINE_FORMAT, read_answers, read_cases
from core.answering.pipeline import answer
from core.errors import ModelError
from core.types import Question, Reply
from tests.support.deployment import Deployment
from tests.support.fixtures import INSTALL, MEMORY, InMemoryLibrary, MemorySink, parts, settings
from tests.support.scripted import ScriptedPeer, flat, models

DOCUMENTS = [
    {"id": "install.md", "text": "Install Rocket with pip install rocket. It needs Python 3.11.", "source": "docs"},
    {"id": "sessions.md", "text": "Sessions are kept in signed cookies.", "source": "docs"},
]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_answers_without_a_model_are_measured_over_a_sets_own_documents(tmp_path: Path) -> None:
    corpus = write_lines(tmp_path / "documents.jsonl", DOCUMENTS)
    data = write_lines(
        tmp_path / "questions.jsonl",
        [
            {"id": "a", "question": "How do I install Rocket?", "reference": "pip install rocket, then pray"},
            {"id": "b", "question": "Where are sessions kept?", "relevant": ["sessions.md"]},
            {"id": "c", "question": "Who won the cup of 1954 in Bern?", "relevant": []},
        ],
    )
    picture = tmp_path / "answers.png"
    deployment = Deployment(tmp_path, {"knowledge": {"search": {"rerank": "none"}}})
    measurement = deployment.json("eval", "answers", str(data), "--corpus", str(corpus), "--plot", str(picture))
    assert measurement["cases"] == 3
    first, second, third = measurement["answers"]
    assert (first["answered"], second["answered"], third["answered"]) == (True, True, False)
    assert measurement["answered"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    # Of "pip install rocket pray" the last is not said.
    assert first["words"] == measurement["words"]["value"] == 0.75
    assert {"source": "docs", "path": "sessions.md"} in second["citations"]
    assert (measurement["citations"]["right"], measurement["citations"]["missed"]) == (1, 0)
    assert measurement["first_token_ms"] == measurement["total_ms"], "no model streams"
    assert measurement["usage"] == {"prompt": 0, "completion": 0, "cost": 0}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_data_that_cannot_be_used_is_refused_first(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "questions.jsonl", [{"id": "a", "question": "What?", "relevant": "sessions.md"}])
    result = Deployment(tmp_path, {}).call("eval", "answers", str(data), code=2)
    assert "line 1: relevant must be a list of texts" in result.stderr
    assert not (tmp_path / "data").exists()


async def test_times_tokens_and_failures_are_those_of_the_answers(tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "questions.jsonl",
        [
            {"id": "pip", "question": "How do I install the package?", "relevant": ["docs: install.md"]},
            {"id": "memory", "question": "What does the memory module store?", "relevant": ["install.md", "docs"]},
            {"id": "broken", "question": "Install it?", "reference": "with pip", "relevant": ["memory.md"]},
        ],
    )
    cases = read_cases(data, read_answers, ANSWERS_LINE_FORMAT)
    replies = flat({"install": "Install the package with pip [p1].", "": "It stores messages [p1]."})
    async with ScriptedPeer(write=replies) as peer:
        peer.ttft_s = 0.2
        chat_model = models(peer, price_prompt=1.0)
        await chat_model.warm_up()
        line = parts(InMemoryLibrary((INSTALL, MEMORY)), chat_model, settings())

        async def record_question(question: Question) -> Reply:
            if question.id == "broken":
                raise ModelError("the key sk-secret was refused")
            return await answer(question, MemorySink(), line)

        measurement = await measure_answers(cases, record_question)
        await chat_model.close()
    body = answers_as_json(measurement, lambda text: text.replace("sk-secret", "***"))
    pip, memory, failed_answer = body["answers"]
    assert (pip["answered"], memory["answered"], failed_answer["answered"]) == (True, True, False)
    assert (failed_answer["error"], failed_answer["words"]) == ("the key *** was refused", 0)
    # install.md and docs are right; install.md of the second and memory.md of the third were not cited.
    assert [body["citations"][name] for name in ("right", "wrong", "missed")] == [2, 0, 2]
    assert 200 <= body["first_token_ms"]["p50"] <= body["first_token_ms"]["p95"] <= body["total_ms"]["p95"]
    assert {pip["first_token_ms"], memory["first_token_ms"]} == set(body["first_token_ms"].values())
    assert body["strategies"] == {"single": 2}
    assert body["usage"]["prompt"] == pip["usage"]["prompt"] + memory["usage"]["prompt"] > 0
    assert body["usage"]["cost"] == pytest.approx(body["usage"]["prompt"] / 1e6)
    messages = _format_lines(measurement, lambda text: text.replace("sk-secret", "***"))
    assert messages[-1] == "broken failed: the key *** was refused"
    assert any(row.startswith("answered") and "0.667" in row for row in messages)
    [chart] = answer_charts(measurement)
    assert [round(point.y, 2) for point in chart.series[0].points] == [0.67, 0, 1, 0.5]
