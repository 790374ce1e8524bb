"""Questions with answers, from YAML, CSV, JSON or JSON Lines."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from core.errors import SourceError
from core.settings import FaqSource
from knowledge.ports import Document, Listing
from knowledge.sources.faq_formats import Entry, read_entries
from knowledge.sources.links import fill
from knowledge.sources.reading import fingerprint

_SLUG_CHARS = 40


@dataclass(frozen=True, slots=True)
class _Contents:
    entries: dict[str, Entry]
    skipped: dict[str, int]


class FaqFile:
    """A file of questions with answers, each pair a document named after its question, wherever it stands."""

    def __init__(self, name: str, settings: FaqSource) -> None:
        self.name = name
        self._settings = settings
        self._path = settings.path.expanduser()

    async def listing(self) -> Listing:
        """List the entries. Raises `SourceError` for a missing, broken or empty file, with the line where it breaks."""
        contents = await asyncio.to_thread(self._read)
        fingerprints = {path: _content_hash(entry) for path, entry in contents.entries.items()}
        return Listing(fingerprints, skipped=contents.skipped)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the entries as they are now; one that was removed meanwhile is left out."""
        contents = await asyncio.to_thread(self._read)
        for path in paths:
            entry = contents.entries.get(path)
            if entry is not None and path in listing.fingerprints:
                yield Document(path, _text(entry), "faq", entry.question, self._url(entry))

    def _url(self, entry: Entry) -> str:
        if entry.url:
            return entry.url
        line = str(entry.line)
        return fill(self._settings.link, self._path.name).replace("{start}", line).replace("{end}", line)

    def _read(self) -> _Contents:
        try:
            found, incomplete = read_entries(self._path)
        except ValueError as error:
            raise SourceError(f"source {self.name}: {error}") from error
        except OSError as error:
            problem = error.strerror or str(error)
            raise SourceError(f"source {self.name}: {self._path} cannot be read: {problem}. Check path.") from error
        skipped: Counter[str] = Counter({"incomplete entry": incomplete} if incomplete else {})
        entries: dict[str, Entry] = {}
        for entry in found:
            path = f"{self._path.name}#{_slug(entry.question)}"
            if path in entries and entries[path].answer == entry.answer:
                skipped["duplicate"] += 1
                continue
            # Two answers to one question: the second is named after both.
            entries[f"{path}-{fingerprint(entry.answer.encode())[:6]}" if path in entries else path] = entry
        if not entries:
            raise SourceError(f"source {self.name}: {self._path} has no question with an answer. See docs/sources.md.")
        return _Contents(entries, dict(skipped))


def _text(entry: Entry) -> str:
    tags = f"\n\nTags: {', '.join(entry.tags)}" if entry.tags else ""
    return f"{entry.question}\n\n{entry.answer}{tags}"


def _content_hash(entry: Entry) -> str:
    return fingerprint("\0".join((entry.question, entry.answer, entry.url, *entry.tags)).encode())


def _slug(question: str) -> str:
    """Return a readable name that only depends on the question."""
    words = re.sub(r"\W+", "-", question.lower()).strip("-")
    return f"{words[:_SLUG_CHARS].strip('-')}-{fingerprint(question.encode())[:6]}"
