"""From an event to a message: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from core.messaging.feedback.rating_buttons import CHOICES, press
from core.messaging.policy import command_table as commands
from core.types import Attachment, AttachmentKind, ConversationKey, Message

ATTACHMENT_KINDS: tuple[str, ...] = get_args(AttachmentKind)
MOST = 10


def attachments_of(value: object) -> tuple[Attachment, ...]:
    """Return what an event's `attachments` hold. Raises `ValueError`, whose text says what is wrong with them.

    Only bytes are taken, no addresses: nothing is ever fetched because an event says so.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST:
        raise ValueError(f"attachments must be a list of at most {MOST}")
    return tuple(_attachment(one, f"attachments[{at}]") for at, one in enumerate(value))


def content_of(attachment: Attachment) -> bytes:
    """Return the bytes of an attached picture."""
    return base64.b64decode(str(attachment.reference["data"]))


def _attachment(value: object, place: str) -> Attachment:
    if not isinstance(value, Mapping) or not set(value) <= {"kind", "name", "data"}:
        raise ValueError(f"{place} must be an object with kind and, where there is one, name and data")
    kind, name, data = value.get("kind"), value.get("name", ""), value.get("data", "")
    if kind not in ATTACHMENT_KINDS:
        raise ValueError(f"{place}.kind must be one of {', '.join(ATTACHMENT_KINDS)}")
    if not isinstance(name, str) or not isinstance(data, str):
        raise ValueError(f"{place}.name and data must be texts")
    if kind != "picture":
        return Attachment(cast(AttachmentKind, kind), name[:200])
    bare = data.partition(";base64,")[2] if data.startswith("data:") else data
    try:
        size = len(base64.b64decode(bare, validate=True))
    except (binascii.Error, ValueError) as fault:
        raise ValueError(f"{place}.data must be base64, or a data URI of it") from fault
    if not size:
        raise ValueError(f"{place}.data is missing: a picture is sent with the event")
    reference: Mapping[str, Any] = {"data": bare}
    return Attachment("picture", name[:200], size, reference)


Kind = Literal["message", "post", "comment", "edit", "delete", "feedback"]
KINDS: tuple[str, ...] = get_args(Kind)
FIELDS = frozenset(
    (
        *("id", "chat", "thread", "author", "text", "kind", "reply_to", "quoted", "changes"),
        *("private", "addressed", "sent_at", "attachments"),
    )
)
LONGEST_ID = 128

_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:\s+(.*))?", re.DOTALL)
_KNOWN_COMMANDS = frozenset(command.name for command in commands.COMMANDS)


