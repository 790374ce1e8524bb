"""Several daemons on one journal: what each does of the work, and what only one of them does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bots.daemon.feeds import FeedFollower
from core.errors import KimasError, StoreError, UsageError
from core.messaging.claiming import ClaimQueue
from core.messaging.commands.context import CommandContext
from core.observability.logs import get_logger
from core.ports import Adapter, ConnectionStatus
from core.settings import Settings
from core.storage.claims import ClaimRepository
from core.storage.engine import Database
from core.storage.leases import DAEMON_PREFIX, Leases, open_leases
from knowledge.ingestion.schedule import stored_sources

_log = get_logger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]
LOCAL_STORE = (
    "another daemon answers from this journal, and passages in files belong to one machine: set "
    "knowledge.store.provider to weaviate for all of them (docs/scale.md), or stop the other daemon"
)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The part of one daemon among those that share a journal."""

    leases: Leases
    queue: ClaimQueue

    async def listen(self, adapter: Adapter, listen: Work) -> None:
        """Listen for a bot: where only one process may, whenever it is our turn."""
        if not adapter.needs_leader:
            await listen()
            return
        connection = adapter.connection or ConnectionStatus()
        connection.is_standby = True

        async def listen_in_turn() -> None:
            connection.is_standby = False
            try:
                await listen()
            finally:
                connection.mark_reconnecting()
                connection.is_standby = True

        await self.leases.lead(f"bot:{adapter.name}:{adapter.bot_id}", listen_in_turn)

    async def follow(self, follower: FeedFollower, listen: Work) -> None:
        """Follow a feed whenever it is our turn."""
        await self.leases.lead(f"feed:{follower.name}", listen)


class ReloadFollower:
    """Reads the configuration of this daemon again where another one was told to."""

    def __init__(self, commands: CommandContext) -> None:
        self._commands = commands
        # The files may be newer than what was read at the start.
        self._followed = ""

    async def look(self) -> None:
        """Follow the newest reload of another daemon, once. What cannot be taken up is logged."""
        commands = self._commands
        try:
            await commands.live.load()
            newest = commands.overrides.reload_elsewhere
            if newest in ("", self._followed) or commands.reload_settings is None:
                return
            self._followed = newest
            reloaded = await commands.apply(await commands.reload_settings())
        except KimasError as error:
            _log.error("configuration.not_reloaded", error=str(error))
        else:
            names = {"live": [*reloaded.live], "restart": [*reloaded.restart], "missing": [*reloaded.missing]}
            _log.info("configuration.reloaded", **names)


@asynccontextmanager
async def join_daemons(settings: Settings, database: Database) -> AsyncIterator[Leases | None]:
    """Be one of the daemons that share a database for the length of the block; None where there is only one.

    Raises `UsageError` beside another daemon where passages are on this machine, and `StoreError`.
    """
    async with open_leases(database, settings.journal.lease_s) as leases:
        if leases:
            await require_reachable_store(settings, leases)
            await leases.acquire(DAEMON_PREFIX + leases.owner)
            database.owner = leases.owner
            _log.info("daemon.joined", owner=leases.owner, others=await leases.count_others())
        yield leases


async def require_reachable_store(settings: Settings, leases: Leases) -> None:
    """Raise `UsageError` beside another daemon where passages are on this machine. Raises `StoreError`."""
    if settings.knowledge.store.provider == "weaviate" or not stored_sources(settings.sources):
        return
    if await leases.count_others():
        # One that died is still in the list for the length of its lease.
        _log.info("daemon.waiting", why="another daemon answers from this journal, or just died")
        await asyncio.sleep(leases.lease_s)
    if await leases.count_others():
        raise UsageError(LOCAL_STORE)


@asynccontextmanager
async def share_work(
    leases: Leases | None, share: Callable[[ClaimRepository], ClaimQueue], database: Database
) -> AsyncIterator[Sharing | None]:
    """Take part in the work for the length of the block; what is unfinished at its end is left to the others.

    `share` is that of the inbox.
    """
    if leases is None:
        yield None
        return
    claims = ClaimRepository(database)
    try:
        yield Sharing(leases, share(claims))
    finally:
        try:
            await claims.release_all()
        except StoreError as error:
            # The lease of this daemon runs out.
            _log.error("claims.not_released", error=str(error))
