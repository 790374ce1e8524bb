"""Three more projects, fetched after the next freeze: PostgREST, Frigate, and Cloudreve, whose guide is bilingual.

The questions were written before their project was fetched, all but three about Cloudreve, and their files noted before
a bot had read one; `_unseen.py` says what else a line has. In Cloudreve each page counts in both languages, and
questions in either have a translation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.lab.quality._unseen import measure_unseen
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import Project, clone

QUESTIONS = Path(__file__).with_suffix(".jsonl")
PROJECTS = {
    "postgrest": Project(
        "PostgREST/postgrest",
        "4834678902681402a56c490f29947826e7ed5308",
        {"docs": ("/docs/**/*.rst",)},
        # What other pages include.
        ("/docs/shared/**",),
    ),
    "frigate": Project(
        "blakeblackshear/frigate",
        "e3fa70189324e5eb3b1dba756c153f6696f457de",
        {"docs": ("/docs/docs/**/*.md", "/README.md")},
    ),
    "cloudreve": Project(
        "cloudreve/docs",
        "255c24b8e8161705b82bf438ba1d91d478687edc",
        {"docs": ("/en/**/*.md", "/zh/**/*.md")},
        # What other pages include.
        ("/en/**/parts/**", "/zh/**/parts/**"),
    ),
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(measure_unseen(data, PROJECTS, QUESTIONS))
