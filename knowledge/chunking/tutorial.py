"""Python scripts whose comments are prose: reStructuredText of sphinx-gallery, Markdown of Jupytext; code below it.

Their passages are prose that can be quoted: the comment marks are gone, and code is indented as prose shows it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from knowledge.chunking.lines import LineRange, Lines, Section, complete_paths, get_root_title, spans_from, to_chunks
from knowledge.chunking.markdown import parse_markdown_sections
from knowledge.chunking.rst import blank_generated, parse_rst_sections, split_rst_blocks
from knowledge.ports import Chunk, Document

_CELL = re.compile(r"#[ ]?%%(.*)$|#{20,}[ \t]*$")
_HEADING = re.compile(r"^\S.*\n([=\-~^#*\"'`+:.])\1{2,}[ \t]*$", re.MULTILINE)
_JUPYTEXT_KEY = re.compile(r"#\s+jupytext:")
_HEADER_FENCE = "# ---"
_MAX_HEADER_LINES = 60
# A cell marker of the percent format with its kind, or a marker of the light format.
_NOTEBOOK_CELL = re.compile(r"#[ ]?%%[ \t]*(?P<title>.*)$|#[ ]?[+-](?:[ \t].*)?$")
_PROSE_CELL = re.compile(r"\[(?:markdown|md)\]", re.IGNORECASE)
_CODE_INDENT = "    "
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


def chunk_tutorial(document: Document, lines: Lines, tree: ast.Module, first_line: int, tokens: int) -> list[Chunk]:
    """Split by the headings in the prose, then by cells, then by the blocks of prose and code."""
    script = _Script(lines, tree, first_line)
    sections = complete_paths(parse_rst_sections(script.prose), get_root_title(document))
    return script.to_chunks(sections, tokens, "rst")


def jupytext_header_end(lines: Lines) -> int:
    """Return the last line of the header that Jupytext writes above a notebook, or 0 when there is none."""
    first_lines = [line.rstrip() for line in lines.lines[:_MAX_HEADER_LINES]]
    if first_lines[0] != _HEADER_FENCE or _HEADER_FENCE not in first_lines[1:]:
        return 0
    end = first_lines.index(_HEADER_FENCE, 1) + 1
    return end if any(_JUPYTEXT_KEY.match(line) for line in first_lines[:end]) else 0


def chunk_notebook(document: Document, lines: Lines, header_end: int, tokens: int) -> list[Chunk]:
    """Split a notebook that Jupytext keeps as a script like a tutorial; its header is in no chunk."""
    script = _Notebook(lines, header_end)
    sections = complete_paths(parse_markdown_sections(Lines(script.prose)), get_root_title(document))
    return script.to_chunks(sections, tokens, "markdown")


class _Cells:
    """A script as it reads: `texts` without comment marks, `prose` with the code blanked; the same line numbers."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self.prose = [""] * len(self.texts)
        self.cell_starts = [1]

    def add_prose(self, number: int, text: str) -> None:
        self.prose[number - 1] = self.texts[number - 1] = text

    def to_chunks(self, sections: Sequence[Section], tokens: int, kind: str) -> list[Chunk]:
        lines = Lines(self.texts)
        shown_lines = Lines(
            [
                _CODE_INDENT + text if text.strip() and not prose else text
                for text, prose in zip(self.texts, self.prose, strict=True)
            ]
        )
        chunks = to_chunks(shown_lines, sections, tokens, lambda section: self._split(lines, section, tokens))
        return [replace(piece, kind=kind) for piece in chunks]

    def _split(self, lines: Lines, section: Section, tokens: int) -> list[LineRange]:
        starts = [section.start, *(start for start in self.cell_starts if section.start < start <= section.end)]
        spans = []
        for cell_span in spans_from(starts, section.end):
            fits_in_chunk = lines.size(cell_span.start, cell_span.end) <= tokens
            # Both prose blocks and statements of the code start unindented after a blank line.
            spans += [cell_span] if fits_in_chunk else split_rst_blocks(lines, cell_span)
        return spans


class _Script(_Cells):
    """A tutorial of sphinx-gallery: the module docstring and the comments at the top of cells are prose."""

    def __init__(self, lines: Lines, tree: ast.Module, first_line: int) -> None:
        super().__init__(lines.lines)
        self.texts[: first_line - 1] = [""] * (first_line - 1)
        docstring = tree.body[0]
        end = docstring.end_lineno or docstring.lineno
        _unquote(self.texts, docstring.lineno, end)
        self.prose[docstring.lineno - 1 : end] = self.texts[docstring.lineno - 1 : end]
        is_inside_cell = False
        for number in range(end + 1, len(self.texts) + 1):
            text = self.texts[number - 1]
            cell_match = _CELL.match(text)
            if cell_match:
                self.cell_starts.append(number)
                self.add_prose(number, (cell_match[1] or "").strip())
            elif is_inside_cell and text.startswith("#"):
                self.add_prose(number, text[1:].removeprefix(" "))
            is_inside_cell = bool(cell_match) or (is_inside_cell and text.startswith("#"))
        for number, text in enumerate(blank_generated(Lines(self.prose)).lines, 1):
            if self.prose[number - 1] and not text:
                self.add_prose(number, "")


class _Notebook(_Cells):
    """A notebook of Jupytext: Markdown cells of the percent format; in the light one, comments that stand alone."""

    def __init__(self, lines: Lines, header_end: int) -> None:
        super().__init__(lines.lines)
        self.texts[:header_end] = [""] * header_end
        has_cells = any(line.startswith(("# %%", "#%%")) for line in self.texts)
        is_prose = False
        for number in range(header_end + 1, len(self.texts) + 1):
            text = self.texts[number - 1]
            if marker := _NOTEBOOK_CELL.match(text):
                self.cell_starts.append(number)
                is_prose = bool(_PROSE_CELL.search(marker["title"] or ""))
                self.add_prose(number, "")
            elif not has_cells and text.startswith("#") and not self.texts[number - 2].strip():
                is_prose = self._stands_alone(number)
            elif not has_cells and not text.startswith("#"):
                is_prose = False
            if is_prose and text.startswith("#") and not marker:
                self.add_prose(number, text[1:].removeprefix(" "))

    def _stands_alone(self, number: int) -> bool:
        """Return whether nothing but a blank line follows the run of comments that starts here."""
        while number <= len(self.texts) and self.texts[number - 1].startswith("#"):
            number += 1
        return number > len(self.texts) or not self.texts[number - 1].strip()


def _unquote(texts: list[str], start: int, end: int) -> None:
    """Blank the quotes of the docstring on these lines."""
    opening = _QUOTES.match(texts[start - 1].lstrip())
    if opening is None:
        return
    texts[start - 1] = texts[start - 1].lstrip()[opening.end() :]
    closing = texts[end - 1].rfind(opening[1])
    if closing >= 0:
        texts[end - 1] = texts[end - 1][:closing].rstrip()
