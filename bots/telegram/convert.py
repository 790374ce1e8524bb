"""From a Telegram update to a message: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from bots.common.attachments import PICTURE_TYPES, select_readable
from bots.common.events import ChatMove, IgnoredEvent
from bots.telegram.visible_text import (
    get_held_text,
    get_quoted_text,
    get_rich_text,
    get_text_and_entities,
    get_visible_text,
    is_bare_place,
)
from core.llm.images import MAX_BYTES
from core.messaging.policy import command_table as commands
from core.types import Attachment, AttachmentKind, ConversationKey, Message, Origin

if TYPE_CHECKING:
    from aiogram.types import Chat, Message as TelegramMessage, MessageEntity, MessageOriginUnion, Update, User


Other = TypeVar("Other")

ALBUM_KEY = "album"
# The parts of an album arrive one after the other: how long to wait for the rest, in seconds.
ALBUM_WAIT_S = 0.5
# Kinds by the names of the fields. An animation also comes as a document, and counts as what it is.
_KIND_BY_FIELD: tuple[tuple[str, AttachmentKind], ...] = (
    *((name, "video") for name in ("animation", "video", "video_note")),
    *((name, "sticker") for name in ("sticker", "dice")),
    ("story", "other"),
)
# The kinds of entities whose words are shown, not said.
_SHOWN_PARTS = ("blockquote", "expandable_blockquote", "code", "pre")
_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:@([A-Za-z0-9_]+))?")
SERVICE_REASON = "without text (a service message)"
_COMMAND_NAMES = frozenset(command.name for command in commands.COMMANDS)


def get_attachments(event: TelegramMessage) -> tuple[Attachment, ...]:
    """Return the attachments of a message. `reference` holds the `file_id` of what can be fetched."""
    if event.photo:
        # The largest size that is small enough.
        sizes = [photo for photo in event.photo if (photo.file_size or 0) <= MAX_BYTES] or event.photo[:1]
        largest = max(sizes, key=lambda photo: photo.width * photo.height)
        return (Attachment("picture", size=largest.file_size or 0, reference={"file_id": largest.file_id}),)
    if recording := event.voice or event.audio:
        reference = {"file_id": recording.file_id}
        return (Attachment("voice", "voice", recording.file_size or 0, reference, float(recording.duration)),)
    for name, kind in _KIND_BY_FIELD:
        if getattr(event, name, None) is not None:
            return (Attachment(kind, name),)
    if is_bare_place(event):
        return (Attachment("other", "location"),)
    if event.document is None:
        return ()
    is_picture = event.document.mime_type in PICTURE_TYPES
    reference = {"file_id": event.document.file_id}
    return (
        Attachment(
            "picture" if is_picture else "file",
            event.document.file_name or "",
            event.document.file_size or 0,
            reference,
        ),
    )


def _get_language(event: TelegramMessage) -> str:
    """Return the author's language for a message that has no words to tell one by."""
    code = event.from_user.language_code if event.from_user and not (event.text or event.caption) else None
    return code or ""


def ends_in_album(batch: Sequence[object]) -> bool:
    """Return whether the last of some raw updates belongs to an album."""
    last_message = batch[-1] if batch else None
    message = last_message.get("message") if isinstance(last_message, dict) else None
    return isinstance(message, dict) and "media_group_id" in message


def merge_albums(batch: Sequence[Message | Other], placeholder: Other) -> list[Message | Other]:
    """Merge every album of a batch into one message: that for the bot, that with a text, or else the first.

    It has all pictures and all captions; a command has its own alone. The others become `placeholder`.
    """
    albums: dict[tuple[object, object], list[int]] = {}
    for index, item in enumerate(batch):
        if isinstance(item, Message) and ALBUM_KEY in item.reference and not item.is_edit:
            albums.setdefault((item.key, item.reference[ALBUM_KEY]), []).append(index)
    result = list(batch)
    for indexes in albums.values():
        parts = [item for index in indexes if isinstance(item := batch[index], Message)]
        main_index = max(range(len(parts)), key=lambda at: (parts[at].addressed, bool(parts[at].text), -at))
        main = parts[main_index]
        text = main.text if main.command else "\n".join(dict.fromkeys(part.text for part in parts if part.text))
        pictures = tuple(picture for part in parts for picture in part.attachments)
        for part_index, index in enumerate(indexes):
            result[index] = replace(main, text=text, attachments=pictures) if part_index == main_index else placeholder
    return result


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is. `can_read_all` is true when privacy mode is off for it."""

    id: int
    username: str
    can_read_all: bool = False


@dataclass(frozen=True, slots=True)
class _ParsedText:
    """A message's text without mentions of the bot and without its command."""

    text: str
    is_mentioned: bool = False
    command: str = ""
    command_target: str = ""


