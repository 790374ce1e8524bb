"""What came with a message besides its words: what of it can be looked at, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from core.llm.images import MAX_BYTES
from core.ports import Adapter
from core.text.catalogue import messages_for
from core.text.tokens import detect_language
from core.types import AttachmentKind, Message, Question

_KIND_NAMES: dict[AttachmentKind, str] = {
    "picture": "a picture",
    "voice": "a voice message",
    "video": "a video",
    "file": "a file",
    "sticker": "a sticker",
    "other": "something that is no text",
}


def is_attachment_only(message: Message) -> bool:
    """Say whether a message has attachments and no words of its own."""
    return bool(message.attachments) and not message.text.strip()


def has_content(message: Message) -> bool:
    """Say whether there is anything to answer: words, quoted ones, or a picture that may hold some."""
    return bool(
        message.text.strip()
        or message.quoted
        or any(attachment.kind == "picture" for attachment in message.attachments)
    )


def get_main_kind(message: Message) -> AttachmentKind:
    """Return the kind of what is attached that matters most."""
    kinds = {attachment.kind for attachment in message.attachments}
    return next(kind for kind in get_args(AttachmentKind) if kind in kinds)


def describe(message: Message) -> str:
    """Return what is attached, in words for the record."""
    return _KIND_NAMES[get_main_kind(message)]


def unsupported_notice(message: Message) -> str:
    """Return how the bot says that it cannot read what is attached, in the asker's language as far as it is known."""
    texts = messages_for(detect_language(message.quoted) or message.language[:2].lower())
    notices = {"picture": texts.picture, "voice": texts.voice, "video": texts.video, "file": texts.file}
    return notices.get(get_main_kind(message), texts.other)


def with_attachments(question: Question, message: Message, adapter: Adapter) -> Question:
    """Return the question with what fetches its pictures, and the kinds of what cannot be read."""
    if not message.attachments:
        return question
    images = [attachment for attachment in message.attachments if attachment.kind == "picture"]
    unsupported_kinds = {
        attachment.kind for attachment in message.attachments if attachment.kind not in ("picture", "sticker")
    }
    if not adapter.can_fetch_attachments:
        return replace(
            question,
            unsupported_attachments=tuple(sorted(unsupported_kinds | {attachment.kind for attachment in images})),
        )
    image_loaders = tuple(partial(adapter.fetch_attachment, attachment, MAX_BYTES) for attachment in images)
    return replace(question, image_loaders=image_loaders, unsupported_attachments=tuple(sorted(unsupported_kinds)))
