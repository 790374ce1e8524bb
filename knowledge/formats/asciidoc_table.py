"""The cells of a table of AsciiDoc."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

Cell = tuple[str, str]
# So many times its columns or its cells a table may repeat what it writes once.
_MAX_REPEATS = 20
_MAX_COLUMNS = 100
_CELL_SPEC = re.compile(
    r"(?:^|(?<=\s))(?:(\d{1,3})(?:\.\d{1,3})?(\+)|(\d{1,3})(\*)|\.\d{1,3}\+)?[<^>]?(?:\.[<^>])?([aehlmsdv]?)$"
)
_COLUMN_COUNT = re.compile(r"\s*+(\d{1,3})\s*+$")
_COLUMN = re.compile(r"(?:(\d{1,3})\*)?[<^>]?(?:\.[<^>])?[\d~]*%?([aehlmsdv]?)$")


def read_cells(lines: Sequence[str], columns: str, separator: str, is_csv: bool) -> tuple[list[list[Cell]], bool]:
    """Return the rows of a table, each cell with the letter of its style, and whether the first looks like a header."""
    kinds = _read_columns(columns)
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    is_header = first == 0 and len(lines) > 1 and not lines[1].strip()
    if is_csv:
        rows = [[(value.strip(), "") for value in row] for row in csv.reader(line for line in lines if line.strip())]
        return rows, is_header
    escaped = "\\" + separator
    cells = list(_iter_cells("\n".join(lines).replace(escaped, "\0"), separator))
    width = len(kinds) or sum(1 for _ in _iter_cells(lines[first].replace(escaped, "\0"), separator)) if cells else 1
    width = max(1, width)
    kinds += [""] * (width - len(kinds))
    styled_cells = [
        (text.replace("\0", separator), kind or kinds[number % width]) for number, (text, kind) in enumerate(cells)
    ]
    rows = [styled_cells[start : start + width] for start in range(0, len(styled_cells), width)]
    return rows, is_header and len(rows) > 1


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


def _iter_cells(text: str, separator: str) -> Iterator[Cell]:
    """Yield the cells of a text, empty ones for what a cell spans, and again what is repeated."""
    before, *pieces = text.split(separator)
    spec = _CELL_SPEC.search(before)
    for number, piece in enumerate(pieces):
        next_spec = _CELL_SPEC.search(piece[-12:]) if number + 1 < len(pieces) else None
        content = piece[: len(piece) - len(next_spec[0])] if next_spec else piece
        kind = (spec[5] if spec else "") or ""
        cell = (content.strip("\n") if kind == "a" else content.strip(), kind)
        yield cell
        count = min(int(spec[1] or spec[3] or 1), _MAX_REPEATS) if spec else 1
        for _ in range(count - 1):
            yield cell if spec and spec[4] else ("", "")
        spec = next_spec
