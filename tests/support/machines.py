"""The refreshes of daemons, as they are configured each time: alone, or over one store and one journal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import SourceError
from core.settings import Settings
from core.settings.audience import Audiences
from core.storage.engine import Database
from core.storage.refresh_state import RefreshStateRepository
from knowledge.ingestion.refresh import (
    RefreshContext,
    purge_passages_for_others,
    purge_removed_sources,
    refresh_source,
)
from knowledge.ports import Store
from tests.support.knowledge import WordEmbedder


class Machine:
    """One daemon's refreshes of the source `docs`."""

    def __init__(self, folder: Path, store: Store, database: Database, embedder: WordEmbedder) -> None:
        self.folder = folder
        self._store = store
        self._states = RefreshStateRepository(database)
        self._embedder = embedder

    async def read(self, source: dict[str, Any], **others: dict[str, Any]) -> str:
        """Refresh the source as it is configured now, and return all that is told of it."""
        settings = self._make_settings(source, others)
        audiences = Audiences.from_settings(settings)
        context = RefreshContext(
            settings.sources, self._store, self._embedder, self.folder, 200, self._states, audiences=audiences
        )
        with suppress(SourceError):
            await refresh_source(context, "docs")
        return await self.tell()

    async def start(self, source: dict[str, Any], **others: dict[str, Any]) -> str:
        """Start with the source as it is configured now, and return what is told of it before it is refreshed."""
        settings = self._make_settings(source, others)
        audiences = Audiences.from_settings(settings)
        await purge_passages_for_others(self._store, settings, audiences, self._states)
        return await self.tell()

    async def remove(self) -> None:
        """Start without the source."""
        await purge_removed_sources(self._store, self.folder, [], self._states)

    async def tell(self) -> str:
        """Return all that the store has of the source about the quokka."""
        return " ".join(passage.text for passage in await self._store.search("quokka", None, ["docs"], 9))

    def _make_settings(self, source: dict[str, Any], others: dict[str, Any]) -> Settings:
        return Settings.model_validate({"data_dir": str(self.folder), "sources": {"docs": source, **others}})
