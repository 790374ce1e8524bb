"""The replies that the gate makes itself: offers, questions for details, duplicate notices, and attachments."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import get_args

from core.answering.agents.files import MAX_FILE_BYTES
from core.catalogue import messages_for
from core.formatting import format_duration, shorten
from core.language.languages import detect_language
from core.llm.images import MAX_BYTES
from core.ports import Adapter
from core.storage.chat_history import ChatHistory, EarlierAnswer
from core.types import AttachedFile, Attachment, AttachmentKind, Message, Question, Skip, SkipReason, skip

MAX_EXCERPT_CHARS = 240
_CITATION_MARKS = re.compile(r"(?<!\s)\s*+\[\d+(?:,\s*\d+)*\]")

# For so long nobody is told again that something cannot be read.
NOTICE_COOLDOWN_S = 3600.0
KIND_NAMES: dict[AttachmentKind, str] = {
    "picture": "a picture",
    "voice": "a voice message",
    "video": "a video",
    "file": "a file",
    "sticker": "a sticker",
    "other": "something that is no text",
}


def offer_text(language: str, title: str) -> str:
    """Return an offer to answer, naming what was found."""
    texts = messages_for(language)
    topic = _plain_title(title)
    return texts.offer.format(topic=texts.offer_topic.format(topic=topic) if topic else "")


def clarifying_question(language: str, title: str) -> str:
    """Return a question for details, naming what was found."""
    texts = messages_for(language)
    return texts.clarifying_question.format(topic=_plain_title(title) or texts.unnamed_topic)


def duplicate_notice(earlier_answer: EarlierAnswer, language: str) -> str:
    """Return where the same was answered before, and how that answer began."""
    text = " ".join(_CITATION_MARKS.sub("", earlier_answer.reply).split())
    excerpt = shorten(text, MAX_EXCERPT_CHARS)
    texts = messages_for(language)
    elapsed = format_duration(max(60.0, earlier_answer.age_s), texts)
    return texts.answered_before.format(elapsed=elapsed, excerpt=excerpt)


def _plain_title(title: str) -> str:
    """Return a passage's title as plain words: it comes from outside, and is put into Markdown here."""
    plain_title = re.sub(r"[^\w\s.,:/+()'’，。、：；！？（）《》“”-]", " ", title)
    return " ".join(plain_title.split())[:80]


async def decide_attachment_only(
    message: Message, history: ChatHistory, language: str, *, has_vision: bool, has_hearing: bool
) -> tuple[Skip | None, str]:
    """Return why to be silent about what is attached, or what to say about it; neither where it is a question.

    `has_vision` says whether a model looks at pictures, `has_hearing` whether one writes down what is said. Raises
    `StoreError` when the journal cannot be read.
    """
    kind = get_main_kind(message)
    description = describe(message)
    if not message.addressed:
        return skip(SkipReason.ATTACHMENT_ONLY, attachment=description), ""
    # Words that came with it can be answered; to reply with a sound is to ask by it.
    is_about_words = bool(message.quoted) and (kind == "picture" or message.is_forwarded or not message.reply_to)
    has_file = any(map(_is_readable_file, message.attachments))
    is_speech = has_hearing and find_voice(message) is not None
    if is_about_words or has_file or is_speech or (kind == "picture" and has_vision):
        return None, ""
    # In a group that is a gesture.
    if kind == "sticker" and not message.private:
        return skip(SkipReason.STICKER, attachment=description), ""
    text = unsupported_notice(message, language)
    if await history.was_told(message, text, NOTICE_COOLDOWN_S):
        return skip(SkipReason.NOTICE_GIVEN, attachment=description), ""
    return None, text


def is_attachment_only(message: Message) -> bool:
    """Return whether a message has attachments and no text."""
    return bool(message.attachments) and not message.text.strip()


def has_content(message: Message) -> bool:
    """Return whether there is anything to answer: words, quoted ones, or a picture that may hold some."""
    return bool(
        message.text.strip()
        or message.quoted
        or any(attachment.kind == "picture" or _is_readable_file(attachment) for attachment in message.attachments)
    )


def find_voice(message: Message) -> Attachment | None:
    """Return the voice message that its adapter can fetch, or that was written down already."""
    voices = (attachment for attachment in message.attachments if attachment.kind == "voice")
    return next((voice for voice in voices if voice.reference or voice.transcript), None)


def get_main_kind(message: Message) -> AttachmentKind:
    """Return the kind of what is attached that matters most."""
    kinds = {attachment.kind for attachment in message.attachments}
    return next(kind for kind in get_args(AttachmentKind) if kind in kinds)


def describe(message: Message) -> str:
    """Return what is attached, in words for the record."""
    return KIND_NAMES[get_main_kind(message)]


def unsupported_notice(message: Message, language: str) -> str:
    """Return how the bot says that it cannot read what is attached; without a language, in the asker's if known."""
    texts = messages_for(language or detect_language(message.quoted) or message.language[:2].lower())
    notices = {"picture": texts.picture, "voice": texts.voice, "video": texts.video, "file": texts.file}
    return notices.get(get_main_kind(message), texts.other)


def limit_notice(message: Message, language: str, limit: int) -> str:
    """Return how the bot says that it answers an account no more for a while, after so many answers in ten minutes."""
    texts = messages_for(language or message.language[:2].lower())
    return texts.answer_limit.format(count=limit)


def with_attachments(
    question: Question, message: Message, adapter: Adapter, voice: Attachment | None = None
) -> Question:
    """Return the question with what fetches its pictures and files, and the kinds of what cannot be read.

    `voice` is what is heard of its attachments.
    """
    if not message.attachments:
        return question
    images = [attachment for attachment in message.attachments if attachment.kind == "picture"]
    files = [attachment for attachment in message.attachments if _is_readable_file(attachment)]
    unsupported_kinds = {
        attachment.kind
        for attachment in message.attachments
        if attachment.kind not in ("picture", "sticker") and attachment not in (voice, *files)
    }
    if not adapter.can_fetch_attachments:
        kinds = unsupported_kinds | {attachment.kind for attachment in (*images, *files)}
        return replace(question, unsupported_attachments=tuple(sorted(kinds)))
    image_loaders = tuple(partial(adapter.fetch_attachment, attachment, MAX_BYTES) for attachment in images)
    attached_files = tuple(
        AttachedFile(file.name, file.size, partial(adapter.fetch_attachment, file, MAX_FILE_BYTES)) for file in files
    )
    return replace(
        question,
        image_loaders=image_loaders,
        files=attached_files,
        unsupported_attachments=tuple(sorted(unsupported_kinds)),
    )


def _is_readable_file(attachment: Attachment) -> bool:
    """Return whether an attachment is a file whose content its adapter can fetch."""
    return attachment.kind == "file" and bool(attachment.reference)
