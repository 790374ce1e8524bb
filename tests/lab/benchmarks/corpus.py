"""Real text for the benchmarks: a repository made from the Python files and documents that are installed anyway."""

from __future__ import annotations

import sysconfig
from itertools import islice
from pathlib import Path

from tests.support.deployment import Deployment, commit, make_repository

PACKAGES = ("aiogram", "sqlalchemy", "aiohttp", "rich", "discord", "openai", "pydantic", "click", "apscheduler")
PYTHON_FILES = 320
MARKDOWN_FILES = 45
OTHER_FILES = 135
LARGEST = 20_000


def installed(pattern: str) -> list[Path]:
    site = Path(sysconfig.get_paths()["purelib"])
    folders = (site / package for package in PACKAGES)
    paths = (path for folder in folders if folder.is_dir() for path in sorted(folder.rglob(pattern)))
    return [path for path in paths if 2_000 < path.stat().st_size < LARGEST]


def ingested(folder: Path) -> dict[str, object]:
    """Return the sources of a deployment in `folder` that knows the repository of 500 files; made once per run."""
    repository = folder / "repository"
    sources = {"code": {"kind": "git", "url": str(repository)}}
    if not repository.exists():
        repository_of_500_files(repository)
    if not (folder / "data").exists():
        Deployment(folder, {"sources": sources}).kimas("ingest")
    return {"sources": sources}


def repository_of_500_files(folder: Path) -> Path:
    """Make a git repository of AgentScope's size: 320 Python files, 45 Markdown files, the rest small text."""
    python = list(islice(installed("*.py"), PYTHON_FILES))
    files = {f"src/module_{number}.py": path.read_text("utf-8") for number, path in enumerate(python)}
    for number in range(MARKDOWN_FILES):
        part = python[number * 7 % len(python)].read_text("utf-8")[:6000]
        sections = "\n\n".join(f"## Part {at}\n\n{part[at * 1000 : at * 1000 + 1000]}" for at in range(6))
        files[f"docs/page_{number}.md"] = f"# Page {number}\n\n{sections}\n"
    for number in range(OTHER_FILES):
        files[f"config/setting_{number}.toml"] = f'name = "setting {number}"\nvalue = {number}\n' * 5
    repository = make_repository(folder, {"README.md": "# Benchmark\n\nA repository for measuring.\n"})
    commit(repository, files)
    return repository
