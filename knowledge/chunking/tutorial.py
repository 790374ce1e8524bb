"""Python scripts of sphinx-gallery: their comments are prose in reStructuredText, with code below it.

They are read as blocks, so that their passages are prose that can be quoted, with the code in fences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from core.markup.document import Block
from knowledge.chunking.lines import Lines
from knowledge.formats.rst import read_rst

_CELL = re.compile(r"#[ ]?%%(.*)$|#{20,}[ \t]*$")
_HEADING = re.compile(r"^\S.*\n([=\-~^#*\"'`+:.])\1{2,}[ \t]*$", re.MULTILINE)
_QUOTES = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')")


def is_tutorial(lines: Lines, tree: ast.Module) -> bool:
    """Return whether the module docstring has a heading and the rest is cells, or nothing but plain statements."""
    docstring = ast.get_docstring(tree)
    if not docstring or not _HEADING.search(docstring):
        return False
    definition_types = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return any(_CELL.match(line) for line in lines.lines) or not any(
        isinstance(node, definition_types) for node in tree.body
    )


def read_tutorial(lines: Lines, tree: ast.Module, first_line: int) -> list[Block]:
    """Return a tutorial of sphinx-gallery: the module docstring and the comments at the top of cells are prose."""
    script = _Script(lines.lines)
    script.code[: first_line - 1] = [""] * (first_line - 1)
    docstring = tree.body[0]
    end = docstring.end_lineno or docstring.lineno
    for number, text in enumerate(_unquote(lines.lines[docstring.lineno - 1 : end]), docstring.lineno):
        script.add_prose(number, text)
    is_inside_cell = False
    for number, text in enumerate(lines.lines[end:], end + 1):
        cell_match = _CELL.match(text)
        if cell_match:
            script.add_prose(number, (cell_match[1] or "").strip())
        elif is_inside_cell and text.startswith("#"):
            script.add_prose(number, text[1:].removeprefix(" "))
        is_inside_cell = bool(cell_match) or (is_inside_cell and text.startswith("#"))
    return script.merge(read_rst("\n".join(script.prose)))


class _Script:
    """A script as its prose without comment marks, and its code: of each line one of them is blank."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.code = list(texts)
        self.prose = [""] * len(self.code)
        self._prose_lines: set[int] = set()

    def add_prose(self, number: int, text: str) -> None:
        """Take a line as prose."""
        self.prose[number - 1] = text
        self.code[number - 1] = ""
        self._prose_lines.add(number)

    def merge(self, prose: Sequence[Block]) -> list[Block]:
        """Return the blocks of the prose with those of the code between them."""
        return sorted([*prose, *self._find_code()], key=lambda block: block.start_line)

    def _find_code(self) -> Iterator[Block]:
        for _, group in groupby(range(1, len(self.code) + 1), lambda number: number in self._prose_lines):
            numbers = [number for number in group if self.code[number - 1].strip()]
            if numbers:
                text = "\n".join(self.code[numbers[0] - 1 : numbers[-1]])
                yield Block("code", text, language="python", start_line=numbers[0], end_line=numbers[-1])


def _unquote(texts: Sequence[str]) -> list[str]:
    """Return the lines of a docstring without its quotes."""
    text = "\n".join(texts).strip()
    opening = _QUOTES.match(text)
    mark = opening[1] if opening else ""
    return text[opening.end() if opening else 0 :].removesuffix(mark).split("\n")
