"""The Telegram adapter in tests: its settings, its offsets, and updates as messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bots.common.events import IgnoredEvent
from bots.telegram.adapter import load_client
from bots.telegram.connection import TelegramIntervals
from bots.telegram.convert import Identity, to_message
from core.errors import StoreError
from core.settings import Secret, TelegramSettings
from core.types import Message
from tests.support.peers.telegram import TelegramPeer

PACE = TelegramIntervals(
    poll_s=1, retry_s=0.02, max_retry_s=0.1, edit_s=0.05, draft_s=0.02, typing_s=0.05, retry_timeout_s=25
)


class Offsets:
    """Offsets that survive the adapter, as a journal's do."""

    def __init__(self) -> None:
        self.saved: list[int] = []
        self.refusals = 0

    async def load(self, name: str) -> int | None:
        return self.saved[-1] if self.saved else None

    async def save(self, name: str, position: int) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the disk is full")
        self.saved.append(position)


def settings(peer: TelegramPeer, folder: Path, token: str = "") -> TelegramSettings:
    path = folder / "token"
    path.write_text((token or peer.token) + "\n")
    return TelegramSettings(token=Secret(file=path), api_url=peer.api_url or "http://127.0.0.1:9")


# Slower than `PACE`, so that a test can look at what is shown in between.
SINK_PACE = TelegramIntervals(
    poll_s=1, retry_s=0.02, max_retry_s=0.1, edit_s=0.1, draft_s=0.05, typing_s=0.1, retry_timeout_s=25
)


GROUP = -100
PERSON = 7
ME = Identity(42, "Kimas_Bot")
CLIENT = load_client().connect("42:x", "http://127.0.0.1:1")


def convert(raw: dict[str, Any], kind: str = "message") -> Message | IgnoredEvent:
    return to_message(CLIENT.parse_update({"update_id": 1, kind: raw}), ME)
