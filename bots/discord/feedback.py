"""Rating buttons on Discord: buttons below an answer, and a click as a message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.discord.application_commands import is_server_admin
from bots.discord.connection import AlreadyAcknowledged, Unreachable
from bots.discord.convert import Identity, snowflake_time, to_location
from bots.discord.history import deliver
from core.messaging.feedback.rating_buttons import get_buttons, read_button, to_rating_message
from core.observability.logs import get_logger
from core.types import Button, Message, Reply

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient
    from bots.discord.connection import DiscordIntervals
    from core.ports import MessageHandler

MESSAGE_COMPONENT = 3
EPHEMERAL = 1 << 6
ACTION_ROW, BUTTON, SECONDARY_STYLE = 1, 2, 2
BUTTONS_PER_ROW = 5


def from_button_click(event: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a click on a button, or return why it is ignored.

    `reference` holds what acknowledges it, `interaction` and `token`, the `channel`, whether the button stands
    below a message that only who pressed it sees (`hidden`), and `administrator` where the author manages the server.
    """
    choice_and_question = read_button(event["data"].get("custom_id"))
    if choice_and_question is None:
        return IgnoredEvent("a press of a button that is not ours", is_expected=False)
    location = to_location({"guild_id": event.get("guild_id"), **event["channel"]})
    member = event.get("member") or {}
    author = member.get("user") or event["user"]
    name = member.get("nick") or author.get("global_name") or author.get("username") or "somebody"
    return to_rating_message(
        *choice_and_question,
        message_id=str(event["id"]),
        platform="discord",
        chat=location.chat,
        author_id=str(author["id"]),
        author=str(name),
        sent_at=snowflake_time(str(event["id"])),
        bot=me.id,
        private=location.is_private,
        reference={
            "channel": location.channel,
            "interaction": str(event["id"]),
            "token": str(event["token"]),
            "hidden": bool(int(event["message"].get("flags") or 0) & EPHEMERAL),
            **({"administrator": True} if is_server_admin(member.get("permissions")) else {}),
        },
    )


async def handle_button_click(
    event: Mapping[str, Any], me: Identity, receive: MessageHandler, intervals: DiscordIntervals
) -> None:
    """Make a click safe; Discord delivers it once."""
    try:
        message = from_button_click(event, me)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        get_logger(__name__).warning("discord.press_malformed", error=repr(error)[:300])
        return
    if isinstance(message, IgnoredEvent):
        get_logger(__name__).warning("discord.press_skipped", reason=message.reason)
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
    """Acknowledges one click by a note that only that user sees, with further buttons."""

    def __init__(self, client: DiscordClient, message: Message, intervals: DiscordIntervals) -> None:
        self._client = client
        self._reference = message.reference
        self._buttons = get_buttons(message)
        self._intervals = intervals

    async def finish(self, reply: Reply) -> None:
        """Show the note, in the place of an earlier one where the button stands below that."""
        await self._show(reply.text, to_components(self._buttons))

    async def fail(self, text: str) -> None:
        """Show why nothing was changed."""
        await self._show(text, [])

    async def _show(self, text: str, components: Sequence[Mapping[str, Any]]) -> None:
        interaction, token = str(self._reference["interaction"]), str(self._reference["token"])
        replace_original = bool(self._reference.get("hidden"))
        async with asyncio.timeout(self._intervals.acknowledge_timeout_s):
            while True:
                try:
                    await self._client.respond_to_button(
                        interaction, token, text, components, replace_original=replace_original
                    )
                except AlreadyAcknowledged:
                    # The answer to an earlier try was lost.
                    return
                except Unreachable as error:
                    get_logger(__name__).debug("discord.acknowledgement_lost", error=str(error))
                    await asyncio.sleep(self._intervals.backoff(1) / 4)
                else:
                    return
