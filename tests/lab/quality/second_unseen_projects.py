"""Three more projects, fetched after the next freeze: Pi-hole, Homebrew, and AList, whose guide is English and Chinese.

As with `unseen_projects.py`, whose questions had been in view meanwhile, somebody else than the authors of the code
wrote the questions before a bot had read any of the projects; `_unseen.py` says what else a line has. In AList each
page counts in both languages, and questions in either have a translation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.lab.quality._unseen import measure_unseen
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import Project, clone

QUESTIONS = Path(__file__).with_suffix(".jsonl")
PROJECTS = {
    "pihole": Project(
        "pi-hole/docs",
        "7c96feb53ee00dabb703d3b8da20b4b7d96cad5b",
        {"docs": ("/docs/**/*.md", "/README.md")},
    ),
    "homebrew": Project(
        "Homebrew/brew",
        "aad366ffaf6a8c94c66d35e4b990d42ac4195305",
        {
            "docs": ("/docs/**/*.md", "/README.md"),
            "code": ("/Library/Homebrew/cmd/**/*.rb", "/Library/Homebrew/env_config.rb"),
        },
    ),
    "alist": Project(
        "AlistGo/docs",
        "811e8e09d41e77f8d67f4b74102223b7a74a48a3",
        {"docs": ("/docs/**/*.md",)},
        # Generated: the reference of the HTTP API, and a list of what others have made.
        (
            "/docs/guide/api/**",
            "/docs/zh/guide/api/**",
            "/docs/guide/ecosystem.md",
            "/docs/zh/guide/ecosystem.md",
        ),
    ),
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(measure_unseen(data, PROJECTS, QUESTIONS))
