"""What the events have told about threads: where the bot answered, what was said, what was deleted.

Slack's own record of a thread may be asked for once a minute only, so it is kept here as it goes by. All of it is
bounded; what must survive a restart is asked of the journal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from bots.slack.convert import Deleted
from core.types import Attachment, ConversationKey, Message

KEPT = 2000
QUOTED_CHARS = 1000
Key = TypeVar("Key")
Value = TypeVar("Value")

# Whether the bot has answered in a conversation before.
AnsweredIn = Callable[[ConversationKey], Awaitable[bool]]


class Memory:
    """The recent past of all channels."""

    def __init__(self, answered_in: AnsweredIn) -> None:
        self._answered_in = answered_in
        self._answered: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._said: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._pictures: OrderedDict[tuple[str, str], tuple[Attachment, ...]] = OrderedDict()
        self._deleted: OrderedDict[tuple[str, str], str] = OrderedDict()

    def answered(self, channel: str, thread_ts: str) -> None:
        """Note that the bot answers in a thread."""
        keep(self._answered, (channel, thread_ts), "")

    def delete(self, deleted: Deleted) -> None:
        """Note that a message is gone."""
        keep(self._deleted, (deleted.channel, deleted.ts), "")
        self._said.pop((deleted.channel, deleted.ts), None)
        self._pictures.pop((deleted.channel, deleted.ts), None)

    def is_gone(self, channel: str, ts: str) -> bool:
        """Say whether a message was deleted, as far as is known."""
        return (channel, ts) in self._deleted

    async def placed(self, message: Message) -> Message:
        """Return the message as part of its thread.

        In a thread that the bot has not answered in, what the thread began with is quoted, and its pictures count as
        the message's where that has none of its own. Raises `StoreError` when the journal cannot be read.
        """
        channel, thread = message.key.chat, message.key.thread
        keep(self._said, (channel, message.id), message.text[:QUOTED_CHARS])
        if pictures := tuple(one for one in message.attachments if one.kind == "picture"):
            keep(self._pictures, (channel, message.id), pictures)
        if message.private or not message.reply_to or await self._ours(message.key):
            return message
        began = (channel, thread)
        attachments = message.attachments or self._pictures.get(began, ())
        return replace(message, quoted=self._said.get(began, ""), attachments=attachments)

    async def _ours(self, key: ConversationKey) -> bool:
        place = (key.chat, key.thread)
        if place not in self._answered and await self._answered_in(key):
            keep(self._answered, place, "")
        return place in self._answered


def keep(kept: OrderedDict[Key, Value], name: Key, value: Value) -> None:
    """Note something as the newest, and let go of the oldest where it is too much."""
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > KEPT:
        kept.popitem(last=False)
