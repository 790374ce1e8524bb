"""The files of one commit: which of them a source takes, which it skips, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from knowledge.sources.git_command import Git
from knowledge.sources.selection import PACKED, Selection

MISSING = "not in the repository"
_LINK, _SUBMODULE = b"120000", b"160000"


@dataclass(slots=True)
class Tree:
    """Blob ids by path, as far as they are taken; `packed` are those blobs that may be binary."""

    blobs: dict[str, str] = field(default_factory=dict)
    packed: set[str] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)
    submodules: list[str] = field(default_factory=list)


async def listed(git: Git, commit: str) -> bytes:
    """Return all entries of a commit as git writes them. Raises `GitFailure`."""
    return await git.run("ls-tree", "-r", "-z", "--long", commit)


def judged(output: bytes, selection: Selection) -> Tree:
    """Judge the entries of a commit by their names, modes and sizes. Blocking: a large repository takes a while."""
    tree = Tree()
    for line in output.split(b"\0"):
        fields, _, name = line.partition(b"\t")
        # A path that is no valid text is judged by what can be read of it: it may lie where nothing is taken.
        path = name.decode("utf-8", "replace")
        if not path or not selection.takes(path):
            continue
        mode, _, blob, size = fields.split()
        refusal = _refusal(mode, size, path, selection)
        if not refusal and not _is_text(name):
            refusal = "unreadable name"
        if mode == _SUBMODULE:
            tree.submodules.append(path)
        if refusal:
            tree.skipped[refusal] += 1
            continue
        tree.blobs[path] = blob.decode()
        if selection.kind(path) in PACKED:
            tree.packed.add(tree.blobs[path])
    return tree


def _refusal(mode: bytes, size: bytes, path: str, selection: Selection) -> str:
    """Return why an entry is skipped, or an empty string. Git gives the size BAD to an object that it lacks."""
    if mode == _LINK:
        return "symbolic link"
    if mode == _SUBMODULE:
        return "submodule"
    known = size.isdigit()
    return selection.refusal(path, int(size) if known else 0) or ("" if known else MISSING)


def _is_text(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
