"""The rows of Markdown's tables, each with the names of its columns: a row that is quoted alone has no head."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What is below one of these says itself what it is.
_PROSE_COLUMN = re.compile(
    r"(?:short )?(?:descriptions?|meanings?|about|details?|notes?|remarks?|comments?|explanations?|definitions?"
    r"|what (?:it does|it is|it means|is there))|(?:详细)?(?:说明|描述|含义|备注|解释|作用|释义|用途|简介)",
    re.IGNORECASE,
)


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
