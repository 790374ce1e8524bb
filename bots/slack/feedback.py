"""Rating buttons on Slack: buttons in blocks below an answer, and a click as a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bots.common.delivery_retry import DeliveryRetry
from bots.common.events import IgnoredEvent
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import FinalTextSink
from bots.slack.connection import SlackIntervals
from bots.slack.convert import Identity, to_interaction
from bots.slack.render import split_message
from core.messaging.feedback.handoff import mentioned_users
from core.messaging.feedback.rating_buttons import get_buttons, is_below_note, read_button, to_press, to_reaction
from core.ports import Delivery
from core.types import DOWN, UP, Button, Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

BLOCK_ACTIONS = "block_actions"
REACTION_EVENTS = ("reaction_added", "reaction_removed")
# A section takes 3,000 characters, a message 50 blocks.
MAX_SECTION_CHARS = 2900


def from_block_action(payload: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a click on a button, or return why it is ignored.

    `reference` holds `channel`, `user`, `response_url`, where the answer goes, `thread_ts`, where the button is, and
    whether that is a note that only its presser sees (`hidden`). Raises `KeyError` and the like for a
    malformed payload.
    """
    actions = payload["actions"]
    choice_and_question = read_button(actions[0].get("value")) if len(actions) == 1 else None
    if choice_and_question is None:
        return IgnoredEvent("a press of a button that is not ours", is_expected=False)
    channel = str(payload["channel"]["id"])
    response_url = str(payload["response_url"])
    message = to_interaction(str(payload["trigger_id"]), channel, payload["user"], response_url, me)
    container = payload.get("container") or {}
    # An answer may be for the asker alone, too: no note takes its place.
    is_hidden = container.get("is_ephemeral") is True and is_below_note(choice_and_question[0])
    thread_ts = str(container.get("thread_ts") or "")
    reference = {**message.reference, "hidden": is_hidden, "thread_ts": thread_ts}
    return to_press(replace(message, reference=reference), *choice_and_question)


def from_reaction(event: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert an emoji below a message, or its removal, or return why it is ignored. Raises `KeyError` and the like."""
    if event.get("item_user") != me.user_id or event["user"] == me.user_id or event["item"].get("type") != "message":
        return IgnoredEvent("a reaction to nothing of ours")
    channel = str(event["item"]["channel"])
    press = replace(
        to_interaction(f"reaction {event['event_ts']}", channel, {"id": event["user"]}, "", me), reference={}
    )
    is_removed = event["type"] == "reaction_removed"
    reaction = to_reaction(press, str(event["reaction"]), str(event["item"]["ts"]), is_removed=is_removed)
    return reaction or IgnoredEvent("a reaction that rates nothing")


def to_blocks(text: str, buttons: Sequence[Button], *, has_feedback_buttons: bool = False) -> list[dict[str, Any]]:
    """Return mrkdwn with buttons below as blocks; none without buttons.

    `has_feedback_buttons`: thumbs are Slack's own, not a row of buttons.
    """
    if not buttons:
        return []
    sections: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}, "expand": True}
        for part in split_message(text, MAX_SECTION_CHARS)
    ]
    if has_feedback_buttons and are_rating_buttons(buttons):
        return [*sections, _to_feedback_block(buttons)]
    return [*sections, to_button_block(buttons)]


def are_rating_buttons(buttons: Sequence[Button]) -> bool:
    """Return whether buttons are the two that rate an answer."""
    return [(read_button(button.data) or ("",))[0] for button in buttons] == [UP, DOWN]


def to_button_block(buttons: Sequence[Button]) -> dict[str, Any]:
    """Return buttons as a row of their own."""
    # An action id must be unique within a message; the value says what a button means.
    elements = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": button.label, "emoji": True},
            "value": button.data,
            "action_id": button.data.rpartition(":")[0],
        }
        for button in buttons
    ]
    return {"type": "actions", "elements": elements}


def _to_feedback_block(buttons: Sequence[Button]) -> dict[str, Any]:
    positive, negative = (
        {"text": {"type": "plain_text", "text": button.label, "emoji": True}, "value": button.data}
        for button in buttons
    )
    element = {
        "type": "feedback_buttons",
        "action_id": "thumbs",
        "positive_button": positive,
        "negative_button": negative,
    }
    return {"type": "context_actions", "elements": [element]}


def render_mentions(message: Message) -> str:
    """Return the mentions that a handoff begins with; nothing for any other reply."""
    return "".join(f"<@{user_id}> " for user_id in mentioned_users(message))


class SlackRatingSink(FinalTextSink):
    """Answers one click by a note that only that user sees, with further buttons.

    It takes the place of an earlier note where the button stands below that.
    """

    def __init__(self, client: SlackClient, message: Message, delivery: Delivery, intervals: SlackIntervals) -> None:
        self._client = judge_calls(client, delivery)
        self._reference = message.reference
        self._buttons = get_buttons(message)
        self._retry = DeliveryRetry("slack", delivery, intervals)

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        url = str(self._reference["response_url"])
        replace_original = bool(self._reference.get("hidden"))
        blocks = to_blocks(reply.text, () if is_error else self._buttons)
        thread_ts = str(self._reference.get("thread_ts", ""))
        await self._retry.run(
            lambda: self._client.respond_to_action(
                url, reply.text, blocks, replace_original=replace_original, thread_ts=thread_ts
            )
        )
