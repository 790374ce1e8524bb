"""Questions with answers, from YAML, CSV or JSON Lines: each entry is a document of its own."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import SourceError
from core.settings import FaqSource
from core.yaml_file import YamlFault, read_yaml
from knowledge.ports import Document, Listing
from knowledge.sources.reading import decode, fill_link

QUESTION_KEYS = ("question", "q", "title", "问题", "问")
ANSWER_KEYS = ("answer", "a", "text", "答案", "回答", "答")
_NOT_WORD = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One question with its answer."""

    question: str
    answer: str
    url: str = ""

    def fingerprint(self) -> str:
        """Return a hash of the content."""
        return hashlib.sha256("\0".join((self.question, self.answer, self.url)).encode()).hexdigest()[:32]


class Faq:
    """Implements `Source` over one file. A path is the file's name, `#`, and the question as a slug."""

    def __init__(self, name: str, settings: FaqSource) -> None:
        self.name = name
        self._settings = settings
        self._path = settings.path.expanduser()
        self._entries: dict[str, Entry] = {}

    async def listing(self) -> Listing:
        """Read the file. Raises `SourceError` when it is missing, broken or empty, with the line."""
        entries, incomplete = await asyncio.to_thread(self._load)
        if not entries:
            raise SourceError(f"source {self.name}: {self._path} holds no entry with a question and an answer")
        self._entries = entries
        skipped = {"without question or answer": incomplete} if incomplete else {}
        return Listing({path: entry.fingerprint() for path, entry in entries.items()}, skipped=skipped)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield these entries."""
        for path in paths:
            entry = self._entries[path]
            url = entry.url or fill_link(self._settings.link, path)
            yield Document(path, f"{entry.question}\n\n{entry.answer}", "faq", entry.question, url)

    def _load(self) -> tuple[dict[str, Entry], int]:
        try:
            raw = list(self._raw())
        except OSError as fault:
            raise SourceError(f"source {self.name}: {self._path} cannot be read: {fault.strerror}") from fault
        except YamlFault as fault:
            raise SourceError(f"source {self.name}: {fault}") from fault
        entries: dict[str, Entry] = {}
        incomplete = 0
        for one in raw:
            entry = _entry(one)
            if entry is None:
                incomplete += 1
                continue
            base = f"{self._path.name}#{_NOT_WORD.sub('-', entry.question.lower()).strip('-')[:80]}"
            path, number = base, 2
            while path in entries:
                path, number = f"{base}-{number}", number + 1
            entries[path] = entry
        return entries, incomplete

    def _raw(self) -> Iterator[Mapping[str, Any]]:
        suffix = self._path.suffix.lower()
        if suffix in (".yaml", ".yml"):
            yield from self._from_yaml()
            return
        text = decode(self._path.read_bytes())
        if suffix == ".csv":
            yield from csv.DictReader(io.StringIO(text), strict=True)
        elif suffix in (".jsonl", ".ndjson"):
            yield from self._from_lines(text)
        else:
            raise SourceError(f"source {self.name}: {self._path} must end in .yaml, .yml, .csv or .jsonl")

    def _from_yaml(self) -> Iterator[Mapping[str, Any]]:
        data = read_yaml(self._path).data
        if isinstance(data, Mapping):
            yield from ({"question": question, "answer": answer} for question, answer in data.items())
        elif isinstance(data, list):
            yield from (one if isinstance(one, Mapping) else {} for one in data)
        elif data is not None:
            raise SourceError(f"source {self.name}: {self._path} must be a list of entries, or questions with answers")

    def _from_lines(self, text: str) -> Iterator[Mapping[str, Any]]:
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                one = json.loads(line)
            except json.JSONDecodeError as fault:
                raise SourceError(f"source {self.name}: {self._path}:{number}: {fault.msg}") from fault
            yield one if isinstance(one, Mapping) else {}


def _entry(raw: Mapping[str, Any]) -> Entry | None:
    fields = {str(key).strip().lower(): str(value).strip() for key, value in raw.items() if value is not None}
    question = next((fields[key] for key in QUESTION_KEYS if fields.get(key)), "")
    answer = next((fields[key] for key in ANSWER_KEYS if fields.get(key)), "")
    return Entry(question, answer, fields.get("url", "")) if question and answer else None
