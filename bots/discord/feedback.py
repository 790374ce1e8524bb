"""Thumbs on Discord: buttons below an answer, and a press as a message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.discord.application_commands import manages
from bots.discord.connection import Acknowledged, Unreachable
from bots.discord.convert import Identity, Ignored, place_of, sent_at
from bots.discord.history import deliver
from core.messaging.feedback.rating_buttons import Offer, offered, press, read_button
from core.observability.logs import logger
from core.types import Message, Reply

if TYPE_CHECKING:
    from bots.discord.client import Client
    from bots.discord.connection import Pace
    from core.ports import Receive

PRESSED = 3
HIDDEN = 1 << 6
ROW, BUTTON, GREY = 1, 2, 2
IN_A_ROW = 5


def to_press(event: Mapping[str, Any], me: Identity) -> Message | Ignored:
    """Convert a press of a button, or say why it is none of ours.

    `reference` holds what acknowledges it, `interaction` and `token`, the `channel`, whether the button stands
    below a message that only who pressed it sees (`hidden`), and `administrator` where the author manages the server.
    """
    read = read_button(event["data"].get("custom_id"))
    if read is None:
        return Ignored("a press of a button that is not ours", expected=False)
    place = place_of({"guild_id": event.get("guild_id"), **event["channel"]})
    member = event.get("member") or {}
    author = member.get("user") or event["user"]
    name = member.get("nick") or author.get("global_name") or author.get("username") or "somebody"
    return press(
        *read,
        number=str(event["id"]),
        platform="discord",
        chat=place.chat,
        author_id=str(author["id"]),
        author=str(name),
        at=sent_at(str(event["id"])),
        bot=me.id,
        private=place.private,
        reference={
            "channel": place.channel,
            "interaction": str(event["id"]),
            "token": str(event["token"]),
            "hidden": bool(int(event["message"].get("flags") or 0) & HIDDEN),
            **({"administrator": True} if manages(member.get("permissions")) else {}),
        },
    )


async def take_press(event: Mapping[str, Any], me: Identity, receive: Receive, pace: Pace) -> None:
    """Make a press safe; Discord delivers it once."""
    try:
        message = to_press(event, me)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        logger(__name__).warning("discord.press_malformed", error=repr(error)[:300])
        return
    if isinstance(message, Ignored):
        logger(__name__).warning("discord.press_skipped", reason=message.reason)
        return
    await deliver(receive, message, pace)


def components(buttons: Sequence[Offer]) -> list[dict[str, Any]]:
    """Return buttons as Discord takes them, in rows."""
    made = [{"type": BUTTON, "style": GREY, "label": one.label, "custom_id": one.data} for one in buttons]
    return [{"type": ROW, "components": made[at : at + IN_A_ROW]} for at in range(0, len(made), IN_A_ROW)]


class PressSink:
    """Acknowledges one press by a note that only who pressed sees, with the buttons that follow."""

    def __init__(self, client: Client, message: Message, pace: Pace) -> None:
        self._client = client
        self._reference = message.reference
        self._buttons = offered(message)
        self._pace = pace

    async def open(self) -> None:
        """Do nothing: the note itself is the acknowledgement."""

    async def update(self, text: str) -> None:
        """Do nothing: the note is shown once."""

    async def finish(self, reply: Reply) -> None:
        """Show the note, in the place of an earlier one where the button stands below that."""
        await self._show(reply.text, components(self._buttons))

    async def fail(self, text: str) -> None:
        """Show why nothing was changed."""
        await self._show(text, [])

    async def _show(self, text: str, below: Sequence[Mapping[str, Any]]) -> None:
        interaction, token = str(self._reference["interaction"]), str(self._reference["token"])
        instead = bool(self._reference.get("hidden"))
        async with asyncio.timeout(self._pace.acknowledge_s):
            while True:
                try:
                    await self._client.answer_press(interaction, token, text, below, instead=instead)
                except Acknowledged:
                    # A try whose answer was lost.
                    return
                except Unreachable as failure:
                    logger(__name__).debug("discord.acknowledgement_lost", error=str(failure))
                    await asyncio.sleep(self._pace.backoff(1) / 4)
                else:
                    return
