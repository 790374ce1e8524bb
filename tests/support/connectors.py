"""Sources of connectors as tests call them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge.ingestion.sync import SyncReport
from knowledge.ports import Document
from knowledge.sources.plugin import PluginSource

OpenSource = Callable[..., PluginSource]
Update = Callable[[PluginSource], Awaitable[SyncReport]]


async def read_documents(source: PluginSource) -> dict[str, Document]:
    """Return all documents of a source by path."""
    listing = await source.listing()
    return {document.path: document async for document in source.documents(listing, listing.fingerprints)}
