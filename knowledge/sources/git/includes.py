"""What the pages of a commit include from it, and what their references lead to in it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from knowledge.formats.encoding import decode, unusable_reason
from knowledge.formats.includes import MAX_DEPTH, Expansion, expand_includes, may_include
from knowledge.formats.references import Outline, read_outline
from knowledge.sources.common.documents import PathFilter
from knowledge.sources.git.command import Git

# So many paths are looked up by one command.
_BATCH_SIZE = 200
_FILE_MODES = ("100644 ", "100755 ")


@dataclass(frozen=True, slots=True)
class Page:
    """A document that may include others: its kind and its text."""

    kind: str
    text: str


class PageCache:
    """The outlines of the blobs that have one, and the texts of those that may include others."""

    def __init__(self) -> None:
        self._outlines: dict[str, Outline] = {}
        self._pages: dict[str, Page] = {}

    async def read(self, git: Git, kinds: Mapping[str, str]) -> Mapping[str, Outline]:
        """Return the outlines of some blobs, from what reads that of each. Raises `GitError`."""
        unknown_blobs = [blob for blob, kind in kinds.items() if kind and blob not in self._outlines]
        async with aclosing(git.blobs(unknown_blobs)) as contents:
            async for blob, data in contents:
                text = decode(data)
                self._outlines[blob] = await asyncio.to_thread(read_outline, kinds[blob], text)
                if may_include(kinds[blob], text):
                    self._pages[blob] = Page(kinds[blob], text)
        return {blob: self._outlines[blob] for blob in kinds if blob in self._outlines}

    def get_page(self, blob: str) -> Page | None:
        """Return a blob that was read if it may include others."""
        return self._pages.get(blob)

    def keep(self, blobs: Collection[str]) -> None:
        """Forget all other blobs."""
        self._outlines = {blob: outline for blob, outline in self._outlines.items() if blob in blobs}
        self._pages = {blob: page for blob, page in self._pages.items() if blob in blobs}


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
