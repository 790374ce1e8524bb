"""`make quality`: parts are found, missing repositories are named, figures are compared, kept and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from tests.quality import __main__ as quality, figures
from tests.quality.figures import Figure

RECALL = Figure("recall <@5>", 0.61, goal=0.6, baseline=0.4)
FALSE_ALARMS = Figure("false alarms", 0.07, goal=0.05, lower_is_better=True)


def _part(**attributes: object) -> Any:
    return cast(
        Any, SimpleNamespace(REPOSITORIES=("owner/name",), measure=lambda _: [RECALL, FALSE_ALARMS], **attributes)
    )


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "DATA", tmp_path / "data")
    monkeypatch.setattr(quality, "PICTURES", tmp_path / "pictures")
    monkeypatch.setattr(figures, "COMMITTED", tmp_path / "figures.json")


def test_a_missing_repository_is_named_and_its_part_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quality.build(tmp_path, {"search": _part(build=None)})
    assert "search: not built" in (message := capsys.readouterr().err)
    assert "owner/name" in message
    quality.run({"search": _part()}, save=True)
    assert "build its data first" in capsys.readouterr().err
    assert figures.committed() == {}


def test_figures_are_shown_beside_goal_baseline_and_last_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "owner+name/repo").mkdir(parents=True)
    (tmp_path / "figures.json").write_text('{"other": {"a": 0.5}, "search": {"false alarms": 0.09}}')
    part = _part(build=lambda mirror, data: (data / "rows.jsonl").write_text("{}"))
    quality.build(tmp_path, {"search": part})
    quality.run({"search": part}, save=True)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("search  ")]
    assert [row[-1] for row in rows] == ["ok", "short"]
    assert rows[0][-4:-1] == ["0.610", "0.600", "0.400"]
    assert rows[1][-4:-1] == ["0.070", "0.050", "0.090"]
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert kept == {"other": {"a": 0.5}, "search": {"recall <@5>": 0.61, "false alarms": 0.07}}
    picture = (tmp_path / "pictures/quality-search.svg").read_text()
    assert "recall &lt;@5&gt;" in picture
    ElementTree.fromstring(picture)  # noqa: S314  our own picture


def test_every_part_names_repositories_as_github_does() -> None:
    for name, part in quality.parts().items():
        assert all(repository.count("/") == 1 for repository in part.REPOSITORIES), name
