"""Python scripts whose comments are prose, as sphinx-gallery writes them: reStructuredText with the code below it."""

from __future__ import annotations

import ast
import re

from knowledge.chunking.lines import Lines, Section, Span, chunks_of, root_name, rooted, spans_from
from knowledge.chunking.rst import rst_blocks, rst_sections
from knowledge.ports import Chunk, Document

_CELL = re.compile(r"#[ ]?%%(.*)$|#{20,}[ \t]*$")
_HEADING = re.compile(r"^\S.*\n([=\-~^#*\"'`+:.])\1{2,}[ \t]*$", re.MULTILINE)
_QUOTES = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')")


def is_tutorial(lines: Lines, tree: ast.Module) -> bool:
    """Tell whether the module docstring has a heading and the rest is cells, or nothing but plain statements."""
    docstring = ast.get_docstring(tree)
    if not docstring or not _HEADING.search(docstring):
        return False
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return any(_CELL.match(line) for line in lines.lines) or not any(
        isinstance(node, definitions) for node in tree.body
    )


def chunk_tutorial(document: Document, lines: Lines, tree: ast.Module, first: int, tokens: int) -> list[Chunk]:
    """Split by the headings in the prose, then by cells, then by the blocks of prose and code."""
    script = _Script(lines, tree, first)
    sections = rooted(rst_sections(script.prose), root_name(document))
    return chunks_of(script.shown, sections, tokens, lambda section: script.split(section, tokens))


class _Script:
    """The script as it reads: `shown` without comment marks, `prose` with the code blanked; the same line numbers."""

    def __init__(self, lines: Lines, tree: ast.Module, first: int) -> None:
        texts = list(lines.lines)
        prose = [""] * len(texts)
        texts[: first - 1] = [""] * (first - 1)
        docstring = tree.body[0]
        end = docstring.end_lineno or docstring.lineno
        _unquote(texts, docstring.lineno, end)
        prose[docstring.lineno - 1 : end] = texts[docstring.lineno - 1 : end]
        self.cells = [1]
        inside = False
        for number in range(end + 1, len(texts) + 1):
            text = texts[number - 1]
            cell = _CELL.match(text)
            if cell:
                self.cells.append(number)
                prose[number - 1] = texts[number - 1] = (cell[1] or "").strip()
            elif inside and text.startswith("#"):
                prose[number - 1] = texts[number - 1] = text[1:].removeprefix(" ")
            inside = bool(cell) or (inside and text.startswith("#"))
        self.prose = prose
        self.shown = Lines(texts)

    def split(self, section: Section, tokens: int) -> list[Span]:
        starts = [section.start, *(cell for cell in self.cells if section.start < cell <= section.end)]
        spans = []
        for cell in spans_from(starts, section.end):
            whole = self.shown.size(cell.start, cell.end) <= tokens
            # Both prose blocks and statements of the code start unindented after a blank line.
            spans += [cell] if whole else rst_blocks(self.shown, cell)
        return spans


def _unquote(texts: list[str], start: int, end: int) -> None:
    """Blank the quotes of the docstring on these lines."""
    opening = _QUOTES.match(texts[start - 1].lstrip())
    if opening is None:
        return
    texts[start - 1] = texts[start - 1].lstrip()[opening.end() :]
    closing = texts[end - 1].rfind(opening[1])
    if closing >= 0:
        texts[end - 1] = texts[end - 1][:closing].rstrip()
