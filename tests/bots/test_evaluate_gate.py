"""`kimas eval gate`: how well the bot knows when to speak unasked, held to a floor on labelled messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bots.evaluation.gate import gate
from core.errors import UsageError
from core.messaging.gate.calibration import auc
from core.settings import GateSettings, Settings
from core.settings.loader import load_settings

FOLDER = Path(__file__).parents[1] / "core" / "data"
DATA, CORPUS = FOLDER / "gate.jsonl", FOLDER / "gate_corpus.jsonl"


def deployment(tmp_path: Path) -> Settings:
    return Settings.model_validate({"data_dir": tmp_path / "data"})


async def measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[str], *, fit: bool = False
) -> Mapping[str, Any]:
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(lines), "utf-8")
    assert await gate(deployment(tmp_path), data, CORPUS, fit=fit, as_json=True) == 0
    results: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return results


async def test_it_is_good_enough_on_what_it_was_not_fitted_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = DATA.read_text("utf-8").splitlines()
    unseen = [line for line in lines if json.loads(line)["id"].startswith("later-")]
    results = await measured(tmp_path, capsys, unseen)
    assert results["cases"] == len(unseen) >= 60
    assert results["configured"]["precision"]["value"] >= 0.95
    assert results["configured"]["recall"]["value"] >= 0.75
    assert results["configured"]["auc"] >= 0.94


async def test_it_is_good_enough_on_everything_and_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = DATA.read_text("utf-8").splitlines()
    results = await measured(tmp_path, capsys, lines, fit=True)
    assert set(results) == {"kind", "cases", "by_words", "level", "configured", "crossed", "fitted"}
    assert (results["kind"], results["cases"]) == ("gate", len(lines))
    assert results["by_words"] >= 70, "most of what is not for the bot costs no search"
    for way in ("configured", "crossed"):
        assert results[way]["f1"]["value"] >= 0.87
        assert results[way]["precision"]["value"] >= 0.92
        assert results[way]["auc"] >= 0.97
    configured = deployment(tmp_path).model_dump()["gate"] | results["fitted"]
    assert Settings.model_validate({"gate": configured}).gate.weights.match > 0


async def test_the_table_and_the_section_to_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(DATA.read_text("utf-8").splitlines()[::4]), "utf-8")
    assert await gate(deployment(tmp_path), few, CORPUS, fit=True, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("53 cases, ")
    assert [line.split("  ")[0] for line in lines[2:4]] == ["as configured", "fitted, cross-validated"]
    assert lines[4].startswith(("AUC 0.9", "AUC 1.0"))
    assert lines[5] == "gate:"
    assert lines[6].startswith("  threshold: 0.")
    assert lines[7:9] == ["  weights:", f"    base: {pasted(tmp_path, lines[5:]).weights.base:g}"]


def pasted(tmp_path: Path, lines: list[str]) -> GateSettings:
    """Return the gate of a configuration that the printed section was copied into."""
    file = tmp_path / "pasted.yaml"
    file.write_text("\n".join(lines), "utf-8")
    return load_settings([file], (), {}).gate


async def test_a_fit_wants_enough_messages_of_each_kind_before_anything_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 60 lines, but among them one alone is to be left alone for more than its words.
    with pytest.raises(
        UsageError, match="--fit needs 10 messages to answer and 10 to leave alone at least"
    ) as error_info:
        await measured(tmp_path, capsys, DATA.read_text("utf-8").splitlines()[:60], fit=True)
    assert "there are 48 and 1. Label more" in str(error_info.value)
    assert not (tmp_path / "data").exists()


async def test_bad_data_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "a", "text": "How?", "should_answer": "yes"}\n{"id": "b"}\n', "utf-8")
    with pytest.raises(UsageError) as error_info:
        await gate(deployment(tmp_path), bad, None, fit=False, as_json=True)
    for text in ("line 1: should_answer must be true or false", "line 2: text is missing", "docs/groups.md"):
        assert text in str(error_info.value)
    assert not (tmp_path / "data").exists()


def test_the_area_under_the_curve() -> None:
    assert auc([0.9, 0.8, 0.1], [True, True, False]) == 1
    assert auc([0.1, 0.9], [True, False]) == 0
    assert auc([0.5, 0.5], [True, False]) == 0.5
    assert auc([0.5], [True]) is None
