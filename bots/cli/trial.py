"""Answers without a configuration: from one place that the command line names, or from KIMAs' own guide."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from core.errors import UsageError
from core.settings import Settings
from core.settings.loader import load_settings
from knowledge.formats.question_pairs import read_entries
from knowledge.parsing.limits import FormatError
from knowledge.sources.faq import MAX_FILE_BYTES
from knowledge.web.addresses import parse_literal

# In the wheel the guide is beside the packages; in the repository it is the folder of the documentation.
_ROOT = Path(__file__).parents[2]
GUIDE = next((folder for folder in (_ROOT / "guide", _ROOT / "docs") if folder.is_dir()), _ROOT)
GUIDE_NOTICE = (
    "There is no configuration here, so this answer comes from KIMAs' own guide.\n"
    "`kimas ask --source FOLDER-OR-URL QUESTION` answers from yours; `kimas init` writes a configuration."
)
# A project on one of these is a repository; any other page is a web site.
_REPOSITORY = re.compile(
    r"(?:https?://(?:github\.com|gitlab\.com|codeberg\.org|gitee\.com|bitbucket\.org)/[\w.-]+/[\w.-]+/?|.+\.git/?)"
)
_REMOTE = re.compile(r"(?:https?|ssh|git)://\S+|[\w.-]+@[\w.-]+:\S+")
_QUESTION_SUFFIXES = (".yaml", ".yml", ".csv", ".tsv", ".json", ".jsonl", ".ndjson")
TEXT_FILES = ("*.md", "*.rst", "*.txt", "*.adoc", "*.html", "*.pdf", "*.docx", "*.pptx", "*.xlsx")


def guess_source(location: str, *, at_terminal: bool = False) -> dict[str, Any]:
    """Return the settings of a source at an address or a path. Raises `UsageError` where there is nothing.

    Who types a private IP address, or `localhost`, `at_terminal` means it.

    >>> guess_source("https://github.com/agentscope-ai/agentscope")
    {'kind': 'git', 'url': 'https://github.com/agentscope-ai/agentscope'}
    >>> guess_source("https://docs.example.org/start")
    {'kind': 'website', 'url': 'https://docs.example.org/start'}
    """
    location = location.strip()
    if _REMOTE.fullmatch(location):
        is_page = location.startswith("http") and not _REPOSITORY.fullmatch(location)
        host = urlsplit(location).hostname or ""
        is_private = is_page and at_terminal and (host == "localhost" or parse_literal(host) is not None)
        return {"kind": "website" if is_page else "git", "url": location} | (
            {"allow_private": [host]} if is_private else {}
        )
    path = Path(os.path.abspath(Path(location).expanduser()))
    if not location or not os.access(path, os.R_OK):
        reason = "cannot be read" if path.exists() else "does not exist"
        raise UsageError(f"{location or 'an empty name'} {reason}: name a folder, a file or an address")
    if path.is_file():
        if _holds_questions(path):
            return {"kind": "faq", "path": str(path)}
        return {"kind": "files", "path": str(path.parent), "include": [f"/{path.name}"]}
    is_bare = (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    if (path / ".git").exists() or is_bare:
        return {"kind": "git", "url": str(path)}
    return {"kind": "files", "path": str(path), "include": list(TEXT_FILES), "exclude": [".*/", "node_modules/"]}


def _holds_questions(file: Path) -> bool:
    """Return whether a file is one of questions with answers: most of its entries have a question mark."""
    if file.suffix.lower() not in _QUESTION_SUFFIXES:
        return False
    try:
        entries, _ = read_entries(str(file), file.read_bytes()[: MAX_FILE_BYTES + 1])
    except (FormatError, OSError):
        return False
    return 2 * sum(entry.question.rstrip().endswith(("?", "？")) for entry in entries) > len(entries)


def list_files(repository: Path) -> list[Path]:
    """Return the relative paths of the files of a repository's HEAD; none for what is no repository on this machine."""
    if not repository.is_dir():
        return []
    command = ["git", "-C", str(repository), "ls-tree", "-r", "-z", "--name-only", "HEAD"]
    result = subprocess.run(command, capture_output=True, check=False)
    return [Path(name) for name in result.stdout.decode("utf-8", "replace").split("\0") if name]


def load_trial_settings(location: str, overrides: tuple[str, ...]) -> Settings:
    """Return settings with one source, or the guide for an empty location; what is read is kept in the user's cache.

    Raises `UsageError`, `ConfigurationError`.
    """
    name, source = (
        ("source", guess_source(location, at_terminal=True)) if location else ("guide", guess_source(str(GUIDE)))
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kimas"
    key = hashlib.sha256(json.dumps(source).encode()).hexdigest()[:12]
    if not location:
        click.echo(GUIDE_NOTICE, err=True)
    # Nobody who tries a place can mend its files: what could not be read of them would hide the answer.
    defaults = (f"data_dir={cache / key}", f"sources.{name}={json.dumps(source)}", "log.level=error")
    return load_settings((), (*defaults, *overrides))
