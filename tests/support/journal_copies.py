"""New databases of journals as copies of one: making the tables takes longer than most tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine

from core.settings.messaging import JournalSettings
from core.storage.engine import Database

open_database = vars(Database)["open"].__func__
open_server = vars(Database)["open_server"].__func__


class JournalCopies:
    """Opens databases in place of `Database.open`, and of `Database.open_server`, which copies nothing."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.db"
        # By the name of the dialect.
        self._engines: dict[str, Engine] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let `Database.open` open copies."""

        async def open_copy(database: type[Database], path: Path) -> Database:
            return await self._open(database, path)

        async def open_on_server(database: type[Database], settings: JournalSettings) -> Database:
            new_database: Database = await open_server(database, settings)
            self._share_statements(new_database._engine.sync_engine)
            return new_database

        patch.setattr(Database, "open", classmethod(open_copy))
        patch.setattr(Database, "open_server", classmethod(open_on_server))

    async def _open(self, database: type[Database], path: Path) -> Database:
        if not self._template.exists():
            with tempfile.TemporaryDirectory(dir=self._template.parent) as folder:
                template = Path(folder) / "template.db"
                await (await open_database(Database, template)).close()
                template.rename(self._template)
        # Whoever else opens it at the same time, and a place where nothing can be, is the business of the product.
        with suppress(OSError), tempfile.NamedTemporaryFile(dir=self._template.parent) as copy:
            if not path.exists():
                shutil.copyfile(self._template, copy.name)
                path.parent.mkdir(parents=True, exist_ok=True)
                os.link(copy.name, path)
        new_database: Database = await open_database(database, path)
        self._share_statements(new_database._engine.sync_engine)
        return new_database

    def _share_statements(self, engine: Engine) -> None:
        """Let all databases share what SQLAlchemy has compiled: it saves a quarter of the time of such tests."""
        first_engine = self._engines.setdefault(engine.dialect.name, engine)
        engine.dialect = first_engine.dialect
        engine._compiled_cache = first_engine._compiled_cache
