"""`make quality`: parts are found, missing repositories are named, figures are compared, kept and drawn."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from bots.evaluation.comparison.run import make_systems
from bots.evaluation.datasets import ANSWERS_LINE_FORMAT, read_answers, read_cases as parse_cases
from core.settings import GitSource
from core.settings.loader import load_settings
from core.types import Citation, Reply
from tests.lab.quality import (
    __main__ as quality,
    beginner_questions,
    citations,
    conversations,
    dump_prompts,
    figures,
    first_quotes,
    fourth_unseen_projects,
    light_citations,
    new_projects,
    quoted_answers,
    second_unseen_projects,
    third_unseen_projects,
    unseen_projects,
    whole_prompts,
)
from tests.lab.quality.drawing import draw
from tests.lab.quality.figures import Figure
from tests.lab.quality.first_quotes import Outcome
from tests.lab.quality.repository_questions import read_cases
from tests.support.deployment import git, make_repository

RECALL = Figure("recall <@5>", 0.61, goal=0.6, baseline=0.4)
# These have no questions of their own: they read code alone, or ask those of other parts.
NO_QUESTIONS = ("code_names", "design_choices", "light_citations", "typing_errors")
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


def test_missing_repositories_are_cloned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "public/owner/name")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{tmp_path}/public/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    quality.fetch(tmp_path / "mirror", {"search": _part()})
    clone = tmp_path / "mirror/owner+name/repo"
    assert git(clone, "log", "--format=%s") == "Change"
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://example.org/")
    quality.fetch(tmp_path / "mirror", {"search": _part()})


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


def test_counts_are_no_bars() -> None:
    picture = draw("search", [RECALL, Figure("questions", 524, is_count=True), FALSE_ALARMS])
    assert "questions" not in picture
    assert picture == draw("search", [RECALL, FALSE_ALARMS])


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


def test_questions_of_first_quotes_have_an_answer_for_each_of_their_projects() -> None:
    questions = first_quotes.read_questions()
    assert Counter(item.repository for item in questions) == dict.fromkeys(first_quotes.REPOSITORIES, 14)
    assert len({item.id for item in questions}) == len(questions)
    assert all(item.answers and all(item.answers) and item.files and len(item.commit) == 40 for item in questions)
    question = next(item for item in questions if item.id == "hono-1")
    answer = "> setCookie(c, 'cookie_name', 'cookie_value') and getCookie(c, 'cookie_name') [2]"
    late = Outcome(question, ("> Cookies are small. [1]", answer))
    assert late.is_any_right
    assert not late.is_first_right
    assert Outcome(question, (answer,)).is_first_right
    assert not Outcome(question, ()).is_any_right


def other_repositories(part_name: str) -> set[str]:
    """Return the projects of all other parts that ask questions."""
    parts = quality.parts().items()
    return set(chain.from_iterable(part.REPOSITORIES for name, part in parts if name not in (part_name, *NO_QUESTIONS)))


def test_beginners_questions_are_about_projects_of_no_other_part() -> None:
    questions = quoted_answers.read_questions(beginner_questions.QUESTIONS)
    assert {item.repository for item in questions} == set(beginner_questions.REPOSITORIES)
    assert len({item.id for item in questions}) == len(questions)
    assert all(item.facts and len(item.commit) == 40 for item in questions)
    repositories = other_repositories("beginner_questions")
    assert not set(beginner_questions.REPOSITORIES) & repositories


def test_the_questions_about_new_projects_are_of_no_other_part() -> None:
    cases = read_cases(new_projects.QUESTIONS)
    assert {case.project for case in cases} == set(new_projects.PROJECTS)
    repositories = other_repositories("new_projects")
    assert not set(new_projects.REPOSITORIES) & repositories
    assert len({case.id for case in cases}) == len(cases) == 60
    assert all(case.files and (case.translation or case.language == "en") for case in cases)
    statements = [json.loads(line) for line in new_projects.STATEMENTS.read_text("utf-8").splitlines()]
    assert {item["repository"] for item in statements} <= set(new_projects.REPOSITORIES)


def test_the_conversations_are_about_a_project_of_no_other_part() -> None:
    cases = read_cases(conversations.QUESTIONS)
    repositories = other_repositories("conversations")
    assert not set(conversations.REPOSITORIES) & repositories
    assert Counter(len(case.question.history) for case in cases) == {0: 20, 2: 20, 4: 20}
    assert len({case.id for case in cases}) == len(cases)
    assert all(case.files and case.project in conversations.PROJECTS for case in cases)


def test_the_conversations_can_be_put_to_systems_that_a_judge_compares() -> None:
    """As docs/evaluate.md shows it: a preset, and the knowledge of the conversations over it."""
    overlay = conversations.QUESTIONS.with_suffix(".yaml")
    settings = load_settings([Path("config/presets/srsa.yaml"), overlay], (), {}, require_secrets=False)
    source = settings.sources["docs"]
    assert isinstance(source, GitSource)
    project = conversations.PROJECTS["restic"]
    assert source.url == f"https://github.com/{project.repository}.git"
    assert source.include == project.sources["docs"]
    assert len(parse_cases(conversations.QUESTIONS, read_answers, ANSWERS_LINE_FORMAT)) == 60
    assert {system.name for system in make_systems(settings, ["router", "react", "simple"])} == {
        "router",
        "react",
        "simple",
    }


UNSEEN_PARTS = [unseen_projects, second_unseen_projects, third_unseen_projects, fourth_unseen_projects]


@pytest.mark.parametrize("part", UNSEEN_PARTS)
def test_the_questions_about_unseen_projects_are_of_no_other_part(part: ModuleType) -> None:
    cases = read_cases(part.QUESTIONS)
    repositories = other_repositories(part.__name__.rpartition(".")[2])
    assert not set(part.REPOSITORIES) & repositories
    assert Counter((case.project, case.kind) for case in cases) == Counter(
        {(name, kind): 10 for name in part.PROJECTS for kind in ("English", "Chinese", "follow-ups")}
    )
    records = [json.loads(line) for line in part.QUESTIONS.read_text("utf-8").splitlines()]
    assert len({record["id"] for record in records}) == len(records)
    assert Counter(record["project"] for record in records if record["facts"]) == dict.fromkeys(part.PROJECTS, 10)
    assert all(record["files"] for record in records)
    assert all("rewrite" in record["light"] for record in records if record["history"])
    assert all("translation" in record["light"] for record in records if record["language"] == "zh")


def _answer(text: str, passage_texts: Sequence[str], also: Sequence[Sequence[int]]) -> whole_prompts.Answer:
    places = [
        {
            "source": "docs",
            "path": f"{number}.md",
            "title": "",
            "lines": [1, 9],
            "kind": "markdown",
            "text": passage_text,
        }
        for number, passage_text in enumerate(passage_texts, 1)
    ]
    return whole_prompts.Answer.from_record(
        {
            "id": "tarn-1",
            "language": "en",
            "kind": "prose",
            "is_held_out": False,
            "question": "Which port?",
            "conversation": [],
            "passages": places,
            "answer": text,
            "also": also,
        }
    )


def test_marks_are_moved_to_passages_that_do_not_support_their_sentence() -> None:
    passages = ["The port is 80.", "Port 80 is the default port.", "Port 443 is for TLS.", "Apples are red.", "Pears."]
    answer = _answer(
        "It listens on port 80 [p1]. So do others [p1][p3].\n\n- **TLS**: port 443 [p3].", passages, [[2], [], [], []]
    )
    assert [mark.right for mark in answer.marks] == [{0, 1}, {0, 2}, {0, 2}, {2}]
    assert [mark.sentence.strip() for mark in answer.marks][-1] == "- **TLS**: port 443"
    for variant in ("random", "next best"):
        text, positions = answer.move_marks(variant)
        assert positions.keys() == {0, 1, 2, 3}
        assert all(positions[mark.index] not in mark.right for mark in answer.marks)
        moved = _answer(text, passages, [[], [], [], []])
        assert [mark.position for mark in moved.marks] == list(positions.values())
        assert positions[1] != positions[2]
    assert positions[0] == 2
    assert answer.move_marks("true")[0] == answer.text


def test_a_mark_without_a_wrong_passage_to_go_to_stays() -> None:
    answer = _answer("It is 80 [p1].", ["The port is 80.", "Port 80."], [[2]])
    assert answer.move_marks("random") == (answer.text, {})


def test_figures_of_marks_tell_lost_ones_from_moved_ones() -> None:
    answer = _answer("One [p1]. Two [p2]. Three [p3].", ["1", "2", "3"], [[], [3], []])
    moves = {("true", 0): 0, ("true", 1): 2, ("true", 2): None, ("random", 0): 0, ("random", 1): 0, ("random", 2): None}
    outcomes = [
        whole_prompts.Outcome(answer, variant, answer.marks[index], 1, position)  # type: ignore[arg-type]
        for (variant, index), position in moves.items()
    ]
    values = {figure.name: figure.value for figure in whole_prompts.make_figures(outcomes, "all")}
    assert values["true marks lost, English, all"] == pytest.approx(1 / 3)
    assert values["true marks moved to a wrong passage, English, all"] == 0
    assert values["false marks (random) removed or moved to a right passage, English, all"] == pytest.approx(2 / 3)
    assert values["false marks (random) moved to a right passage, English, all"] == pytest.approx(1 / 3)


def test_sentences_about_other_projects_keep_no_mark() -> None:
    answer = _answer(
        "The server listens on port 80 [p1].", ["The server listens on port 80.", "Pears are green."], [[]]
    )
    text = "Foxes hunt mice in the forest at night [p1]."
    other = replace(_answer(text, ["Foxes hunt mice in the forest at night.", "Owls sleep."], [[]]), id="fox-1")
    values = {figure.name: figure.value for figure in whole_prompts.make_strange_figures([answer, other], "all")}
    assert values["sentences about other projects that keep a mark, English, all"] == 0
    assert not any(whole_prompts.check(item, item.text) for item in (answer, other))


async def test_a_light_model_that_is_played_sees_no_mark_and_decides_what_is_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = ["The port of the server is 80.", "The server is started by its service.", "Pears are green."]
    answer = _answer("The server listens on a port [p1].", passages, [[]])
    await light_citations.write_requests([answer], tmp_path)
    rules, request = (tmp_path / "requests.md").read_text("utf-8").split("=== tarn-1\n")
    assert "Find, for each numbered sentence" in rules
    assert "<answer>\n1: The server listens on a port\n</answer>" in request
    monkeypatch.setattr(light_citations, "REPLIES", tmp_path / "replies.jsonl")
    (tmp_path / "replies.md").write_text("=== tarn-1\n1: p1\n", "utf-8")
    await light_citations.write_replies([answer], tmp_path)
    outcomes = await light_citations.check_all([answer])
    assert {item.new_position for item in outcomes} == {0}, "also where the mark was moved to another passage"
    (tmp_path / "replies.md").write_text("=== pine-1\n1: p1\n", "utf-8")
    with pytest.raises(ValueError, match="tarn-1 has no reply"):
        await light_citations.write_replies([answer], tmp_path)


def test_the_answers_from_whole_prompts_are_of_projects_of_no_other_part() -> None:
    repositories = other_repositories("whole_prompts")
    assert not set(whole_prompts.REPOSITORIES) & repositories
    ids = []
    for name in whole_prompts.read_projects():
        for record in whole_prompts.read_records(name):
            ids.append(record["id"])
            assert record["language"] in whole_prompts.LANGUAGES
            assert record["kind"] in ("prose", "code", "follow_up")
            assert bool(record["conversation"]) is (record["kind"] == "follow_up")
            # The text of others is not part of this repository.
            assert all(place.keys() == set(dump_prompts.PLACE) for place in record["passages"])
            texts = [place | {"text": place["path"], "kind": "markdown"} for place in record["passages"]]
            answer = whole_prompts.Answer.from_record(record | {"passages": texts, "is_held_out": False})
            assert len(answer.marks) == len(record["also"]) > 0, record["id"]
            assert all(mark.right <= set(range(len(texts))) for mark in answer.marks), record["id"]
    assert len(set(ids)) == len(ids)


def test_a_written_answer_becomes_a_line_with_marks_and_what_else_supports_them() -> None:
    places = [{"source": "docs", "path": f"{number}.md", "lines": [1, 2], "title": "", "hash": ""} for number in "123"]
    record = {"id": "a-1", "language": "en", "kind": "prose", "question": "?", "passages": places}
    line = dump_prompts.make_line(record, "One [p1~2, 3]. Two [p2][p3].")
    assert line["answer"] == "One [p1]. Two [p2][p3]."
    assert line["also"] == [[2, 3], [], []]
    for wrong in ("No mark.", "One [p4].", "One [p1, p2]. Two [p3].", "`code [p1]` and [p2]."):
        with pytest.raises(ValueError, match="a-1"):
            dump_prompts.make_line(record, wrong)
