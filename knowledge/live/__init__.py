"""Knowledge that is asked for at question time: nothing of it is stored."""

from __future__ import annotations

from pathlib import Path

from core.settings import HttpApiSource, LiveSource, RemoteRagSource, SearchApiSource, SourceSettings
from knowledge.live.http_api import HttpApi
from knowledge.live.quota import DailyQuota
from knowledge.live.remote_rag import RemoteRag
from knowledge.live.search_api import to_http_api_source

__all__ = ["LiveRetriever", "is_live", "open_live_source"]

LiveRetriever = HttpApi | RemoteRag


def is_live(settings: SourceSettings) -> bool:
    """Say whether a source is asked at question time; the others are read into the store by a refresh."""
    return isinstance(settings, LiveSource)


def open_live_source(name: str, settings: SourceSettings, data_dir: Path | None = None) -> LiveRetriever:
    """Return a live source. Nothing is sent yet. With `data_dir`, its requests of a day are counted there.

    Raises `SourceError` for a mapping or template that is none, and for a wish that a search service cannot be told.
    """
    if not isinstance(settings, LiveSource):
        raise TypeError(f"source {name} is not asked at question time")
    limit = settings.requests_per_day
    quota = DailyQuota(name, data_dir.expanduser() / "live" / f"{name}.json", limit) if data_dir and limit else None
    if isinstance(settings, RemoteRagSource):
        return RemoteRag(name, settings, quota)
    if isinstance(settings, SearchApiSource):
        return HttpApi(name, to_http_api_source(settings, name), quota)
    if not isinstance(settings, HttpApiSource):
        raise TypeError(f"source {name} is not asked at question time")
    return HttpApi(name, settings, quota)
