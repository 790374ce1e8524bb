"""The dry run: everything is read and decided as always, and what would be said goes to the log alone.

It works on a copy of the journal, made when it starts, so that a later run takes nothing for answered that nobody saw.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from core.errors import PlatformError, StoreError
from core.messaging.gate.human_activity import KnowsTyping
from core.messaging.multi_bot import Identified, bot_of, label_of
from core.messaging.policy.permissions import KnowsAdministrators
from core.observability.logs import logger
from core.ports import Adapter, Delivery, Fetching, Receive, Sink
from core.types import Attachment, ConversationKey, Message, Reply

COPY = "dry-run.db"
WITHHELD = "dry run"


class DryRun:
    """An adapter that listens as another one does, and says nothing."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name = adapter.name
        self.label = label_of(adapter)
        self.inherits = not isinstance(adapter, Identified) or adapter.inherits

    @property
    def bot(self) -> str:
        """Which bot the adapter is."""
        return bot_of(self._adapter)

    async def open(self) -> None:
        """Connect as the adapter does."""
        await self._adapter.open()

    async def listen(self, receive: Receive) -> None:
        """Deliver what the adapter delivers."""
        await self._adapter.listen(receive)

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that writes into the log."""
        return LoggedSink(message, delivery)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Fetch what is attached, as the adapter does. Raises `PlatformError`, also where it cannot."""
        if not isinstance(self._adapter, Fetching):
            raise PlatformError(f"{self.name} hands over no files")
        return await self._adapter.fetch(attachment, most)

    async def is_administrator(self, message: Message) -> bool:
        """Say what the adapter says; no where it does not know. Raises `PlatformError`."""
        return isinstance(self._adapter, KnowsAdministrators) and await self._adapter.is_administrator(message)

    def is_typing(self, key: ConversationKey) -> bool:
        """Say what the adapter says; no where it does not know."""
        return isinstance(self._adapter, KnowsTyping) and self._adapter.is_typing(key)

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._adapter.close()


class LoggedSink:
    """Writes one reply into the log, once it is complete, and tells the journal as if it had been posted."""

    def __init__(self, message: Message, delivery: Delivery) -> None:
        self._message = message
        self._delivery = delivery

    async def open(self) -> None:
        """Show nothing."""

    async def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, reply: Reply) -> None:
        """Log the reply with the titles of its sources."""
        await self._withhold(reply.text, [one.title for one in reply.citations])

    async def fail(self, text: str) -> None:
        """Log what would have been said in place of a reply."""
        await self._withhold(text, [])

    async def _withhold(self, text: str, sources: list[str]) -> None:
        # A comment takes its last look here, and may still be held back.
        await self._delivery.posting()
        logger(__name__).info(
            "reply.withheld", asked_by=self._message.author, asked=self._message.text, text=text, sources=sources
        )
        await self._delivery.posted(WITHHELD)


async def copy_journal(data_dir: Path) -> Path:
    """Copy the journal as it stands, in place of an older copy, and return its path. Raises `StoreError`."""
    source, copy = data_dir / "journal.db", data_dir / COPY
    try:
        await asyncio.to_thread(_copy, source, copy)
    except (sqlite3.Error, OSError) as fault:
        raise StoreError(f"{source} cannot be copied to {copy} for a dry run: {fault}") from fault
    return copy


async def remove_copy(data_dir: Path) -> None:
    """Remove the copy: nothing else would ever forget what people said in it."""
    await asyncio.to_thread(_remove, data_dir / COPY)


def _remove(copy: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        copy.with_name(copy.name + ending).unlink(missing_ok=True)


def _copy(source: Path, copy: Path) -> None:
    _remove(copy)
    if not source.exists():
        return
    with closing(sqlite3.connect(source)) as old:
        # Only its owner may read what people said.
        copy.touch(mode=0o600)
        with closing(sqlite3.connect(copy)) as new:
            old.backup(new)
