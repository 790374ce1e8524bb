"""The form of `/kimas settings`: a modal, whose changed fields become commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bots.common.caches import BoundedDict
from bots.common.events import IgnoredEvent
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import FinalTextSink
from bots.slack.convert import Identity, spell_command, to_interaction
from bots.slack.render import render
from bots.slack.thread_cache import MAX_ENTRIES
from core.catalogue import ENGLISH, Messages, messages_for
from core.errors import PlatformError, UsageError
from core.messaging.policy.command_table import get_command, parse_arguments
from core.observability.logs import get_logger
from core.ports import Delivery, MessageHandler
from core.types import Message, Reply
from core.types.forms import VALUE_PLACEHOLDER, FormField, SettingsForm

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

VIEW_SUBMISSION = "view_submission"
CALLBACK_ID = "kimas-settings"
# In a message's reference: the field of a form that it comes from.
FIELD = "field"
# A modal takes 100 blocks, a section 3,000 characters, the label of a choice 75.
MAX_FIELDS = 94
MAX_NOTE_CHARS = 2900
MAX_CHOICE_CHARS = 75
MAX_ERROR_CHARS = 300


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field as it was sent: its name in the modal, the value before, the value now, and the command for that."""

    field: str
    initial_value: str
    value: str
    message: Message


@dataclass(frozen=True, slots=True)
class Submission:
    """A modal that somebody sent, with all its fields."""

    view_id: str
    changes: tuple[FieldChange, ...]
    texts: Messages = ENGLISH


def to_view(form: SettingsForm, message: Message) -> dict[str, Any]:
    """Return a form as a modal of Slack's; what is sent from it belongs to the chat of this command."""
    texts = messages_for(form.language)
    notes = [*form.notes, *([texts.form_too_many_fields] if len(form.fields) > MAX_FIELDS else [])]
    blocks = [_to_input_block(field) for field in form.fields[:MAX_FIELDS]]
    if notes:
        blocks.append({"type": "section", "text": _to_plain_text("\n".join(notes)[:MAX_NOTE_CHARS])})
    metadata = {name: message.reference[name] for name in ("channel", "response_url")}
    metadata["language"] = form.language
    return {
        "type": "modal",
        "callback_id": CALLBACK_ID,
        "title": _to_plain_text(texts.form_title),
        "submit": _to_plain_text(texts.form_save),
        "close": _to_plain_text(texts.form_cancel),
        "private_metadata": json.dumps(metadata),
        "blocks": blocks,
    }


def to_submission(payload: Mapping[str, Any], me: Identity) -> Submission | IgnoredEvent:
    """Convert a modal that was sent, or return why it is ignored.

    The message of each field is the command as if it was typed: `reference` holds `channel`, `user`, `response_url`
    and `field`. Raises `KeyError` and the like for a malformed payload.
    """
    view = payload["view"]
    if view.get("callback_id") != CALLBACK_ID:
        return IgnoredEvent("a form that is not ours", is_expected=False)
    changes = []
    for index, block in enumerate(item for item in view["blocks"] if item["type"] == "input"):
        state = view["state"]["values"][block["block_id"]][block["element"]["action_id"]]
        value = _get_value(state.get("selected_option"), state.get("value"))
        initial_value = _get_value(block["element"].get("initial_option"), block["element"].get("initial_value"))
        message = _to_message(payload, index, str(block["block_id"]), value, me)
        changes.append(FieldChange(str(block["block_id"]), initial_value, value, message))
    language = str(json.loads(view["private_metadata"]).get("language", ""))
    return Submission(str(view["id"]), tuple(changes), messages_for(language))


