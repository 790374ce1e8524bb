"""Slash commands and message shortcuts: who may use them, and the reply, which works in every channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bots.common.connection import Refused, Unreachable
from bots.common.delivery_retry import DeliveryRetry
from bots.common.events import IgnoredEvent
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import FinalTextSink, cut_reply, get_texts
from bots.slack.connection import SlackIntervals
from bots.slack.convert import Identity, find_authors, is_own, to_interaction
from bots.slack.feedback import are_rating_buttons, render_mentions, to_blocks
from bots.slack.render import quote_question, render, to_plain
from bots.slack.visible_text import get_brought, get_own_text, get_visible_text
from core.errors import MessageDeleted
from core.messaging.feedback.handoff import ASK_SHORTCUT_ID, SHORTCUT_ID, mentioned_users
from core.messaging.feedback.rating_buttons import get_rating_buttons
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import FOR_ASKER, Button, Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Blocks, SlackClient

_log = get_logger(__name__)

MESSAGE_ACTION = "message_action"
# How often Slack takes an answer to one command.
MAX_RESPONSES = 5
MAX_COMMAND_CHARS = 15_000
# How much of a question is repeated above its answer.
MAX_QUESTION_CHARS = 300
POSTED_REPLY_ID = "response_url"
CLOCK_SKEW_S = 60.0
ACKNOWLEDGEMENT = "Looking it up…"


def from_message_shortcut(payload: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a message shortcut, or return why it is ignored; `reference` as that of a slash command.

    The payload contains the text of the message, so that it need not have been seen before. Raises `KeyError` and the
    like for a malformed payload.
    """
    command = {SHORTCUT_ID: "learn", ASK_SHORTCUT_ID: "ask"}.get(payload["callback_id"])
    if command is None:
        return IgnoredEvent("a shortcut that is not ours", is_expected=False)
    target_message = payload["message"]
    channel = str(payload["channel"]["id"])
    ts = str(payload["message_ts"])
    thread_ts = str(target_message.get("thread_ts") or ts)
    is_own_message = is_own(target_message, me)
    if command == "ask":
        quoted_text = get_visible_text(target_message, me.user_id)
        quoted_messages = [target_message, *get_brought(target_message)]
    else:
        quoted_messages = [target_message]
        # What was shared teaches nothing. The journal has the bot's own answers as they were before rendering.
        quoted_text = "" if is_own_message else get_own_text(target_message, me.user_id)
    command_message = to_interaction(
        str(payload["trigger_id"]), channel, payload["user"], str(payload["response_url"]), me
    )
    return replace(
        command_message,
        command=command,
        reply_to=ts,
        quoted=quoted_text,
        quoted_authors=find_authors(quoted_messages, command_message.author_id),
        parent_id="" if thread_ts == ts else thread_ts,
    )


