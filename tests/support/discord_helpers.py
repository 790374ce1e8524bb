"""What the Discord tests share: an adapter that listens to the peer, and what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from bots.discord.adapter import DiscordAdapter
from bots.discord.connection import DiscordIntervals
from core.errors import StoreError
from core.settings import DiscordSettings, Secret
from core.types import Message
from tests.support.peers.discord import DiscordPeer

# Short pauses, so that tests are fast, and long limits, so that none of them is a matter of how fast the machine is.
PACE = DiscordIntervals(
    retry_s=0.02,
    max_retry_s=0.1,
    edit_s=0.1,
    typing_s=0.1,
    retry_timeout_s=25,
    identify_delay_s=0.02,
    stable_after_s=0.5,
    acknowledge_timeout_s=30,
    unanswered_timeout_s=60,
)


class Positions:
    """Positions that survive the adapter, as a journal's do; `refusals` times they cannot be saved."""

    def __init__(self) -> None:
        self.saved: dict[str, int] = {}
        self.refusals = 0

    async def load(self, name: str) -> int | None:
        return self.saved.get(name)

    async def save(self, name: str, position: int) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the disk is full")
        self.saved[name] = position


class Inbox:
    """Takes messages, each id once; `refusals` times it fails instead."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.edits: list[Message] = []
        self.twice = 0
        self.refusals = 0
        self.arrived = asyncio.Event()

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def receive(self, message: Message) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the journal is locked")
        if message.is_edit:
            self.edits.append(message)
        elif message.id in [item.id for item in self.messages]:
            self.twice += 1
        else:
            self.messages.append(message)
        self.arrived.set()

    async def until(self, count: int, timeout: float = 30) -> None:
        await self.until_true(lambda: len(self.messages) >= count, timeout)

    async def until_true(self, true: Callable[[], bool], timeout: float = 30) -> None:
        async with asyncio.timeout(timeout):
            while not true():
                self.arrived.clear()
                await self.arrived.wait()


def settings(peer: DiscordPeer, folder: Path, token: str = "", **changes: object) -> DiscordSettings:
    path = folder / "token"
    path.write_text((token or peer.token) + "\n")
    return DiscordSettings.model_validate({"token": Secret(file=path), "api_url": peer.api_url, **changes})


@asynccontextmanager
async def listening(
    peer: DiscordPeer, adapter: DiscordAdapter, receive: Callable[[Message], Awaitable[None]]
) -> AsyncIterator[DiscordAdapter]:
    await adapter.open()
    task = asyncio.create_task(adapter.listen(receive))
    try:
        await peer.wait_until(lambda: bool(peer.gateway.live) or task.done(), 30)
        yield adapter
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await adapter.close()
