"""The rows of Markdown's tables, each with the names of its columns: a row that is quoted alone has no head."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

# The line below the head of a table.
RULE = re.compile(r"^(?=[-:=+| \t]*[-=]{2})[-:=+| \t]++$")
_BORDER = re.compile(r"(?<!\\)\|")
# What is below one of these says itself what it is.
_PROSE_COLUMN = re.compile(
    r"(?:short )?(?:descriptions?|meanings?|about|details?|notes?|remarks?|comments?|explanations?|definitions?"
    r"|what (?:it does|it is|it means|is there))|(?:详细)?(?:说明|描述|含义|备注|解释|作用|释义|用途|简介)",
    re.IGNORECASE,
)


def is_row(line: str) -> bool:
    """Return whether a line without blanks around it is a row of a table, or its head."""
    return line.startswith("|") and line.endswith("|") and len(line) > 2


def split_row(line: str) -> list[str]:
    """Return the cells of a row, whose outer bars may be missing; those that hold only a dash are empty."""
    line = line.strip().removeprefix("|")
    cells = [cell.replace("\\|", "|").strip() for cell in _BORDER.split(line)]
    cells = cells if cells[-1] else cells[:-1]
    return [cell if cell.strip("-–—") else "" for cell in cells]


def iter_tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the head and the rows of each table that has both, as plain text.

    >>> list(iter_tables("| Name | Default |\\n|---|---|\\n| `a` | **3** |"))
    [(['Name', 'Default'], [['a', '3']])]
    """
    head: list[str] = []
    rows: list[list[str]] = []
    for line, next_line in pairwise([*text.split("\n"), ""]):
        if "|" not in line:
            head = []
        elif not head and "|" in next_line and RULE.match(next_line.strip()):
            head = _split_plain(line)
            rows = []
        elif head and not RULE.match(line.strip()):
            rows.append(_split_plain(line))
        if head and rows and "|" not in next_line:
            yield head, rows


def _split_plain(line: str) -> list[str]:
    return [cell.strip("`* ") for cell in split_row(line)]


def join_cells(cells: Sequence[str]) -> str:
    """Return a row as one line."""
    return ": ".join(filter(None, cells))


def name_cells(cells: Sequence[str], columns: Sequence[str]) -> str:
    """Return a row as one line with the name of each column but the first, whose cell says what the row is about.

    >>> name_cells(["Canary", "yes", ""], ["Feature", "Nacos", "Apollo"])
    'Canary: Nacos: yes'
    """
    if len(cells) != len(columns):
        return join_cells(cells)
    named_cells = [(column.strip("*_: ："), cell) for column, cell in zip(columns, cells, strict=True) if cell]
    label, *others = named_cells or [("", "")]
    texts = [cell if not column or _PROSE_COLUMN.fullmatch(column) else f"{column}: {cell}" for column, cell in others]
    return ": ".join(filter(None, (label[1], "; ".join(texts))))
