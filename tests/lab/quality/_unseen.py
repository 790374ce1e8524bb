"""What the parts about projects fetched after a freeze share: their questions, asked without and with a light model.

`light` of a question is what a light model would reply: the line that completes it from its conversation, and its
translation; both are written from the question alone. Ten questions a project have `facts`, patterns of what a useful
quoted answer contains (`quoted_answers.py`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import App, open_app
from core.settings import ModelsSettings, Settings
from tests.lab.quality._retrieval import RememberingEmbedder
from tests.lab.quality.figures import Figure
from tests.lab.quality.new_projects import share
from tests.lab.quality.quoted_answers import Judgement, QuotedQuestion, judge
from tests.lab.quality.repository_questions import (
    CUTOFF,
    Case,
    Project,
    find_evidence,
    make_settings,
    measure_retrieval,
    read_cases,
    read_off_topic,
)
from tests.support.scripted import ScriptedPeer

# Nothing was fitted to any half of these questions; their translations are those of `light`.
NOT_REPORTED = ("held-out half", "translated")
LIGHT_GOALS = {"English": 0.95, "Chinese": 0.88, "follow-ups": 0.88}


class LightModel(ScriptedPeer):
    """A language model that replies what is `written` for the question in hand, and nothing it was not written for."""

    def __init__(self) -> None:
        super().__init__(
            rewrite=lambda _: self.written.get("rewrite", ""),
            rewrite_translation=lambda _: json.dumps({"query": self.written.get("translation", "")}),
        )
        self.written: Mapping[str, str] = {}

    def configure(self, settings: Settings) -> Settings:
        """Return settings with this model, and as many passages for an answer as without one."""
        models = ModelsSettings.model_validate({"main": {"base_url": self.base_url, "model": "light"}})
        answer = settings.answer.model_copy(update={"passages": CUTOFF})
        return settings.model_copy(update={"models": models, "answer": answer})


@dataclass(slots=True)
class Outcomes:
    """Which questions find a right file with a light model, by kind, and the quoted answers without one."""

    found: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    judgements: list[tuple[Case, Judgement]] = field(default_factory=list)


async def measure_unseen(data: Path, projects: Mapping[str, Project], questions: Path) -> list[Figure]:
    """Ask each project its questions; `data` has the clones, and gets the vectors and the quoted answers."""
    cases = read_cases(questions)
    records = {record["id"]: record for record in map(json.loads, questions.read_text("utf-8").splitlines())}
    figures = await measure_retrieval(data, projects, cases, read_off_topic())
    outcomes = Outcomes()
    embedder = await RememberingEmbedder.open(data)
    try:
        for name, project in projects.items():
            settings = make_settings(data, name, project)
            own_cases = [(case, records[case.id]) for case in cases if case.project == name]
            async with open_app(settings, embedder=embedder) as app:
                await _quote(own_cases, app, outcomes)
            async with (
                LightModel() as model,
                open_app(model.configure(settings), embedder=embedder, with_answers=False) as app,
            ):
                await _find(own_cases, model, app, outcomes)
    finally:
        await embedder.close()
    answers = [f"# {case.id}: {case.question.text}\n{judgement.text}" for case, judgement in outcomes.judgements]
    (data / "answers.md").write_text("\n\n".join(answers), "utf-8")
    reported = [figure for figure in figures if not any(words in figure.name for words in NOT_REPORTED)]
    return [*reported, *_outcome_figures(outcomes)]


async def _quote(cases: Sequence[tuple[Case, Mapping[str, Any]]], app: App, outcomes: Outcomes) -> None:
    for case, record in cases:
        if record["facts"]:
            facts = tuple(record["facts"])
            question = QuotedQuestion(case.id, "", "", case.language, case.question.text, "", facts, record["topic"])
            judgement = judge(question, await app.answer(case.question, SilentSink()))
            outcomes.judgements.append((case, judgement))


async def _find(
    cases: Sequence[tuple[Case, Mapping[str, Any]]], model: LightModel, app: App, outcomes: Outcomes
) -> None:
    for case, record in cases:
        model.written = record["light"]
        passages = await find_evidence(case.question, app)
        outcomes.found[case.kind].append(any(passage.path in case.files for passage in passages))


def _outcome_figures(outcomes: Outcomes) -> list[Figure]:
    useful = [judgement.is_useful for _, judgement in outcomes.judgements]
    helped = [judgement.is_helped(case.files) for case, judgement in outcomes.judgements]
    return [
        *(
            Figure(f"{kind}, with a light model: hit@{CUTOFF}", share(outcomes.found[kind]), goal)
            for kind, goal in LIGHT_GOALS.items()
        ),
        Figure("useful quoted answers", share(useful)),
        Figure("useful answers, or a right page named", share(helped)),
    ]
