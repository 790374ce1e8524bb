"""What the events have shown of threads: where the bot answered, what was written, what was deleted.

A thread is read from Slack when somebody mentions the bot in it; where that fails, what arrived here stands for it. All
of it is bounded; what must survive a restart is read from the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from bots.common.attachments import select_readable
from bots.common.caches import BoundedDict
from bots.common.events import MessageDeletion
from bots.common.visible_text import join_paragraphs
from core.errors import PlatformError
from core.observability.logs import get_logger
from core.types import Attachment, ConversationKey, Message

_log = get_logger(__name__)

MAX_ENTRIES = 2000
QUOTED_CHARS = 1000
# Slack waits three seconds for the acknowledgement of the event.
READ_TIMEOUT_S = 1.5

# Whether the bot has answered in a conversation before.
HasAnswered = Callable[[ConversationKey], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """A message of a thread, as people see it, with the ids of those who wrote it or what is shared with it."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    author_ids: tuple[str, ...] = ()


# Returns what stands in a thread (channel, thread_ts) before a message, oldest first. Raises `PlatformError`.
ReadThread = Callable[[str, str, str], Awaitable[Sequence[ThreadMessage]]]


class ThreadCache:
    """The recent past of all channels."""

    def __init__(self, has_answered: HasAnswered, read_thread: ReadThread | None = None) -> None:
        self._has_answered = has_answered
        self._read_thread = read_thread
        self._answered_threads = BoundedDict[tuple[str, str], None](MAX_ENTRIES)
        self._messages = BoundedDict[tuple[str, str], ThreadMessage](MAX_ENTRIES)
        self._deleted_messages = BoundedDict[tuple[str, str], None](MAX_ENTRIES)

    def mark_answered(self, channel: str, thread_ts: str) -> None:
        """Note that the bot answers in a thread."""
        self._answered_threads[channel, thread_ts] = None

    def mark_deleted(self, deletion: MessageDeletion) -> None:
        """Note that a message is gone."""
        key = deletion.chat, deletion.message_id
        self._deleted_messages[key] = None
        self._messages.pop(key, None)

    def is_deleted(self, channel: str, ts: str) -> bool:
        """Return whether a message was deleted, as far as is known."""
        return (channel, ts) in self._deleted_messages

    async def with_thread_context(self, message: Message) -> Message:
        """Return the message as part of its thread.

        In a thread that the bot has not answered in, what the thread began with is quoted, then its last messages, then
        what is shared with this one; and the first one's pictures count as the message's where that has none of its
        own. Raises `StoreError` when the journal cannot be read.
        """
        channel = message.key.chat
        thread_ts = message.key.thread
        carried_text = message.quoted[: QUOTED_CHARS // 2]
        self._messages[channel, message.id] = ThreadMessage(
            join_paragraphs(message.text, carried_text)[:QUOTED_CHARS],
            select_readable(message.attachments),
            author_ids=(message.author_id, *message.quoted_authors),
        )
        if message.private or not message.reply_to or await self._is_bot_thread(message.key):
            return message
        root = self._messages.get((channel, thread_ts), ThreadMessage(""))
        messages = (await self._read(message) if message.addressed else ()) or [root]
        quoted_text = _quote([item.text for item in messages], QUOTED_CHARS - len(carried_text))
        author_ids = [author_id for item in messages for author_id in item.author_ids]
        return replace(
            message,
            quoted=join_paragraphs(quoted_text[: QUOTED_CHARS - len(carried_text)], carried_text),
            quoted_authors=tuple(sorted({*message.quoted_authors, *author_ids} - {message.author_id})),
            attachments=message.attachments or select_readable(messages[0].attachments),
        )

    async def _read(self, message: Message) -> Sequence[ThreadMessage]:
        if self._read_thread is None:
            return ()
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                return await self._read_thread(message.key.chat, message.key.thread, message.id)
        except (PlatformError, TimeoutError) as error:
            _log.info("slack.thread_not_read", error=str(error) or "it took too long")
            return ()

    async def _is_bot_thread(self, key: ConversationKey) -> bool:
        thread_key = (key.chat, key.thread)
        if thread_key not in self._answered_threads and await self._has_answered(key):
            self._answered_threads[thread_key] = None
        return thread_key in self._answered_threads


def _quote(texts: Sequence[str], max_chars: int) -> str:
    r"""Return the first text, and as many of the last ones as there is room for, in their order.

    >>> _quote(["Deploys fail.", "Since when?", "Since 2.1."], 100)
    'Deploys fail.\n\nSince when?\n\nSince 2.1.'
    """
    first_text = texts[0][:max_chars]
    last_texts = list[str]()
    remaining_chars = max_chars - len(first_text)
    for text in reversed(texts[1:]):
        remaining_chars -= len(text) + 2
        if remaining_chars < 0:
            break
        last_texts.append(text)
    return join_paragraphs(first_text, *reversed(last_texts))
