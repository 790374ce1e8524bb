"""The example lines of the guide to `kimas eval` are valid, and KIMAs scores well on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployment import ROOT, Deployment

CORPUS_MARK = '"id": "manual/'


def _examples(page: str) -> list[str]:
    return re.findall(r"^```json\n(.*?)^```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def lines() -> Mapping[str, str]:
    """Return the example of each kind by its name, and the corpus."""
    examples = _examples("evaluate.md")
    [corpus] = [text for text in examples if CORPUS_MARK in text]
    [gate] = [text for text in _examples("groups.md") if "should_answer" in text]
    by_id = {json.loads(text)["id"]: text for text in examples if text != corpus}
    return {
        "corpus": corpus,
        "citations": by_id["port-1"],
        "retrieval": by_id["port-2"],
        "routing": by_id["port-3"],
        "answers": by_id["port-4"],
        "gate": gate,
    }


def _evaluate(kind: str, lines: Mapping[str, str], folder: Path) -> Any:
    (folder / "data.jsonl").write_text(lines[kind], "utf-8")
    (folder / "corpus.jsonl").write_text(lines["corpus"], "utf-8")
    corpus = [] if kind == "citations" else ["--corpus", str(folder / "corpus.jsonl")]
    return Deployment(folder, {}).json("eval", kind, str(folder / "data.jsonl"), *corpus)


def test_the_citation_of_the_example_is_found_and_kept(lines: Mapping[str, str], tmp_path: Path) -> None:
    measurement = _evaluate("citations", lines, tmp_path)
    assert measurement["look_back"]["words"]["f1"]["value"] == 1
    assert measurement["citations"]["checked"]["f1"]["value"] == 1


@pytest.mark.parametrize(("kind", "measure"), [("retrieval", "nDCG@10"), ("routing", "accuracy")])
def test_the_example_finds_its_document_and_its_agent(
    kind: str, measure: str, lines: Mapping[str, str], tmp_path: Path
) -> None:
    measurement = _evaluate(kind, lines, tmp_path)
    assert [variant["measures"][measure]["value"] for variant in measurement["ways"].values()] == [1, 1]


def test_the_example_is_answered_from_the_document_that_it_names(lines: Mapping[str, str], tmp_path: Path) -> None:
    measurement = _evaluate("answers", lines, tmp_path)
    assert measurement["answered"]["value"] == 1
    assert measurement["citations"]["f1"]["value"] == 1
    assert measurement["words"]["value"] >= 0.8


def test_the_example_of_the_gate_is_a_message_to_answer(lines: Mapping[str, str], tmp_path: Path) -> None:
    assert _evaluate("gate", lines, tmp_path)["configured"]["f1"]["value"] == 1
