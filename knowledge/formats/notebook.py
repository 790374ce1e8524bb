"""Jupyter notebooks of all versions: their prose, their code, and what it printed, if that is short."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from core.markup.document import Block
from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown
from knowledge.formats.encoding import strip_colours
from knowledge.parsing.limits import ParseLimits, map_parser_errors

# Pictures that are part of the file.
_ATTACHMENT = re.compile(r"!\[[^\]\n]{0,300}\]\((?:attachment|data):[^()\[\]\s]*+\)")
# The first line of a cell in another language than that of the notebook.
_CELL_MAGIC = re.compile(r"%%(bash|sh|sql|html|javascript|ruby|perl|latex|R)\b")
_HIDDEN_INPUT = frozenset(("remove-cell", "remove-input", "remove_cell", "remove_input"))
_HIDDEN_OUTPUT = frozenset(("remove-output", "remove_output"))
# Longer output is data.
MAX_OUTPUT_LINES = 10
MAX_OUTPUT_CHARS = 800


@map_parser_errors
def read_notebook(text: str) -> str:
    """Return a notebook as Markdown. Raises `FormatError`."""
    notebook = json.loads(text)
    limits = ParseLimits()
    language = _find_language(notebook.get("metadata", {}))
    parts = (part for cell in _iter_cells(notebook) for part in _read_cell(cell, language))
    return "\n\n".join(limits.consume(part) for part in parts if part)


@map_parser_errors
def read_prose(text: str) -> str:
    """Return the cells of a notebook that are Markdown as they are written. Raises `FormatError`."""
    cells = (cell for cell in _iter_cells(json.loads(text)) if cell.get("cell_type") == "markdown")
    return "\n\n".join(_join(cell.get("source", "")) for cell in cells)


def _iter_cells(notebook: Any) -> Iterator[Any]:
    # Before version 4, cells were on sheets.
    return (cell for sheet in notebook.get("worksheets", [notebook]) for cell in sheet["cells"])


def _find_language(metadata: Any) -> str:
    kernel = metadata.get("kernelspec", {}).get("language")
    return str(kernel or metadata.get("language_info", {}).get("name") or "python").lower()


def _read_cell(cell: Any, language: str) -> Iterator[str]:
    """Yield the parts of a cell, as Markdown."""
    # Before version 4, code was `input`, and headings were cells of their own.
    source = _join(cell.get("source", cell.get("input", ""))).strip()
    if cell.get("cell_type") == "heading":
        yield write_markdown([Block("heading", source, level=int(cell.get("level", 1)))])
    elif cell.get("cell_type") == "markdown":
        # What one cell leaves open ends with it.
        yield write_markdown(read_markdown(_ATTACHMENT.sub("", source)))
    elif cell.get("cell_type") == "code" and source and not _HIDDEN_INPUT.intersection(tags := _find_tags(cell)):
        magic = _CELL_MAGIC.match(source)
        outputs = () if _HIDDEN_OUTPUT.intersection(tags) else cell.get("outputs", ())
        output = "\n".join(filter(None, map(_read_output, outputs))).strip()
        yield write_markdown([Block("code", source, language=magic[1].lower() if magic else language)])
        if output.count("\n") < MAX_OUTPUT_LINES and 0 < len(output) <= MAX_OUTPUT_CHARS:
            yield write_markdown([Block("code", output, language="text")])


def _find_tags(cell: Any) -> list[str]:
    metadata = cell.get("metadata", {})
    # Sphinx hides a cell that a notebook says to be hidden as a whole.
    is_hidden = metadata.get("nbsphinx") == "hidden"
    return [*(["remove-cell"] if is_hidden else []), *map(str, metadata.get("tags", ()))]


def _read_output(output: Any) -> str:
    """Return what a cell printed or resulted in, as plain text; warnings, errors and pictures are left out."""
    is_error = "stderr" in (output.get("name"), output.get("stream"))
    data = output.get("data", {})
    # What stands for a picture is shown where there is none.
    is_picture = any(kind.startswith("image/") for kind in data)
    text = "" if is_error or is_picture else _join(output.get("text") or data.get("text/plain", ""))
    return strip_colours(text).strip("\n")


def _join(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
