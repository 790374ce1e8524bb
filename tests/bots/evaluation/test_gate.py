"""`kimas eval gate`: how well the bot knows when to speak unasked, held to a floor on labelled messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bots.evaluation.gate import gate
from bots.evaluation.gate_fitting import LabelledSet, choose_threshold, fit_model
from core.errors import UsageError
from core.evidence.ranking import logistic
from core.messaging.gate.calibration import auc
from core.messaging.gate.features import FEATURE_NAMES, GateFeatures, extract_features
from core.messaging.gate.model import FittedOn, load_model
from core.ports import WordMatch
from core.settings import GateSettings, Settings
from core.settings.loader import load_settings
from core.storage.messages import Journal
from core.types import ConversationKey
from tests.support.data import CORPUS, DATA
from tests.support.ratings import rate


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
    assert results["by_words"] >= 30, "what is certainly not for the bot costs no search"
    for variant in ("configured", "crossed"):
        assert results[variant]["f1"]["value"] >= 0.87
        assert results[variant]["precision"]["value"] >= 0.92
        assert results[variant]["auc"] >= 0.97
    fitted_values = results["fitted"]
    assert fitted_values["messages"] == len(lines) - results["by_words"]
    fitted_settings = Settings.model_validate(
        {"gate": {"threshold": fitted_values["threshold"], "model": fitted_values["model"]}}
    )
    assert load_model(fitted_settings.gate.model or Path()).fitted_on[0].messages == fitted_values["messages"]


async def test_the_table_and_the_section_to_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_file = tmp_path / "few.jsonl"
    small_file.write_text("\n".join(DATA.read_text("utf-8").splitlines()[::4]), "utf-8")
    assert await gate(deployment(tmp_path), small_file, CORPUS, fit=True, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("53 cases, ")
    assert [line.split("  ")[0] for line in lines[2:4]] == ["as configured", "fitted, cross-validated"]
    assert lines[4].startswith(("AUC 0.9", "AUC 1.0"))
    assert re.fullmatch(r"# fitted \d{4}-\d\d-\d\d on few\.jsonl \(\d+ messages, \d+ to answer\)", lines[5])
    assert lines[6] == "gate:"
    assert lines[7].startswith("  threshold: 0.")
    model = pasted(tmp_path, lines[5:]).model
    assert model == tmp_path / "data/gate-model.json"
    assert load_model(model).describe() == lines[5].removeprefix("# fitted ")


def pasted(tmp_path: Path, lines: list[str]) -> GateSettings:
    """Return the gate of a configuration that the printed section was copied into."""
    file = tmp_path / "pasted.yaml"
    file.write_text("\n".join(lines), "utf-8")
    return load_settings([file], (), {}).gate


async def test_a_fit_checks_for_enough_messages_of_each_kind_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 60 lines, but among them only seven are to be left alone for more than its words.
    with pytest.raises(
        UsageError, match="--fit needs 10 messages to answer and 10 to leave alone at least"
    ) as error_info:
        await measured(tmp_path, capsys, DATA.read_text("utf-8").splitlines()[:60], fit=True)
    assert "there are 48 and 7. Label more" in str(error_info.value)
    assert not (tmp_path / "data").exists()


async def test_too_few_messages_are_not_cross_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = DATA.read_text("utf-8").splitlines()
    results = await measured(tmp_path, capsys, lines[:60])
    assert results["configured"]["f1"]["value"] > 0.5
    assert (results["crossed"]["f1"]["value"], results["crossed"]["auc"]) == (None, None)
    small_file = tmp_path / "one.jsonl"
    small_file.write_text(lines[0], "utf-8")
    assert await gate(deployment(tmp_path), small_file, CORPUS, fit=False, as_json=False) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("1 case, ")
    assert re.match(r"fitted, cross-validated +- +- +- ", table[3])
    assert table[5].startswith("Nothing was cross-validated: that needs 10 messages to answer and 10 to leave alone")
    assert table[5].endswith("there are 1 and 0.")


async def test_bad_data_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    bad_file = tmp_path / "bad.jsonl"
    bad_file.write_text('{"id": "a", "text": "How?", "should_answer": "yes"}\n{"id": "b"}\n', "utf-8")
    with pytest.raises(UsageError) as error_info:
        await gate(deployment(tmp_path), bad_file, None, fit=False, as_json=True)
    for text in ("line 1: should_answer must be true or false", "line 2: text is missing", "docs/groups.md"):
        assert text in str(error_info.value)
    assert not (tmp_path / "data").exists()


def test_the_area_under_the_curve() -> None:
    assert auc([0.9, 0.8, 0.1], [True, True, False]) == 1
    assert auc([0.1, 0.9], [True, False]) == 0
    assert auc([0.5, 0.5], [True, False]) == 0.5
    assert auc([0.5], [True]) is None


def test_a_fit_learns_what_its_messages_have_in_common() -> None:
    def features(match: float, ngrams: dict[int, float]) -> GateFeatures:
        return GateFeatures((match, *(0.0,) * (len(FEATURE_NAMES) - 1)), ngrams)

    positives = [features(1 + number / 100, {7: 1.0}) for number in range(30)]
    negatives = [features(number / 100, {9: 1.0}) for number in range(60)]
    fitted_model = fit_model([LabelledSet("ours", [*positives, *negatives], [True] * 30 + [False] * 60)])
    model = fitted_model.model
    assert min(map(model.probability, positives)) > 0.7 > 0.3 > max(map(model.probability, negatives))
    assert model.weights[0] > 0
    assert model.ngram_weights[7] > 0 > model.ngram_weights[9]
    assert model.fitted_on == (FittedOn("ours", 90, 30),)
    without_first = fit_model([LabelledSet("ours", [*positives[1:], *negatives], [True] * 29 + [False] * 60)]).model
    assert fitted_model.held_out_log_odds[0] == pytest.approx(without_first.log_odds(positives[0]), abs=0.3)


def test_a_few_messages_correct_the_prior_and_no_more() -> None:
    prior = load_model()
    question, chatter = (
        extract_features(text, WordMatch()) for text in ("How do I reset the flux capacitor?", "nice weather today")
    )
    fitted_model = fit_model([LabelledSet("few", [question, chatter], [True, False])], prior).model
    assert (
        fitted_model.log_odds(question) - fitted_model.log_odds(chatter)
        > prior.log_odds(question) - prior.log_odds(chatter) + 1
    )
    other = extract_features("请问怎么安装", WordMatch())
    assert fitted_model.log_odds(other) == pytest.approx(prior.log_odds(other), abs=2)


def test_the_fitted_threshold_keeps_its_precision() -> None:
    log_odds = np.array([3.0, 2.0, 1.0, 0.0, -1.0, -2.0])
    assert choose_threshold(log_odds, [True, True, False, False, True, False]) == round(logistic(1.5), 2)
    assert choose_threshold(log_odds, [True, True, True, False, False, False]) == round(logistic(0.5), 2)


async def test_it_explains_every_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = DATA.read_text("utf-8").splitlines()
    small_file = tmp_path / "few.jsonl"
    small_file.write_text("\n".join(lines[::4]), "utf-8")
    # The shipped model was fitted on these messages, too, and is sure of most.
    monkeypatch.setattr("core.messaging.gate.second_opinion.DOUBT_WIDTH", 0.4)
    settings = Settings.model_validate({"data_dir": tmp_path / "data"})
    assert await gate(settings, small_file, CORPUS, fit=False, as_json=True, explain=True) == 0
    explanations = json.loads(capsys.readouterr().out)["messages"]
    assert [item["id"] for item in explanations] == [json.loads(line)["id"] for line in lines[::4]]
    sure = [item for item in explanations if item["probability"] is not None]
    assert {item["in_doubt"] for item in sure} == {True, False}
    for item in sure:
        assert item["in_doubt"] is (item["probability"] >= 0.5 - 0.4)
        assert item["why"].count(", ") == 2
    by_words = [item for item in explanations if item["probability"] is None]
    assert by_words
    assert not any(item["in_doubt"] or item["why"] for item in by_words)
    assert await gate(settings, small_file, CORPUS, fit=False, as_json=False, explain=True) == 0
    output_lines = capsys.readouterr().out.splitlines()
    row = re.compile(r"(\d\.\d\d|    )  (in doubt|        )  (answer|leave )  .*\)")
    assert sum(bool(row.fullmatch(line)) for line in output_lines) == len(explanations)
    assert sum("by its words alone" in line for line in output_lines) == len(by_words)


async def test_without_a_file_it_fits_to_what_people_rated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = deployment(tmp_path)
    with pytest.raises(UsageError, match="nobody has rated anything yet"):
        await gate(settings, None, CORPUS, fit=True, as_json=True)
    cases = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    journal = await Journal.open(settings.data_dir / "journal.db")
    for rating, is_good in (("up", True), ("down", False)):
        texts = [case["text"] for case in cases if case["should_answer"] is is_good]
        await rate(journal, ConversationKey("test", "room"), texts[-25:], rating)
    await journal.close()
    assert await gate(settings, None, CORPUS, fit=True, as_json=True) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["cases"] == 50
    (fitted_on,) = load_model(Path(results["fitted"]["model"])).fitted_on
    assert (fitted_on.name, fitted_on.messages) == ("ratings", 50 - results["by_words"])
