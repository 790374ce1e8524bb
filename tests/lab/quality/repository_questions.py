"""Questions about public projects, with the files that answer them (`repository_questions.jsonl`).

Every line has its project, language, the conversation before the question, the question, the files any of which
answers it, and the issue it comes from, if any. The words are ours. `PROJECTS` pins the commit that the files are of.
A question goes the way of a user's without a language model: rules complete it, agents are routed to and searched, and
the evidence is selected. A Chinese question is searched as it stands, and as its translation, which stands beside it.
The settings were tuned on one half of the questions (`is_held_out` is false); the other half is reported beside all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bots.daemon.bootstrap import App, open_app
from core.answering.agents.context_manager import rule_based_query
from core.answering.agents.reranker import select_evidence
from core.answering.strategies import single
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Passage, Question, Turn
from tests.lab.quality._retrieval import RememberingEmbedder, bm25_alone, first_rank, hit, mrr
from tests.lab.quality.figures import Figure

QUESTIONS = Path(__file__).with_suffix(".jsonl")
OFF_TOPIC = Path(__file__).with_name("off_topic_questions.jsonl")
TAG = "quality"
CUTOFF = 8


@dataclass(frozen=True, slots=True)
class Project:
    """A repository at a commit, and its folders of documentation, code and examples: an agent each, as presets do."""

    repository: str
    commit: str
    sources: Mapping[str, tuple[str, ...]]
    exclude: tuple[str, ...] = ()


PROJECTS = {
    "click": Project(
        "pallets/click",
        "2c8cd3ac958a7eb316d67f2d316c27086c4c0369",
        {"docs": ("/docs/**", "/README.md", "/CHANGES.md"), "code": ("/src/**/*.py",), "examples": ("/examples/**",)},
    ),
    "scrapy": Project(
        "scrapy/scrapy",
        "11079cb1c85b9e75a39a7269943c69d1a975d485",
        {"docs": ("/docs/**", "/README.rst"), "code": ("/scrapy/**/*.py",)},
    ),
    "optuna": Project(
        "optuna/optuna",
        "1d8ce7bb6f3c7274a7a31a0a007991995085baa7",
        {"docs": ("/docs/**", "/README.md"), "tutorial": ("/tutorial/**",), "code": ("/optuna/**/*.py",)},
    ),
    "lmdeploy": Project(
        "InternLM/lmdeploy",
        "1263d5cd889b7ad500e85b8eb20401327a4516ab",
        # The kernels and models of its engines would be nine tenths of all passages.
        {"docs": ("/docs/**", "/README*.md"), "code": ("/lmdeploy/*.py", "/lmdeploy/serve/**", "/lmdeploy/cli/**")},
    ),
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())


@dataclass(frozen=True, slots=True)
class Case:
    """One question with the files that answer it."""

    id: str
    project: str
    language: str
    question: Question
    files: frozenset[str]
    translation: str

    @property
    def kind(self) -> str:
        if self.question.history:
            return "follow-ups"
        return "Chinese" if self.language == "zh" else "English"

    @property
    def is_held_out(self) -> bool:
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 1


def read_cases(file: Path = QUESTIONS) -> list[Case]:
    return [
        Case(
            line["id"],
            line["project"],
            line["language"],
            Question(line["question"], tuple(Turn(turn["role"], turn["text"]) for turn in line["history"])),
            frozenset(line["files"]),
            line.get("translation", ""),
        )
        for line in map(json.loads, file.read_text("utf-8").splitlines())
    ]


def read_off_topic(file: Path = OFF_TOPIC) -> list[str]:
    return [json.loads(line)["question"] for line in file.read_text("utf-8").splitlines()]


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def clone(mirror: Path, data: Path, projects: Mapping[str, Project]) -> None:
    """Clone each project and tag its commit; the passages are made from it when it is measured."""
    for name, project in projects.items():
        clone = data / f"{name}.git"
        shutil.rmtree(clone, ignore_errors=True)
        origin = mirror / project.repository.replace("/", "+") / "repo"
        subprocess.run(["git", "clone", "-q", "--bare", str(origin), str(clone)], check=True)
        subprocess.run(["git", f"--git-dir={clone}", "tag", TAG, project.commit], check=True)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(measure_retrieval(data, PROJECTS, read_cases(), read_off_topic()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ranks of the first right passage for one question: KIMAs, BM25 alone, and of the translation."""

    case: Case
    rank: int
    baseline: int
    translated: int


