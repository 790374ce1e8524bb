"""The SQL of the passage file: its tables, and every statement that reads or writes them.

A document takes a range of row numbers, which never come again, so a row is never changed: what was read of it once
stays true, until it is gone. All functions run inside a transaction of the caller, in a thread.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import Passage
from knowledge.ports import PassageRow, StoredDocument, Vectors
from knowledge.stores.sqlite.words import WordCounter

FORMAT = "1"
# Three rows of a model with 384 numbers fill one.
PAGE_BYTES = 8192
# The documents by their first row; one without passages takes a row number, too. Vectors and words are what a search
# reads of all passages, texts what it reads of its results: so these are apart. `tokens` are for copies alone.
_TABLES = (
    "CREATE TABLE labels (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE documents (
        first_row INTEGER PRIMARY KEY, passage_count INTEGER NOT NULL,
        source TEXT NOT NULL, path TEXT NOT NULL, fingerprint TEXT NOT NULL, UNIQUE (source, path))""",
    """CREATE TABLE vectors (
        row_number INTEGER PRIMARY KEY, vector BLOB NOT NULL, word_hashes BLOB NOT NULL, word_counts BLOB NOT NULL)""",
    """CREATE TABLE passages (
        row_number INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, url TEXT NOT NULL,
        kind TEXT NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, tokens TEXT NOT NULL)""",
)
# The documents of which some passages have no vector yet, which is an empty one in their rows. Files of earlier
# versions lack the table until somebody writes.
_UNFILLED_TABLE = "CREATE TABLE IF NOT EXISTS unfilled (first_row INTEGER PRIMARY KEY, passage_count INTEGER NOT NULL)"
_TEXTS = ("id", "title", "text", "url", "kind")
_COLUMNS = ", ".join((*_TEXTS, "start_line", "end_line"))
_TEXTS_AS_BYTES = ", ".join(f"CAST({name} AS BLOB)" for name in _TEXTS)
# The only way to ask for many rows by their numbers, in that order: a list in JSON.
_WANTED = "FROM (SELECT value FROM json_each(?)) AS wanted CROSS JOIN"
# Rows are read in blocks, so that no thread holds the interpreter for long.
BLOCK_ROWS = 1024

# The file is written anew when more than half of it is unused. Less than 8 MB is not worth it.
MIN_UNUSED_PAGES = 1_000

RowNumbers = NDArray[np.int64]


class DamagedFile(Exception):
    """Something is missing, or is not what it was when it was written."""


class MissingRows(DamagedFile):
    """Rows are not there: another version has replaced them, or the file is damaged."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """Which file this is (`creation_id`), which of its versions, and what it was made with."""

    creation_id: str
    version: int
    labels: Mapping[str, str]


def read_state(connection: sqlite3.Connection) -> StoreState | None:
    """Return the state of the file, or None when nothing was ever written."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'labels'").fetchone():
        return None
    labels = dict(connection.execute("SELECT name, value FROM labels"))
    if not {"creation_id", "version", "next_row"} <= labels.keys():
        raise DamagedFile("its labels are missing")
    return StoreState(labels["creation_id"], int(labels["version"]), labels)


