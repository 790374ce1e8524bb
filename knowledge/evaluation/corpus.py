"""A set's own documents as knowledge: read, cut, embedded and stored for the length of one measurement."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from core.evaluation.lines import Line
from core.settings import FilesSource, Settings
from knowledge.ports import Document, Embedder, Listing, Store
from knowledge.stores.lance import open_lance
from knowledge.sync import Progress, refresh

CORPUS_FORM = '{"id", "text", "title"?, "url"?, "source"?} (docs/evaluate.md)'
CORPUS = "corpus"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One document of a corpus. Its id is its path; `source` is the source, and without agents the agent, it is of."""

    id: str
    text: str
    title: str = ""
    url: str = ""
    source: str = CORPUS


def read_entry(line: Line) -> Entry:
    """Read one line of a corpus."""
    title, url = line.text("title", default=""), line.text("url", default="")
    source = line.text("source", default=CORPUS)
    if source and not _NAME.fullmatch(source):
        line.faults.append(f"source {source!r} is no name: use small letters, digits, - and _, at most 63")
    return Entry(line.text("id"), line.text("text"), title, url, source)


def with_corpus(settings: Settings, entries: Sequence[Entry]) -> Settings:
    """Return the settings for a corpus in place of the configured sources.

    The configured agents stay where the corpus has all of their sources; else every source is an agent.
    """
    names = sorted({one.source for one in entries})
    agents = {name: agent for name, agent in settings.agents.items() if set(agent.sources) <= set(names)}
    complete = {source for agent in agents.values() for source in agent.sources} == set(names)
    sources = {name: FilesSource(kind="files", path=Path(CORPUS)) for name in names}
    return settings.model_copy(update={"sources": sources, "agents": agents if complete else {}})


@asynccontextmanager
async def corpus_store(
    entries: Sequence[Entry],
    embedder: Embedder,
    *,
    chunk_tokens: int,
    progress: Callable[[Progress], None] | None = None,
) -> AsyncIterator[Store]:
    """Open a store that holds a corpus, for the block; nothing of it stays. Raises `StoreError`, `EmbeddingError`."""
    with tempfile.TemporaryDirectory(prefix="kimas-corpus-") as folder:
        store = await open_lance(Path(folder) / "passages", embedder.name, embedder.dimension)
        try:
            for name in sorted({one.source for one in entries}):
                source = CorpusSource(name, [one for one in entries if one.source == name])
                await refresh(source, store, embedder, chunk_tokens=chunk_tokens, progress=progress)
            yield store
        finally:
            await store.close()


class CorpusSource:
    """Implements `knowledge.ports.Source` over entries."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        self.name = name
        self._entries = {one.id: one for one in entries}

    async def listing(self) -> Listing:
        """List every entry."""
        prints = {one.id: hashlib.sha256(one.text.encode()).hexdigest()[:32] for one in self._entries.values()}
        return Listing(prints)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the entries of these ids."""
        for path in paths:
            entry = self._entries[path]
            yield Document(path, entry.text, "text", entry.title, entry.url)
