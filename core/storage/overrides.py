"""What commands changed of the configuration: kept in the journal's database, so that it survives a restart.

Several parts of the process may each have their own `Steering` over one database, and so may `kimas chat` beside the
daemon: what one changes the others see within `FRESH_S` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import and_, delete, insert, select

from core.runtime.tasks import uncancellable
from core.settings.platforms import GateMode
from core.storage.audit import new_entry, write_entry
from core.storage.engine import Database
from core.storage.tables import overrides
from core.text.formatting import INDEFINITELY, NO_LIMIT
from core.types import Message

CACHE_TTL_S = 2.0
GLOBAL_SCOPE = ""
_ADMIN_PREFIX, _SCALE_PREFIX, _OFF_PREFIX, _LIMIT_PREFIX = "admin.", "scale.", "off.", "limit."


class RuntimeOverrides:
    """The overrides in force. Call `load` before reading; it and every change raise `StoreError`."""

    def __init__(self, database: Database, cache_ttl_s: float = CACHE_TTL_S) -> None:
        self._database = database
        self._cache_ttl_s = cache_ttl_s
        self._values: Mapping[tuple[str, str], str] = {}
        self._loaded_at = -float("inf")
        self._load_lock = asyncio.Lock()

    async def load(self) -> None:
        """Read what is in force, unless that was done a moment ago."""
        if time.monotonic() - self._loaded_at < self._cache_ttl_s:
            return
        async with self._load_lock:
            if time.monotonic() - self._loaded_at >= self._cache_ttl_s:
                await self._read()

    def mode(self, chat: str) -> GateMode | None:
        """Return the mode that was set for a chat (`platform:chat`), or None."""
        return cast("GateMode | None", self._values.get((chat, "mode")))

    def threshold(self, chat: str) -> float | None:
        """Return the threshold that was set for a chat, or None."""
        value = self._values.get((chat, "threshold"))
        return None if value is None else float(value)

    def paused_until(self, chat: str) -> str:
        """Return until when a chat is paused (ISO, or `FOR_GOOD`), or "" where it is not."""
        until = self._values.get((chat, "pause"), "")
        is_over = until not in ("", INDEFINITELY) and datetime.fromisoformat(until) <= datetime.now(UTC)
        return "" if is_over else until

    def admins(self, chat: str) -> tuple[str, ...]:
        """Return the ids of those who may look after the bot in a chat."""
        names = (name for scope, name in self._values if scope == chat and name.startswith(_ADMIN_PREFIX))
        return tuple(sorted(name.removeprefix(_ADMIN_PREFIX) for name in names))

    def is_off(self, source: str) -> bool:
        """Say whether a source is switched off."""
        return (GLOBAL_SCOPE, f"{_OFF_PREFIX}{source}") in self._values

    def scale(self, source: str) -> float:
        """Return what the passages of a source weigh; 1 where nothing was set."""
        return float(self._values.get((GLOBAL_SCOPE, f"{_SCALE_PREFIX}{source}"), 1.0))

    @property
    def has_source_overrides(self) -> bool:
        """Whether any source is switched off or weighed."""
        return any(name.startswith((_OFF_PREFIX, _SCALE_PREFIX)) for _, name in self._values)

    def limit(self, name: str, configured: float | None) -> float | None:
        """Return a daily limit: what was set for it, or else what is configured; None for no limit."""
        value = self._values.get((GLOBAL_SCOPE, f"{_LIMIT_PREFIX}{name}"))
        if value is None:
            return configured
        return None if value == NO_LIMIT else float(value)

    def is_set(self, scope: str, name: str) -> bool:
        """Say whether something was set by a command."""
        return (scope, name) in self._values

    @uncancellable
    async def change(self, message: Message, scope: str, name: str, value: str | None, *, before: str = "") -> None:
        """Set a value, or take it back with None, and write down in the same transaction who did that.

        `before` is what held until now where nothing was set.
        """
        columns = overrides.c
        condition = and_(columns.scope == scope, columns.name == name)
        async with self._database.transaction() as connection:
            # One statement: of two changes at once the second finds what the first one has set.
            old_value = await connection.scalar(delete(overrides).where(condition).returning(columns.value))
            if value is not None:
                await connection.execute(insert(overrides).values(scope=scope, name=name, value=value))
            subject = f"{scope} {name}".strip()
            after = "as configured" if value is None else value
            await write_entry(
                connection,
                new_entry(message, "changed", subject, before if old_value is None else str(old_value), after),
            )
        # Behind a reading on its way, which may not have seen this and must not have the last word.
        async with self._load_lock:
            await self._read()

    async def _read(self) -> None:
        async with self._database.connect() as connection:
            rows = (await connection.execute(select(overrides))).all()
        self._values = {(row.scope, row.name): row.value for row in rows}
        self._loaded_at = time.monotonic()


def admin_key(user: str) -> str:
    """Return the name that a delegated administrator is kept under."""
    return f"{_ADMIN_PREFIX}{user}"


def off_key(source: str) -> str:
    """Return the name that a source switched off is kept under."""
    return f"{_OFF_PREFIX}{source}"


def scale_key(source: str) -> str:
    """Return the name that a source's weight is kept under."""
    return f"{_SCALE_PREFIX}{source}"


def limit_key(limit: str) -> str:
    """Return the name that a limit is kept under."""
    return f"{_LIMIT_PREFIX}{limit}"


def get_chat_name(message: Message) -> str:
    """Return the name that a message's chat has in the configuration: `platform:chat`."""
    return f"{message.key.platform}:{message.key.chat}"