async def measure_retrieval(
    data: Path, projects: Mapping[str, Project], cases: Sequence[Case], off_topic: Sequence[str]
) -> list[Figure]:
    """Read every project anew, and ask each its questions and what is about something else."""
    outcomes: list[Outcome] = []
    counts: list[tuple[int, int]] = []
    is_refused: list[bool] = []
    embedder = await RememberingEmbedder.open(data)
    try:
        for name, project in projects.items():
            shutil.rmtree(data / name, ignore_errors=True)
            settings = make_settings(data, name, project)
            async with open_app(settings, embedder=embedder, with_answers=False) as app:
                result = await app.refresh()
                assert not result.failures, result.failures
                for case in cases:
                    if case.project == name:
                        outcomes.append(await _ask(case, app))
                        agents = await app.library.route(rule_based_query(case.question))
                        counts.append((len(agents), len(project.sources)))
                is_refused += [not await app.library.route(question) for question in off_topic]
    finally:
        await embedder.close()
    (data / "outcomes.json").write_text(
        json.dumps({o.case.id: [o.rank, o.baseline, o.translated] for o in outcomes}, indent=1), "utf-8"
    )
    return [
        *_figures(outcomes),
        Figure("off-topic questions that reach no source", sum(is_refused) / len(is_refused), 0.9),
        Figure("right questions that reach a source", sum(count > 0 for count, _ in counts) / len(counts), 0.97),
        Figure("searches saved on right questions", 1 - sum(n for n, _ in counts) / sum(n for _, n in counts)),
    ]


def make_settings(data: Path, name: str, project: Project) -> Settings:
    """Return the configuration of a bot for one project: no model, everything else as shipped."""
    sources: dict[str, Any] = {
        source: {
            "kind": "git",
            "url": str(data / f"{name}.git"),
            "branch": TAG,
            "include": list(include),
            "exclude": list(project.exclude),
        }
        for source, include in project.sources.items()
    }
    agents = {source: {"sources": [source]} for source in sources}
    return Settings.model_validate({"data_dir": data / name, "sources": sources, "agents": agents})


async def _ask(case: Case, app: App) -> Outcome:
    baseline = await bm25_alone(case.question.text, app.settings.sources, app.store)
    translated = 0
    if case.translation:
        question = replace(case.question, text=case.translation, history=())
        translated = first_rank(await find_evidence(question, app), case.files)
    rank = first_rank(await find_evidence(case.question, app), case.files)
    return Outcome(case, rank, first_rank(baseline, case.files), translated)


async def find_evidence(question: Question, app: App) -> Sequence[Passage]:
    """Return the passages that the answer to a question would be written from."""
    budget = Budget(app.settings.budget)
    return (await select_evidence(await single.gather(question, app.deps, budget), app.deps, budget)).passages


def _figures(outcomes: Sequence[Outcome]) -> list[Figure]:
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.case.kind].append(outcome)
    figures = []
    for kind, goal in (("English", 0.85), ("follow-ups", 0.75), ("Chinese", 0.60)):
        ranks = [outcome.rank for outcome in by_kind[kind]]
        baseline = [outcome.baseline for outcome in by_kind[kind]]
        held_out = [outcome.rank for outcome in by_kind[kind] if outcome.case.is_held_out]
        figures += [
            Figure(f"{kind}: hit@{CUTOFF}", hit(ranks, CUTOFF), goal, hit(baseline, CUTOFF)),
            Figure(f"{kind}: hit@{CUTOFF}, held-out half", hit(held_out, CUTOFF), goal),
            Figure(f"{kind}: MRR", mrr(ranks), 0.60, mrr(baseline)),
        ]
    translated = [outcome.translated for outcome in by_kind["Chinese"]]
    held_out = [outcome.translated for outcome in by_kind["Chinese"] if outcome.case.is_held_out]
    return [
        *figures,
        Figure(f"Chinese, translated: hit@{CUTOFF}", hit(translated, CUTOFF), 0.80),
        Figure(f"Chinese, translated: hit@{CUTOFF}, held-out half", hit(held_out, CUTOFF), 0.80),
        Figure("Chinese, translated: MRR", mrr(translated), 0.60),
    ]
