"""Three projects that were fetched once the code was frozen: beets, mitmproxy and NoneBot, whose guide is Chinese.

Somebody else than the authors of the code wrote the questions (`unseen_projects.jsonl`) before a bot had read any of
the projects; `_unseen.py` says what else a line has.

The first figures stay in docs/quality.md, whatever is corrected later. Code that was corrected with these questions in
view needs other projects to show what it is worth: those of `second_unseen_projects.py`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.lab.quality._unseen import measure_unseen
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import Project, clone

QUESTIONS = Path(__file__).with_suffix(".jsonl")
PROJECTS = {
    "beets": Project(
        "beetbox/beets",
        "07f39c5204997a356fd98b7e88ba9b185efb2e66",
        {"docs": ("/docs/**/*.rst", "/README.rst"), "configuration": ("/beets/config_default.yaml",)},
    ),
    "mitmproxy": Project(
        "mitmproxy/mitmproxy",
        "8fc25b3045934777b0796d8ec7958bbc257d7bb5",
        {
            "docs": ("/docs/src/content/**", "/README.md"),
            "code": (
                "/mitmproxy/addons/*.py",
                "/mitmproxy/options.py",
                "/mitmproxy/flowfilter.py",
                "/mitmproxy/http.py",
            ),
            "examples": ("/examples/addons/**", "/examples/contrib/*.py", "/examples/keys.yaml"),
        },
    ),
    "nonebot": Project(
        "nonebot/nonebot2",
        "18509811d96d9613d998f94191ad13c9781e804a",
        {"docs": ("/website/docs/**", "/README.md"), "code": ("/nonebot/**/*.py",)},
    ),
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(measure_unseen(data, PROJECTS, QUESTIONS))
