"""What is attached to a question: lines of its files, and descriptions of its pictures. They enter it as data.

A file is even less trusted than other text of a chat: the asker may not have read all that is written in it. So its
lines are quoted, their delimiters are escaped, and no prompt holds them outside the fence of a question. Nothing cites
them: they are no source.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from core.answering.agents.vision import ImageDescription, describe_images, sanitize_text
from core.answering.context import AnswerDependencies
from core.catalogue import Messages, messages_for
from core.errors import ServiceError
from core.formatting import format_code
from core.observability.logs import get_logger
from core.runtime.budget import Budget
from core.types import AttachedFile, FileExcerpt, Question

_log = get_logger(__name__)

MAX_FILES = 3
MAX_FILE_BYTES = 4 * 2**20
# Fetching and reading, and half of what is left before the deadline at most.
MAX_SECONDS = 10.0
MAX_NAME_CHARS = 80
# Of all files together.
MAX_EXCERPT_CHARS = 4000


async def describe_attachments(question: Question, deps: AnswerDependencies, budget: Budget) -> ImageDescription:
    """Read a question's files, and describe its pictures; the note says which of them nobody read, and why."""
    if not question.files:
        return await describe_images(question, deps, budget)
    texts = messages_for(deps.prompts.language)
    files = question.files[:MAX_FILES]
    with budget.timed("files"):
        timeout_s = min(MAX_SECONDS, budget.remaining() / 2)
        max_chars = MAX_EXCERPT_CHARS // len(files)
        reads = (_read(file, question.text, max_chars, timeout_s, deps) for file in files)
        excerpts = await asyncio.gather(*reads)
    notes = [_make_note(file, excerpt, texts) for file, excerpt in zip(files, excerpts, strict=True)]
    if len(question.files) > MAX_FILES:
        notes.append(texts.files_left_out.format(count=MAX_FILES, total=len(question.files)))
    attached = "\n".join(sanitize_text(excerpt.text) for excerpt in excerpts if excerpt.text)
    # The whole of it would hide from a search what it is about.
    key_lines = "\n".join(f"> {sanitize_text(excerpt.key_line)}" for excerpt in excerpts if excerpt.key_line)
    text = f"{question.text}\n\n{key_lines}".strip() if key_lines else question.text
    pictures = await describe_images(replace(question, text=text, attached=attached), deps, budget)
    description = "\n".join(text for text in (attached, pictures.description) if text)
    note = "\n\n".join(text for text in (*notes, pictures.note) if text)
    return ImageDescription(pictures.question, description, note)


async def _read(
    file: AttachedFile, question: str, max_chars: int, timeout_s: float, deps: AnswerDependencies
) -> FileExcerpt:
    if file.size > MAX_FILE_BYTES:
        return FileExcerpt(problem="too_large")
    if deps.model is None:
        return FileExcerpt(problem="no_model")
    if deps.file_reader is None:
        return FileExcerpt(problem="failed")
    try:
        async with asyncio.timeout(timeout_s):
            return await deps.file_reader.read(file.name, await file.fetch(), question, max_chars)
    except (ServiceError, TimeoutError) as error:
        # The names of files and their addresses are the asker's.
        _log.warning("file.not_fetched", error=str(error) or "it took too long")
        return FileExcerpt(problem="failed")


def _make_note(file: AttachedFile, excerpt: FileExcerpt, texts: Messages) -> str:
    name = format_code(file.name, MAX_NAME_CHARS, texts)
    if excerpt.problem:
        return texts.file_unread.format(name=name, problem=texts.file_problems[excerpt.problem])
    if excerpt.shown_lines < excerpt.total_lines:
        return texts.file_read_partly.format(
            name=name, count=f"{excerpt.shown_lines:,}", total=f"{excerpt.total_lines:,}"
        )
    return ""
