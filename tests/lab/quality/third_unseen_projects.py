"""Three more projects, fetched after the third freeze: Syncthing, Miniflux, and RustDesk, whose guide is bilingual.

The questions were written from the documents before a bot had read any of the projects, but by the author of the code
that was frozen; `_unseen.py` says what else a line has. In RustDesk each page counts in both languages, and questions
in either have a translation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.lab.quality._unseen import measure_unseen
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import Project, clone

QUESTIONS = Path(__file__).with_suffix(".jsonl")
PROJECTS = {
    "syncthing": Project(
        "syncthing/docs",
        "766daa6e2b02f68dacc98eccbe49663b6168cbfd",
        {"docs": ("/**/*.rst",)},
        # Drafts, and what other pages include.
        ("/draft/**", "/includes/**"),
    ),
    "miniflux": Project(
        "miniflux/website",
        "3a284786f68344d656f57696cfbe4ea03ebfa4ed",
        {"docs": ("/content/docs/**/*.md", "/content/*.md")},
    ),
    "rustdesk": Project(
        "rustdesk/doc.rustdesk.com",
        "4f6c2b52178ac1e7fa0ff969a753ad471f4aceeb",
        {"docs": ("/content/**/*.en.md", "/content/**/*.zh-cn.md")},
    ),
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(measure_unseen(data, PROJECTS, QUESTIONS))
