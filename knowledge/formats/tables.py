"""Rows of values as blocks: which of them name the columns, which are titles, and where one table ends."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from core.markup.document import Block
from knowledge.formats.inline import escape
from knowledge.formats.limited_text import write_within_limits
from knowledge.parsing.limits import MAX_CHARACTERS, map_parser_errors

# A number, an amount or a date: what names no column. A year may name one.
_VALUE = re.compile(r"(?=[^a-zA-Z]*\d)[-+(]?[^\w\s]?\s?\d[\d.,:/\s-]*(?:T[\d:.+Z-]+)?\)?\s?(?:[^\w\s]|[a-zA-Z]{1,3})?$")
_YEAR = re.compile(r"(?:19|20)\d\d$")
_DELIMITERS = ",;\t|"
# So much of a file decides how its values are divided.
SAMPLE_CHARS = 64 * 1024
SAMPLE_ROWS = 200
# A quoted value of more lines is a quotation mark that was never closed.
MAX_VALUE_LINES = 200
# So many rows are looked at to find out what a table's columns hold.
EXAMPLE_ROWS = 20

Row = Sequence[str]


@map_parser_errors
def read_csv(text: str) -> str:
    """Return a table of values, each row with the names of its columns. Raises `FormatError`."""
    return write_within_limits([block] for block in read_tables(_read_rows(text)))


def _read_rows(text: str) -> list[list[str]]:
    # One long value is no reason to lose the others.
    csv.field_size_limit(MAX_CHARACTERS)
    delimiter = _find_delimiter(text[:SAMPLE_CHARS])
    lines = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    rows = list(csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter))
    if any(value.count("\n") > MAX_VALUE_LINES for row in rows for value in row):
        rows = list(csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return [[" ".join(value.split()) for value in row] for row in rows]


def _find_delimiter(sample: str) -> str:
    """Return what divides the values: that by which most rows have the same number of them."""
    scores = {}
    for delimiter in _DELIMITERS:
        rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        widths = [len(row) for _, row in zip(range(SAMPLE_ROWS), rows, strict=False) if any(row)]
        common_widths = Counter(width for width in widths if width > 1).most_common(1)
        scores[delimiter] = (common_widths[0][1], common_widths[0][0]) if common_widths else (0, 0)
    return max(scores, key=lambda delimiter: scores[delimiter])


def read_tables(rows: Iterable[Row]) -> Iterator[Block]:
    """Yield what rows of a sheet hold: titles and notes as paragraphs, each record as lines of `column: value`.

    So a record says by itself what its values mean, wherever the text is cut. Rows without a value divide tables; one
    that has no names of its own goes on with those of the table above it.
    """
    names: Row = ()
    for has_values, run in groupby(rows, any):
        parts = _split_side_by_side(list(run)) if has_values else []
        for part in parts:
            start = _find_table(part)
            yield from (Block("paragraph", escape(" ".join(dict.fromkeys(filter(None, row))))) for row in part[:start])
            records = part[start:]
            own_names, height = _find_names(records, is_first=not names or start > 0 or len(parts) > 1)
            # A table without names of its own that is wider than the one above it is another one.
            names = own_names if own_names or _is_wider(records, names) else names
            if own_names and len(records) == height:
                yield Block("paragraph", escape(", ".join(filter(None, own_names))))
            yield from _make_records(names, records[height:])


def _split_side_by_side(rows: list[Row]) -> list[list[Row]]:
    """Return tables that stand beside each other, with an empty column between them, one by one."""
    width = max(map(len, rows))
    if width < 5 or not rows[0]:
        return [rows]
    used = [False] * width
    for row in rows:
        for number, value in enumerate(row):
            used[number] = used[number] or bool(value)
    spans = [
        [number for number, _ in run] for is_used, run in groupby(enumerate(used), lambda item: item[1]) if is_used
    ]
    parts = [[row[span[0] : span[-1] + 1] for row in rows] for span in spans]
    are_tables = all(len(part[0]) > 1 and all(map(_is_name, part[0])) for part in parts)
    return [[row for row in part if any(row)] for part in parts] if len(parts) > 1 and are_tables else [rows]


def _find_table(rows: Sequence[Row]) -> int:
    """Return the number of the row where the table begins, after its titles; all are titles where there is none."""
    return next((number for number, row in enumerate(rows) if sum(map(bool, row)) > 1), len(rows))


def _find_names(rows: Sequence[Row], *, is_first: bool) -> tuple[Row, int]:
    """Return the names of the columns, and how many rows give them: none, one, or one below joined cells."""
    if not rows or not all(map(_is_name, rows[0])):
        return (), 0
    names = [value for value in rows[0] if value]
    examples = rows[1 : EXAMPLE_ROWS + 1]
    if len(set(names)) < len(names) and examples and all(map(_is_name, examples[0])):
        return [_join(upper, lower) for upper, lower in zip_longest(rows[0], examples[0], fillvalue="")], 2
    kinds = [
        {bool(_VALUE.match(row[column])) for row in examples if len(row) > column and row[column]}
        for column in range(len(rows[0]))
    ]
    if len(kinds) == 2 and kinds[0] == {False} and len(kinds[1]) == 2:
        # Names down the first column, and what belongs to each of them beside it, of several kinds.
        return (), 0
    has_values = any(True in kind for kind in kinds)
    return (rows[0], 1) if is_first or has_values else ((), 0)


def _join(upper: str, lower: str) -> str:
    return upper if lower in ("", upper) else f"{upper} {lower}".strip()


def _is_name(value: str) -> bool:
    return not _VALUE.match(value) or _YEAR.match(value) is not None


def _is_wider(rows: Sequence[Row], names: Row) -> bool:
    return any(any(row[len(names) :]) for row in rows)


def _make_records(names: Row, rows: Sequence[Row]) -> Iterator[Block]:
    for row in rows:
        yield Block("paragraph", "\n".join(_name_values(names, row)))


def _name_values(names: Row, row: Row) -> Iterator[str]:
    if not names:
        key, *values = [escape(value) for value in row if value]
        yield f"{key}: {', '.join(values)}" if values else key
        return
    for number, value in enumerate(row):
        if value:
            name = names[number] if number < len(names) and names[number] else f"column {number + 1}"
            yield f"{escape(name)}: {escape(value)}"
