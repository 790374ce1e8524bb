"""Live sources: queried at question time, never stored."""

from __future__ import annotations

from pathlib import Path

from core.settings import HttpApiSource, LiveSource, McpSource, RemoteRagSource, SearchApiSource, SourceSettings
from knowledge.live.http_api import HttpApi
from knowledge.live.mcp.source import McpTool
from knowledge.live.remote_rag import RemoteRag
from knowledge.live.retriever import DailyQuota, LiveRetriever
from knowledge.live.search_api import to_http_api_source

__all__ = ["LiveRetriever", "is_live", "open_live_source"]


def is_live(settings: SourceSettings) -> bool:
    """Return whether a source is queried at question time; all others are read into the store by a refresh."""
    return isinstance(settings, LiveSource)


def open_live_source(name: str, settings: SourceSettings, data_dir: Path | None = None) -> LiveRetriever:
    """Return a live source. Nothing is sent yet. With `data_dir`, its daily requests are counted there.

    Raises `SourceError` for an invalid mapping or template, and for an option that the search service does not have.
    """
    limit = settings.requests_per_day if isinstance(settings, LiveSource) else None
    quota = DailyQuota(name, data_dir.expanduser() / "live" / f"{name}.json", limit) if data_dir and limit else None
    if isinstance(settings, RemoteRagSource):
        return RemoteRag(name, settings, quota)
    if isinstance(settings, McpSource):
        return McpTool(name, settings, quota)
    if isinstance(settings, SearchApiSource):
        return HttpApi(name, to_http_api_source(settings, name), quota)
    if not isinstance(settings, HttpApiSource):
        raise TypeError(f"source {name} is not asked at question time")
    return HttpApi(name, settings, quota)
