"""What the tests of the Slack adapter share: an adapter on a peer, an inbox, and deliveries that are noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bots.slack.adapter import SlackAdapter
from bots.slack.connection import SlackIntervals
from core.errors import StoreError
from core.settings import Secret, SlackSettings
from core.types import ConversationKey, Message
from tests.support.peers.slack import SlackPeer
from tests.support.waiting import until

# Short pauses, so that tests are fast, and long limits, so that none of them is a matter of how fast the machine is.
PACE = SlackIntervals(
    post_s=0.02,
    edit_s=0.05,
    append_s=0.05,
    ping_s=30,
    request_timeout_s=30,
    retry_s=0.02,
    max_retry_s=0.1,
    retry_timeout_s=25,
)


def settings(peer: SlackPeer, folder: Path, *, http: bool = False, **tokens: str) -> SlackSettings:
    values = {"bot": peer.bot_token, "app": peer.app_token, "secret": peer.signing_secret, **tokens}
    for name, value in values.items():
        (folder / name).write_text(value + "\n")
    return SlackSettings(
        bot_token=Secret(file=folder / "bot"),
        app_token=None if http else Secret(file=folder / "app"),
        signing_secret=Secret(file=folder / "secret") if http else None,
        port=0,
        api_url=peer.api_url,
    )


class Threads:
    """The conversations that a journal would know answers in."""

    def __init__(self) -> None:
        self.known_keys: set[ConversationKey] = set()

    async def answered_in(self, key: ConversationKey) -> bool:
        return key in self.known_keys


class Inbox:
    """Takes messages once each, as the journal does; `refusals` times it fails instead."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.repeated_ids: list[str] = []
        self.refusals = 0

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def receive(self, message: Message) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the journal is locked")
        is_known = any((item.id, item.key.chat) == (message.id, message.key.chat) for item in self.messages)
        if is_known and not message.is_edit:
            self.repeated_ids.append(message.id)
        else:
            self.messages.append(message)

    async def until(self, count: int, timeout: float = 30) -> Message:
        await until(lambda: len(self.messages) >= count)
        return self.messages[count - 1]


@asynccontextmanager
async def listening(adapter: SlackAdapter, inbox: Inbox) -> AsyncIterator[SlackAdapter]:
    await adapter.open()
    task = asyncio.create_task(adapter.listen(inbox.receive))
    try:
        yield adapter
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await adapter.close()
