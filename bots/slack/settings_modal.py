"""The form of `/kimas settings`: a modal, and what is filled in as the commands that it stands for."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.slack.convert import Identity, Ignored
from bots.slack.render import render
from bots.slack.thread_cache import keep
from core.errors import PlatformError, UsageError
from core.messaging.commands.form import GAP, Field, Form
from core.messaging.policy.command_table import find, read_arguments
from core.observability.logs import logger
from core.types import ConversationKey, Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import Client
    from core.ports import Receive

SUBMITTED = "view_submission"
CALLBACK = "kimas-settings"
# In a message's reference: the field of a form that it comes from.
FIELD = "field"
# A modal takes 100 blocks, a section 3,000 characters, the label of a choice 75.
MOST_FIELDS, LONGEST_NOTE, LONGEST_CHOICE = 94, 2900, 75
LONGEST_ERROR = 300
MORE = "There are more sources than a form can hold: /kimas sources on|off|scale changes the others."
LATE = "This takes longer than Slack waits. You will be told in the channel; /kimas settings shows what holds."


@dataclass(frozen=True, slots=True)
class Change:
    """One field as it was sent: its name in the modal, the value before, the value now, and the command for that."""

    field: str
    shown: str
    value: str
    message: Message


@dataclass(frozen=True, slots=True)
class Submission:
    """A modal that somebody sent, with all its fields."""

    view: str
    changes: tuple[Change, ...]


def view_of(form: Form, message: Message) -> dict[str, Any]:
    """Return a form as a modal of Slack's; what is sent from it belongs to the chat of this command."""
    notes = [*form.notes, *([MORE] if len(form.fields) > MOST_FIELDS else [])]
    blocks = [_input(one) for one in form.fields[:MOST_FIELDS]]
    if notes:
        blocks.append({"type": "section", "text": _plain("\n".join(notes)[:LONGEST_NOTE])})
    place = {name: message.reference[name] for name in ("channel", "response_url")}
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "title": _plain("Settings of this chat"),
        "submit": _plain("Save"),
        "close": _plain("Cancel"),
        "private_metadata": json.dumps(place),
        "blocks": blocks,
    }


def to_submission(payload: Mapping[str, Any], me: Identity) -> Submission | Ignored:
    """Convert a modal that was sent, or say why it is none of ours.

    The message of each field is the command as if it was typed: `reference` holds `channel`, `user`, `response_url`
    and `field`. Raises `KeyError` and the like for a malformed payload.
    """
    view = payload["view"]
    if view.get("callback_id") != CALLBACK:
        return Ignored("a form that is not ours", expected=False)
    changes = []
    for number, block in enumerate(one for one in view["blocks"] if one["type"] == "input"):
        state = view["state"]["values"][block["block_id"]][block["element"]["action_id"]]
        value = _value(state.get("selected_option"), state.get("value"))
        shown = _value(block["element"].get("initial_option"), block["element"].get("initial_value"))
        message = _message(payload, number, str(block["block_id"]), value, me)
        changes.append(Change(str(block["block_id"]), shown, value, message))
    return Submission(str(view["id"]), tuple(changes))