class CommandSink(FinalTextSink):
    """Writes the reply to one command, once it is complete: such a reply cannot be edited.

    Answers to `ask` are for everybody in the channel; in a direct conversation they are for the asker alone, and so are
    help and failures. `previous_reply_id` names a first part that was posted before a crash. A part in doubt is looked
    for in the channel, by its text. Where nobody can look, it is posted again, and says so.
    """

    def __init__(
        self,
        client: SlackClient,
        message: Message,
        delivery: Delivery,
        previous_reply_id: str,
        intervals: SlackIntervals,
    ) -> None:
        self._client = judge_calls(client, delivery)
        self._delivery = delivery
        self._message = message
        self._url = str(message.reference.get("response_url", ""))
        # The command works in a direct conversation of two other people: one of them may see more sources.
        is_answer = message.command == "ask" and FOR_ASKER not in message.reference
        self._in_channel = (is_answer or bool(mentioned_users(message))) and not message.private
        self._previous_reply_id = previous_reply_id
        self._retry = DeliveryRetry("slack", delivery, intervals)
        self._in_doubt = {number for number, part_id in delivery.parts.items() if not part_id}
        if delivery.is_in_doubt:
            self._in_doubt.add(0)

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        # After a command that opened a form there is nothing to post.
        if not is_error and not reply.text and self._message.command != "ask":
            return
        in_channel = self._in_channel and not is_error
        buttons = () if is_error else get_rating_buttons(self._message, reply)
        parts = await asyncio.to_thread(render, *cut_reply(self._message, reply, MAX_COMMAND_CHARS))
        parts = [render_mentions(self._message) + self._quote_question(in_channel) + parts[0], *parts[1:]]
        if len(parts) > MAX_RESPONSES:
            parts = [*parts[: MAX_RESPONSES - 1], f"{parts[MAX_RESPONSES - 1]}\n\n…"]
        for number, part in enumerate(parts):
            # The buttons stand below the last part.
            part_buttons = buttons if number == len(parts) - 1 else ()
            await self._retry.run(partial(self._post_part, number, part, part_buttons, in_channel))

    async def _post_part(self, number: int, text: str, buttons: Sequence[Button], in_channel: bool) -> None:
        post = partial(self._post, number, text, buttons, in_channel)
        find = partial(self._find, text, in_channel)
        if number == 0:
            if not self._previous_reply_id:
                self._previous_reply_id = await self._retry.post(post, find)
        elif not self._delivery.parts.get(number):
            part_id = await self._retry.find(find) if number in self._in_doubt else ""
            await self._delivery.mark_part(number, "")
            await self._delivery.mark_part(number, part_id or await post())

    async def _find(self, text: str, in_channel: bool) -> str:
        if not in_channel:
            return ""
        # Slack's clock may be behind ours.
        after_ts = f"{self._message.sent_at.timestamp() - CLOCK_SKEW_S:.6f}"
        channel = str(self._message.reference["channel"])
        return await self._client.find_response(channel, after_ts, (text, self._mark(text)))

    def _mark(self, text: str) -> str:
        """Return a part that is posted again."""
        return f"_{get_texts(self._message).posted_again}_\n{text}"

    async def _post(self, number: int, text: str, buttons: Sequence[Button], in_channel: bool) -> str:
        if number in self._in_doubt:
            text = self._mark(text)
        try:
            await self._respond(text, buttons, in_channel)
        except Unreachable:
            self._in_doubt.add(number)
            raise
        return POSTED_REPLY_ID

    def _quote_question(self, in_channel: bool) -> str:
        """Return the question of a command, which Slack shows to nobody but its author; a call for help repeats it."""
        message = self._message
        question = " ".join((message.text or message.quoted).split())
        if not in_channel or message.origin.purpose == "escalation" or not question:
            return ""
        short_question = question if len(question) <= MAX_QUESTION_CHARS else f"{question[:MAX_QUESTION_CHARS]}…"
        return f"{quote_question(message.author, short_question)}\n\n"

    async def _respond(self, text: str, buttons: Sequence[Button], in_channel: bool) -> None:
        """Answer the command; where Slack refuses that, with plain thumbs, then without; then by a message."""
        plain_text = "\n".join(to_plain(text))
        layouts: list[tuple[str, Blocks]] = [(text, to_blocks(text, buttons)), (plain_text, ())]
        if are_rating_buttons(buttons):
            layouts.insert(0, (text, to_blocks(text, buttons, has_feedback_buttons=True)))
        for posted_text, posted_blocks in layouts:
            try:
                await self._send(posted_text, posted_blocks, in_channel=in_channel)
            except Refused as error:
                _log.warning("slack.response_refused", error=str(error))
            else:
                return
        channel = str(self._message.reference["channel"])
        if in_channel:
            await self._client.post(channel, None, plain_text)
        else:
            await self._client.post_ephemeral(channel, self._message.author_id, plain_text)

    async def _send(self, text: str, blocks: Blocks, *, in_channel: bool) -> None:
        await self._client.respond(self._url, text, in_channel=in_channel, blocks=blocks)


class AskerSink(CommandSink):
    """Writes the reply to a message so that its author alone sees it: once, for it can be neither edited nor found.

    Slack shows such a reply in a thread only where there is one already.
    """

    def __init__(self, *args: Any, is_deleted: Callable[[], bool]) -> None:
        super().__init__(*args)
        self._is_deleted = is_deleted

    async def _send(self, text: str, blocks: Blocks, *, in_channel: bool) -> None:
        if self._is_deleted():
            raise MessageDeleted("the question was deleted")
        reference = self._message.reference
        thread_ts = str(reference.get("thread_ts") or "")
        await self._client.post_ephemeral(
            str(reference["channel"]),
            self._message.author_id,
            text,
            thread_ts if thread_ts != reference["ts"] else "",
            blocks,
        )
