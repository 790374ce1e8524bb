"""Git repositories for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from knowledge.ports import Document, Listing, Source

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True, env=os.environ | IDENTITY
    )
    return run.stdout.strip()


def commit(folder: Path, files: dict[str, str | bytes | None]) -> str:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "change")
    return git(folder, "rev-parse", "HEAD")


def clones(tmp_path: Path) -> list[Path]:
    return sorted(file.parent for file in (tmp_path / "data/git").glob("*/HEAD"))


def get_clone(tmp_path: Path) -> Path:
    (clone,) = clones(tmp_path)
    return clone


async def read(item: Source, listing: Listing) -> dict[str, Document]:
    return {document.path: document async for document in item.documents(listing, listing.fingerprints)}


def processes() -> str:
    """Return the command lines of all living processes."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                lines.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return "\n".join(lines)
