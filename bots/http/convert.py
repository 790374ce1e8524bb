"""From an event to a message: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from bots.common.events import MessageDeletion
from core.messaging.feedback.rating_buttons import CHOICES, to_press
from core.messaging.policy import command_table as commands
from core.types import NETWORK_PLATFORM, Attachment, AttachmentKind, ConversationKey, Message, PlatformName

ATTACHMENT_KINDS: tuple[str, ...] = get_args(AttachmentKind)
MAX_ATTACHMENTS = 10
EventKind = Literal["message", "post", "comment", "edit", "delete", "feedback"]
EVENT_KINDS: tuple[str, ...] = get_args(EventKind)
EVENT_FIELDS = frozenset(
    (
        "id",
        "chat",
        "thread",
        "author",
        "text",
        "kind",
        "reply_to",
        "quoted",
        "quoted_author",
        "quotes_bot",
        "changes",
        "private",
        "addressed",
        "forwarded",
        "sent_at",
        "attachments",
        "title",
    )
)
MAX_ID_CHARS = 128
_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:\s+(.*))?", re.DOTALL)
_COMMAND_NAMES = frozenset(command.name for command in commands.COMMANDS)


def parse_attachments(value: object) -> tuple[Attachment, ...]:
    """Return what an event's `attachments` hold. Raises `ValueError`, whose text says what is wrong with them.

    Only content is accepted, no addresses: an event can never make the bot fetch something.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_ATTACHMENTS:
        raise ValueError(f"attachments must be a list of at most {MAX_ATTACHMENTS}")
    return tuple(_parse_attachment(item, f"attachments[{index}]") for index, item in enumerate(value))


def decode_content(attachment: Attachment) -> bytes:
    """Return the bytes of an attached picture."""
    return base64.b64decode(str(attachment.reference["data"]))