class Submissions:
    """Takes modals that were sent: hands on what was changed, and tells Slack what came of it.

    Every changed field is a message like the command that it stands for, so that it is kept, checked and written down
    as that is, once however often it is delivered.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._outcomes: OrderedDict[str, asyncio.Future[str]] = OrderedDict()
        self._saved: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def settle(self, submission: Submission, receive: Receive) -> Mapping[str, Any]:
        """Return the answer to Slack: nothing closes the modal, errors keep it open.

        A value that makes no sense in any field changes nothing at all. Raises what `receive` raises.
        """
        changed = [one for one in submission.changes if not _same(one.value, self._before(submission, one))]
        errors = {one.field: fault for one in changed if (fault := _fault(one))}
        errors = errors or await self._handed_on(submission, changed, receive)
        return {"response_action": "errors", "errors": errors} if errors else {}

    def told(self, message: Message, fault: str) -> bool:
        """Say what came of one field, nothing for all is well; False when Slack no longer waits for that."""
        outcome = self._outcomes.get(message.id)
        if outcome is None or outcome.done():
            return False
        outcome.set_result(fault)
        return True

    async def _handed_on(self, submission: Submission, changed: Sequence[Change], receive: Receive) -> dict[str, str]:
        outcomes = [self._outcome(one.message.id) for one in changed]
        for one in changed:
            await receive(one.message)
        if outcomes:
            await asyncio.wait(outcomes, timeout=self._wait_s)
        errors: dict[str, str] = {}
        for one, outcome in zip(changed, outcomes, strict=True):
            if not outcome.done():
                self._outcomes.pop(one.message.id, None)
                errors[one.field] = LATE
                # What it will be is not known yet: whatever is saved next is a change.
                keep(self._saved, (submission.view, one.field), "")
            elif outcome.result():
                errors[one.field] = _unmarked(outcome.result())
            else:
                keep(self._saved, (submission.view, one.field), one.value)
        return errors

    def _before(self, submission: Submission, change: Change) -> str:
        """Return what a field holds: what the modal showed, or what was saved from it since."""
        return self._saved.get((submission.view, change.field), change.shown)

    def _outcome(self, number: str) -> asyncio.Future[str]:
        """Return where the outcome of a message will be; a second delivery has that of the first one."""
        known = self._outcomes.get(number) or asyncio.get_running_loop().create_future()
        keep(self._outcomes, number, known)
        return known


class FieldSink:
    """Says what came of one field: in the modal, or where that is gone by a note that only its sender sees."""

    def __init__(self, client: Client, submissions: Submissions, message: Message) -> None:
        self._client = client
        self._submissions = submissions
        self._message = message

    async def open(self) -> None:
        """Do nothing: the modal shows that it is being saved."""

    async def update(self, text: str) -> None:
        """Do nothing: an outcome comes in one piece."""

    async def finish(self, reply: Reply) -> None:
        """Let the modal close."""
        await self._tell("", reply.text)

    async def fail(self, text: str) -> None:
        """Show at the field why nothing was changed."""
        await self._tell(text, text)

    async def _tell(self, fault: str, text: str) -> None:
        if self._submissions.told(self._message, fault):
            return
        note = (await asyncio.to_thread(render, text))[0]
        try:
            await self._client.respond(str(self._message.reference["response_url"]), note, shared=False)
        except PlatformError as failure:
            # The change stands, or was refused, whether its sender hears of it or not.
            logger(__name__).info("slack.outcome_not_told", error=str(failure))


def _message(payload: Mapping[str, Any], number: int, field: str, value: str, me: Identity) -> Message:
    user, place = payload["user"], json.loads(payload["view"]["private_metadata"])
    author_id, channel = str(user["id"]), str(place["channel"])
    command, _, text = field.replace(GAP, value).partition(" ")
    return Message(
        id=f"{payload['trigger_id']}.{number}",
        # With those that its author types they are one line of commands, each in its turn.
        key=ConversationKey("slack", channel, f"command:{author_id}"),
        author_id=author_id,
        author=str(user.get("name") or user.get("username") or author_id),
        text=text,
        sent_at=datetime.now(UTC),
        private=channel.startswith("D"),
        addressed=True,
        command=command,
        bot=me.user_id,
        reference={"channel": channel, "user": author_id, "response_url": str(place["response_url"]), FIELD: field},
    )


def _input(field: Field) -> dict[str, Any]:
    """Return one field as a block. Its name in the modal is its command, which says all that is to be known of it."""
    element: dict[str, Any] = {"type": "plain_text_input", "action_id": "value", "initial_value": field.value}
    if field.choices:
        options = {value: {"text": _plain(label[:LONGEST_CHOICE]), "value": value} for value, label in field.choices}
        element = {"type": "static_select", "action_id": "value", "options": list(options.values())}
        element["initial_option"] = options[field.value]
    hint = {"hint": _plain(field.hint)} if field.hint else {}
    return {"type": "input", "block_id": field.command, "label": _plain(field.label), "element": element, **hint}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _value(option: Mapping[str, Any] | None, text: str | None) -> str:
    return str(option["value"]) if option else (text or "").strip()


def _same(value: str, other: str) -> bool:
    try:
        return float(value) == float(other)
    except ValueError:
        return value == other


def _fault(change: Change) -> str:
    """Return why a value makes no sense, or nothing."""
    command = find(change.message.command)
    # Without its value a command would only ask how things stand.
    if not change.value or command is None:
        return "A value is missing." if command else "There is no such setting any more."
    try:
        read_arguments(command, change.message.text)
    except UsageError as fault:
        return _unmarked(str(fault))
    return ""


def _unmarked(text: str) -> str:
    """Return what the bot says as plain text, which is all that a modal's errors take."""
    return text.replace("`", "")[:LONGEST_ERROR]
