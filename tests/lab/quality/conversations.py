"""Twenty conversations of three questions each about restic, a project that nothing here was tuned on or had read.

`conversations.jsonl` was written blind: from the documentation alone (BSD 2-Clause), before a bot had read it, in the
words of people who ask rather than of the pages. The questions are ours, under the licence of this project. Each later
question needs what was said before, or moves on. Frozen: nothing is fitted to them, and the first figures stay in
docs/quality.md.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import Project, clone, measure_retrieval, read_cases, read_off_topic

QUESTIONS = Path(__file__).with_suffix(".jsonl")
PROJECTS = {
    "restic": Project(
        "restic/restic",
        "a80be1478a4c537f8396e0db2b05120aa78f11e0",
        {"docs": ("/doc/*.rst", "/README.md")},
    )
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())
KINDS = {"English": "first questions", "follow-ups": "later questions"}


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    """Return the figures of the first question of each conversation, and of the later ones, without a model."""
    figures = asyncio.run(measure_retrieval(data, PROJECTS, read_cases(QUESTIONS), read_off_topic()))
    return [
        Figure(f"{KINDS[kind]}: {measure}", figure.value, figure.goal, figure.baseline)
        for figure in figures
        for kind, _, measure in [figure.name.partition(": ")]
        if kind in KINDS and "half" not in measure
    ]
