"""Questions with answers in YAML, CSV, JSON or JSON Lines, with the line where each begins."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from knowledge.formats.encoding import decode
from knowledge.parsing.limits import FormatError

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


def read_entries(path: str, data: bytes) -> ParsedEntries:
    """Return the entries of a file in their order, and how many lacked a question or an answer.

    Blocks: call it off the event loop. Raises `FormatError` with file and line when the file is broken.
    """
    match PurePath(path).suffix.lower():
        case ".yaml" | ".yml":
            return _from_yaml(path, data)
        case ".csv" | ".tsv":
            return _from_csv(path, decode(data))
        case ".jsonl" | ".ndjson":
            lines = enumerate(decode(data).split("\n"), 1)
            return _collect((_parse(path, line, number), number) for number, line in lines if line.strip())
        case ".json":
            return _collect((row, 1) for _, row in _rows(path, _parse(path, decode(data), 1))[1])
        case suffix:
            known_suffixes = ".yaml, .yml, .csv, .tsv, .json, .jsonl, .ndjson"
            raise FormatError(f"{path}: {suffix or 'no suffix'} is not a known FAQ format (known: {known_suffixes})")


def _from_yaml(path: str, data: bytes) -> ParsedEntries:
    # Not at the top: the settings are much to import for a worker that reads none of these.
    from core.settings.yaml_file import YamlFileError, parse_yaml

    try:
        file = parse_yaml(data, Path(path))
    except YamlFileError as error:
        raise FormatError(str(error)) from error
    parent_path, rows = _rows(path, file.data)
    return _collect((row, file.get_line((*parent_path, key))) for key, row in rows)


def _parse(path: str, text: str, first_line: int) -> Any:
    try:
        # Numbers stay as they are spelled: all of them are text here.
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise FormatError(f"{path}:{line}:{error.colno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise FormatError(f"{path}:{first_line}: is nested too deeply") from error


def _from_csv(path: str, text: str) -> ParsedEntries:
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[Any, int]] = []
    try:
        names = next(reader, [])
        if not _match_fields(dict.fromkeys(names, "")).keys() >= {"question", "answer"}:
            raise FormatError(
                f"{path}:1: the header names no question and answer columns (it says: {header.strip()!r})"
            )
        start = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((dict(zip(names, cells, strict=False)), start))
            start = reader.line_num + 1
    except csv.Error as error:
        raise FormatError(f"{path}:{reader.line_num}: not valid CSV: {error}") from error
    return _collect(rows)


def _rows(path: str, data: Any) -> tuple[tuple[str | int, ...], list[tuple[str | int, Any]]]:
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
    raise FormatError(f"{path}:1: expected a list of questions with answers, or a mapping from question to answer")


def _collect(rows: Iterable[tuple[Any, int]]) -> ParsedEntries:
    entries = []
    incomplete_count = 0
    for row, line in rows:
        fields = _match_fields(row) if isinstance(row, Mapping) else {}
        question = _to_plain_text(fields.get("question"))
        answer = _to_plain_text(fields.get("answer"))
        if question and answer:
            url = _to_plain_text(fields.get("url"))
            tags = _parse_tags(fields.get("tags"))
            entries.append(FaqEntry(" ".join(question.split()), answer, url, tags, line))
        else:
            incomplete_count += 1
    return entries, incomplete_count


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
