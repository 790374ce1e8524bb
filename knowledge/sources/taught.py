"""Taught answers that a reviewer approved, from the journal's database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from datetime import UTC
from pathlib import Path

from core.errors import SourceError, StoreError
from core.settings.messaging import JournalSettings
from core.storage.lessons import TaughtAnswer, TaughtAnswerRepository
from core.storage.tables import to_document_name
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import fingerprint


class TaughtAnswers:
    """The approved answers, each a document named after its number and the day of the review.

    `accepts` says whether an answer belongs to this source: by the platform and the chat where it was taught, and the
    closed sources that could be seen there.
    """

    def __init__(
        self,
        name: str,
        data_dir: Path,
        journal: JournalSettings,
        accepts: Callable[[str, str, Collection[str] | None], bool],
    ) -> None:
        self.name = name
        self._data_dir = data_dir.expanduser()
        self._journal = journal
        self._accepts = accepts

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
        from core.storage.opening import open_existing_database

        try:
            # Looking makes nothing: before the first question there is no database.
            async with open_existing_database(self._journal, self._data_dir) as database:
                answers = (
                    await TaughtAnswerRepository(database).list_answers("approved", reader=None) if database else ()
                )
        except StoreError as error:
            raise SourceError(f"source {self.name}: {error}") from error
        return {
            _to_document_path(answer): answer
            for answer in answers
            if self._accepts(answer.platform, answer.chat, answer.closed_sources)
        }


def _to_document_path(taught_answer: TaughtAnswer) -> str:
    day = f"{taught_answer.reviewed_at.replace(tzinfo=UTC):%Y-%m-%d}" if taught_answer.reviewed_at else "an unknown day"
    return f"{to_document_name(taught_answer.number)}{day}"


def _to_text(taught_answer: TaughtAnswer) -> str:
    return f"{taught_answer.question}\n\n{taught_answer.answer}"


def _fingerprint(taught_answer: TaughtAnswer) -> str:
    return fingerprint("\0".join((taught_answer.question, taught_answer.answer)).encode())
