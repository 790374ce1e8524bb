"""Labelled data is checked whole, and scores are what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bots.evaluation.citations import CITATION_CASE_FORMAT, CitationCase, evaluate_citations, parse_citation_case
from bots.evaluation.datasets import read_cases
from core.errors import UsageError
from core.messaging.gate.classification_metrics import Counts, compute_scores
from tests.support.fixtures import InMemoryLibrary, parts
from tests.support.scripted import ScriptedPeer, models

GOOD = {
    "id": "a",
    "question": "Which port?",
    "answer": "The server listens on port 8000 [x].",
    "passages": [{"id": "x", "text": "The server listens on port 8000."}, {"id": "y", "text": "Boats float."}],
    "cited": ["x"],
}


def read(path: Path, *lines: object) -> list[CitationCase]:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_bytes("\n".join(texts).encode("utf-8", "surrogateescape"))
    return read_cases(path, parse_citation_case, CITATION_CASE_FORMAT)


def test_good_lines_are_read_with_blank_lines_a_mark_and_foreign_keys(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    cases = read(path, "\ufeff" + json.dumps(GOOD), "", {**GOOD, "id": "b", "cited": [], "kind": "extra"}, "  ", "")
    assert [(case.id, case.cited_ids) for case in cases] == [("a", {"x"}), ("b", frozenset())]
    assert [passage.id for passage in cases[0].passages] == ["x", "y"]


def test_every_bad_line_is_told_with_its_number_and_the_form(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error_info:
        read(
            tmp_path / "data.jsonl",
            GOOD,
            '{"id": "b", ',
            "[1, 2]",
            {**GOOD, "id": "c", "question": " ", "answer": 7, "cited": "x"},
            "",
            {**GOOD, "id": "d", "passages": [{"id": "x", "text": "t"}, {"id": "x"}, "z"]},
            {**GOOD, "id": "e", "passages": [], "cited": []},
            {**GOOD, "id": "f", "passages": [{"id": "x"}, {"id": "x", "text": "t"}]},
            {**GOOD, "id": "g", "cited": ["nobody"]},
            GOOD,
            '{"id": "\udcff"}',
            "[" * 100_000,
        )
    output = str(error_info.value)
    for text in (
        "line 2: it is not JSON at column 13",
        "line 3: it is no JSON object",
        "line 4: question must be a text that is not empty",
        "line 4: answer must be a text that is not empty",
        "line 4: cited must be a list of texts",
        "line 6: passages must be a list of objects with at least one",
        "line 7: passages must be a list of objects with at least one",
        "line 8: passages[0].text is missing; it must be a text",
        "line 8: passages has the id 'x' twice",
        "line 9: cited names 'nobody', which is no id in passages (x, y)",
        "line 10: id 'a' is that of line 1 already",
        "line 11: it is not UTF-8 text (byte 9)",
        "line 12: it is nested too deeply",
        '"cited": [id]} (docs/evaluate.md)',
    ):
        assert text in output, text
    assert "line 1:" not in output
    assert "line 5:" not in output


def test_of_very_many_faults_the_first_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="and 150 more"):
        read(tmp_path / "data.jsonl", *["{}" for _ in range(50)])


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_cases_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="it has no cases"):
        read(tmp_path / "data.jsonl", content)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.jsonl cannot be read: No such file"):
        read_cases(tmp_path / "missing.jsonl", parse_citation_case, CITATION_CASE_FORMAT)
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_cases(tmp_path, parse_citation_case, CITATION_CASE_FORMAT)


def test_scores_are_micro_averages_with_intervals_around_them() -> None:
    cases = [Counts.compare({"a", "b"}, {"a"}), Counts.compare({"a"}, {"a", "c"}), Counts.compare({"d"}, {"d"})] * 30
    scores = compute_scores(cases)
    assert scores.counts == Counts(90, 30, 30)
    for figure in (scores.precision, scores.recall, scores.f1):
        assert figure.value == 0.75
        assert figure.low is not None
        assert figure.high is not None
        assert 0.65 < figure.low < 0.75 < figure.high < 0.85
    assert compute_scores(cases) == scores, "the same data gives the same intervals"


def test_more_cases_make_narrower_intervals() -> None:
    def width(times: int) -> float:
        figure = compute_scores([Counts(1, 0, 0), Counts(0, 1, 1)] * times).f1
        assert figure.low is not None
        assert figure.high is not None
        return figure.high - figure.low

    assert width(1000) < width(100) / 2 < width(10) / 4


def test_what_is_not_defined_is_none() -> None:
    scores = compute_scores([Counts(0, 0, 2)])
    assert (scores.precision.value, scores.recall.value, scores.f1.value) == (None, 0.0, 0.0)
    assert scores.precision.low is None
    assert compute_scores([]).f1.value is None


async def test_an_answer_without_marks_is_tried_with_all_passages(tmp_path: Path) -> None:
    uncited_case = {**GOOD, "answer": "The server listens on port 8000."}
    wrong_case = {**GOOD, "id": "b", "answer": "The server listens on port 9 [x, y].", "cited": []}
    measurement = await evaluate_citations(
        read(tmp_path / "data.jsonl", uncited_case, wrong_case), parts(InMemoryLibrary())
    )
    assert measurement.cases == 2
    assert measurement.citations["unchecked"].counts == Counts(1, 3, 0)
    assert measurement.citations["checked"].counts == Counts(1, 0, 0)
    assert measurement.removals.counts == Counts(3, 0, 0)
    assert measurement.moves.counts == Counts(0, 0, 0)
    assert measurement.look_back["words"].counts == Counts(1, 0, 0)
    assert set(measurement.look_back) == {"words"}


async def test_with_a_model_its_look_back_is_measured_on_answers_without_marks(tmp_path: Path) -> None:
    cases = read(tmp_path / "data.jsonl", GOOD, {**GOOD, "id": "b", "answer": "The server listens. Boats float [y]."})
    async with ScriptedPeer(look_back="1: p1\n2: p2") as peer:
        model = models(peer)
        measurement = await evaluate_citations(cases, parts(InMemoryLibrary(), model))
        await model.close()
        prompts = "".join(body["messages"][-1]["content"] for body in peer.sent("look_back"))
    assert measurement.look_back["model"].counts == Counts(2, 1, 0)
    assert "[x]" not in prompts
    assert "[y]" not in prompts
    assert "Boats float." in prompts