def make_tables(connection: sqlite3.Connection, labels: Mapping[str, str]) -> None:
    """Make empty tables with these labels; what the file holds, of whatever format, is dropped."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    for (name,) in tables.fetchall():
        quoted_name = name.replace('"', '""')
        connection.execute(f'DROP TABLE "{quoted_name}"')
    for table in _TABLES:
        connection.execute(table)
    own_labels = {"creation_id": uuid.uuid4().hex, "version": "0", "next_row": "1"}
    connection.executemany("INSERT INTO labels VALUES (?, ?)", {**labels, **own_labels}.items())


def replace_documents(
    connection: sqlite3.Connection,
    source: str,
    paths: Collection[str],
    rows: Sequence[PassageRow],
    empty: Mapping[str, str],
) -> None:
    """Let these paths of a source consist of exactly these rows; `empty` are documents without any."""
    connection.execute(_UNFILLED_TABLE)
    documents: dict[tuple[str, str], list[PassageRow]] = {(source, path): [] for path in empty}
    for row in rows:
        documents.setdefault((row.passage.source, row.passage.path), []).append(row)
    for document_key in {*((source, path) for path in paths), *documents}:
        _delete_document(connection, *document_key)
    (value,) = connection.execute("SELECT value FROM labels WHERE name = 'next_row'").fetchone()
    next_row = int(value)
    counter = WordCounter()
    for document_key, document_rows in documents.items():
        fingerprint = document_rows[-1].fingerprint if document_rows else empty[document_key[1]]
        document = (next_row, len(document_rows), *document_key, fingerprint)
        connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", document)
        if unfilled_count := sum(row.vector is None for row in document_rows):
            connection.execute("INSERT INTO unfilled VALUES (?, ?)", (next_row, unfilled_count))
        _insert_rows(connection, next_row, document_rows, counter)
        next_row += max(1, len(document_rows))
    connection.execute("UPDATE labels SET value = ? WHERE name = 'next_row'", (str(next_row),))
    connection.execute("UPDATE labels SET value = CAST(value AS INTEGER) + 1 WHERE name = 'version'")


def _insert_rows(
    connection: sqlite3.Connection, first_row: int, rows: Sequence[PassageRow], counter: WordCounter
) -> None:
    vectors = (
        (number, b"" if row.vector is None else np.asarray(row.vector, "<f4").tobytes(), *counter.count(row.tokens))
        for number, row in enumerate(rows, first_row)
    )
    connection.executemany("INSERT INTO vectors VALUES (?, ?, ?, ?)", vectors)
    passages = (
        (
            number,
            item.passage.id,
            item.passage.title,
            item.passage.text,
            item.passage.url,
            item.passage.kind,
            item.passage.start_line,
            item.passage.end_line,
            item.tokens,
        )
        for number, item in enumerate(rows, first_row)
    )
    connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", passages)


def _delete_document(connection: sqlite3.Connection, source: str, path: str) -> None:
    document = _find_document(connection, source, path)
    if document is None:
        return
    first_row, passage_count, _ = document
    for table in ("vectors", "passages"):
        statement = f"DELETE FROM {table} WHERE row_number BETWEEN ? AND ?"  # noqa: S608
        connection.execute(statement, (first_row, first_row + passage_count - 1))
    for table in ("documents", "unfilled"):
        connection.execute(f"DELETE FROM {table} WHERE first_row = ?", (first_row,))  # noqa: S608


def _find_document(connection: sqlite3.Connection, source: str, path: str) -> tuple[int, int, str] | None:
    """Return the first row, the number of passages and the fingerprint of a document."""
    statement = "SELECT first_row, passage_count, fingerprint FROM documents WHERE source = ? AND path = ?"
    document: tuple[int, int, str] | None = connection.execute(statement, (source, path)).fetchone()
    return document


def read_manifest(connection: sqlite3.Connection, source: str) -> Mapping[str, StoredDocument]:
    """Return what is held of a source, by path; what was written last comes first."""
    statement = (
        "SELECT path, first_row, fingerprint, passage_count FROM documents WHERE source = ? ORDER BY first_row DESC"
    )
    documents = connection.execute(statement, (source,)).fetchall()
    is_known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'unfilled'").fetchone()
    unfilled_counts = dict(connection.execute("SELECT * FROM unfilled")) if is_known else {}
    return {
        path: StoredDocument(fingerprint, passage_count, unfilled_counts.get(first_row, 0))
        for path, first_row, fingerprint, passage_count in documents
    }


def read_filled(connection: sqlite3.Connection, sources: Collection[str]) -> set[str]:
    """Return those of these sources that have passages."""
    statement = "SELECT EXISTS (SELECT 1 FROM documents WHERE source = ? AND passage_count > 0)"
    return {source for source in sources if connection.execute(statement, (source,)).fetchone()[0]}


def read_rows(
    connection: sqlite3.Connection, source: str, paths: Iterable[str], dimension: int
) -> Sequence[PassageRow]:
    """Return the rows of these paths of a source."""
    statement = (
        f"SELECT {_COLUMNS}, tokens, vector FROM passages JOIN vectors USING (row_number) "  # noqa: S608
        "WHERE row_number BETWEEN ? AND ? ORDER BY row_number"
    )
    rows: list[PassageRow] = []
    for path in paths:
        if (document := _find_document(connection, source, path)) is None:
            continue
        first_row, passage_count, fingerprint = document
        for identifier, *texts, tokens, vector in connection.execute(
            statement, (first_row, first_row + passage_count - 1)
        ):
            passage = Passage(identifier, source, path, *texts)
            vectors = _to_vectors([vector], dimension) if vector else [None]
            rows.append(PassageRow(passage, fingerprint, tokens, vectors[0]))
    return rows


def read_source_vectors(connection: sqlite3.Connection, source: str, dimension: int, limit: int) -> Vectors:
    """Return the vectors of a source, shape (passages with one, dimension); of more than `limit` an even sample."""
    is_known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'unfilled'").fetchone()
    # Documents without any vector are left out: of a source that is being filled, few would be in the sample.
    condition = (
        "NOT EXISTS (SELECT 1 FROM unfilled WHERE first_row = documents.first_row"
        " AND passage_count = documents.passage_count)"
        if is_known
        else "1"
    )
    documents = connection.execute(
        "SELECT first_row, passage_count FROM documents "  # noqa: S608
        f"WHERE source = ? AND passage_count > 0 AND {condition} ORDER BY first_row",
        (source,),
    ).fetchall()
    row_numbers = list_row_numbers(*np.array(documents, np.int64).reshape(-1, 2).T)
    if len(row_numbers) > limit:
        row_numbers = row_numbers[np.linspace(0, len(row_numbers) - 1, limit).astype(np.int64)]
    statement = f"SELECT row_number, vector {_WANTED} vectors ON row_number = value"
    blobs = [vector for rows in _read_blocks(connection, statement, row_numbers) for _, vector in rows if vector]
    return _to_vectors(blobs, dimension)


def list_row_numbers(first_rows: RowNumbers, passage_counts: RowNumbers) -> RowNumbers:
    """Return the numbers of all rows of documents."""
    starts = np.cumsum(passage_counts) - passage_counts
    row_numbers: RowNumbers = np.arange(int(passage_counts.sum())) + np.repeat(first_rows - starts, passage_counts)
    return row_numbers


def read_document_ranges(connection: sqlite3.Connection) -> tuple[RowNumbers, RowNumbers]:
    """Return the first row and the number of passages of every document that has any, in the order of the rows."""
    cursor = connection.execute(
        "SELECT first_row, passage_count FROM documents WHERE passage_count > 0 ORDER BY first_row"
    )
    blocks = [np.empty((0, 2), np.int64)]
    while rows := cursor.fetchmany(BLOCK_ROWS):
        blocks.append(np.array(rows, np.int64))
    first_rows, passage_counts = np.concatenate(blocks).T
    return first_rows, passage_counts


def read_document_names(connection: sqlite3.Connection, first_rows: RowNumbers) -> tuple[list[str], list[str]]:
    """Return the sources and the paths of documents."""
    statement = f"SELECT first_row, source, path {_WANTED} documents ON first_row = value"
    documents = [document for block in _read_blocks(connection, statement, first_rows) for document in block]
    return [source for _, source, _ in documents], [path for _, _, path in documents]


def read_search_rows(
    connection: sqlite3.Connection, row_numbers: RowNumbers, dimension: int
) -> Iterator[tuple[Vectors, Sequence[bytes], Sequence[bytes]]]:
    """Yield the vectors, word hashes and word counts of rows, in blocks, in the order of their numbers."""
    statement = f"SELECT row_number, vector, word_hashes, word_counts {_WANTED} vectors ON row_number = value"
    for rows in _read_blocks(connection, statement, row_numbers):
        _, vectors, word_hashes, word_counts = zip(*rows, strict=True)
        yield _to_vectors(vectors, dimension), word_hashes, word_counts


def read_vectors(connection: sqlite3.Connection, row_numbers: RowNumbers, dimension: int) -> Vectors:
    """Return the vectors of rows, in the order of their numbers."""
    statement = f"SELECT row_number, vector {_WANTED} vectors ON row_number = value"
    blocks = _read_blocks(connection, statement, row_numbers)
    vectors = [_to_vectors([vector for _, vector in rows], dimension) for rows in blocks]
    return np.concatenate([np.empty((0, dimension), np.float32), *vectors])


def read_texts(connection: sqlite3.Connection, row_numbers: RowNumbers) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield the columns of passages in blocks: the number of the row, the texts in UTF-8, then the lines."""
    columns = f"row_number, {_TEXTS_AS_BYTES}, start_line, end_line"
    statement = f"SELECT {columns} {_WANTED} passages ON row_number = value"
    yield from _read_blocks(connection, statement, row_numbers)