def to_message(update: Update, me: Identity) -> Message | IgnoredEvent:
    """Convert one update, or return why it is ignored.

    Other bots, service messages and commands for another bot are ignored. Anonymous administrators and members who
    write as a channel are taken under that name. `reference` holds `chat_id`, `message_id`, `thread_id` (or None),
    `username` (the asker's, or empty), and for a part of an album `album`.
    """
    event = update.message or update.edited_message
    if event is None:
        return IgnoredEvent("unknown kind of update", is_expected=False)
    if me.id in [user.id for user in event.new_chat_members or ()] or event.group_chat_created:
        return _to_welcome(event, me)
    if move := _find_move(event):
        return move
    reason = _get_ignore_reason(event)
    if reason:
        return IgnoredEvent(reason)
    text, entities = get_text_and_entities(event)
    content = _parse_text(text, entities, me, with_command=not _is_forwarded(event))
    if not text and event.rich_message is not None:
        content = _parse_rich_text(get_rich_text(event.rich_message), me)
    if content.command_target and content.command_target.lower() != me.username.lower():
        return IgnoredEvent("a command for another bot")
    return _build_message(event, content, me, edited=update.message is None)


def _to_welcome(event: TelegramMessage, me: Identity) -> Message | IgnoredEvent:
    """Return what the bot says first in a group that it was added to: a reply to nobody."""
    if event.from_user is None:
        return IgnoredEvent("without a sender")
    return Message(
        id=str(event.message_id),
        key=ConversationKey("telegram", str(event.chat.id)),
        author_id=str(event.from_user.id),
        author=event.from_user.full_name,
        text="",
        sent_at=event.date,
        addressed=True,
        command="start",
        bot=str(me.id),
        reference={"chat_id": event.chat.id, "message_id": 0, "thread_id": None, "username": ""},
        language=_get_language(event),
        origin=Origin(purpose="welcome"),
    )


def _find_move(event: TelegramMessage) -> ChatMove | None:
    """Return that a group was upgraded, as Telegram says in both of its chats."""
    chat = event.chat.id
    if event.migrate_to_chat_id is not None:
        return ChatMove(SERVICE_REASON, former=str(chat), chat=str(event.migrate_to_chat_id))
    if event.migrate_from_chat_id is not None:
        return ChatMove(SERVICE_REASON, former=str(event.migrate_from_chat_id), chat=str(chat))
    return None


def _get_ignore_reason(event: TelegramMessage) -> str:
    """Return why a message is to be ignored, or nothing."""
    if event.chat.type == "channel":
        return "a channel post"
    if event.direct_messages_topic is not None:
        # All who write to a channel share one chat.
        return "a direct message to a channel"
    # For anonymous administrators and channels, Telegram names a bot as the author: `sender_chat` says who wrote.
    if event.sender_chat is None and event.from_user is None:
        return "without a sender"
    if event.sender_chat is None and event.from_user is not None and event.from_user.is_bot:
        return "written by a bot"
    if not (get_attachments(event) or get_visible_text(event)):
        return SERVICE_REASON
    return ""


def _build_message(event: TelegramMessage, content: _ParsedText, me: Identity, *, edited: bool) -> Message:
    is_private = event.chat.type == "private"
    thread_id = event.message_thread_id if event.is_topic_message else None
    replied_message = _get_replied_message(event)
    is_reply_to_bot = (
        replied_message is not None and replied_message.from_user is not None and replied_message.from_user.id == me.id
    )
    is_bot_command = content.command_target != "" or content.command in _COMMAND_NAMES
    author_id, author = _get_author(event)
    origins = _find_origins(event, replied_message)
    own_words = (author_id,) if get_held_text(event) and not _is_forwarded(event) else ()
    return Message(
        id=str(event.message_id),
        key=ConversationKey("telegram", str(event.chat.id), str(thread_id) if thread_id is not None else ""),
        author_id=author_id,
        author=author,
        text=content.text,
        sent_at=event.date,
        private=is_private,
        addressed=not event.is_automatic_forward
        and (is_private or content.is_mentioned or is_reply_to_bot or is_bot_command),
        command=content.command,
        reply_to=str(replied_message.message_id) if replied_message is not None else "",
        quoted=get_quoted_text(event, replied_message),
        bot=str(me.id),
        reference={
            "chat_id": event.chat.id,
            "message_id": event.message_id,
            "thread_id": thread_id,
            "username": (event.from_user.username or "") if event.from_user and not event.sender_chat else "",
            **({ALBUM_KEY: event.media_group_id} if event.media_group_id else {}),
        },
        attachments=get_attachments(event)
        or (select_readable(get_attachments(replied_message)) if replied_message is not None else ()),
        is_edit=edited,
        is_forwarded=_is_forwarded(event),
        quoted_authors=(*dict.fromkeys(origin for origin in origins if origin != author_id), *own_words),
        is_post=True if event.is_automatic_forward else None,
        language=_get_language(event),
        chat_title=event.chat.title or "",
    )


def _get_author(event: TelegramMessage) -> tuple[str, str]:
    """Return the author's id and display name."""
    if event.sender_chat is not None:
        title = event.sender_chat.title or event.sender_chat.username or "anonymous"
        return str(event.sender_chat.id), f"{title} ({event.author_signature})" if event.author_signature else title
    if event.from_user is None:
        raise ValueError("a message without a sender has no author")
    return str(event.from_user.id), event.from_user.full_name


