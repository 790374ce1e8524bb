"""The cells of Markdown's tables, and rows with the names of their columns: one that is quoted alone has no head."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, takewhile
from textwrap import dedent

from core.markup.document import Block
from core.markup.inline import write_code
from core.markup.writer import BULLETS, write_markdown, write_term

# What is below one of these says itself what it is.
_PROSE_COLUMN = re.compile(
    r"(?:short )?(?:descriptions?|meanings?|about|details?|notes?|remarks?|comments?|explanations?|definitions?"
    r"|what (?:it does|it is|it means|is there))|(?:详细)?(?:说明|描述|含义|备注|解释|作用|释义|用途|简介)",
    re.IGNORECASE,
)
# A row between pipes, what divides its cells, and the row below the names of the columns. A code has its own pipes.
_PIPED = re.compile(r"[ \t]*\|.*\|[ \t]*$")
_PIPE = re.compile(r"`+[^`]*`+|\\.|(\|)")
# Below the names of columns: it has at least one pipe, but may have fewer cells than they.
_RULE = re.compile(r"\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?$")
_RULE_CELL = re.compile(r"[ \t]*:?-+:?[ \t]*$")
# Of these the text is the title of what is in them.
_TITLED_KINDS = frozenset(("admonition", "definition", "tab"))


def join_texts(blocks: Iterable[Block]) -> str:
    """Return what blocks say as the text of a cell: inline Markdown, a line for each, and code of several lines.

    Items of lists begin with their numbers, or with bullets, unless there is but one of them.

    >>> join_texts([Block("list", children=(Block("item", "Fill it"), Block("item", "Start it")), level=3)])
    '3. Fill it\\n4. Start it'
    >>> join_texts([Block("list", children=(Block("item", "Fill it"), Block("item", "Start it")), level=-1)])
    '0. Fill it\\n1. Start it'
    """
    return "\n".join(filter(None, _iter_texts(blocks, 0)))


def _iter_texts(blocks: Iterable[Block], depth: int) -> Iterator[str]:
    for block in blocks:
        if block.kind == "code":
            yield write_markdown([block]) if "\n" in block.text else write_code(" ".join(block.text.split()))
        elif block.text:
            yield write_term(block.text) if block.kind in _TITLED_KINDS else block.text
        yield from (", ".join(filter(None, row)) for row in (block.header, *block.rows))
        if block.kind == "list" and (block.level or len(block.children) > 1):
            bullet = BULLETS[min(depth, len(BULLETS) - 1)]
            for number, item in enumerate(block.children, max(block.level, 0)):
                text = "\n".join(filter(None, _iter_texts([item], depth + 1)))
                # Code of several lines has its own.
                mark = "" if text.startswith("```") else f"{number}. " if block.level else f"{bullet} "
                yield mark + text
        else:
            yield from _iter_texts(block.children, depth)


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


def find_piped_rows(lines: Sequence[str]) -> int:
    """Return where the rows between pipes begin with which lines end; their number where there are not two such rows.

    >>> find_piped_rows(["Ports:", "| a | 1 |", "| b | 2 |"]), find_piped_rows(["|x| + |y|", "text"])
    (1, 2)
    >>> find_piped_rows(["Ports:", "Name | Port | Use", ":--- | :---", "a | 1 | b"])
    1
    """
    rule = next((number for number, line in enumerate(lines) if _RULE.match(line.strip())), 0)
    if rule and all("|" in line for line in lines[rule - 1 :]):
        return rule - 1
    count = sum(1 for _ in takewhile(lambda line: _PIPED.match(line) and line.count("|") > 2, reversed(lines)))
    return len(lines) - count if count > 1 else len(lines)


def split_piped_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of rows between pipes, of which the first has the names of the columns, or none.

    >>> split_piped_rows(["| a | `b|c` |", "| d | e |"])
    [[], ['a', '`b|c`'], ['d', 'e']]
    """
    rows = [_split_pipes(line) for line in lines]
    is_rule = [all(map(_RULE_CELL.match, row)) for row in rows]
    kept_rows = [row for row, is_left_out in zip(rows, is_rule, strict=True) if not is_left_out]
    return kept_rows if is_rule[1] and not is_rule[0] else [[], *kept_rows]


def _split_pipes(line: str) -> list[str]:
    # Outside of the first and of the last cell, there may be none.
    line = line.strip().removeprefix("|").removesuffix("|")
    ends = [match.start() for match in _PIPE.finditer(line) if match[1]]
    starts = [0, *(end + 1 for end in ends)]
    return [line[start:end].strip() for start, end in zip(starts, [*ends, len(line)], strict=True)]


def split_grid(lines: Sequence[str]) -> list[tuple[bool, list[list[str]]]]:
    """Return the rows of a table that is drawn with plus signs: whether it names the columns, and lines by cell.

    >>> split_grid(["+---+---+", "| a | b |", "+===+===+", "| c | d |", "|   | e |", "+---+---+"])
    [(True, [['a'], ['b']]), (False, [['c', ''], ['d', 'e']])]
    """
    rows: list[tuple[bool, list[list[str]]]] = []
    border = ""
    content: list[str] = []
    for line in lines:
        if not line.startswith("+"):
            content.append(line)
            continue
        if content:
            bounds = [place for place, sign in enumerate(border) if sign == "+"]
            # A cell that spans columns goes on where one of them would end.
            inner = [place for place in bounds[1:-1] if all(each[place : place + 1] in ("|", "+") for each in content)]
            ends = (*inner, max(map(len, content)))
            cells = [_cut_cell(content, start, end) for start, end in zip((0, *inner), ends, strict=True)]
            rows.append(("=" in line, cells))
        border = line
        content = []
    return rows


def _cut_cell(lines: Sequence[str], start: int, end: int) -> list[str]:
    """Return the lines of a cell without its margin, and without the borders of others beside it."""
    parts = [line[start + 1 : end] for line in lines]
    # The last one ends where its line does, which may be longer than the border.
    parts = [part.rstrip("|+ ") if len(line) <= end else part for part, line in zip(parts, lines, strict=True)]
    text = dedent("\n".join(part for part in parts if not part or part.strip("-=+")))
    return [line.rstrip() for line in text.split("\n")]


def make_table(rows: Sequence[Sequence[str]], lines: Sequence[int] = ()) -> Block:
    """Return a table whose first row are the names of its columns, if they have any; `lines` are those of all rows."""
    header, *others = map(tuple, rows)
    # Of a row of pictures, nothing is left.
    shown = [any(row) for row in others]
    return Block(
        "table",
        header=header if any(header) else (),
        rows=tuple(compress(others, shown)),
        row_lines=tuple(compress(lines[1:], shown)),
    )
