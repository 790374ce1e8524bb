"""Python scripts whose comments are prose, as sphinx-gallery writes them: reStructuredText with the code below it."""

from __future__ import annotations

import ast
import re

from knowledge.chunking.lines import LineRange, Lines, Section, complete_paths, get_root_title, spans_from, to_chunks
from knowledge.chunking.rst import parse_rst_sections, split_rst_blocks
from knowledge.ports import Chunk, Document

_CELL = re.compile(r"#[ ]?%%(.*)$|#{20,}[ \t]*$")
_HEADING = re.compile(r"^\S.*\n([=\-~^#*\"'`+:.])\1{2,}[ \t]*$", re.MULTILINE)
_QUOTES = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')")


def is_tutorial(lines: Lines, tree: ast.Module) -> bool:
    """Tell whether the module docstring has a heading and the rest is cells, or nothing but plain statements."""
    docstring = ast.get_docstring(tree)
    if not docstring or not _HEADING.search(docstring):
        return False
    definition_types = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return any(_CELL.match(line) for line in lines.lines) or not any(
        isinstance(node, definition_types) for node in tree.body
    )


def chunk_tutorial(document: Document, lines: Lines, tree: ast.Module, first_line: int, tokens: int) -> list[Chunk]:
    """Split by the headings in the prose, then by cells, then by the blocks of prose and code."""
    script = _Script(lines, tree, first_line)
    sections = complete_paths(parse_rst_sections(script.prose), get_root_title(document))
    return to_chunks(script.rendered_lines, sections, tokens, lambda section: script.split(section, tokens))


class _Script:
    """The script as it reads: `rendered_lines` without comment marks, `prose` with the code blanked; the same line
    numbers.
    """

    def __init__(self, lines: Lines, tree: ast.Module, first_line: int) -> None:
        texts = list(lines.lines)
        prose = [""] * len(texts)
        texts[: first_line - 1] = [""] * (first_line - 1)
        docstring = tree.body[0]
        end = docstring.end_lineno or docstring.lineno
        _unquote(texts, docstring.lineno, end)
        prose[docstring.lineno - 1 : end] = texts[docstring.lineno - 1 : end]
        self.cell_starts = [1]
        is_inside_cell = False
        for number in range(end + 1, len(texts) + 1):
            text = texts[number - 1]
            cell_match = _CELL.match(text)
            if cell_match:
                self.cell_starts.append(number)
                prose[number - 1] = texts[number - 1] = (cell_match[1] or "").strip()
            elif is_inside_cell and text.startswith("#"):
                prose[number - 1] = texts[number - 1] = text[1:].removeprefix(" ")
            is_inside_cell = bool(cell_match) or (is_inside_cell and text.startswith("#"))
        self.prose = prose
        self.rendered_lines = Lines(texts)

    def split(self, section: Section, tokens: int) -> list[LineRange]:
        starts = [
            section.start,
            *(cell_start for cell_start in self.cell_starts if section.start < cell_start <= section.end),
        ]
        spans = []
        for cell_span in spans_from(starts, section.end):
            fits_in_chunk = self.rendered_lines.size(cell_span.start, cell_span.end) <= tokens
            # Both prose blocks and statements of the code start unindented after a blank line.
            spans += [cell_span] if fits_in_chunk else split_rst_blocks(self.rendered_lines, cell_span)
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