def _find_origins(event: TelegramMessage, replied_message: TelegramMessage | None) -> list[str]:
    """Return the ids of those whose words a message quotes or forwards, as far as Telegram names them."""
    origins = [event.forward_origin, event.external_reply.origin if event.external_reply is not None else None]
    senders = [sender for origin in origins for sender in _get_senders(origin)]
    if replied_message is not None:
        # Who forwarded it said nothing of it: they stand for somebody whom Telegram does not name.
        forwarder = replied_message.sender_chat or replied_message.from_user
        senders += _get_senders(replied_message.forward_origin) or ([forwarder] if forwarder is not None else [])
    for holder in (event, replied_message, event.external_reply):
        options = holder.poll.options if holder is not None and holder.poll is not None else []
        # What others added to a poll is their own.
        senders += [sender for each in options for sender in (each.added_by_user, each.added_by_chat) if sender]
    return [str(sender.id) for sender in senders]


def _get_senders(origin: MessageOriginUnion | None) -> list[User | Chat]:
    senders = [getattr(origin, name, None) for name in ("sender_user", "sender_chat", "chat")]
    return [sender for sender in senders if sender is not None]


def _get_replied_message(event: TelegramMessage) -> TelegramMessage | None:
    """Return the message that this one replies to.

    In a forum every message that replies to nothing is marked as a reply to the service message that opened its topic.
    """
    replied_message = event.reply_to_message
    if replied_message is None or replied_message.forum_topic_created is not None:
        return None
    return None if event.is_topic_message and replied_message.message_id == event.message_thread_id else replied_message


def _is_forwarded(event: TelegramMessage) -> bool:
    """Return whether the words are somebody else's: forwarded, of a channel, or of a bot that speaks for a person."""
    bots = (event.via_bot, event.sender_business_bot)
    return event.forward_origin is not None or bool(event.is_automatic_forward) or any(bot is not None for bot in bots)


def _parse_rich_text(text: str, me: Identity) -> _ParsedText:
    """Take the mentions out of a rich text, which names nobody otherwise and gives no command."""
    mention = rf"(?<![\w@])@{re.escape(me.username)}(?!\w)"
    pieces = re.split(mention, text, flags=re.IGNORECASE) if me.username else [text]
    return _ParsedText(_join_pieces(pieces), is_mentioned=len(pieces) > 1)


def _parse_text(text: str, entities: Sequence[MessageEntity], me: Identity, *, with_command: bool) -> _ParsedText:
    """Take the mentions and the command, if there may be one, out of a text. Entities count in UTF-16 units.

    What is quoted, or shown as code, gives no command.
    """
    shown_parts = [(entity.offset, entity.offset + entity.length) for entity in entities if entity.type in _SHOWN_PARTS]
    encoded_text = text.encode("utf-16-le", "surrogatepass")
    cuts: list[tuple[int, int]] = []
    is_mentioned = False
    command = ""
    command_target = ""
    for entity in sorted(entities, key=lambda item: item.offset):
        start = 2 * entity.offset
        end = 2 * (entity.offset + entity.length)
        entity_text = encoded_text[start:end].decode("utf-16-le", "replace")
        is_shown = any(begin <= entity.offset < stop for begin, stop in shown_parts)
        may_be_command = with_command and entity.type == "bot_command" and not command and not is_shown
        match = _COMMAND.fullmatch(entity_text) if may_be_command else None
        if _is_bot_mention(entity, entity_text, me):
            is_mentioned = True
        elif match is not None and not _join_pieces(_cut_out(encoded_text[:start], cuts)):
            command = match[1].lower()
            command_target = match[2] or ""
        else:
            continue
        cuts.append((start, end))
    return _ParsedText(_join_pieces(_cut_out(encoded_text, cuts)), is_mentioned, command, command_target)


def _cut_out(encoded_text: bytes, cuts: list[tuple[int, int]]) -> list[str]:
    """Return what is left of a UTF-16 text before, between and after the cuts."""
    boundaries = [0, *(offset for cut in cuts for offset in cut), len(encoded_text)]
    return [
        encoded_text[start:end].decode("utf-16-le", "replace")
        for start, end in zip(boundaries[::2], boundaries[1::2], strict=True)
    ]


def _is_bot_mention(entity: MessageEntity, entity_text: str, me: Identity) -> bool:
    """Return whether an entity mentions the bot, by its name or by its id."""
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == me.id
    return entity.type == "mention" and bool(me.username) and entity_text.lower() == f"@{me.username}".lower()


def _join_pieces(pieces: list[str]) -> str:
    """Join what is left around the cuts, with one space where there was one on either side."""
    text = pieces[0].lstrip()
    for piece in pieces[1:]:
        # "@bot, what is this?" begins with the mention: its comma goes too.
        rest = piece.lstrip(" ,:;") if not text else piece
        text += rest.lstrip(" ") if text.endswith(" ") else rest
    return text.strip()
