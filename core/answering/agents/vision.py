"""Descriptions of attached pictures by a vision model. They enter the question as data.

A picture is even less trusted than other text of a chat: the asker may not have read all that is written in it. So the
description is quoted line by line, its delimiters are escaped, and no prompt holds it outside the fence of a question.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from core.answering.context import AnswerDependencies
from core.catalogue import messages_for
from core.errors import ServiceError
from core.evidence.rendering import escape_delimiters
from core.formatting import format_duration, with_description
from core.llm.images import validate_image
from core.llm.reply_parsing import strip_reasoning
from core.observability.logs import get_logger
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.types import Image, ImageLoader, Question, Turn

_log = get_logger(__name__)

MAX_DESCRIPTION_CHARS = 2000
_CONTROL = re.compile(r"[^\S\n]|[\x00-\x09\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class ImageDescription:
    """A question with the description of its pictures.

    `question` is the one to answer; its text is empty when there is nothing to answer. `description` is what the
    pictures show; `note` tells the asker which attachments nobody read.
    """

    question: Question
    description: str = ""
    note: str = ""

    def with_note(self, text: str) -> str:
        """Return a reply with the note below it."""
        return f"{text.rstrip()}\n\n{self.note}".strip() if self.note else text


async def describe_images(question: Question, deps: AnswerDependencies, budget: Budget) -> ImageDescription:
    """Describe a question's pictures within the share `vision` of the budget; without pictures, do nothing.

    A file that cannot be fetched, or is no picture, is left out, and so is what exceeds the limits. Without a vision
    model, and when it fails or is too slow, only the text of the question is answered. The note says so.
    """
    question_text = question.text.strip()
    messages = messages_for(deps.prompts.language)
    notes = [messages.attachment_unsupported] if question.unsupported_attachments and question_text else []
    if not question.image_loaders:
        return ImageDescription(question, note=_join_notes(notes))
    if deps.model is None or deps.settings.models.get_vision_model() is None:
        return ImageDescription(question, note=messages.images_unsupported if question_text else messages.picture)
    allowance = deps.image_quota.take(question)
    total = len(question.image_loaders)
    if not allowance.count:
        wait = format_duration(max(60.0, allowance.wait_s), messages)
        text = messages.images_exhausted.format(wait=wait)
        return ImageDescription(question, note=_join_notes([*notes, f"*{text}*"]) if question_text else text)
    if allowance.count < total:
        notes.append(messages.images_left_out.format(count=allowance.count, total=total))
    loaders = question.image_loaders[: allowance.count]
    description = await budget.run_stage("vision", _describe(question, loaders, deps.model, deps, budget), str)
    if not description:
        budget.degrade("vision", "failed")
        return ImageDescription(
            question, note=messages.image_failed_text_only if question_text else messages.image_failed
        )
    return ImageDescription(
        replace(question, text=with_description(question.text, description)), description, _join_notes(notes)
    )


def _join_notes(notes: Iterable[str]) -> str:
    return "\n\n".join(notes)


async def _describe(
    question: Question, loaders: Sequence[ImageLoader], model: ChatModel, deps: AnswerDependencies, budget: Budget
) -> str:
    """Return what the pictures show; empty when none of them is usable. Raises `ModelError`."""
    async with deps.image_quota.turns:
        images = await _fetch_images(loaders)
        if not images:
            return ""
        question_block = f"<question>\n{escape_delimiters(question.text)}\n</question>"
        turn = Turn("user", question_block, images=tuple(images))
        reply = await model.complete(deps.prompts.fill("vision"), [turn], role="vision", budget=budget, agent="vision")
    return sanitize_description(reply)


def sanitize_description(reply: str) -> str:
    """Return a model's description of a picture as lines of plain text, escaped and of bounded length."""
    text = sanitize_text(strip_reasoning(reply.replace("\0", " ")))
    return text if len(text) <= MAX_DESCRIPTION_CHARS else f"{text[:MAX_DESCRIPTION_CHARS]} …"


def sanitize_text(text: str) -> str:
    """Return foreign text as lines of plain text, escaped."""
    # Elsewhere NUL stands for what is left out.
    lines = "\n".join(text.replace("\0", " ").splitlines())
    return escape_delimiters(_CONTROL.sub(" ", lines)).strip()


async def _fetch_images(image_loaders: Sequence[ImageLoader]) -> list[Image]:
    async with task_group() as tasks:
        image_tasks = [tasks.create_task(_fetch_image(fetch)) for fetch in image_loaders]
    return [image for image_task in image_tasks if (image := image_task.result())]


async def _fetch_image(fetch: ImageLoader) -> Image | None:
    try:
        return await asyncio.to_thread(validate_image, await fetch())
    except ServiceError as error:
        _log.warning("picture.unusable", error=str(error))
        return None
