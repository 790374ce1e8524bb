"""Questions with answers, from YAML, CSV, JSON or JSON Lines."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence

from core.errors import SourceError
from core.settings import FaqSource
from knowledge.formats.question_pairs import FaqEntry, read_entries
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import fill_template, fingerprint

_SLUG_CHARS = 40
# About 30,000 pairs.
MAX_FILE_BYTES = 16 << 20


class FaqFile:
    """A file of questions with answers, each pair a document named after its question, wherever it stands."""

    def __init__(self, name: str, settings: FaqSource, parser: Parser | None = None) -> None:
        self.name = name
        self._settings = settings
        self._parser = parser or ThreadParser()
        self._path = settings.path.expanduser()

    async def listing(self) -> Listing:
        """List the entries. Raises `SourceError` for a missing, broken or empty file, with the line where it breaks."""
        entries, skipped_count = await self._read()
        return Listing({path: _content_hash(entry) for path, entry in entries.items()}, skipped=skipped_count)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the entries as they are now; one that was removed meanwhile is left out."""
        entries, _ = await self._read()
        for path in paths:
            entry = entries.get(path)
            if entry is not None and path in listing.fingerprints:
                yield Document(path, _to_text(entry), "faq", entry.question, self._url(entry))

    def _url(self, entry: FaqEntry) -> str:
        if entry.url:
            return entry.url
        line = str(entry.line)
        return fill_template(self._settings.link, self._path.name).replace("{start}", line).replace("{end}", line)

    async def _read(self) -> tuple[dict[str, FaqEntry], dict[str, int]]:
        path = str(self._path)
        try:
            data = await asyncio.to_thread(self._read_bytes)
            parsed_entries, incomplete_count = await self._parser.run(read_entries, path, data)
        except FormatError as error:
            # What is wrong in the file names it; a limit does not.
            message = str(error) if path in str(error) else f"{path}: {error}"
            raise SourceError(f"source {self.name}: {message}") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise SourceError(f"source {self.name}: {path} cannot be read: {reason}. Check path.") from error
        entries, duplicates = await asyncio.to_thread(self._index, parsed_entries)
        if not entries:
            raise SourceError(f"source {self.name}: {path} has no question with an answer. See docs/sources.md.")
        counts = {"incomplete entry": incomplete_count, "duplicate": duplicates}
        return entries, {reason: count for reason, count in counts.items() if count}

    def _read_bytes(self) -> bytes:
        if self._path.stat().st_size > MAX_FILE_BYTES:
            raise FormatError(f"{self._path} is larger than {MAX_FILE_BYTES >> 20} MB. Split it into several sources.")
        return self._path.read_bytes()

    def _index(self, parsed_entries: Sequence[FaqEntry]) -> tuple[dict[str, FaqEntry], int]:
        """Return the entries by their paths, and how many were there twice."""
        entries: dict[str, FaqEntry] = {}
        duplicates = 0
        for entry in parsed_entries:
            path = f"{self._path.name}#{_slug(entry.question)}"
            if path in entries and entries[path].answer == entry.answer:
                duplicates += 1
                continue
            # Two answers to one question: the second is named after both.
            entries[f"{path}-{fingerprint(entry.answer.encode())[:6]}" if path in entries else path] = entry
        return entries, duplicates


def _to_text(entry: FaqEntry) -> str:
    tags = f"\n\nTags: {', '.join(entry.tags)}" if entry.tags else ""
    return f"{entry.question}\n\n{entry.answer}{tags}"


def _content_hash(entry: FaqEntry) -> str:
    return fingerprint("\0".join((entry.question, entry.answer, entry.url, *entry.tags)).encode())


def _slug(question: str) -> str:
    """Return a readable name that only depends on the question."""
    words = re.sub(r"\W+", "-", question.lower()).strip("-")
    return f"{words[:_SLUG_CHARS].strip('-')}-{fingerprint(question.encode())[:6]}"
