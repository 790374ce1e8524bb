"""Knowledge that is asked for at question time: nothing of it is stored."""

from __future__ import annotations

from core.settings import HttpApiSource, RemoteRagSource, SearchApiSource, SourceSettings
from knowledge.live.http_api import HttpApi
from knowledge.live.remote_rag import RemoteRag
from knowledge.live.search_api import as_http_api

__all__ = ["is_live", "open_live"]


def is_live(settings: SourceSettings) -> bool:
    """Say whether a source is asked at question time; the others are read into the store by a refresh."""
    return isinstance(settings, HttpApiSource | SearchApiSource | RemoteRagSource)


def open_live(name: str, settings: SourceSettings) -> HttpApi | RemoteRag:
    """Return a live source. Nothing is sent yet. Raises `SourceError` for a mapping or template that is none."""
    if isinstance(settings, RemoteRagSource):
        return RemoteRag(name, settings)
    if isinstance(settings, SearchApiSource):
        return HttpApi(name, as_http_api(settings))
    if not isinstance(settings, HttpApiSource):
        raise TypeError(f"source {name} is not asked at question time")
    return HttpApi(name, settings)
