"""What the pages of a commit include from it, and what their references lead to in it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from core.runtime.tasks import to_stoppable_thread
from knowledge.formats.encoding import decode, unusable_reason
from knowledge.formats.includes import MAX_DEPTH, Expansion, expand_includes, may_include
from knowledge.formats.references import Outline, read_outline
from knowledge.sources.common.documents import PathFilter
from knowledge.sources.common.facts import FactsFile
from knowledge.sources.git.command import Git
from knowledge.sources.git.state import OUTLINES

# So many paths are looked up by one command.
_BATCH_SIZE = 200
_FILE_MODES = ("100644 ", "100755 ")


@dataclass(frozen=True, slots=True)
class Page:
    """A document that may include others: its kind and its text."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What is known of a blob that was read as a document of a kind."""

    kind: str
    outline: Outline
    may_include: bool


class PageCache:
    """What was learned of a source's blobs, kept in a file: one that is known is not read again."""

    def __init__(self, source: str, folder: Path) -> None:
        self._facts_file = FactsFile(source, folder / f"{source}{OUTLINES}", "", _get_form)
        self._kept_facts: Mapping[str, PageFacts] | None = None
        self._facts: dict[str, PageFacts] = {}

    async def read(self, git: Git, kinds: Mapping[str, str]) -> Mapping[str, PageFacts]:
        """Return the facts of some blobs, from what reads that of each. Raises `GitError`."""
        if self._kept_facts is None:
            self._kept_facts = await to_stoppable_thread(self._facts_file.read)
            self._facts = dict(self._kept_facts)
        known = self._facts
        unknown_blobs = [blob for blob, kind in kinds.items() if blob not in known or known[blob].kind != kind]
        async with aclosing(git.blobs(unknown_blobs)) as contents:
            async for blob, data in contents:
                known[blob] = await asyncio.to_thread(_learn, kinds[blob], data)
        return {blob: known[blob] for blob in kinds if blob in known}

    async def keep(self, blobs: Collection[str]) -> None:
        """Forget all other blobs, and keep these for the next refresh."""
        self._facts = {blob: each for blob, each in self._facts.items() if blob in blobs}
        if self._facts != self._kept_facts:
            await asyncio.to_thread(self._facts_file.write, self._facts)
            self._kept_facts = dict(self._facts)


def _learn(kind: str, data: bytes) -> PageFacts:
    text = decode(data)
    return PageFacts(kind, read_outline(kind, text), may_include(kind, text))


@cache
def _get_form() -> TypeAdapter[tuple[str, PageFacts]]:
    return TypeAdapter(tuple[str, PageFacts])


async def load_pages(git: Git, kinds: Mapping[str, str]) -> Mapping[str, Page]:
    """Return blobs of these kinds as pages. Raises `GitError`."""
    async with aclosing(git.blobs(list(kinds))) as contents:
        return {blob: Page(kinds[blob], decode(data)) async for blob, data in contents}


async def expand_pages(
    git: Git, commit: str, pages: Mapping[str, Page], path_filter: PathFilter
) -> Mapping[str, Expansion]:
    """Return pages by their paths with what they include, as far as the filter lets it in. Raises `GitError`."""
    texts: dict[str, str | None] = {}

    def expand_all() -> dict[str, Expansion]:
        return {path: expand_includes(path, page.kind, page.text, texts.get) for path, page in pages.items()}

    # What is included includes others: each round loads what the last one asked for.
    for _ in range(MAX_DEPTH + 1):
        expansions = await asyncio.to_thread(expand_all)
        wanted_paths = {path for expansion in expansions.values() for path in expansion.missing_paths} - texts.keys()
        if not wanted_paths:
            break
        texts.update(dict.fromkeys(wanted_paths))
        texts.update(await _load(git, commit, list(filter(path_filter.may_include, wanted_paths)), path_filter))
    return expansions


async def _load(git: Git, commit: str, paths: Collection[str], path_filter: PathFilter) -> Mapping[str, str]:
    """Return the texts of the files that a commit has at some paths. Links are not followed."""
    paths_by_blob: dict[str, list[str]] = {}
    ordered_paths = sorted(paths)
    for start in range(0, len(ordered_paths), _BATCH_SIZE):
        output = await git.run("ls-tree", "-z", "--long", commit, "--", *ordered_paths[start : start + _BATCH_SIZE])
        for entry in output.decode("utf-8", "replace").split("\0"):
            fields, _, path = entry.partition("\t")
            if fields.startswith(_FILE_MODES):
                _, _, blob, size = fields.split()
                if size.isdigit() and int(size) <= path_filter.max_bytes(path):
                    paths_by_blob.setdefault(blob, []).append(path)
    texts: dict[str, str] = {}
    async with aclosing(git.blobs(list(paths_by_blob))) as contents:
        async for blob, data in contents:
            if not unusable_reason(data, allow_binary=False):
                texts.update(dict.fromkeys(paths_by_blob[blob], decode(data)))
    return texts
