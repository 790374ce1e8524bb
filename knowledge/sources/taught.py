"""Taught answers that a reviewer approved, from the journal's database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import SourceError, StoreError
from core.storage.lessons import TaughtAnswer, TaughtAnswerRepository
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import fingerprint

if TYPE_CHECKING:
    from core.storage.engine import Database


class TaughtAnswers:
    """The approved answers, each a document named after its reviewer and the time of the review."""

    def __init__(self, name: str, data_dir: Path) -> None:
        self.name = name
        self._path = data_dir.expanduser() / "journal.db"

    async def listing(self) -> Listing:
        """List the approved answers. Raises `SourceError` when the database cannot be read."""
        return Listing(
            {path: _fingerprint(taught_answer) for path, taught_answer in (await self._load_approved()).items()}
        )

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the answers as they are now; one that was rejected meanwhile is left out."""
        answers = await self._load_approved()
        for path in paths:
            if path in listing.fingerprints and path in answers:
                yield Document(path, _to_text(answers[path]), "faq", answers[path].question)

    async def _load_approved(self) -> dict[str, TaughtAnswer]:
        # Looking makes nothing: before the first question there is no database.
        if not await asyncio.to_thread(self._path.exists):
            return {}
        try:
            async with self._open_database() as database:
                return {
                    _to_document_path(taught_answer): taught_answer
                    for taught_answer in await TaughtAnswerRepository(database).list_answers("approved")
                }
        except StoreError as error:
            raise SourceError(f"source {self.name}: {error}") from error

    @asynccontextmanager
    async def _open_database(self) -> AsyncIterator[Database]:
        from core.storage.engine import Database

        database = await Database.open(self._path)
        try:
            yield database
        finally:
            await database.close()


def _to_document_path(taught_answer: TaughtAnswer) -> str:
    day = f"{taught_answer.reviewed_at.replace(tzinfo=UTC):%Y-%m-%d}" if taught_answer.reviewed_at else "an unknown day"
    reviewer = " ".join(taught_answer.reviewer.replace("/", " ").split())[:60] or "somebody"
    return f"answer {taught_answer.number}, approved by {reviewer} on {day}"


def _to_text(taught_answer: TaughtAnswer) -> str:
    return f"{taught_answer.question}\n\n{taught_answer.answer}"


def _fingerprint(taught_answer: TaughtAnswer) -> str:
    return fingerprint("\0".join((taught_answer.question, taught_answer.answer)).encode())
