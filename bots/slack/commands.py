"""Slash commands and message shortcuts: who may use them, and the reply, which works in every channel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.delivery_retry import DeliveryRetry, post_journaled
from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.common.ttl_cache import TtlCache
from bots.slack.connection import SlackIntervals
from bots.slack.convert import Identity, to_plain_text
from bots.slack.feedback import render_mentions, to_blocks
from bots.slack.render import render
from core.messaging.feedback.escalation import SHORTCUT_ID, mentioned_users
from core.messaging.feedback.rating_buttons import get_rating_buttons
from core.types import Button, Citation, ConversationKey, Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Blocks, SlackClient
    from core.ports import Delivery

MESSAGE_ACTION = "message_action"


def from_message_shortcut(payload: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a message shortcut, or return why it is ignored; `reference` as that of a slash command.

    The payload contains the text of the message, so that it need not have been seen before. Raises `KeyError` and the
    like for a malformed payload.
    """
    if payload["callback_id"] != SHORTCUT_ID:
        return IgnoredEvent("a shortcut that is not ours", is_expected=False)
    user, target_message, channel = payload["user"], payload["message"], str(payload["channel"]["id"])
    author_id, ts = str(user["id"]), str(payload["message_ts"])
    thread_ts = str(target_message.get("thread_ts") or ts)
    # The journal has the bot's own answers as they were before rendering.
    is_own_message = target_message.get("user") == me.user_id
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
        quoted="" if is_own_message else to_plain_text(str(target_message.get("text") or ""), me),
        bot=me.user_id,
        reference={
            "channel": channel,
            "user": author_id,
            "response_url": str(payload["response_url"]),
        },
        parent_id="" if thread_ts == ts else thread_ts,
    )


# How long it may take until the bot knows that somebody became an administrator, or is none any more.
CACHE_TTL_S = 30.0
MAX_USERS = 1000


class AdministratorCache:
    """The administrators and owners of a workspace, each answer of Slack's remembered for a moment."""

    def __init__(self, ttl_s: float = CACHE_TTL_S) -> None:
        self._is_admin = TtlCache[bool](ttl_s, MAX_USERS)

    async def is_admin(self, client: SlackClient, message: Message) -> bool:
        """Say whether the author is one of them. Raises a `PlatformError` when Slack cannot be asked."""
        return await self._is_admin.get(message.author_id, lambda: client.is_admin(message.author_id))


# How often Slack takes an answer to one command.
MAX_RESPONSES = 5
POSTED_REPLY_ID = "response_url"
ACKNOWLEDGEMENT = "Looking it up…"


class CommandSink(FinalTextSink):
    """Writes the reply to one command, once it is complete: such a reply cannot be edited.

    Answers to `ask` are for everybody in the channel, help and failures for the asker alone. `previous_reply_id`
    names a first part that was posted before a crash; the reply is then left as it is.
    """

    def __init__(
        self,
        client: SlackClient,
        message: Message,
        delivery: Delivery,
        previous_reply_id: str,
        intervals: SlackIntervals,
    ) -> None:
        self._client = client
        self._delivery = delivery
        self._message = message
        self._url = str(message.reference["response_url"])
        self._in_channel = message.command == "ask" or bool(mentioned_users(message))
        self._previous_reply_id = previous_reply_id
        self._retry = DeliveryRetry("slack", intervals)

    async def finish(self, reply: Reply) -> None:
        """Post the reply with its sources, cut off after five messages.

        After a command that opened a form there is nothing to post.
        """
        if not reply.text and self._message.command != "ask":
            return
        await self._post_reply(
            reply.text, reply.citations, in_channel=self._in_channel, buttons=get_rating_buttons(self._message, reply)
        )

    async def fail(self, text: str) -> None:
        """Show the text to the asker alone."""
        await self._post_reply(text, (), in_channel=False)

    async def _post_reply(
        self, text: str, citations: Sequence[Citation], *, in_channel: bool, buttons: Sequence[Button] = ()
    ) -> None:
        if self._previous_reply_id:
            return
        parts = await asyncio.to_thread(render, text, citations)
        parts = [render_mentions(self._message) + parts[0], *parts[1:]]
        if len(parts) > MAX_RESPONSES:
            parts = [*parts[: MAX_RESPONSES - 1], f"{parts[MAX_RESPONSES - 1]}\n\n…"]
        # The buttons stand below the last part.
        last_index = len(parts) - 1
        messages = [(part, to_blocks(part, buttons if index == last_index else ())) for index, part in enumerate(parts)]
        await self._retry.run(
            lambda: self._retry.run_uncancelled(
                post_journaled(self._delivery, lambda: self._post(*messages[0], in_channel))
            )
        )
        for part, blocks in messages[1:]:
            await self._retry.run(
                lambda part=part, blocks=blocks: self._client.respond(  # type: ignore[misc]
                    self._url, part, in_channel=in_channel, blocks=blocks
                )
            )

    async def _post(self, text: str, blocks: Blocks, in_channel: bool) -> str:
        await self._client.respond(self._url, text, in_channel=in_channel, blocks=blocks)
        return POSTED_REPLY_ID