class SubmissionHandler:
    """Handles modals that were sent: turns the changed fields into commands, and answers Slack with the outcome.

    Every changed field is a message like the command that it stands for: it is saved, checked and audited like one, and
    only once however often it is delivered.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._outcomes = BoundedDict[str, asyncio.Future[str]](MAX_ENTRIES)
        self._saved_values = BoundedDict[tuple[str, str], str](MAX_ENTRIES)

    async def handle(self, submission: Submission, receive: MessageHandler) -> Mapping[str, Any]:
        """Return the answer to Slack: nothing closes the modal, errors keep it open.

        A value that makes no sense in any field changes nothing at all. Raises what `receive` raises.
        """
        changes = [
            change
            for change in submission.changes
            # Against the value that the modal showed, or the one that was saved since.
            if not _is_equal(
                change.value, self._saved_values.get((submission.view_id, change.field), change.initial_value)
            )
        ]
        errors = {change.field: error_text for change in changes if (error_text := _validate(change, submission.texts))}
        errors = errors or await self._deliver_changes(submission, changes, receive)
        return {"response_action": "errors", "errors": errors} if errors else {}

    def resolve(self, message: Message, error_text: str) -> bool:
        """Report the outcome of one field, empty for success; return False when Slack no longer waits for it."""
        outcome = self._outcomes.get(message.id)
        if outcome is None or outcome.done():
            return False
        outcome.set_result(error_text)
        return True

    async def _deliver_changes(
        self, submission: Submission, changes: Sequence[FieldChange], receive: MessageHandler
    ) -> dict[str, str]:
        outcomes = [self._get_outcome(change.message.id) for change in changes]
        for change in changes:
            await receive(change.message)
        if outcomes:
            await asyncio.wait(outcomes, timeout=self._timeout_s)
        errors: dict[str, str] = {}
        for change, outcome in zip(changes, outcomes, strict=True):
            if not outcome.done():
                self._outcomes.pop(change.message.id, None)
                errors[change.field] = submission.texts.form_save_timeout
                # The new value is not known yet: whatever is saved next is a change.
                self._saved_values[submission.view_id, change.field] = ""
            elif outcome.result():
                errors[change.field] = _strip_markup(outcome.result())
            else:
                self._saved_values[submission.view_id, change.field] = change.value
        return errors

    def _get_outcome(self, message_id: str) -> asyncio.Future[str]:
        """Return where the outcome of a message will be; a second delivery has that of the first one."""
        outcome = self._outcomes.get(message_id) or asyncio.get_running_loop().create_future()
        self._outcomes[message_id] = outcome
        return outcome


class FieldSink(FinalTextSink):
    """Reports the outcome of one field: in the modal or, when that is closed, by a note that only its sender sees."""

    def __init__(
        self, client: SlackClient, submissions: SubmissionHandler, message: Message, delivery: Delivery
    ) -> None:
        self._client = judge_calls(client, delivery)
        self._submissions = submissions
        self._message = message

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        if self._submissions.resolve(self._message, reply.text if is_error else ""):
            return
        note = (await asyncio.to_thread(render, reply.text))[0]
        try:
            await self._client.respond(str(self._message.reference["response_url"]), note, in_channel=False)
        except PlatformError as error:
            # The change is saved or refused, whether its sender is informed or not.
            _log.info("slack.outcome_not_shown", error=str(error))


def _to_message(payload: Mapping[str, Any], index: int, field: str, value: str, me: Identity) -> Message:
    metadata = json.loads(payload["view"]["private_metadata"])
    message_id = f"{payload['trigger_id']}.{index}"
    command, _, text = field.replace(VALUE_PLACEHOLDER, value).partition(" ")
    response_url = str(metadata["response_url"])
    message = to_interaction(message_id, str(metadata["channel"]), payload["user"], response_url, me)
    return replace(message, command=command, text=text, reference={**message.reference, FIELD: field})


def _to_input_block(field: FormField) -> dict[str, Any]:
    """Return one field as a block. Its name in the modal is its command."""
    element: dict[str, Any] = {"type": "plain_text_input", "action_id": "value", "initial_value": field.value}
    if field.choices:
        options = {
            value: {"text": _to_plain_text(label[:MAX_CHOICE_CHARS]), "value": value} for value, label in field.choices
        }
        element = {"type": "static_select", "action_id": "value", "options": list(options.values())}
        element["initial_option"] = options[field.value]
    hint = {"hint": _to_plain_text(field.hint)} if field.hint else {}
    return {
        "type": "input",
        "block_id": field.command,
        "label": _to_plain_text(field.label),
        "element": element,
        **hint,
    }


def _to_plain_text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _get_value(option: Mapping[str, Any] | None, text: str | None) -> str:
    return str(option["value"]) if option else (text or "").strip()


def _is_equal(value: str, other: str) -> bool:
    try:
        return float(value) == float(other)
    except ValueError:
        return value == other


def _validate(change: FieldChange, texts: Messages) -> str:
    """Return why a value makes no sense, or nothing."""
    command = get_command(change.message.command)
    # Without its value a command would only show the setting.
    if not change.value or command is None:
        return texts.form_value_missing if command else texts.form_field_gone
    try:
        parse_arguments(command, change.message.text, texts, spell_command)
    except UsageError as error:
        return _strip_markup(str(error))
    return ""


def _strip_markup(text: str) -> str:
    """Return the bot's text as plain text: a modal's errors take nothing else."""
    return text.replace("`", "")[:MAX_ERROR_CHARS]
