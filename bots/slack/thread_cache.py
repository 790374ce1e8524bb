"""What the events have shown of threads: where the bot answered, what was written, what was deleted.

Slack's own record of a thread may be asked for once a minute only, so messages are kept here as they arrive. All
of it is bounded; what must survive a restart is read from the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bots.common.attachments import select_pictures
from bots.common.caches import BoundedDict
from bots.common.events import MessageDeletion
from core.types import Attachment, ConversationKey, Message

MAX_ENTRIES = 2000
QUOTED_CHARS = 1000

# Whether the bot has answered in a conversation before.
HasAnswered = Callable[[ConversationKey], Awaitable[bool]]


class ThreadCache:
    """The recent past of all channels."""

    def __init__(self, has_answered: HasAnswered) -> None:
        self._has_answered = has_answered
        self._answered_threads = BoundedDict[tuple[str, str], None](MAX_ENTRIES)
        self._texts = BoundedDict[tuple[str, str], str](MAX_ENTRIES)
        self._pictures = BoundedDict[tuple[str, str], tuple[Attachment, ...]](MAX_ENTRIES)
        self._deleted_messages = BoundedDict[tuple[str, str], None](MAX_ENTRIES)

    def mark_answered(self, channel: str, thread_ts: str) -> None:
        """Note that the bot answers in a thread."""
        self._answered_threads[channel, thread_ts] = None

    def mark_deleted(self, deletion: MessageDeletion) -> None:
        """Note that a message is gone."""
        key = deletion.chat, deletion.message_id
        self._deleted_messages[key] = None
        self._texts.pop(key, None)
        self._pictures.pop(key, None)

    def is_deleted(self, channel: str, ts: str) -> bool:
        """Say whether a message was deleted, as far as is known."""
        return (channel, ts) in self._deleted_messages

    async def with_thread_context(self, message: Message) -> Message:
        """Return the message as part of its thread.

        In a thread that the bot has not answered in, what the thread began with is quoted, and its pictures count as
        the message's where that has none of its own. Raises `StoreError` when the journal cannot be read.
        """
        channel, thread_ts = message.key.chat, message.key.thread
        self._texts[channel, message.id] = message.text[:QUOTED_CHARS]
        if pictures := select_pictures(message.attachments):
            self._pictures[channel, message.id] = pictures
        if message.private or not message.reply_to or await self._is_bot_thread(message.key):
            return message
        thread_root = (channel, thread_ts)
        attachments = message.attachments or self._pictures.get(thread_root, ())
        return replace(message, quoted=self._texts.get(thread_root, ""), attachments=attachments)

    async def _is_bot_thread(self, key: ConversationKey) -> bool:
        thread_key = (key.chat, key.thread)
        if thread_key not in self._answered_threads and await self._has_answered(key):
            self._answered_threads[thread_key] = None
        return thread_key in self._answered_threads
