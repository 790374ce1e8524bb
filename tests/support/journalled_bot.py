"""A bot on one platform with its inbox and journal, whose answers a test writes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import select

from core.messaging.inbox import Inbox
from core.ports import Sink
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Citation, Question, Reply
from tests.support.fixtures import settings as make_settings
from tests.support.waiting import until
from tests.support.wiring import make_processor


class MemoryPositions:
    """Positions that last as long as a test."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    async def load(self, name: str) -> int | None:
        return self.by_name.get(name)

    async def save(self, name: str, position: int) -> None:
        self.by_name[name] = position

    async def find(self, prefix: str, position: int | None = None) -> Sequence[str]:
        names = [name for name, value in self.by_name.items() if position in (None, value)]
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    async def find_old_messages(self, author_id: str) -> Sequence[tuple[str, str, str]]:
        return []

    async def close_thread(self, chat: str, thread: str) -> int:
        return 0


class JournalledBot(ABC):
    """An adapter on a peer. `changes` are those of the configuration, `hold` delays answers until it is set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says = "Use pip."
        self.citations: Sequence[Citation] = ()
        self.finds_nothing = False
        self.questions: list[Question] = []
        self.hold: asyncio.Event | None = None
        self.changes: dict[str, object] = {}

    @abstractmethod
    def make_adapter(self, configuration: Settings) -> Any:
        """Return the adapter on the peer."""

    @abstractmethod
    async def until_listening(self) -> None:
        """Wait until the peer is listened to."""

    async def start(self) -> None:
        self.journal = await Journal.open(self.folder / "journal.db")
        configuration = make_settings(**self.changes)  # type: ignore[arg-type]
        self.adapter = self.make_adapter(configuration)
        await self.adapter.open()
        self.inbox: Inbox = make_processor(configuration, self.journal, self._answer)
        await self.inbox.resume(self.adapter)
        self._task = asyncio.create_task(self.adapter.listen(self.inbox.handler_for(self.adapter)))
        await self.until_listening()

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.inbox.drain(0)
        await self.adapter.close()
        await self.journal.close()

    async def restart(self, **changes: object) -> None:
        """Stop, and start with other settings."""
        await self.stop()
        self.changes = {**self.changes, **changes}
        await self.start()

    async def _answer(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question)
        await sink.open()
        if self.hold:
            await self.hold.wait()
        reply = Reply(self.says, tuple(self.citations), found_nothing=self.finds_nothing)
        await sink.finish(reply)
        return reply

    async def outcome(self, message_id: str | int) -> tuple[str, str]:
        """Wait until a message is answered, silent or failed; return that, and the reason."""
        return await self._read(str(message_id), ("answered", "silent", "failed"))

    async def heard(self, message_id: str | int) -> None:
        """Wait until a message is in the journal."""
        await self._read(str(message_id), ())

    async def _read(self, message_id: str, states: Sequence[str]) -> tuple[str, str]:
        query = select(messages.c.state, messages.c.reason).where(messages.c.id == message_id)
        async with asyncio.timeout(30):
            while True:
                async with self.journal.database.connect() as connection:
                    row = (await connection.execute(query)).first()
                if row and (not states or row.state in states):
                    return str(row.state), str(row.reason or "")
                await asyncio.sleep(0.01)

    async def skipped(self, reason: str) -> None:
        """Wait until the adapter has ignored something for this reason."""
        await until(lambda: any(reason in name for name in self.adapter.skipped))

    async def list_messages(self) -> set[str]:
        """Return the ids of the messages in the journal."""
        async with self.journal.database.connect() as connection:
            rows = (await connection.execute(select(messages.c.id))).fetchall()
        return {str(row.id) for row in rows}
