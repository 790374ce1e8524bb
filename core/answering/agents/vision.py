"""What attached pictures show, put into words by a model that sees. The words enter the question as data.

A picture is untrusted like any text of a chat, more so: whoever asks may not have read all that is written in it. So
its words are quoted line by line and defused, and no prompt of ours ever holds them outside the fences of a question.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.answering.context.dependencies import Parts
from core.errors import ServiceError
from core.grounding.evidence import defuse
from core.llm.images import checked
from core.llm.json_repair import cleaned
from core.observability.logs import logger
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.formatting import with_seen
from core.text.messages import notes_in
from core.types import Fetch, Image, Question, Turn

MOST_PICTURES = 3
MOST_CHARS = 2000
_CONTROL = re.compile(r"[^\S\n]|[\x00-\x09\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Looked:
    """A question after its pictures were looked at.

    `question` is what is answered; its text is empty when there is nothing to answer. `seen` is what the pictures show,
    `note` what the asker should know about what was not read.
    """

    question: Question
    seen: str = ""
    note: str = ""

    def noted(self, text: str) -> str:
        """Return a reply with the note below it."""
        return f"{text.rstrip()}\n\n{self.note}".strip() if self.note else text


async def look(question: Question, parts: Parts, budget: Budget) -> Looked:
    """Look at a question's pictures, within the share `vision` of the budget; without any, nothing is done.

    A picture that cannot be fetched or is none is left out. Where no model sees, or it is too slow or fails, the words
    of the question alone are answered, and the note says so.
    """
    words = question.text.strip()
    notes = notes_in(parts.prompts.language)
    note = notes.unread if question.unread and words else ""
    if not question.pictures:
        return Looked(question, note=note)
    if parts.model is None or parts.settings.models.seeing() is None:
        return Looked(question, note=notes.unseen if words else notes.picture)
    seen = await budget.within("vision", _seen(question, parts.model, parts, budget), str)
    if not seen:
        budget.cut_off("vision", "failed")
        return Looked(question, note=notes.not_seen if words else notes.not_looked)
    return Looked(replace(question, text=with_seen(question.text, seen)), seen, note)


async def _seen(question: Question, model: ChatModel, parts: Parts, budget: Budget) -> str:
    """Return what the pictures show; empty when none of them can be looked at. Raises `ModelError`."""
    images = await _images(question.pictures[:MOST_PICTURES])
    if not images:
        return ""
    asked = f"<question>\n{defuse(question.text)}\n</question>"
    turn = Turn("user", asked, images=tuple(images))
    said = await model.complete(parts.prompts.fill("vision"), [turn], role="vision", budget=budget, agent="vision")
    return plain(said)


def plain(said: str) -> str:
    """Return a model's words about a picture as lines of plain text, defused and of bounded length."""
    lines = "\n".join(cleaned(said).splitlines())
    text = defuse(_CONTROL.sub(" ", lines)).strip()
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} …"


async def _images(pictures: Sequence[Fetch]) -> list[Image]:
    async with task_group() as tasks:
        looking = [tasks.create_task(_image(fetch)) for fetch in pictures]
    return [image for one in looking if (image := one.result())]


async def _image(fetch: Fetch) -> Image | None:
    try:
        return await asyncio.to_thread(checked, await fetch())
    except ServiceError as fault:
        logger(__name__).warning("picture.unusable", error=str(fault))
        return None
