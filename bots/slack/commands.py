"""The answer to a slash command: it goes to the address that came with the command, which works in every channel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.delivery_retry import Patience, announced
from bots.slack.convert import Identity, Ignored, plain
from bots.slack.errors import Pace
from bots.slack.feedback import blocks_of, mentions
from bots.slack.render import render
from core.messaging.feedback.escalation import called
from core.messaging.feedback.message_reference import BEFORE, SHORTCUT
from core.messaging.feedback.rating_buttons import Offer, thumbs
from core.types import Citation, ConversationKey, Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Blocks, Client
    from core.ports import Delivery

CHOSEN = "message_action"


def to_lesson(payload: Mapping[str, Any], me: Identity) -> Message | Ignored:
    """Convert the choice of a message, or say why it is none of ours; `reference` as that of a slash command.

    What the message says comes with it, so that it need not have been seen before. Raises `KeyError` and the like for a
    malformed payload.
    """
    if payload["callback_id"] != SHORTCUT:
        return Ignored("a shortcut that is not ours", expected=False)
    user, chosen, channel = payload["user"], payload["message"], str(payload["channel"]["id"])
    author_id, ts = str(user["id"]), str(payload["message_ts"])
    thread = str(chosen.get("thread_ts") or ts)
    # The bot's own answers are in the journal, as they were before they were made to fit a message.
    own = chosen.get("user") == me.user_id
    return Message(
        id=str(payload["trigger_id"]),
        key=ConversationKey("slack", channel, f"command:{author_id}"),
        author_id=author_id,
        author=str(user.get("name") or user.get("username") or author_id),
        text="",
        sent_at=datetime.now(UTC),
        private=channel.startswith("D"),
        addressed=True,
        command="learn",
        reply_to=ts,
        quoted="" if own else plain(str(chosen.get("text") or ""), me),
        bot=me.user_id,
        reference={
            "channel": channel,
            "user": author_id,
            "response_url": str(payload["response_url"]),
            BEFORE: "" if thread == ts else thread,
        },
    )


# How often Slack takes an answer to one command.
USES = 5
POSTED = "response_url"
ACKNOWLEDGED = "Looking it up…"


class CommandSink:
    """Writes the reply to one command, once it is complete: what was answered this way cannot be edited.

    Answers to `ask` are for everybody in the channel, help and failures for the asker alone. `previous` says that the
    first part was posted before a crash; the reply is then left as it is.
    """

    def __init__(self, client: Client, message: Message, delivery: Delivery, previous: str, pace: Pace) -> None:
        self._client = client
        self._delivery = delivery
        self._message = message
        self._url = str(message.reference["response_url"])
        self._shared = message.command == "ask" or bool(called(message))
        self._previous = previous
        self._patience = Patience("slack", pace)

    async def open(self) -> None:
        """Do nothing: the acknowledgement was the first sign."""

    async def update(self, text: str) -> None:
        """Do nothing: there is nothing to edit."""

    async def finish(self, reply: Reply) -> None:
        """Post the reply with its sources. What five messages do not hold is left out.

        A command that was answered by a form has nothing to say.
        """
        if not reply.text and self._message.command != "ask":
            return
        await self._conclude(reply.text, reply.citations, shared=self._shared, buttons=thumbs(self._message, reply))

    async def fail(self, text: str) -> None:
        """Tell the asker alone."""
        await self._conclude(text, (), shared=False)

    async def _conclude(
        self, text: str, citations: Sequence[Citation], *, shared: bool, buttons: Sequence[Offer] = ()
    ) -> None:
        if self._previous:
            return
        parts = await asyncio.to_thread(render, text, citations)
        parts = [mentions(self._message) + parts[0], *parts[1:]]
        if len(parts) > USES:
            parts = [*parts[: USES - 1], f"{parts[USES - 1]}\n\n…"]
        # The buttons stand below the last part.
        last = len(parts) - 1
        shown = [(part, blocks_of(part, buttons if number == last else ())) for number, part in enumerate(parts)]
        await self._patience.insist(
            lambda: self._patience.to_the_end(announced(self._delivery, lambda: self._post(*shown[0], shared)))
        )
        for part, blocks in shown[1:]:
            await self._patience.insist(
                lambda part=part, blocks=blocks: self._client.respond(  # type: ignore[misc]
                    self._url, part, shared=shared, blocks=blocks
                )
            )

    async def _post(self, text: str, blocks: Blocks, shared: bool) -> str:
        await self._client.respond(self._url, text, shared=shared, blocks=blocks)
        return POSTED
