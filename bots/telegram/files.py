"""What comes with Telegram messages besides text; an album, pictures sent together, is one message. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from core.attached import LANGUAGE
from core.images import MOST_BYTES
from core.types import Attachment, AttachmentKind, Message

if TYPE_CHECKING:
    from aiogram.types import Message as TelegramMessage

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
