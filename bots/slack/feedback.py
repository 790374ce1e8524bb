"""Thumbs on Slack: buttons in blocks below an answer, and a press as a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.delivery_retry import Patience
from bots.slack.convert import Identity, Ignored
from bots.slack.render import split
from core.messaging.feedback.escalation import called
from core.messaging.feedback.rating_buttons import Offer, offered, press, read_button
from core.types import Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Client
    from bots.slack.errors import Pace

PRESSED = "block_actions"
# A section takes 3,000 characters, a message 50 blocks.
SECTION = 2900


def to_press(payload: Mapping[str, Any], me: Identity) -> Message | Ignored:
    """Convert a press of a button, or say why it is none of ours.

    `reference` holds `channel`, `user`, `response_url`, where the answer goes, and whether the button stands below a
    message that only who pressed it sees (`hidden`). Raises `KeyError` and the like for a malformed payload.
    """
    actions = payload["actions"]
    read = read_button(actions[0].get("value")) if len(actions) == 1 else None
    if read is None:
        return Ignored("a press of a button that is not ours", expected=False)
    user, container = payload["user"], payload.get("container") or {}
    channel = str(payload["channel"]["id"])
    return press(
        *read,
        number=str(payload["trigger_id"]),
        platform="slack",
        chat=channel,
        author_id=str(user["id"]),
        author=str(user.get("name") or user.get("username") or user["id"]),
        at=datetime.now(UTC),
        bot=me.user_id,
        private=channel.startswith("D"),
        reference={
            "channel": channel,
            "user": str(user["id"]),
            "response_url": str(payload["response_url"]),
            "hidden": container.get("is_ephemeral") is True,
        },
    )


def blocks_of(text: str, buttons: Sequence[Offer]) -> list[dict[str, Any]]:
    """Return mrkdwn with buttons below as blocks; none without buttons."""
    if not buttons:
        return []
    sections: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}, "expand": True}
        for part in split(text, SECTION)
    ]
    # Blocks need names of their own within a message; what a button means is its value.
    made = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": one.label, "emoji": True},
            "value": one.data,
            "action_id": one.data.rpartition(":")[0],
        }
        for one in buttons
    ]
    return [*sections, {"type": "actions", "elements": made}]


def mentions(message: Message) -> str:
    """Return the mrkdwn that a call begins with, which mentions whom it calls; nothing for any other reply."""
    return "".join(f"<@{one}> " for one in called(message))


class PressSink:
    """Answers one press by a note that only who pressed sees, with the buttons that follow."""

    def __init__(self, client: Client, message: Message, pace: Pace) -> None:
        self._client = client
        self._reference = message.reference
        self._buttons = offered(message)
        self._patience = Patience("slack", pace)

    async def open(self) -> None:
        """Do nothing: the acknowledgement was the first sign."""

    async def update(self, text: str) -> None:
        """Do nothing: the note is shown once."""

    async def finish(self, reply: Reply) -> None:
        """Show the note, in the place of an earlier one where the button stands below that."""
        await self._show(reply.text, self._buttons)

    async def fail(self, text: str) -> None:
        """Show why nothing was changed."""
        await self._show(text, ())

    async def _show(self, text: str, buttons: Sequence[Offer]) -> None:
        url, instead = str(self._reference["response_url"]), bool(self._reference.get("hidden"))
        blocks = blocks_of(text, buttons)
        await self._patience.insist(lambda: self._client.note(url, text, blocks, instead=instead))
