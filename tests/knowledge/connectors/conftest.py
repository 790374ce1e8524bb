"""A source of a connector as the configuration makes it: by the entry point, below `kind: own`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.settings import OwnSource
from knowledge.ingestion.sync import SyncOptions, SyncReport, refresh
from knowledge.ports import Store
from knowledge.sources.plugin import PluginSource
from tests.support.connectors import OpenSource, Update
from tests.support.peers.service import TOKEN


@pytest.fixture
def open_connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenSource:
    """Return a function that opens a connector's source with options; `token` names the variable with it."""
    monkeypatch.setenv("SERVICE_TOKEN", TOKEN)

    def open_source(plugin: str, url: str, *, token: str = "", **options: Any) -> PluginSource:
        own = {"kind": "own", "plugin": plugin, "options": {"url": url, "allow_private": ["127.0.0.1"], **options}}
        settings = OwnSource.model_validate(own | ({"token": {"env": token}} if token else {}))
        return PluginSource("docs", settings, tmp_path)

    return open_source


@pytest.fixture
def update(store: Store) -> Update:
    """Return a function that refreshes a source into the store."""

    async def run(source: PluginSource) -> SyncReport:
        return await refresh(source, store, SyncOptions(200))

    return run
