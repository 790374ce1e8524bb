"""Questions with answers, from YAML, CSV, JSON or JSON Lines."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import SourceError
from core.settings import FaqSource
from core.settings.yaml_file import read_yaml
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import decode, fill_template, fingerprint

_SPELLINGS_BY_FIELD = {
    "question": "question questions q query prompt title 问题 問題 提问 提問 问 问句 标准问题",
    "answer": "answer answers a response reply text 答案 回答 答复 答覆 答 解答 标准答案",
    "url": "url link source 链接 鏈接 網址 网址 地址",
    "tags": "tags tag keywords keyword category 标签 標籤 关键词 分类",
}
_SPELLINGS = {field: spellings.split() for field, spellings in _SPELLINGS_BY_FIELD.items()}


@dataclass(frozen=True, slots=True)
class FaqEntry:
    """One question with its answer. `line` is where it starts in the file, 1-based."""

    question: str
    answer: str
    url: str = ""
    tags: tuple[str, ...] = ()
    line: int = 1


ParsedEntries = tuple[list[FaqEntry], int]


def read_entries(path: Path) -> ParsedEntries:
    """Return the entries of a file in their order, and how many lacked a question or an answer.

    Raises `ValueError` with file and line when the file is broken, `OSError` when it cannot be read.
    """
    match path.suffix.lower():
        case ".yaml" | ".yml":
            return _from_yaml(path)
        case ".csv" | ".tsv":
            return _from_csv(path)
        case ".jsonl" | ".ndjson":
            return _from_json_lines(path)
        case ".json":
            return _from_json(path)
        case suffix:
            known_suffixes = ".yaml, .yml, .csv, .tsv, .json, .jsonl, .ndjson"
            raise ValueError(f"{path}: {suffix or 'no suffix'} is not a known FAQ format (known: {known_suffixes})")


def _from_yaml(path: Path) -> ParsedEntries:
    file = read_yaml(path)
    parent_path, rows = _rows(path, file.data)
    return _collect((row, file.get_line((*parent_path, key))) for key, row in rows)


def _from_json(path: Path) -> ParsedEntries:
    return _collect((row, 1) for _, row in _rows(path, _parse(path, decode(path.read_bytes()), 1))[1])


def _from_json_lines(path: Path) -> ParsedEntries:
    lines = enumerate(decode(path.read_bytes()).split("\n"), 1)
    return _collect((_parse(path, line, number), number) for number, line in lines if line.strip())


def _parse(path: Path, text: str, first_line: int) -> Any:
    try:
        # Numbers stay as they are spelled: all of them are text here.
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ValueError(f"{path}:{line}:{error.colno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError(f"{path}:{first_line}: is nested too deeply") from error


def _from_csv(path: Path) -> ParsedEntries:
    text = decode(path.read_bytes())
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[Any, int]] = []
    try:
        names = next(reader, [])
        if not _match_fields(dict.fromkeys(names, "")).keys() >= {"question", "answer"}:
            raise ValueError(f"{path}:1: the header names no question and answer columns (it says: {header.strip()!r})")
        start = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((dict(zip(names, cells, strict=False)), start))
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.line_num}: not valid CSV: {error}") from error
    return _collect(rows)


def _rows(path: Path, data: Any) -> tuple[tuple[str | int, ...], list[tuple[str | int, Any]]]:
    """Return where the entries are in a file, and the entries under their keys.

    A list of entries, a mapping from question to answer, or either of them under one name (`faq:`).
    """
    parent_path: tuple[str | int, ...] = ()
    if isinstance(data, dict) and len(data) == 1 and isinstance(next(iter(data.values())), list | dict):
        name, data = next(iter(data.items()))
        parent_path = (name,)
    if data is None:
        return parent_path, []
    if isinstance(data, list):
        return parent_path, list(enumerate(data))
    if isinstance(data, dict):
        return parent_path, [(key, {"question": key, "answer": value}) for key, value in data.items()]
    raise ValueError(f"{path}:1: expected a list of questions with answers, or a mapping from question to answer")


def _collect(rows: Iterable[tuple[Any, int]]) -> ParsedEntries:
    entries = []
    incomplete = 0
    for row, line in rows:
        fields = _match_fields(row) if isinstance(row, Mapping) else {}
        question, answer = _to_plain_text(fields.get("question")), _to_plain_text(fields.get("answer"))
        if question and answer:
            url, tags = _to_plain_text(fields.get("url")), _parse_tags(fields.get("tags"))
            entries.append(FaqEntry(" ".join(question.split()), answer, url, tags, line))
        else:
            incomplete += 1
    return entries, incomplete


def _match_fields(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row under our names; the more exact spelling of a field wins."""
    values = {str(key).strip().lower(): value for key, value in row.items()}
    matches = ((field, next((word for word in words if word in values), "")) for field, words in _SPELLINGS.items())
    return {field: values[word] for field, word in matches if word}


