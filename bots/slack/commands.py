"""Slash commands and message shortcuts: who may use them, and the reply, which works in every channel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bots.common.caches import TtlCache
from bots.common.delivery_retry import DeliveryRetry
from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.slack.connection import SlackIntervals
from bots.slack.convert import Identity, to_interaction, to_plain_text
from bots.slack.feedback import render_mentions, to_blocks
from bots.slack.render import render
from core.errors import PlatformError
from core.messaging.feedback.escalation import SHORTCUT_ID, mentioned_users
from core.messaging.feedback.rating_buttons import get_rating_buttons
from core.ports import Delivery
from core.types import Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Blocks, SlackClient

MESSAGE_ACTION = "message_action"
# How long it may take until the bot knows that somebody became an administrator, or is none any more.
CACHE_TTL_S = 30.0
MAX_USERS = 1000
# How often Slack takes an answer to one command.
MAX_RESPONSES = 5
POSTED_REPLY_ID = "response_url"
ACKNOWLEDGEMENT = "Looking it up…"


def from_message_shortcut(payload: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a message shortcut, or return why it is ignored; `reference` as that of a slash command.

    The payload contains the text of the message, so that it need not have been seen before. Raises `KeyError` and the
    like for a malformed payload.
    """
    if payload["callback_id"] != SHORTCUT_ID:
        return IgnoredEvent("a shortcut that is not ours", is_expected=False)
    target_message, channel, ts = payload["message"], str(payload["channel"]["id"]), str(payload["message_ts"])
    thread_ts = str(target_message.get("thread_ts") or ts)
    # The journal has the bot's own answers as they were before rendering.
    is_own_message = target_message.get("user") == me.user_id
    return replace(
        to_interaction(str(payload["trigger_id"]), channel, payload["user"], str(payload["response_url"]), me),
        command="learn",
        reply_to=ts,
        quoted="" if is_own_message else to_plain_text(str(target_message.get("text") or ""), me),
        parent_id="" if thread_ts == ts else thread_ts,
    )


class AdministratorCache:
    """The administrators and owners of a workspace, each answer of Slack's remembered for a moment."""

    def __init__(self, ttl_s: float = CACHE_TTL_S) -> None:
        self._is_admin = TtlCache[bool](ttl_s, MAX_USERS)

    async def is_admin(self, client: SlackClient, message: Message) -> bool:
        """Say whether the author is one of them. Raises a `PlatformError` when Slack cannot be asked."""
        return await self._is_admin.get(message.author_id, lambda: client.is_admin(message.author_id))


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

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        # After a command that opened a form there is nothing to post.
        has_nothing_to_post = not is_error and not reply.text and self._message.command != "ask"
        if self._previous_reply_id or has_nothing_to_post:
            return
        in_channel = self._in_channel and not is_error
        buttons = () if is_error else get_rating_buttons(self._message, reply)
        if self._delivery.is_in_doubt:
            # Slack shows an answer to a command to nobody else, so nobody can look for it.
            raise PlatformError("killed while the reply was being posted")
        parts = await asyncio.to_thread(render, reply.text, reply.citations)
        parts = [render_mentions(self._message) + parts[0], *parts[1:]]
        if len(parts) > MAX_RESPONSES:
            parts = [*parts[: MAX_RESPONSES - 1], f"{parts[MAX_RESPONSES - 1]}\n\n…"]
        # The buttons stand below the last part.
        last_index = len(parts) - 1
        messages = [(part, to_blocks(part, buttons if index == last_index else ())) for index, part in enumerate(parts)]
        await self._retry.run(lambda: self._retry.post(self._delivery, lambda: self._post(*messages[0], in_channel)))
        for part, blocks in messages[1:]:
            await self._retry.run(partial(self._post, part, blocks, in_channel))

    async def _post(self, text: str, blocks: Blocks, in_channel: bool) -> str:
        await self._client.respond(self._url, text, in_channel=in_channel, blocks=blocks)
        return POSTED_REPLY_ID
