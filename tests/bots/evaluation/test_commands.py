"""`kimas eval` as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.deployment import Deployment

DATA = Path(__file__).parents[2] / "core" / "data" / "citations.jsonl"
FIGURE = {"value", "low", "high"}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path, {"knowledge": {"search": {"rerank": "none"}}})


def test_citations_are_measured_as_a_table_and_as_json(deployment: Deployment) -> None:
    measurement = deployment.json("eval", "citations", str(DATA))
    assert set(measurement) == {"kind", "cases", "level", "look_back", "citations", "removals", "moves"}
    assert (measurement["kind"], measurement["level"]) == ("citations", 0.95)
    assert measurement["cases"] == len(DATA.read_text("utf-8").splitlines()) >= 60
    assert set(measurement["look_back"]) == {"words"}, "no model is configured"
    assert set(measurement["citations"]) == {"unchecked", "checked"}
    scores = measurement["citations"]["checked"]
    assert set(scores) == {"precision", "recall", "f1", "right", "wrong", "missed"}
    assert all(set(scores[name]) == FIGURE for name in ("precision", "recall", "f1"))
    assert scores["f1"]["value"] > measurement["citations"]["unchecked"]["f1"]["value"]

    output = deployment.call("eval", "citations", str(DATA)).stdout
    lines = output.splitlines()
    assert lines[0].startswith(f"{measurement['cases']} cases")
    assert lines[1].split() == ["precision", "recall", "F1", "right", "wrong", "missed"]
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "look-back, words",
        "citations, unchecked",
        "citations, checked",
        "removals",
        "moves",
    ]
    assert f"{scores['f1']['value']:.3f} (" in lines[4]
    assert len({len(line) for line in lines[1:]}) == 1, "columns stand below each other"


def test_bad_data_is_refused_before_anything_is_opened(deployment: Deployment, tmp_path: Path) -> None:
    bad_file = tmp_path / "bad.jsonl"
    bad_file.write_text(json.dumps({"id": "a"}) + "\nnonsense\n\x1b[2J\n", "utf-8")
    result = deployment.call("eval", "citations", str(bad_file), code=2)
    assert "line 1: question is missing" in result.stderr
    assert "line 2: it is not JSON" in result.stderr
    assert "line 3: it is not JSON" in result.stderr
    assert "docs/evaluate.md" in result.stderr
    assert not (tmp_path / "data").exists()
    assert "cannot be read" in deployment.call("eval", "citations", "missing.jsonl", code=2).stderr
    assert "No such command" in deployment.call("eval", "weather", "x.jsonl", code=2).stderr
