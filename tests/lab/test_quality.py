"""`make quality`: parts are found, missing repositories are named, figures are compared, kept and drawn."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from core.types import Citation, Reply
from tests.lab.quality import __main__ as quality, beginner_questions, citations, figures, new_projects, quoted_answers
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import read_cases

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
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures == {"other": {"a": 0.5}, "search": {"recall <@5>": 0.61, "false alarms": 0.07}}
    picture = (tmp_path / "pictures/quality-search.svg").read_text()
    assert "recall &lt;@5&gt;" in picture
    ElementTree.fromstring(picture)  # noqa: S314  our own picture


def test_every_part_names_repositories_as_github_does() -> None:
    for name, part in quality.parts().items():
        assert all(repository.count("/") == 1 for repository in part.REPOSITORIES), name


def test_an_answer_is_useful_with_at_most_one_irrelevant_quote() -> None:
    question = quoted_answers.read_questions()[0]
    question = replace(question, facts=("tarn serve", "8000"), topic="server")

    def judge(text: str) -> quoted_answers.Judgement:
        return quoted_answers.judge(question, Reply(text, (Citation(1, "p", "docs", "Title", "a.md", ""),)))

    useful = "> Start the server: [1]\n\n```sh\ntarn serve\n```\n\n> It listens on port 8000. [2]\n\n*Quoted.*"
    assert judge(useful).is_useful
    assert judge(f"> Apples are red. [3]\n\n{useful}").irrelevant == ("> Apples are red. [3]",)
    assert not judge(f"> Apples are red. [3]\n\n> Pears are green. [3]\n\n{useful}").is_useful
    assert judge("> Start the server. [1]").missing == question.facts
    page = Citation(1, "p", "docs", "Title", question.file, "")
    judgement = quoted_answers.judge(question, Reply("Nothing.", nearest_pages=(page,)))
    assert judgement.is_helped([question.file])
    assert not judgement.is_useful
    assert not judgement.is_helped(["other.md"])


def test_our_statements_and_questions_name_their_places() -> None:
    statements = [json.loads(line) for line in citations.STATEMENTS.read_text("utf-8").splitlines()]
    assert {item["repository"] for item in statements} == set(citations.REPOSITORIES)
    assert all(len(item["commit"]) == 40 and item["lines"][0] < item["lines"][1] for item in statements)
    questions = quoted_answers.read_questions()
    assert {item.repository for item in questions} == set(quoted_answers.REPOSITORIES)
    assert sum(bool(item.facts) for item in questions) >= 100
    assert sum(not item.facts for item in questions) >= 50


def test_beginners_questions_are_about_projects_of_no_other_part() -> None:
    questions = quoted_answers.read_questions(beginner_questions.QUESTIONS)
    assert {item.repository for item in questions} == set(beginner_questions.REPOSITORIES)
    assert len({item.id for item in questions}) == len(questions)
    assert all(item.facts and len(item.commit) == 40 for item in questions)
    repositories = [part.REPOSITORIES for name, part in quality.parts().items() if name != "beginner_questions"]
    assert not set(beginner_questions.REPOSITORIES) & set(chain.from_iterable(repositories))


def test_the_questions_about_new_projects_are_of_no_other_part() -> None:
    cases = read_cases(new_projects.QUESTIONS)
    assert {case.project for case in cases} == set(new_projects.PROJECTS)
    repositories = [part.REPOSITORIES for name, part in quality.parts().items() if name != "new_projects"]
    assert not set(new_projects.REPOSITORIES) & set(chain.from_iterable(repositories))
    assert len({case.id for case in cases}) == len(cases) == 60
    assert all(case.files and (case.translation or case.language == "en") for case in cases)
    statements = [json.loads(line) for line in new_projects.STATEMENTS.read_text("utf-8").splitlines()]
    assert {item["repository"] for item in statements} <= set(new_projects.REPOSITORIES)
