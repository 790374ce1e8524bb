"""From a Telegram update to a message: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from aiogram.methods import GetChatAdministrators, GetUpdates

from core.llm.images import MOST_BYTES
from core.messaging.gate.attachments import LANGUAGE
from core.messaging.policy import command_table as commands
from core.types import Attachment, AttachmentKind, ConversationKey, Message

if TYPE_CHECKING:
    from aiogram.types import Message as TelegramMessage
    from aiogram.types import MessageEntity, Update


class RawUpdates(GetUpdates):
    """getUpdates with the updates as they came: aiogram's own refuses the whole batch for one bad update."""

    __returning__ = list[Any]


class RawAdministrators(GetChatAdministrators):
    """getChatAdministrators with the members as they came: of their many kinds nothing but the user is needed."""

    __returning__ = list[Any]


Other = TypeVar("Other")

ALBUM = "album"
# The parts of an album come one after the other; so long they are waited for.
ALBUM_S = 0.5
# Kinds by the names of the fields. An animation also comes as a document, and counts as what it is.
_KINDS: tuple[tuple[str, AttachmentKind], ...] = (
    *((name, "voice") for name in ("voice", "audio")),
    *((name, "video") for name in ("animation", "video", "video_note")),
    *((name, "sticker") for name in ("sticker", "dice")),
    *((name, "other") for name in ("poll", "location", "venue", "contact", "story", "checklist")),
)
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")


def attachments_of(event: TelegramMessage) -> tuple[Attachment, ...]:
    """Return what came with a message. `reference` holds the `file_id` of a picture."""
    if event.photo:
        # Sorted by size: the largest that is taken.
        fitting = [one for one in event.photo if (one.file_size or 0) <= MOST_BYTES] or event.photo[:1]
        best = max(fitting, key=lambda one: one.width * one.height)
        return (Attachment("picture", size=best.file_size or 0, reference={"file_id": best.file_id}),)
    for name, kind in _KINDS:
        if getattr(event, name, None) is not None:
            return (Attachment(kind, name),)
    if event.document is not None:
        name, size = event.document.file_name or "", event.document.file_size or 0
        if event.document.mime_type in _PICTURES:
            return (Attachment("picture", name, size, {"file_id": event.document.file_id}),)
        return (Attachment("file", name, size),)
    return ()


def attached_to(event: TelegramMessage, answered: TelegramMessage | None) -> tuple[Attachment, ...]:
    """Return what came with a message, or the picture that it replies to: "what does this mean?" is about that."""
    own = attachments_of(event)
    if own or answered is None:
        return own
    return tuple(one for one in attachments_of(answered) if one.kind == "picture")


def notes_of(event: TelegramMessage) -> dict[str, str]:
    """Return what a message's reference keeps for albums, and for what has no words to tell a language by."""
    album = {ALBUM: event.media_group_id} if event.media_group_id else {}
    said = event.text or event.caption
    code = event.from_user.language_code if event.from_user and not said else None
    return {**album, **({LANGUAGE: code} if code else {})}


def ends_in_album(batch: Sequence[object]) -> bool:
    """Say whether the last of some raw updates belongs to an album."""
    last = batch[-1] if batch else None
    message = last.get("message") if isinstance(last, dict) else None
    return isinstance(message, dict) and "media_group_id" in message


def joined(batch: Sequence[Message | Other], further: Other) -> list[Message | Other]:
    """Return a batch in which every album is one message: that with the words, or else the first, has all pictures.

    The others become `further`.
    """
    albums: dict[tuple[object, object], list[int]] = {}
    for at, one in enumerate(batch):
        if isinstance(one, Message) and ALBUM in one.reference and not one.reference.get("edited"):
            albums.setdefault((one.key, one.reference[ALBUM]), []).append(at)
    whole = list(batch)
    for places in albums.values():
        parts = [one for at in places if isinstance(one := batch[at], Message)]
        chosen = max(range(len(parts)), key=lambda number: (bool(parts[number].text), -number))
        pictures = tuple(picture for part in parts for picture in part.attachments)
        for number, at in enumerate(places):
            whole[at] = replace(parts[chosen], attachments=pictures) if number == chosen else further
    return whole


_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:@([A-Za-z0-9_]+))?")
_KNOWN_COMMANDS = frozenset(command.name for command in commands.COMMANDS)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is. `reads_all` is true when privacy mode is off for it."""

    id: int
    username: str
    reads_all: bool = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """An update that is no message for us. `expected` is false for kinds of updates that nobody asked for."""

    reason: str
    expected: bool = True


@dataclass(frozen=True, slots=True)
class _Words:
    """A message's text without mentions of the bot and without its command."""

    text: str
    mentioned: bool = False
    command: str = ""
    command_for: str = ""


def to_message(update: Update, me: Identity) -> Message | Ignored:
    """Convert one update, or say why it is none of the bot's business.

    Other bots, service messages and commands for another bot are ignored. Anonymous administrators and members who
    write as a channel are taken under that name. `reference` holds `chat_id`, `message_id`, `thread_id` (or None),
    `username` (the asker's, or empty), for an edited message `edited`, for a post of the linked channel `kind`, for a
    part of an album `album`, and where there are no words the asker's `language`.
    """
    event = update.message or update.edited_message
    if event is None:
        return Ignored("unknown kind of update", expected=False)
    reason = _none_of_ours(event)
    if reason:
        return Ignored(reason)
    words = _words(event.text or event.caption or "", event.entities or event.caption_entities or [], me)
    if words.command_for and words.command_for.lower() != me.username.lower():
        return Ignored("a command for another bot")
    return _message(event, words, me, edited=update.message is None)


