"""What the events have told about threads: where the bot answered, what was said, what was deleted.

Slack's own record of a thread may be asked for once a minute only, so it is kept here as it goes by. All of it is
bounded; what must survive a restart is asked of the journal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from bots.slack.convert import Deleted
from core.types import ConversationKey, Message

KEPT = 2000
QUOTED_CHARS = 1000

# Whether the bot has answered in a conversation before.
AnsweredIn = Callable[[ConversationKey], Awaitable[bool]]


class Memory:
    """The recent past of all channels."""

    def __init__(self, answered_in: AnsweredIn) -> None:
        self._answered_in = answered_in
        self._answered: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._said: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._deleted: OrderedDict[tuple[str, str], str] = OrderedDict()

    def answered(self, channel: str, thread_ts: str) -> None:
        """Note that the bot answers in a thread."""
        _keep(self._answered, (channel, thread_ts), "")

    def delete(self, deleted: Deleted) -> None:
        """Note that a message is gone."""
        _keep(self._deleted, (deleted.channel, deleted.ts), "")
        self._said.pop((deleted.channel, deleted.ts), None)

    def is_gone(self, channel: str, ts: str) -> bool:
        """Say whether a message was deleted, as far as is known."""
        return (channel, ts) in self._deleted

    async def placed(self, message: Message, *, to_us: bool) -> Message:
        """Return the message as part of its thread.

        A follow-up in a thread that the bot answered in is addressed, unless it is for somebody else (`to_us`). In
        another thread, what the thread began with is quoted. Raises `StoreError` when the journal cannot be read.
        """
        channel, thread = message.key.chat, message.key.thread
        _keep(self._said, (channel, message.id), message.text[:QUOTED_CHARS])
        if message.private or not message.reply_to:
            return message
        if await self._ours(message.key):
            return replace(message, addressed=message.addressed or to_us)
        return replace(message, quoted=self._said.get((channel, thread), ""))

    async def _ours(self, key: ConversationKey) -> bool:
        place = (key.chat, key.thread)
        if place not in self._answered and await self._answered_in(key):
            _keep(self._answered, place, "")
        return place in self._answered


def _keep(kept: OrderedDict[tuple[str, str], str], place: tuple[str, str], text: str) -> None:
    kept[place] = text
    kept.move_to_end(place)
    if len(kept) > KEPT:
        kept.popitem(last=False)
