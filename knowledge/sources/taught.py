"""Answers that people taught and somebody approved, from the journal's database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import SourceError, StoreError
from core.storage.lessons import Lesson, Lessons
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import fingerprint

if TYPE_CHECKING:
    from core.storage.engine import Database


class Learned:
    """What was approved, each answer a document named after who approved it and when."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self._path = data_dir.expanduser() / "journal.db"

    async def listing(self) -> Listing:
        """List the approved answers. Raises `SourceError` when the database cannot be read."""
        return Listing({path: _fingerprint(lesson) for path, lesson in (await self._approved()).items()})

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the answers as they are now; one that was rejected meanwhile is left out."""
        approved = await self._approved()
        for path in paths:
            if path in listing.fingerprints and path in approved:
                yield Document(path, _text(approved[path]), "faq", approved[path].question)

    async def _approved(self) -> dict[str, Lesson]:
        # Looking makes nothing: before the first question there is no database.
        if not await asyncio.to_thread(self._path.exists):
            return {}
        try:
            async with self._opened() as database:
                return {_name(lesson): lesson for lesson in await Lessons(database).list("approved")}
        except StoreError as error:
            raise SourceError(f"source {self.name}: {error}") from error

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Database]:
        from core.storage.engine import Database

        database = await Database.open(self._path)
        try:
            yield database
        finally:
            await database.close()


def _name(lesson: Lesson) -> str:
    day = f"{lesson.reviewed_at.replace(tzinfo=UTC):%Y-%m-%d}" if lesson.reviewed_at else "an unknown day"
    who = " ".join(lesson.reviewer.replace("/", " ").split())[:60] or "somebody"
    return f"answer {lesson.number}, approved by {who} on {day}"


def _text(lesson: Lesson) -> str:
    return f"{lesson.question}\n\n{lesson.answer}"


def _fingerprint(lesson: Lesson) -> str:
    return fingerprint("\0".join((lesson.question, lesson.answer)).encode())
