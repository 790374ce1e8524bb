"""Word, PowerPoint, Excel and PDF documents as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from knowledge.parsing.limits import FormatError, ParseLimits, check_archive, map_parser_errors

MAX_HEADING_LEVEL = 6

# What would read as a Markdown heading, and words that were divided at the end of a line.
_HEADING = re.compile(r"^([^\S\n]*)#", re.MULTILINE)
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


@map_parser_errors
def read_docx(data: bytes) -> str:
    """Return a Word document with its headings and tables. Raises `FormatError`."""
    check_archive(data)
    import docx
    from docx.table import Table

    limits = ParseLimits()
    parts = []
    for block in docx.Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(block, Table):
            text = format_table([[cell.text for cell in row.cells] for row in block.rows])
        else:
            style = (block.style.name if block.style else "") or ""
            text = f"{_markdown_prefix(style)}{block.text.strip()}" if block.text.strip() else ""
        if text:
            parts.append(limits.consume(text))
    return "\n\n".join(parts)


@map_parser_errors
def read_pptx(data: bytes) -> str:
    """Return the slides of a presentation, each under its title, with its notes. Raises `FormatError`."""
    check_archive(data)
    import pptx

    limits = ParseLimits()
    parts = []
    for number, slide in enumerate(pptx.Presentation(io.BytesIO(data)).slides, 1):
        title = slide.shapes.title
        name = " ".join(title.text.split()) if title is not None and title.has_text_frame else ""
        lines = [f"# {name or f'Slide {number}'}"]
        for shape in slide.shapes:
            if title is not None and shape.shape_id == title.shape_id:
                continue
            lines.append(_shape_text(shape))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines.append(slide.notes_slide.notes_text_frame.text.strip())
        parts.append(limits.consume("\n\n".join(filter(None, lines))))
    return "\n\n".join(parts)


@map_parser_errors
def read_xlsx(data: bytes) -> str:
    """Return the sheets of a workbook, each row with the names of its columns. Raises `FormatError`."""
    check_archive(data)
    import openpyxl

    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    limits = ParseLimits()
    parts = []
    for sheet in workbook.worksheets:
        rows = ([_cell_text(value) for value in row] for row in sheet.iter_rows(values_only=True))
        parts.append(f"# {sheet.title}\n\n{format_records(rows, limits)}")
    workbook.close()
    return "\n\n".join(parts)


def format_records(rows: Iterable[Sequence[str]], limits: ParseLimits) -> str:
    """Return rows as paragraphs of `column: value` lines; the first row names the columns.

    So a row says by itself what its values mean, wherever the text is cut.
    """
    names: Sequence[str] = ()
    paragraphs: list[str] = []
    for row in rows:
        if not any(row):
            continue
        if not names:
            names = [name or f"column {number}" for number, name in enumerate(row, 1)]
            continue
        # Only as many names as the row has values: a table may begin with a row of 50,000.
        columns = [*names[: len(row)], *(f"column {number}" for number in range(len(names) + 1, len(row) + 1))]
        values = [f"{name}: {value}" for name, value in zip(columns, row, strict=False) if value]
        paragraphs.append(limits.consume("\n".join(values)))
    return "\n\n".join(paragraphs) or ", ".join(names)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table, the first as its head."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _markdown_prefix(style: str) -> str:
    """Return what makes a paragraph of this style a heading or a list item in Markdown."""
    if style == "Title":
        return "# "
    name, _, level = style.partition(" ")
    if name == "Heading" and level.isdigit():
        return "#" * min(int(level), MAX_HEADING_LEVEL) + " "
    return "- " if style.startswith("List") else ""


def _shape_text(shape: Any) -> str:
    if shape.has_text_frame:
        return "\n".join(line for line in shape.text_frame.text.splitlines() if line.strip())
    if getattr(shape, "has_table", False):
        return format_table([[cell.text for cell in row.cells] for row in shape.table.rows])
    return ""


def _cell_text(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


@map_parser_errors
def read_pdf(data: bytes) -> str:
    """Return the pages of a PDF, each headed by its number. Raises `FormatError`."""
    import pypdf

    document = pypdf.PdfReader(io.BytesIO(data))
    if document.is_encrypted and not document.decrypt(""):
        raise FormatError("it is encrypted")
    limits = ParseLimits()
    pages = []
    for number, page in enumerate(document.pages, 1):
        text = limits.consume(_HYPHENATED.sub("", page.extract_text() or "").strip())
        if text:
            pages.append(f"# Page {number}\n\n" + _HEADING.sub(r"\1 #", text))
    if not pages:
        raise FormatError("it holds no text: a scan needs text recognition first")
    return "\n\n".join(pages)
