"""Three projects that nothing here was made with: APISIX, LlamaFactory and SkyWalking, asked as members of a group ask.

The questions (`new_projects.jsonl`) follow issues of these projects in length, tone and missing context; the words are
ours. Each has the files any of which answers it, and patterns of the facts that a useful quoted answer contains
(`quoted_answers.py`). `new_projects_messages.jsonl` has messages that no one should answer: about something else, and
about the project without a question. `new_projects_citations.jsonl` has statements, half of them false.

The half of the questions whose `is_held_out` is false was looked at while failures were mended, the other half never.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import App, open_app
from core.messaging.gate.calibration import GateCase, ScoredCase, auc, classification_scores, score_cases
from core.messaging.gate.model import load_model
from core.settings import Settings
from core.types import Question
from tests.lab.quality import citations
from tests.lab.quality._retrieval import RememberingEmbedder
from tests.lab.quality.figures import Figure
from tests.lab.quality.quoted_answers import Judgement, QuotedQuestion, judge
from tests.lab.quality.repository_questions import Case, Project, clone, make_settings, measure_retrieval, read_cases

QUESTIONS = Path(__file__).with_suffix(".jsonl")
MESSAGES = Path(__file__).with_name("new_projects_messages.jsonl")
STATEMENTS = Path(__file__).with_name("new_projects_citations.jsonl")
PROJECTS = {
    "apisix": Project(
        "apache/apisix",
        "f519a0f04ccfd4c13b5d06caf34bcde8c8593980",
        {"docs": ("/docs/en/**", "/README.md"), "configuration": ("/conf/*.yaml", "/conf/*.example")},
    ),
    "llamafactory": Project(
        "hiyouga/LlamaFactory",
        "ff6d4d12eeb035d6ce06805a5733dd7b29f2ac30",
        {
            "docs": ("/README.md", "/data/README.md", "/examples/README.md", "/docs/en/**"),
            "code": ("/src/llamafactory/**/*.py",),
            "examples": ("/examples/**/*.yaml",),
        },
        ("/src/llamafactory/v1/**",),
    ),
    "skywalking": Project(
        "apache/skywalking",
        "5839d2ad4237dca0bf2eed7d8cd3758ef7bef39a",
        {
            "docs": ("/docs/en/**", "/README.md"),
            "configuration": ("/oap-server/server-starter/src/main/resources/*.yml",),
        },
        # Changes of versions and proposals of changes.
        ("/docs/en/changes/**", "/docs/en/swip/**"),
    ),
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)
    citations.write_statements(STATEMENTS, mirror, data)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(_measure(data))


@dataclass(slots=True)
class Answers:
    """What the bots of the projects say without a model, and how sure the gate is of each message."""

    judgements: list[tuple[Case, Judgement]] = field(default_factory=list)
    off_topic_quoted: list[bool] = field(default_factory=list)
    off_topic_with_pages: list[bool] = field(default_factory=list)
    scored: list[ScoredCase] = field(default_factory=list)


async def _measure(data: Path) -> list[Figure]:
    cases = read_cases(QUESTIONS)
    messages = _read_lines(MESSAGES)
    off_topic = [message["text"] for message in messages if not message["project"]]
    figures = await measure_retrieval(data, PROJECTS, cases, off_topic)
    answers = Answers()
    embedder = await RememberingEmbedder.open(data)
    try:
        for name, project in PROJECTS.items():
            own_messages = [message["text"] for message in messages if message["project"] in ("", name)]
            async with open_app(make_settings(data, name, project), embedder=embedder) as app:
                await _ask([case for case in cases if case.project == name], off_topic, own_messages, app, answers)
    finally:
        await embedder.close()
    (data / "answers.md").write_text("\n\n".join(map(_to_report, answers.judgements)), "utf-8")
    statements = citations.check_all(citations.read_statements(data))
    return [*figures, *_answer_figures(answers), *_gate_figures(answers.scored), *_citation_figures(statements)]


async def _ask(
    cases: Sequence[Case], off_topic: Sequence[str], messages: Sequence[str], app: App, answers: Answers
) -> None:
    """Ask one project its questions and what is about something else; show the gate both, and what is no question."""
    patterns = {record["id"]: record for record in _read_lines(QUESTIONS)}
    for case in cases:
        record = patterns[case.id]
        facts = tuple(record["facts"])
        topic = record["topic"]
        question = QuotedQuestion(case.id, "", "", case.language, case.question.text, "", facts, topic)
        answers.judgements.append((case, judge(question, await app.answer(case.question, SilentSink()))))
    for text in off_topic:
        reply = await app.answer(Question(text), SilentSink())
        answers.off_topic_quoted.append(bool(reply.citations))
        answers.off_topic_with_pages.append(bool(reply.nearest_pages))
    gate_cases = [GateCase(case.id, case.question.text, True) for case in cases if not case.question.history]
    gate_cases += [GateCase(text, text, False) for text in messages]
    answers.scored += await score_cases(gate_cases, app.library, app.settings)


def _answer_figures(answers: Answers) -> list[Figure]:
    halves = {
        name: [(case, judgement) for case, judgement in answers.judgements if case.is_held_out in halves]
        for name, halves in (("", (False, True)), (", held-out half", (True,)))
    }
    useful = {name: [judgement.is_useful for _, judgement in half] for name, half in halves.items()}
    helped = {name: [judgement.is_helped(case.files) for case, judgement in half] for name, half in halves.items()}
    return [
        *(Figure(f"useful quoted answers{name}", share(values)) for name, values in useful.items()),
        *(Figure(f"useful answers, or a right page named{name}", share(values)) for name, values in helped.items()),
        Figure("off-topic questions quoted", share(answers.off_topic_quoted), 0.1, lower_is_better=True),
        Figure("off-topic questions that get pages", share(answers.off_topic_with_pages), 0.1, lower_is_better=True),
    ]


def _gate_figures(scored_cases: Sequence[ScoredCase]) -> list[Figure]:
    model = load_model()
    threshold = Settings.model_validate({}).gate.threshold
    labels = [item.case.should_answer for item in scored_cases]
    confidences = [item.confidence(model) for item in scored_cases]
    scores = classification_scores([confidence >= threshold for confidence in confidences], labels)
    return [
        Figure("gate: precision as shipped", scores.precision.value or 0.0, 0.8),
        Figure("gate: recall as shipped", scores.recall.value or 0.0),
        Figure("gate: AUC as shipped", auc(confidences, labels) or 0.0, 0.85),
    ]


def _citation_figures(statements: Sequence[citations.Statement]) -> list[Figure]:
    true = [item.is_removed for item in statements if item.is_true]
    false = [item.is_removed for item in statements if not item.is_true]
    return [
        Figure("true citations lost", share(true), 0.02, lower_is_better=True),
        Figure("false citations removed", share(false), 0.8),
    ]


def _to_report(item: tuple[Case, Judgement]) -> str:
    case, judgement = item
    if case.is_held_out:
        return f"# {case.id} (held out): {judgement.is_useful}"
    return f"# {case.id}: {case.question.text}\nuseful: {judgement.is_useful}\n\n{judgement.text}"


def _read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def share(values: Sequence[bool]) -> float:
    """Return the share of true values; 0 where there are none."""
    return sum(values) / max(1, len(values))
