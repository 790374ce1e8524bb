"""New databases of journals as copies of one: making the tables takes longer than most tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine

from core.storage.engine import Database

open_database = vars(Database)["open"].__func__


class JournalCopies:
    """Opens databases in place of `Database.open`."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template.db"
        self._engines: list[Engine] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let `Database.open` open copies."""

        async def open_copy(database: type[Database], path: Path) -> Database:
            return await self._open(database, path)

        patch.setattr(Database, "open", classmethod(open_copy))

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
        if not self._engines:
            self._engines.append(engine)
        engine.dialect = self._engines[0].dialect
        engine._compiled_cache = self._engines[0]._compiled_cache
