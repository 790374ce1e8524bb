"""What came with a message besides its words: what of it can be looked at, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

from core.llm.images import MOST_BYTES
from core.ports import Adapter, Fetching
from core.text.language import language_of
from core.text.messages import notes_in
from core.types import AttachmentKind, Message, Question

# In a message's reference, where the platform says it: the language in which its author uses the platform.
LANGUAGE = "language"
_NAMES: dict[AttachmentKind, str] = {
    "picture": "a picture",
    "voice": "a voice message",
    "video": "a video",
    "file": "a file",
    "sticker": "a sticker",
    "other": "something that is no text",
}


def wordless(message: Message) -> bool:
    """Say whether a message has attachments and no words of its own."""
    return bool(message.attachments) and not message.text.strip()


def has_words(message: Message) -> bool:
    """Say whether there is anything to answer: words, quoted ones, or a picture that may hold some."""
    return bool(message.text.strip() or message.quoted or any(one.kind == "picture" for one in message.attachments))


def kind_of(message: Message) -> AttachmentKind:
    """Return the kind of what is attached that matters most."""
    kinds = {one.kind for one in message.attachments}
    return next(kind for kind in get_args(AttachmentKind) if kind in kinds)


def named(message: Message) -> str:
    """Return what is attached, in words for the record."""
    return _NAMES[kind_of(message)]


def cannot(message: Message) -> str:
    """Return how the bot says that it cannot read what is attached, in the asker's language as far as it is known."""
    notes = notes_in(language_of(message.quoted) or str(message.reference.get(LANGUAGE, ""))[:2].lower())
    said = {"picture": notes.picture, "voice": notes.voice, "video": notes.video, "file": notes.file}
    return said.get(kind_of(message), notes.other)


def with_attachments(question: Question, message: Message, adapter: Adapter) -> Question:
    """Return the question with what fetches its pictures, and the kinds of what cannot be read."""
    if not message.attachments:
        return question
    pictures = [one for one in message.attachments if one.kind == "picture"]
    unread = {one.kind for one in message.attachments if one.kind not in ("picture", "sticker")}
    if not isinstance(adapter, Fetching):
        return replace(question, unread=tuple(sorted(unread | {one.kind for one in pictures})))
    fetches = tuple(partial(adapter.fetch, one, MOST_BYTES) for one in pictures)
    return replace(question, pictures=fetches, unread=tuple(sorted(unread)))