class Malformed(ValueError):
    """An event that does not follow the schema; the text says where."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """Somebody deleted a message."""

    chat: str
    id: str


def identity_of(event: object) -> tuple[str, str]:
    """Return the chat and the id of an event, which together tell it from all others. Raises `Malformed`."""
    fields = _fields(event)
    return _name(fields, "chat", needed=True), _name(fields, "id", needed=True)


def to_message(event: object, now: datetime) -> Message | Deleted:
    """Convert one event (docs/http.md describes it). Raises `Malformed`.

    A post opens its own thread; a comment without a thread belongs to that of the message it replies to. `reference`
    holds the `event` that a reply names and `kind`, `edited` for an edit and `by_bot` for what another bot wrote.
    """
    fields = _fields(event)
    kind = fields.get("kind")
    if kind not in KINDS:
        raise Malformed(f"kind must be one of {', '.join(KINDS)}")
    if kind in ("edit", "delete"):
        changes = _name(fields, "changes", needed=True)
        if kind == "delete":
            return Deleted(_name(fields, "chat", needed=True), changes)
        return _written(fields, "edit", changes, now)
    if kind == "feedback":
        return _press(fields, now)
    return _written(fields, cast(Kind, kind), _name(fields, "id", needed=True), now)


def _written(fields: Mapping[str, Any], kind: Kind, message_id: str, now: datetime) -> Message:
    author_id, author, by_bot = _author(fields)
    reply_to = _name(fields, "reply_to")
    private = _flag(fields, "private")
    attachments = _attachments(fields)
    command, text = _words(_text(fields, "text", needed=not attachments))
    return Message(
        id=message_id,
        key=ConversationKey("http", _name(fields, "chat", needed=True), _thread(fields, kind, message_id, reply_to)),
        author_id=author_id,
        author=author,
        text=text,
        sent_at=_moment(fields, now),
        private=private,
        addressed=not by_bot and (private or _flag(fields, "addressed") or bool(command)),
        command=command,
        reply_to=reply_to,
        quoted=_text(fields, "quoted"),
        reference={
            "event": message_id,
            "kind": kind,
            **({"edited": True} if kind == "edit" else {}),
            **({"by_bot": True} if by_bot else {}),
        },
        attachments=attachments,
    )


def _press(fields: Mapping[str, Any], now: datetime) -> Message:
    """Convert what a person says about a reply, which `reply_to` names by its id or by that of its question."""
    author_id, name, by_bot = _author(fields)
    if by_bot:
        raise Malformed("feedback is taken from people only")
    number, choice = _name(fields, "id", needed=True), _text(fields, "text", needed=True)
    if choice not in CHOICES:
        raise Malformed(f"text must be one of {', '.join(CHOICES)}")
    return press(
        choice,
        _name(fields, "reply_to", needed=True),
        number=number,
        platform="http",
        chat=_name(fields, "chat", needed=True),
        author_id=author_id,
        author=name,
        at=_moment(fields, now),
        private=_flag(fields, "private"),
        reference={"event": number, "kind": "feedback"},
    )


def _author(fields: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return the author's id and name, and whether it is a bot."""
    author = fields.get("author")
    if not isinstance(author, Mapping) or not set(author) <= {"id", "name", "bot"}:
        raise Malformed("author must be an object with id, name and, where it is a bot, bot")
    author_id = _name(author, "id", needed=True, within="author.")
    return author_id, _name(author, "name", within="author.") or author_id, _flag(author, "bot", within="author.")


def _attachments(fields: Mapping[str, Any]) -> tuple[Attachment, ...]:
    try:
        return attachments_of(fields.get("attachments"))
    except ValueError as fault:
        raise Malformed(str(fault)) from fault


def _thread(fields: Mapping[str, Any], kind: Kind, message_id: str, reply_to: str) -> str:
    thread = _name(fields, "thread")
    if not thread and kind == "post":
        return message_id
    return reply_to if not thread and kind == "comment" else thread


def _fields(event: object) -> Mapping[str, Any]:
    if not isinstance(event, Mapping):
        raise Malformed("an event must be a JSON object")
    unknown = sorted(str(name)[:50] for name in event if name not in FIELDS)
    if unknown:
        raise Malformed(f"unknown fields: {', '.join(unknown[:5])}")
    return event


def _name(fields: Mapping[str, Any], name: str, *, needed: bool = False, within: str = "") -> str:
    value = _text(fields, name, needed=needed, within=within)
    if len(value) > LONGEST_ID:
        raise Malformed(f"{within}{name} may have {LONGEST_ID} characters")
    return value


def _text(fields: Mapping[str, Any], name: str, *, needed: bool = False, within: str = "") -> str:
    value = fields.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{within}{name} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Malformed(f"{within}{name} holds half a character") from error
    if needed and not value.strip():
        raise Malformed(f"{within}{name} must not be empty")
    return value


def _flag(fields: Mapping[str, Any], name: str, *, within: str = "") -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise Malformed(f"{within}{name} must be true or false")
    return value


def _moment(fields: Mapping[str, Any], now: datetime) -> datetime:
    value = _text(fields, "sent_at")
    if not value:
        return now
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise Malformed("sent_at must be a time such as 2026-08-01T20:15:00Z") from error
    if moment.tzinfo is None:
        raise Malformed("sent_at must say its time zone, for example with a Z at the end")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise Malformed("sent_at is out of range") from error


def _words(text: str) -> tuple[str, str]:
    """Return the command that a text begins with, or nothing, and the rest."""
    found = _COMMAND.fullmatch(text.strip())
    if found is None or found[1].lower() not in _KNOWN_COMMANDS:
        return "", text.strip()
    return found[1].lower(), (found[2] or "").strip()
