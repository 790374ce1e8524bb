"""Descriptions of attached pictures by a vision model. They enter the question as data.

A picture is even less trusted than other text of a chat: the asker may not have read all that is written in it. So the
description is quoted line by line, its delimiters are escaped, and no prompt holds it outside the fence of a question.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.answering.context import AnswerDependencies
from core.errors import ServiceError
from core.grounding.evidence import escape_delimiters
from core.llm.images import validate_image
from core.llm.reply_parsing import strip_reasoning
from core.observability.logs import get_logger
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.catalogue import messages_for
from core.text.formatting import with_image_description
from core.types import Image, ImageLoader, Question, Turn

MAX_IMAGES = 3
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

    A file that cannot be fetched, or is no picture, is left out. Without a vision model, and when it fails or is too
    slow, only the text of the question is answered, and the note says so.
    """
    question_text = question.text.strip()
    messages = messages_for(deps.prompts.language)
    note = messages.attachment_unsupported if question.unsupported_attachments and question_text else ""
    if not question.image_loaders:
        return ImageDescription(question, note=note)
    if deps.model is None or deps.settings.models.get_vision_model() is None:
        return ImageDescription(question, note=messages.images_unsupported if question_text else messages.picture)
    description = await budget.run_stage("vision", _describe(question, deps.model, deps, budget), str)
    if not description:
        budget.degrade("vision", "failed")
        return ImageDescription(
            question, note=messages.image_failed_text_only if question_text else messages.image_failed
        )
    return ImageDescription(
        replace(question, text=with_image_description(question.text, description)), description, note
    )


async def _describe(question: Question, model: ChatModel, deps: AnswerDependencies, budget: Budget) -> str:
    """Return what the pictures show; empty when none of them is usable. Raises `ModelError`."""
    images = await _fetch_images(question.image_loaders[:MAX_IMAGES])
    if not images:
        return ""
    question_block = f"<question>\n{escape_delimiters(question.text)}\n</question>"
    turn = Turn("user", question_block, images=tuple(images))
    reply = await model.complete(deps.prompts.fill("vision"), [turn], role="vision", budget=budget, agent="vision")
    return sanitize_description(reply)


def sanitize_description(reply: str) -> str:
    """Return a model's description of a picture as lines of plain text, escaped and of bounded length."""
    lines = "\n".join(strip_reasoning(reply).splitlines())
    text = escape_delimiters(_CONTROL.sub(" ", lines)).strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else f"{text[:MAX_DESCRIPTION_CHARS]} …"


async def _fetch_images(pictures: Sequence[ImageLoader]) -> list[Image]:
    async with task_group() as tasks:
        image_tasks = [tasks.create_task(_fetch_image(fetch)) for fetch in pictures]
    return [image for image_task in image_tasks if (image := image_task.result())]


async def _fetch_image(fetch: ImageLoader) -> Image | None:
    try:
        return await asyncio.to_thread(validate_image, await fetch())
    except ServiceError as error:
        get_logger(__name__).warning("picture.unusable", error=str(error))
        return None