def _to_plain_text(value: Any) -> str:
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _parse_tags(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else _to_plain_text(value).replace("，", ",").replace(";", ",").split(",")
    return tuple(tag for tag in map(_to_plain_text, items) if tag)


_SLUG_CHARS = 40
# About 30,000 pairs. A file is parsed in this process, so that its errors name a line.
MAX_FILE_BYTES = 16 << 20


class FaqFile:
    """A file of questions with answers, each pair a document named after its question, wherever it stands."""

    def __init__(self, name: str, settings: FaqSource) -> None:
        self.name = name
        self._settings = settings
        self._path = settings.path.expanduser()

    async def listing(self) -> Listing:
        """List the entries. Raises `SourceError` for a missing, broken or empty file, with the line where it breaks."""
        entries, skipped = await asyncio.to_thread(self._read)
        return Listing({path: _content_hash(entry) for path, entry in entries.items()}, skipped=skipped)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the entries as they are now; one that was removed meanwhile is left out."""
        entries, _ = await asyncio.to_thread(self._read)
        for path in paths:
            entry = entries.get(path)
            if entry is not None and path in listing.fingerprints:
                yield Document(path, _to_text(entry), "faq", entry.question, self._url(entry))

    def _url(self, entry: FaqEntry) -> str:
        if entry.url:
            return entry.url
        line = str(entry.line)
        return fill_template(self._settings.link, self._path.name).replace("{start}", line).replace("{end}", line)

    def _read(self) -> tuple[dict[str, FaqEntry], dict[str, int]]:
        try:
            if self._path.stat().st_size > MAX_FILE_BYTES:
                raise ValueError(
                    f"{self._path} is larger than {MAX_FILE_BYTES >> 20} MB. Split it into several sources."
                )
            parsed_entries, incomplete = read_entries(self._path)
        except ValueError as error:
            raise SourceError(f"source {self.name}: {error}") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise SourceError(f"source {self.name}: {self._path} cannot be read: {reason}. Check path.") from error
        skipped: Counter[str] = Counter({"incomplete entry": incomplete} if incomplete else {})
        entries: dict[str, FaqEntry] = {}
        for entry in parsed_entries:
            path = f"{self._path.name}#{_slug(entry.question)}"
            if path in entries and entries[path].answer == entry.answer:
                skipped["duplicate"] += 1
                continue
            # Two answers to one question: the second is named after both.
            entries[f"{path}-{fingerprint(entry.answer.encode())[:6]}" if path in entries else path] = entry
        if not entries:
            raise SourceError(f"source {self.name}: {self._path} has no question with an answer. See docs/sources.md.")
        return entries, dict(skipped)


def _to_text(entry: FaqEntry) -> str:
    tags = f"\n\nTags: {', '.join(entry.tags)}" if entry.tags else ""
    return f"{entry.question}\n\n{entry.answer}{tags}"


def _content_hash(entry: FaqEntry) -> str:
    return fingerprint("\0".join((entry.question, entry.answer, entry.url, *entry.tags)).encode())


def _slug(question: str) -> str:
    """Return a readable name that only depends on the question."""
    words = re.sub(r"\W+", "-", question.lower()).strip("-")
    return f"{words[:_SLUG_CHARS].strip('-')}-{fingerprint(question.encode())[:6]}"