def _parse_attachment(value: object, path: str) -> Attachment:
    if not isinstance(value, Mapping) or not set(value) <= {"kind", "name", "data"}:
        raise ValueError(f"{path} must be an object with kind and, where there is one, name and data")
    kind = value.get("kind")
    name = value.get("name", "")
    data = value.get("data", "")
    if kind not in ATTACHMENT_KINDS:
        raise ValueError(f"{path}.kind must be one of {', '.join(ATTACHMENT_KINDS)}")
    if not isinstance(name, str) or not isinstance(data, str):
        raise ValueError(f"{path}.name and data must be texts")
    if kind != "picture":
        return Attachment(cast(AttachmentKind, kind), name[:200])
    encoded_data = data.partition(";base64,")[2] if data.startswith("data:") else data
    try:
        size = len(base64.b64decode(encoded_data, validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{path}.data must be base64, or a data URI of it") from error
    if not size:
        raise ValueError(f"{path}.data is missing: a picture is sent with the event")
    reference: Mapping[str, Any] = {"data": encoded_data}
    return Attachment("picture", name[:200], size, reference)


class MalformedEvent(ValueError):
    """An event that does not follow the schema; the text says where."""


def parse_event_key(event: object) -> tuple[str, str]:
    """Return the chat and the id of an event, which together are unique. Raises `MalformedEvent`."""
    fields = _validate_fields(event)
    return _get_short_text(fields, "chat", required=True), _get_short_text(fields, "id", required=True)


def check_namespace(event: object) -> None:
    """Refuse ids that would stand for a chat or a person of a further network. Raises `MalformedEvent`.

    The journal writes those of a named network with its name at the end (`room@support`), also of one that is not
    configured any more, or not yet.
    """
    fields = _validate_fields(event)
    author = fields.get("author")
    author_id = author.get("id") if isinstance(author, Mapping) else None
    names = (("chat", fields.get("chat")), ("author.id", author_id), ("quoted_author", fields.get("quoted_author")))
    for path, value in names:
        if isinstance(value, str) and (suffix := PlatformName(NETWORK_PLATFORM, value).network_suffix):
            raise MalformedEvent(
                f"{path} must not end in {suffix}: that stands for a network of this name (bots.{suffix[1:]}.http)"
            )


def to_message(event: object, now: datetime) -> Message | MessageDeletion:
    """Convert one event (docs/http.md describes it). Raises `MalformedEvent`.

    A post opens its own thread; a comment without a thread belongs to that of the message it replies to. `reference`
    holds the `event` that a reply names and its `kind`.
    """
    fields = _validate_fields(event)
    kind = fields.get("kind")
    if kind not in EVENT_KINDS:
        raise MalformedEvent(f"kind must be one of {', '.join(EVENT_KINDS)}")
    if kind in ("edit", "delete"):
        changes = _get_short_text(fields, "changes", required=True)
        if kind == "delete":
            return MessageDeletion(_get_short_text(fields, "chat", required=True), changes)
        return _to_user_message(fields, "edit", changes, now)
    if kind == "feedback":
        return _to_feedback_message(fields, now)
    return _to_user_message(fields, cast(EventKind, kind), _get_short_text(fields, "id", required=True), now)


def _to_user_message(fields: Mapping[str, Any], kind: EventKind, message_id: str, now: datetime) -> Message:
    author_id, author, is_bot = _parse_author(fields)
    reply_to = _get_short_text(fields, "reply_to")
    is_private = _get_flag(fields, "private")
    attachments = _parse_attachments(fields)
    is_forwarded = _get_flag(fields, "forwarded")
    quoted_text = _get_text(fields, "quoted")
    quoted_author = _get_short_text(fields, "quoted_author")
    text = _get_text(fields, "text", required=not (attachments or quoted_text))
    command, text = ("", text) if is_forwarded else _split_command(text)
    return Message(
        id=message_id,
        key=ConversationKey(
            "http", _get_short_text(fields, "chat", required=True), _resolve_thread(fields, kind, message_id, reply_to)
        ),
        author_id=author_id,
        author=author,
        text=text,
        sent_at=_parse_sent_at(fields, now),
        private=is_private,
        addressed=not is_bot and (is_private or _get_flag(fields, "addressed") or bool(command)),
        command=command,
        reply_to=reply_to,
        quoted=quoted_text,
        quotes_bot=_get_flag(fields, "quotes_bot"),
        quoted_authors=() if quoted_author in ("", author_id) else (quoted_author,),
        reference={"event": message_id, "kind": kind},
        attachments=attachments,
        is_edit=kind == "edit",
        edit_id=_get_short_text(fields, "id", required=True) if kind == "edit" else "",
        is_by_bot=is_bot,
        is_forwarded=is_forwarded,
        is_post=kind == "post",
        # A private chat is called after a person.
        chat_title="" if is_private else " ".join(_get_text(fields, "title").split()),
    )


def _to_feedback_message(fields: Mapping[str, Any], now: datetime) -> Message:
    """Convert the rating of a reply, which `reply_to` names by its id or by that of its question."""
    author_id, name, is_bot = _parse_author(fields)
    if is_bot or _get_flag(fields, "forwarded"):
        raise MalformedEvent("feedback is taken from people only, and from those who give it")
    event_id = _get_short_text(fields, "id", required=True)
    choice = _get_text(fields, "text", required=True)
    if choice not in CHOICES:
        raise MalformedEvent(f"text must be one of {', '.join(CHOICES)}")
    question_id, chat = (_get_short_text(fields, name, required=True) for name in ("reply_to", "chat"))
    press = Message(
        event_id,
        ConversationKey("http", chat),
        author_id,
        name,
        "",
        _parse_sent_at(fields, now),
        private=_get_flag(fields, "private"),
        reference={"event": event_id, "kind": "feedback"},
    )
    return to_press(press, choice, question_id)


def _parse_author(fields: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return the author's id and name, and whether it is a bot."""
    author = fields.get("author")
    if not isinstance(author, Mapping) or not set(author) <= {"id", "name", "bot"}:
        raise MalformedEvent("author must be an object with id, name and, where it is a bot, bot")
    author_id = _get_short_text(author, "id", required=True, path_prefix="author.")
    return (
        author_id,
        _get_short_text(author, "name", path_prefix="author.") or author_id,
        _get_flag(author, "bot", path_prefix="author."),
    )


def _parse_attachments(fields: Mapping[str, Any]) -> tuple[Attachment, ...]:
    try:
        return parse_attachments(fields.get("attachments"))
    except ValueError as error:
        raise MalformedEvent(str(error)) from error


def _resolve_thread(fields: Mapping[str, Any], kind: EventKind, message_id: str, reply_to: str) -> str:
    thread = _get_short_text(fields, "thread")
    if not thread and kind == "post":
        return message_id
    return reply_to if not thread and kind == "comment" else thread


def _validate_fields(event: object) -> Mapping[str, Any]:
    if not isinstance(event, Mapping):
        raise MalformedEvent("an event must be a JSON object")
    unknown_fields = sorted(str(name)[:50] for name in event if name not in EVENT_FIELDS)
    if unknown_fields:
        raise MalformedEvent(f"unknown fields: {', '.join(unknown_fields[:5])}")
    return event


def _get_short_text(fields: Mapping[str, Any], name: str, *, required: bool = False, path_prefix: str = "") -> str:
    value = _get_text(fields, name, required=required, path_prefix=path_prefix)
    if len(value) > MAX_ID_CHARS:
        raise MalformedEvent(f"{path_prefix}{name} may have {MAX_ID_CHARS} characters")
    return value


def _get_text(fields: Mapping[str, Any], name: str, *, required: bool = False, path_prefix: str = "") -> str:
    value = fields.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise MalformedEvent(f"{path_prefix}{name} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise MalformedEvent(f"{path_prefix}{name} holds half a character") from error
    if required and not value.strip():
        raise MalformedEvent(f"{path_prefix}{name} must not be empty")
    return value


def _get_flag(fields: Mapping[str, Any], name: str, *, path_prefix: str = "") -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise MalformedEvent(f"{path_prefix}{name} must be true or false")
    return value


def _parse_sent_at(fields: Mapping[str, Any], now: datetime) -> datetime:
    value = _get_text(fields, "sent_at")
    if not value:
        return now
    try:
        sent_at = datetime.fromisoformat(value)
    except ValueError as error:
        raise MalformedEvent("sent_at must be a time such as 2026-08-01T20:15:00Z") from error
    if sent_at.tzinfo is None:
        raise MalformedEvent("sent_at must say its time zone, for example with a Z at the end")
    try:
        return sent_at.astimezone(UTC)
    except OverflowError as error:
        raise MalformedEvent("sent_at is out of range") from error


def _split_command(text: str) -> tuple[str, str]:
    """Return the command that a text begins with, or nothing, and the rest."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None or match[1].lower() not in _COMMAND_NAMES:
        return "", text.strip()
    return match[1].lower(), (match[2] or "").strip()
