"""`kimas eval answers --judge`: the verdicts on single sentences, their figures, and what cannot be read."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bots.evaluation.answer_judging import parse_sentences, summarize_verdicts
from core.types import Citation, Reply
from tests.support.deployment import Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body

DOCUMENTS = [
    {"id": "install.md", "text": "Install Rocket with pip install rocket. It needs Python 3.11.", "source": "docs"},
    {"id": "sessions.md", "text": "Sessions are kept in signed cookies.", "source": "docs"},
]
SENTENCES = ["It listens on 8000 [1][2].", "Logs go to a file [2].", "Anything else?"]
REPLY = Reply(" ".join(SENTENCES), tuple(Citation(number, f"p{number}", "docs", "t", "a.md", "") for number in (1, 2)))


def _sentence(number: int, **values: object) -> dict[str, object]:
    return {"n": number, "statement": "yes", "correct": "unknown", "faithful": "no", "citations": [], **values}


VERDICT = [
    _sentence(1, correct="yes", faithful="yes", citations=[1]),
    _sentence(2, correct="no"),
    {"n": 3, "statement": "no"},
]


def make_deployment(folder: Path, judge: LanguageModelPeer) -> Deployment:
    """Return a deployment with a judge and no other model."""
    models = {"judge": {"base_url": judge.base_url, "model": "judge"}}
    return Deployment(folder, {"models": models, "knowledge": {"search": {"rerank": "none"}}})


def test_verdicts_become_figures() -> None:
    verdicts = parse_sentences({"sentences": VERDICT}, REPLY, SENTENCES)
    assert verdicts is not None
    assert [(verdict.cited_numbers, verdict.supporting) for verdict in verdicts] == [((1, 2), (1,)), ((2,), ())]
    figures = summarize_verdicts([verdicts, None, ()])
    assert {name: figure.value for name, figure in figures.items()} == pytest.approx(
        {"correctness": 0.5, "faithfulness": 0.5, "citation_precision": 1 / 3, "citation_recall": 0.5}
    )
    assert all(figure.value is None for figure in summarize_verdicts([None]).values())


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"sentences": "all fine"},
        {"sentences": VERDICT[:2]},
        {"sentences": [*VERDICT[:2], {"n": 3, "statement": "perhaps"}]},
        {"sentences": [_sentence(1, faithful="mostly"), *VERDICT[1:]]},
        {"sentences": [[1, 2], *VERDICT[1:]]},
    ],
)
def test_verdicts_are_read_whole_or_not_at_all(value: Mapping[str, Any]) -> None:
    assert parse_sentences(value, REPLY, SENTENCES) is None


@pytest.mark.parametrize("citations", [["[1]", "9"], "1", [1, 1]])
def test_citations_are_read_in_any_spelling_and_only_those_of_the_sentence(citations: object) -> None:
    sentences = [_sentence(1, faithful="yes", citations=citations), *VERDICT[1:]]
    verdicts = parse_sentences({"sentences": sentences}, REPLY, SENTENCES)
    assert verdicts is not None
    assert verdicts[0].supporting == (1,)


async def test_whole_answers_are_judged_with_their_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: Counter[str] = Counter()

    @contextmanager
    def count_steps(_: object, totals: Mapping[str, int]) -> Iterator[Callable[[str], None]]:
        steps.clear()
        yield lambda name: steps.update({name: 1})
        assert steps == totals

    monkeypatch.setattr("bots.evaluation.answers.step_progress", count_steps)
    corpus = tmp_path / "documents.jsonl"
    data = tmp_path / "questions.jsonl"
    corpus.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS), "utf-8")
    lines = [
        {"id": "a", "question": "How do I install Rocket?", "reference": "With pip."},
        {"id": "b", "question": "Where are sessions kept?"},
    ]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    def judge_reply(body: Body) -> str:
        request = body["messages"][1]["content"]
        if "sessions" in request and len(body["messages"]) == 2:
            return "Looks good to me."
        count = request[request.index("<answer>") :].count("\n") - 1
        return json.dumps({"sentences": [_sentence(n, faithful="yes", citations=[1]) for n in range(1, count + 1)]})

    async with LanguageModelPeer(reply=judge_reply) as peer:
        deployment = make_deployment(tmp_path, peer)
        arguments = ("eval", "answers", str(data), "--corpus", str(corpus), "--judge")
        result = await asyncio.to_thread(deployment.json, *arguments)
        table = (await asyncio.to_thread(deployment.call, *arguments)).stdout
    assert result["judged"]["faithfulness"]["value"] == result["judged"]["citation_precision"]["value"] == 1
    assert result["judged"]["unreadable"] == 0, "the reply that could not be read was asked for again"
    assert result["judged"]["usage"]["prompt"] > result["usage"]["prompt"] == 0, "no model writes here"
    assert result["judged"]["correctness"]["value"] is None, "the judge found nothing in the reference"
    assert any(sentence["supporting"] == [1] for sentence in result["answers"][0]["sentences"])
    requests = [body["messages"][1]["content"] for body in peer.requests]
    assert any("<reference>\nWith pip.\n</reference>" in request for request in requests)
    assert all('<passage n="1">' in request for request in requests)
    assert "judged: citation recall" in table
    assert steps == {"answering": 2, "judging": 2}, "the progress that a terminal shows"
    assert re.search(r"judged: tokens +[\d,]+$", table, re.MULTILINE)
    assert re.search(r"judged: cost +-$", table, re.MULTILINE)


async def test_a_judge_that_fails_loses_no_answer(tmp_path: Path) -> None:
    corpus = tmp_path / "documents.jsonl"
    data = tmp_path / "questions.jsonl"
    corpus.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS), "utf-8")
    data.write_text("".join(f'{{"id": "{n}", "question": "How do I install Rocket?"}}\n' for n in range(8)), "utf-8")

    def judge_reply(body: Body) -> str:
        request = body["messages"][1]["content"]
        if len(peer.requests) == 3:
            peer.status = 500
        count = request[request.index("<answer>") :].count("\n") - 1
        return json.dumps({"sentences": [_sentence(n, faithful="yes", citations=[1]) for n in range(1, count + 1)]})

    async with LanguageModelPeer(reply=judge_reply) as peer:
        deployment = make_deployment(tmp_path, peer)
        arguments = ("eval", "answers", str(data), "--corpus", str(corpus), "--judge")
        partly = await asyncio.to_thread(lambda: deployment.call(*arguments, "--json", code=69))
        failed = await asyncio.to_thread(lambda: deployment.call(*arguments, code=69))
    result = json.loads(partly.stdout)
    assert len(result["answers"]) == 8
    assert all(answer["answered"] for answer in result["answers"])
    judged_count = sum(answer["sentences"] is not None for answer in result["answers"])
    assert 0 < judged_count < 8
    assert result["judged"]["faithfulness"]["value"] == 1, "what was judged counts"
    assert "500" in result["judged"]["error"]
    assert f"the judge failed, and {judged_count} of 8 answers were judged" in partly.stderr
    assert re.search(r"^answered +1.000", failed.stdout, re.MULTILINE)
    assert "judged" not in failed.stdout
    assert "the judge failed, and 0 of 8 answers were judged" in failed.stderr


async def test_a_judge_that_replies_nonsense_is_shown(tmp_path: Path) -> None:
    corpus = tmp_path / "documents.jsonl"
    data = tmp_path / "questions.jsonl"
    corpus.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS), "utf-8")
    data.write_text('{"id": "a", "question": "How do I install Rocket?"}\n', "utf-8")
    async with LanguageModelPeer(reply="Looks \x1b[31mgood to me.") as peer:
        deployment = make_deployment(tmp_path, peer)
        arguments = ("eval", "answers", str(data), "--corpus", str(corpus), "--judge")
        result = await asyncio.to_thread(lambda: deployment.call(*arguments, "--json", code=69))
        table = (await asyncio.to_thread(lambda: deployment.call(*arguments, code=69))).stdout
    judged = json.loads(result.stdout)["judged"]
    assert (judged["unreadable"], judged["unreadable_reply"]) == (1, "Looks \x1b[31mgood to me.")
    assert "no reply of the judge could be read" in result.stderr
    assert "An unreadable reply of the judge begins: Looks [31mgood to me." in table


def test_without_a_judge_nothing_is_judged(tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    data.write_text('{"id": "a", "question": "How?"}\n', "utf-8")
    result = Deployment(tmp_path, {}).call("eval", "answers", str(data), "--judge", code=2)
    assert "no judge is configured: set models.judge" in result.stderr