def _read_blocks(
    connection: sqlite3.Connection, statement: str, row_numbers: RowNumbers
) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield rows by their numbers, in that order. Raises `MissingRows` when one is not there."""
    for block in _blocks(row_numbers):
        rows = connection.execute(statement, (json.dumps(block),)).fetchall()
        if [row[0] for row in rows] != block:
            raise MissingRows(f"{len(block) - len(rows)} passages are missing")
        yield rows


def _blocks(row_numbers: RowNumbers) -> Iterator[list[int]]:
    for start in range(0, len(row_numbers), BLOCK_ROWS):
        yield row_numbers[start : start + BLOCK_ROWS].tolist()


def _to_vectors(blobs: Sequence[bytes], dimension: int) -> Vectors:
    """Return vectors from their bytes, shape (blobs, dimension); zero where one is not made yet."""
    no_vector = bytes(4 * dimension)
    numbers = np.frombuffer(b"".join(blob or no_vector for blob in blobs), "<f4")
    if len(numbers) != len(blobs) * dimension:
        raise DamagedFile("a vector has another length")
    return numbers.reshape(-1, dimension)


def free_unused_space(connection: sqlite3.Connection) -> None:
    """Write the file anew when more than half of it is unused; outside a transaction."""
    (unused,), (pages,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count"))
    if unused > max(MIN_UNUSED_PAGES, pages // 2):
        connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