def _none_of_ours(event: TelegramMessage) -> str:
    """Return why a message is to be ignored, or nothing."""
    if event.chat.type == "channel":
        return "a channel post"
    # Telegram gives anonymous administrators and channels a stand-in that is a bot: `sender_chat` tells them apart.
    if event.sender_chat is None and event.from_user is None:
        return "without a sender"
    if event.sender_chat is None and event.from_user is not None and event.from_user.is_bot:
        return "written by a bot"
    if not (event.text or event.caption or attachments_of(event)):
        return "without text (a service message)"
    return ""


def _message(event: TelegramMessage, words: _Words, me: Identity, *, edited: bool) -> Message:
    private = event.chat.type == "private"
    thread_id = event.message_thread_id if event.is_topic_message else None
    answered = _answered(event)
    to_us = answered is not None and answered.from_user is not None and answered.from_user.id == me.id
    ours = words.command_for != "" or words.command in _KNOWN_COMMANDS
    author_id, author = _author(event)
    return Message(
        id=str(event.message_id),
        key=ConversationKey("telegram", str(event.chat.id), str(thread_id) if thread_id is not None else ""),
        author_id=author_id,
        author=author,
        text=words.text,
        sent_at=event.date,
        private=private,
        addressed=not event.is_automatic_forward and (private or words.mentioned or to_us or ours),
        command=words.command,
        reply_to=str(answered.message_id) if answered is not None else "",
        quoted=_quoted(event, answered),
        bot=str(me.id),
        reference={
            "chat_id": event.chat.id,
            "message_id": event.message_id,
            "thread_id": thread_id,
            "username": (event.from_user.username or "") if event.from_user and not event.sender_chat else "",
            **({"edited": True} if edited else {}),
            **({"kind": "post"} if event.is_automatic_forward else {}),
            **notes_of(event),
        },
        attachments=attached_to(event, answered),
    )


def _author(event: TelegramMessage) -> tuple[str, str]:
    """Return the author's id and display name."""
    if event.sender_chat is not None:
        title = event.sender_chat.title or event.sender_chat.username or "anonymous"
        return str(event.sender_chat.id), f"{title} ({event.author_signature})" if event.author_signature else title
    if event.from_user is None:
        raise ValueError("a message without a sender has no author")
    return str(event.from_user.id), event.from_user.full_name


def _answered(event: TelegramMessage) -> TelegramMessage | None:
    """Return the message that this one replies to.

    In a forum every message that replies to nothing is marked as a reply to the service message that opened its topic.
    """
    answered = event.reply_to_message
    if answered is None or answered.forum_topic_created is not None:
        return None
    return None if event.is_topic_message and answered.message_id == event.message_thread_id else answered


def _quoted(event: TelegramMessage, answered: TelegramMessage | None) -> str:
    """Return the passage that was picked for quoting, or the whole text that was replied to."""
    if event.quote is not None:
        return event.quote.text
    return (answered.text or answered.caption or "") if answered is not None else ""


def _words(text: str, entities: list[MessageEntity], me: Identity) -> _Words:
    """Take the mentions and the command out of a text. Entities count in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    cuts: list[tuple[int, int]] = []
    mentioned, command, command_for = False, "", ""
    for entity in sorted(entities, key=lambda one: one.offset):
        start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
        part = units[start:end].decode("utf-16-le", "replace")
        found = _COMMAND.fullmatch(part) if entity.type == "bot_command" and not command else None
        if _means(entity, part, me):
            mentioned = True
        elif found is not None and not _join(_without(units[:start], cuts)):
            command, command_for = found[1].lower(), found[2] or ""
        else:
            continue
        cuts.append((start, end))
    return _Words(_join(_without(units, cuts)), mentioned, command, command_for)


def _without(units: bytes, cuts: list[tuple[int, int]]) -> list[str]:
    """Return what is left of a UTF-16 text before, between and after the cuts."""
    borders = [0, *(place for cut in cuts for place in cut), len(units)]
    return [
        units[start:end].decode("utf-16-le", "replace") for start, end in zip(borders[::2], borders[1::2], strict=True)
    ]


def _means(entity: MessageEntity, part: str, me: Identity) -> bool:
    """Say whether an entity mentions the bot, by its name or by its id."""
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == me.id
    return entity.type == "mention" and bool(me.username) and part.lower() == f"@{me.username}".lower()


def _join(pieces: list[str]) -> str:
    """Join what is left around the cuts, with one space where there was one on either side."""
    joined = pieces[0].lstrip()
    for piece in pieces[1:]:
        # "@bot, what is this?" begins with the mention: its comma goes too.
        rest = piece.lstrip(" ,:;") if not joined else piece
        joined += rest.lstrip(" ") if joined.endswith(" ") else rest
    return joined.strip()
