"""Thumbs on Telegram: inline buttons below an answer, and a press as a message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bots.telegram.client import NotEditable, NotModified, RetryLater, Unreachable
from bots.telegram.convert import Identity, Ignored
from core.errors import MessageGone
from core.messaging.feedback.escalation import called
from core.messaging.feedback.rating_buttons import Offer, offered, press, read_button, thumb_buttons
from core.observability.logs import logger
from core.types import Message, Reply

if TYPE_CHECKING:
    from aiogram.types import CallbackQuery

    from bots.telegram.client import Client

# What Telegram shows in answer to a press.
LONGEST_NOTICE = 200
IN_A_ROW = 2


def to_press(query: CallbackQuery, me: Identity) -> Message | Ignored:
    """Convert a press of an inline button, or say why it is none of ours.

    `reference` holds `query`, which is answered, `chat_id` and `message_id` of what the button stands below, and
    `rows`: how many rows of buttons are there.
    """
    read, below = read_button(query.data), query.message
    if read is None or below is None:
        return Ignored("a press of a button that is not ours", expected=False)
    keyboard = getattr(below, "reply_markup", None)
    return press(
        *read,
        number=query.id,
        platform="telegram",
        chat=str(below.chat.id),
        author_id=str(query.from_user.id),
        author=query.from_user.full_name,
        at=datetime.now(UTC),
        bot=str(me.id),
        private=below.chat.type == "private",
        reference={
            "query": query.id,
            "chat_id": below.chat.id,
            "message_id": below.message_id,
            "rows": len(keyboard.inline_keyboard) if keyboard is not None else 1,
        },
    )


def rows_of(buttons: Sequence[Offer]) -> list[list[tuple[str, str]]]:
    """Return buttons as rows of (label, data)."""
    starts = range(0, len(buttons), IN_A_ROW)
    return [[(one.label, one.data) for one in buttons[start : start + IN_A_ROW]] for start in starts]


def mentions(message: Message) -> str:
    """Return the HTML that a call begins with, which mentions whom it calls; nothing for any other reply."""
    people = [one if one.startswith("@") else f'<a href="tg://user?id={one}">{one}</a>' for one in called(message)]
    return f"{' '.join(people)}\n" if people else ""


class PressSink:
    """Answers one press: with a notice over the chat, and the buttons that follow below the thumbs."""

    def __init__(self, client: Client, message: Message) -> None:
        self._client = client
        self._message = message
        self._reference = message.reference

    async def open(self) -> None:
        """Do nothing: the answer itself is the first sign."""

    async def update(self, text: str) -> None:
        """Do nothing: a notice is shown once."""

    async def finish(self, reply: Reply) -> None:
        """Show the notice. Everybody sees the same buttons, so that they are added once and stay."""
        await self._client.notify(str(self._reference["query"]), reply.text[:LONGEST_NOTICE])
        following = offered(self._message)
        if following and self._reference.get("rows", 1) == 1:
            buttons = (*thumb_buttons(self._message.reply_to), *following)
            place = int(self._reference["chat_id"]), int(self._reference["message_id"])
            try:
                await self._client.show_buttons(*place, rows_of(buttons))
            except NotModified:
                # Somebody else's press was faster.
                return
            except (RetryLater, Unreachable, NotEditable, MessageGone) as failure:
                logger(__name__).info("telegram.buttons_not_shown", error=str(failure))

    async def fail(self, text: str) -> None:
        """Show why nothing was changed."""
        await self._client.notify(str(self._reference["query"]), text[:LONGEST_NOTICE])
