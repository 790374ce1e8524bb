"""Rating buttons on Telegram: inline buttons below an answer, and a click as a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.connection import NotEditable, RetryLater, Unreachable
from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.common.settings_menu import to_menu_message
from bots.telegram.connection import NotModified
from bots.telegram.convert import Identity
from core.errors import MessageDeleted
from core.messaging.feedback.handoff import mentioned_users
from core.messaging.feedback.rating_buttons import (
    get_buttons,
    make_rating_buttons,
    read_button,
    to_press,
    to_reaction,
)
from core.observability.logs import get_logger
from core.types import STOP, Button, ConversationKey, Message, Reply

if TYPE_CHECKING:
    from aiogram.types import CallbackQuery, MaybeInaccessibleMessageUnion

    from bots.telegram.client import TelegramClient

_log = get_logger(__name__)

# What Telegram shows in answer to a click.
MAX_NOTICE_CHARS = 200
BUTTONS_PER_ROW = 2


def from_callback_query(query: CallbackQuery, me: Identity) -> Message | IgnoredEvent:
    """Convert a press of an inline button, or return why it is ignored.

    `reference` holds `query`, which is answered, `chat_id` and `message_id` of what the button stands below, and
    `keyboard`: the rows of buttons there, each with its label and its data.
    """
    message = _to_message(query, query.message, me) if query.message is not None else None
    choice_and_question = read_button(query.data)
    if message is not None and choice_and_question is not None:
        return to_press(message, *choice_and_question)
    choice = to_menu_message(message, query.data or "") if message is not None else None
    return choice or IgnoredEvent("a press of a button that is not ours", is_expected=False)


def _to_message(query: CallbackQuery, button_message: MaybeInaccessibleMessageUnion, me: Identity) -> Message:
    keyboard = getattr(button_message, "reply_markup", None)
    rows = keyboard.inline_keyboard if keyboard is not None else ()
    return Message(
        query.id,
        ConversationKey("telegram", str(button_message.chat.id)),
        str(query.from_user.id),
        query.from_user.full_name,
        "",
        datetime.now(UTC),
        bot=str(me.id),
        private=button_message.chat.type == "private",
        reference={
            "query": query.id,
            "chat_id": button_message.chat.id,
            "message_id": button_message.message_id,
            "keyboard": [[[button.text, button.callback_data or ""] for button in row] for row in rows],
        },
    )


def from_reaction(update: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert an update about emoji below a message, or return why it is ignored. Raises `KeyError` and the like."""
    event = update["message_reaction"]
    user = event.get("user")
    if user is None:
        return IgnoredEvent("a reaction without a person")
    old, new = ({str(item.get("emoji")) for item in event[name]} for name in ("old_reaction", "new_reaction"))
    press = Message(
        f"reaction {update['update_id']}",
        ConversationKey("telegram", str(event["chat"]["id"])),
        str(user["id"]),
        str(user.get("first_name") or user["id"]),
        "",
        datetime.now(UTC),
        bot=str(me.id),
        private=event["chat"].get("type") == "private",
    )
    reactions = [to_reaction(press, emoji, str(event["message_id"])) for emoji in sorted(new - old)] + [
        to_reaction(press, emoji, str(event["message_id"]), is_removed=True) for emoji in sorted(old - new)
    ]
    return next(filter(None, reactions), None) or IgnoredEvent("a reaction that rates nothing")


def from_stop(update: Mapping[str, Any], me: Identity, get_question: Callable[[int, int], str]) -> Message:
    """Convert an update about a draft that its reader has stopped; `get_question` knows what a draft answers.

    Raises `KeyError` and the like.
    """
    event = update["stopped_message_generation"]
    # In a private chat the chat is the person.
    person = int(event["chat"]["id"])
    press = Message(
        f"stop {update['update_id']}",
        ConversationKey("telegram", str(person)),
        str(person),
        str(event["chat"].get("first_name") or person),
        "",
        datetime.now(UTC),
        bot=str(me.id),
        private=event["chat"].get("type") == "private",
    )
    return to_press(press, STOP, get_question(person, int(event["draft_id"])))


def to_button_rows(buttons: Sequence[Button]) -> list[list[tuple[str, str]]]:
    """Return buttons as rows of (label, data)."""
    starts = range(0, len(buttons), BUTTONS_PER_ROW)
    return [[(button.label, button.data) for button in buttons[start : start + BUTTONS_PER_ROW]] for start in starts]


def render_mentions(message: Message) -> str:
    """Return the HTML mentions that a handoff begins with; nothing for any other reply."""
    people = [
        user if user.startswith("@") else f'<a href="tg://user?id={user}">{user}</a>'
        for user in mentioned_users(message)
    ]
    return f"{' '.join(people)}\n" if people else ""


class TelegramRatingSink(FinalTextSink):
    """Answers one click: with a notice over the chat, and further buttons below the rating."""

    def __init__(self, client: TelegramClient, message: Message) -> None:
        self._client = client
        self._message = message
        self._reference = message.reference

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        await self._client.answer_callback_query(str(self._reference["query"]), reply.text[:MAX_NOTICE_CHARS])
        further_buttons = () if is_error else get_buttons(self._message)
        # Everybody sees the same buttons, so they are added once and stay.
        if further_buttons and len(self._reference.get("keyboard", ())) <= 1:
            buttons = (*make_rating_buttons(self._message.reply_to), *further_buttons)
            target = int(self._reference["chat_id"]), int(self._reference["message_id"])
            try:
                await self._client.edit_buttons(*target, to_button_rows(buttons))
            except NotModified:
                # Somebody else clicked first.
                return
            except (RetryLater, Unreachable, NotEditable, MessageDeleted) as error:
                _log.info("telegram.buttons_not_shown", error=str(error))
