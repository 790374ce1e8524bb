"""Rating buttons on Discord: buttons below an answer, and a click as a message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.connection import Unreachable
from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.discord.connection import AlreadyAcknowledged, DiscordIntervals
from bots.discord.convert import Identity, Location, to_interaction
from bots.discord.history import deliver
from core.messaging.feedback.rating_buttons import get_buttons, is_below_note, read_button, to_press, to_reaction
from core.observability.logs import get_logger
from core.ports import MessageHandler
from core.types import Button, ConversationKey, Message, Reply

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

_log = get_logger(__name__)

MESSAGE_COMPONENT = 3
REACTION_EVENTS = ("MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE")
EPHEMERAL = 1 << 6
ACTION_ROW = 1
BUTTON = 2
SECONDARY_STYLE = 2
BUTTONS_PER_ROW = 5


def from_button_click(event: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a click on a button, or return why it is ignored.

    `reference` holds the values of a slash command's, and `hidden`: the button is below a note that only its presser
    sees.
    """
    choice_and_question = read_button(event["data"].get("custom_id"))
    if choice_and_question is None:
        return IgnoredEvent("a press of a button that is not ours", is_expected=False)
    message = to_interaction(event, me)
    # An answer may be for the asker alone, too: no note takes its place.
    is_hidden = bool(int(event["message"].get("flags") or 0) & EPHEMERAL) and is_below_note(choice_and_question[0])
    return to_press(replace(message, reference={**message.reference, "hidden": is_hidden}), *choice_and_question)


def from_reaction(
    kind: str, event: Mapping[str, Any], me: Identity, location: Location | None
) -> Message | IgnoredEvent:
    """Convert an emoji below a message, or its removal, or return why it is ignored. Raises `KeyError` and the like."""
    user = str(event["user_id"])
    author = str(event.get("message_author_id") or me.id)
    if user == me.id or author != me.id:
        return IgnoredEvent("a reaction to nothing of ours")
    # Some bots put the same emoji below every message.
    if ((event.get("member") or {}).get("user") or {}).get("bot"):
        return IgnoredEvent("a reaction of a bot")
    chat = location.chat if location else str(event["channel_id"])
    message_id = str(event["message_id"])
    moment = datetime.now(UTC)
    press = Message(
        f"reaction {message_id} {user} {moment.timestamp():.6f}",
        ConversationKey("discord", chat),
        user,
        user,
        "",
        moment,
        bot=me.id,
        private=location is not None and location.is_alone,
    )
    emoji = str(event["emoji"].get("name") or "")
    reaction = to_reaction(press, emoji, message_id, is_removed=kind == "MESSAGE_REACTION_REMOVE")
    return reaction or IgnoredEvent("a reaction that rates nothing")


async def handle_press(
    convert: Callable[[], Message | IgnoredEvent], receive: MessageHandler, intervals: DiscordIntervals
) -> None:
    """Make a click or a reaction safe; Discord delivers it once."""
    try:
        message = convert()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        _log.warning("discord.press_malformed", error=repr(error)[:300])
        return
    if isinstance(message, IgnoredEvent):
        log = _log.debug if message.is_expected else _log.warning
        log("discord.press_skipped", reason=message.reason)
        return
    await deliver(receive, message, intervals)


def to_components(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Return buttons as Discord takes them, in rows."""
    button_components = [
        {"type": BUTTON, "style": SECONDARY_STYLE, "label": button.label, "custom_id": button.data}
        for button in buttons
    ]
    return [
        {"type": ACTION_ROW, "components": button_components[start : start + BUTTONS_PER_ROW]}
        for start in range(0, len(button_components), BUTTONS_PER_ROW)
    ]


class DiscordRatingSink(FinalTextSink):
    """Acknowledges one click by a note that only that user sees, with further buttons.

    It replaces the earlier note if the button is below one.
    """

    def __init__(self, client: DiscordClient, message: Message, intervals: DiscordIntervals) -> None:
        self._client = client
        self._reference = message.reference
        self._buttons = get_buttons(message)
        self._intervals = intervals

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        interaction = str(self._reference["interaction"])
        token = str(self._reference["token"])
        components = [] if is_error else to_components(self._buttons)
        replace_original = bool(self._reference.get("hidden"))
        await acknowledge(
            lambda: self._client.respond_to_button(
                interaction, token, reply.text, components, replace_original=replace_original
            ),
            self._intervals,
        )


async def acknowledge(call: Callable[[], Awaitable[None]], intervals: DiscordIntervals) -> None:
    """Acknowledge an interaction; if the response was lost, try again.

    Raises `TimeoutError`, or `Unreachable` with what was wrong with the last try.
    """
    last_error: Unreachable | None = None
    try:
        async with asyncio.timeout(intervals.acknowledge_timeout_s):
            while True:
                try:
                    await call()
                except AlreadyAcknowledged:
                    # The answer to an earlier try was lost.
                    return
                except Unreachable as error:
                    last_error = error
                    _log.debug("discord.acknowledgement_lost", error=str(error))
                    await asyncio.sleep(intervals.backoff(1) / 4)
                else:
                    return
    except TimeoutError:
        if last_error:
            raise last_error from None
        raise
