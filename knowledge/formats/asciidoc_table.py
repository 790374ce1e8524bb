"""The cells of a table of AsciiDoc."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Cell = tuple[str, str]
# So many times its columns or its cells a table may repeat what it writes once.
_MAX_REPEATS = 20
_MAX_COLUMNS = 100
_CELL_SPEC = re.compile(
    r"(?:^|(?<=\s))(?:(?=[\d.])(?P<columns>\d{1,3})?(?:\.(?P<rows>\d{0,3}))?\+|(?P<times>\d{1,3})\*)?"
    r"[<^>]?(?:\.[<^>])?(?P<kind>[aehlmsdv]?)\Z"
)
_COLUMN_COUNT = re.compile(r"\s*+(\d{1,3})\s*+$")
_COLUMN = re.compile(r"(?:(\d{1,3})\*)?[<^>]?(?:\.[<^>])?[\d~]*%?([aehlmsdv]?)$")


class _Cell(NamedTuple):
    """A cell with the letter of its style, how many columns and rows it takes, and the line where it begins."""

    text: str
    kind: str
    columns: int = 1
    rows: int = 1
    line: int = 0


class Row(NamedTuple):
    """The cells of a row, each with the letter of its style, and the line of its table where it begins, from 0."""

    cells: list[Cell]
    line: int = 0


def read_rows(lines: Sequence[str], columns: str, separator: str, is_csv: bool) -> tuple[list[Row], bool]:
    """Return the rows of a table, and whether the first looks like a header."""
    kinds = _read_columns(columns)
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    is_header = first == 0 and len(lines) > 1 and not lines[1].strip()
    if is_csv:
        numbered_lines = [(number, line) for number, line in enumerate(lines) if line.strip()]
        reader = csv.reader(line for _, line in numbered_lines)
        rows = []
        start = 0
        for values in reader:
            rows.append(Row([(value.strip(), "") for value in values], numbered_lines[start][0]))
            start = reader.line_num
        return rows, is_header
    escaped = "\\" + separator
    cells = list(_iter_cells("\n".join(lines).replace(escaped, "\0"), separator))
    if not kinds and cells:
        kinds = [""] * sum(cell.columns for cell in _iter_cells(lines[first].replace(escaped, "\0"), separator))
    rows = _lay_out((cell._replace(text=cell.text.replace("\0", separator)) for cell in cells), kinds or [""])
    return rows, is_header and len(rows) > 1


def _lay_out(cells: Iterable[_Cell], kinds: Sequence[str]) -> list[Row]:
    """Return the rows that cells make, with empty ones for what a cell spans. `kinds` are the columns' styles."""
    rows: list[Row] = []
    row: list[Cell] = []
    line = 0
    # Of each column, how many of the next rows are taken by a cell above.
    taken = [0] * len(kinds)
    for cell in cells:
        while len(row) == len(kinds) or taken[len(row)]:
            if len(row) == len(kinds):
                rows.append(Row(row, line))
                row = []
            else:
                taken[len(row)] -= 1
                row.append(("", ""))
        if not any(text for text, _ in row):
            line = cell.line
        start = len(row)
        end = min(start + cell.columns, len(kinds))
        taken[start:end] = [cell.rows - 1] * (end - start)
        row += [(cell.text, cell.kind or kinds[start]), *[("", "")] * (end - start - 1)]
    return [*rows, Row(row, line)] if row else rows


def _read_columns(columns: str) -> list[str]:
    """Return the letter of the style of each column."""
    kinds: list[str] = []
    if width := _COLUMN_COUNT.match(columns):
        return [""] * min(int(width[1]), _MAX_COLUMNS)
    for column in re.split(r"[,;]", columns) if columns.strip() else ():
        match = _COLUMN.match(column.strip())
        count = int(match[1]) if match and match[1] else 1
        kinds += [match[2] if match else ""] * count
    return kinds[:_MAX_COLUMNS]


def _iter_cells(text: str, separator: str) -> Iterator[_Cell]:
    """Yield the cells of a text, and again what is repeated."""
    before, *pieces = text.split(separator)
    spec = _CELL_SPEC.search(before)
    line = before.count("\n")
    for number, piece in enumerate(pieces):
        next_spec = _CELL_SPEC.search(piece[-12:]) if number + 1 < len(pieces) else None
        content = piece[: len(piece) - len(next_spec[0])] if next_spec else piece
        kind = spec["kind"] if spec else ""
        times, columns, rows = (
            max(1, min(int((spec and spec[name]) or 1), _MAX_REPEATS)) for name in ("times", "columns", "rows")
        )
        # Below its mark, what is indented is code.
        is_indented = kind == "a" and content.startswith("\n")
        cell = _Cell(content.strip("\n") if is_indented else content.strip(), kind, columns, rows, line)
        yield from [cell] * times
        line += piece.count("\n")
        spec = next_spec
