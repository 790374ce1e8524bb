"""Prints replies with their rating commands, notices about ratings, and reasons for silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console

from bots.common.reply_sink import FinalTextSink
from bots.console.convert import OWNER_ID, PLATFORM, to_rating_command
from bots.console.render import ConsoleSink
from core.errors import MessageDeleted
from core.formatting import strip_control_characters
from core.messaging.feedback.handoff import mentioned_users
from core.messaging.feedback.rating_buttons import get_buttons, get_rating_buttons, read_button
from core.observability.metrics import MetricsRecorder, ProcessingOutcome
from core.ports import Delivery
from core.settings import Settings
from core.types import Button, ConversationKey, Message, Reply, Skip, SkipReason

# Ratings and deletions end without an answer, and their authors already know the result.
_REPORTED_REASONS = (SkipReason.DELETED, *(reason for reason in SkipReason if reason.label == "feedback"))


class GroupState(Protocol):
    """The state of the group that a reply reads and changes."""

    def next_message_id(self) -> str:
        """Return the id of the next message."""
        ...

    def is_deleted(self, message: Message) -> bool:
        """Return whether a message was deleted."""
        ...

    def record_bot_message(self, key: ConversationKey, message_id: str, text: str, *, is_rateable: bool) -> None:
        """Record a reply of the bot, and whether people may rate it."""
        ...


class GroupReplySink(FinalTextSink):
    """Prints one reply, whole: somebody may be typing meanwhile."""

    def __init__(self, group_state: GroupState, out: Console, message: Message, delivery: Delivery) -> None:
        self._group_state = group_state
        self._out = out
        self._message = message
        self._delivery = delivery

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        message = self._message
        # What decides about a draft is typed as a command.
        has_buttons = not is_error and message.origin.purpose != "draft"
        buttons = get_rating_buttons(message, reply) if has_buttons else ()
        if self._group_state.is_deleted(message):
            raise MessageDeleted(f"message {message.id} was deleted")
        message_id = self._group_state.next_message_id()
        await self._delivery.mark_posting()
        self._out.print(f"kimas{_format_location(message)}:", style="bold", markup=False, soft_wrap=True)
        if mentions := " ".join(f"@{user}" for user in mentioned_users(message)):
            self._out.print(strip_control_characters(mentions), style="bold", markup=False, soft_wrap=True)
        sink = ConsoleSink(self._out)
        await (sink.fail(reply.text) if is_error else sink.finish(reply))
        self._out.print()
        if buttons:
            _print_buttons(self._out, buttons)
        self._group_state.record_bot_message(message.key, message_id, reply.text, is_rateable=bool(buttons))
        await self._delivery.mark_posted(message_id)


class RatingNoticeSink(FinalTextSink):
    """Notifies somebody of the result of their rating, and of what may follow."""

    def __init__(self, out: Console, rating_message: Message) -> None:
        self._out = out
        self._rating_message = rating_message

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        notice = f"(to {self._rating_message.author}: {reply.text})"
        self._out.print(strip_control_characters(notice), style="dim", markup=False, soft_wrap=True)
        if buttons := () if is_error else get_buttons(self._rating_message):
            _print_buttons(self._out, buttons)


def _format_location(message: Message) -> str:
    """Return where a reply stands, as its question was written."""
    private_part = [f"alone with {message.author}"] if message.private else []
    locations = [*private_part, *([f"in {message.key.thread}"] if message.key.thread else [])]
    return f" ({', '.join(locations)})" if locations else ""


def _print_buttons(out: Console, buttons: Sequence[Button]) -> None:
    """Print how each button is typed."""
    choices = [(button_data[0], button.label) for button in buttons if (button_data := read_button(button.data))]
    line = " · ".join(f"{to_rating_command(choice)}: {label}" for choice, label in choices)
    out.print(line, style="dim", markup=False, soft_wrap=True)


class OutcomePrinter(MetricsRecorder):
    """Shows the reason of every silence.

    `count` is the number of processed messages, `outcome` that of the last one.
    """

    def __init__(self, out: Console) -> None:
        self._out = out
        self.count = 0
        self.outcome: ProcessingOutcome = "answered"

    def record_message(self, platform: str, outcome: ProcessingOutcome, skip: Skip | None = None) -> None:
        """Count it, and show why the bot is silent."""
        self.count += 1
        is_reported = skip is not None and skip.reason in _REPORTED_REASONS
        self.outcome = "answered" if is_reported else outcome
        if skip and not is_reported:
            note = f"(silent: {strip_control_characters(str(skip))})"
            self._out.print(note, style="dim", markup=False, soft_wrap=True)


def with_terminal_owner(settings: Settings) -> Settings:
    """Return settings under which the bot is in the terminal, and the person who sits there owns it."""
    owners = (*settings.administration.owners, f"{PLATFORM}:{OWNER_ID}")
    return settings.model_copy(
        update={
            "administration": settings.administration.model_copy(update={"owners": owners}),
            "gate": settings.gate.model_copy(update={"chats": ()}),
        }
    )
