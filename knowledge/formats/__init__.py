"""Converts documents to Markdown: one module per family of formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from knowledge.formats.encoding import decode
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser

# Loaded for the first document of their kind: a worker reads few formats, and often few documents.
_BINARY_READERS = {
    "pdf": "pdf.read_pdf",
    "docx": "word.read_docx",
    "pptx": "slides.read_pptx",
    "xlsx": "sheets.read_xlsx",
    # A page says itself how it is encoded.
    "html": "html.read_html",
}
_TEXT_READERS = {
    "notebook": "notebook.read_notebook",
    "csv": "tables.read_csv",
    "subtitles": "subtitles.read_subtitles",
}

DATA_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
# More of these is no prose: only what describes an API is read then.
MAX_DATA_BYTES = 64 * 1024

__all__ = ["ParsedDocument", "parse_document", "read_document"]


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document as text, and as what `kind` to cut it. `unreadable_reason` is empty, or says why it has no text.

    `pages` has the page for each line of the text, if it is printed on pages.
    """

    text: str
    kind: str
    unreadable_reason: str = ""
    pages: tuple[int, ...] = ()


async def parse_document(parser: Parser, path: str, kind: str, data: bytes) -> ParsedDocument:
    """Return a document as text; why it has none, if it cannot be read: a damaged one stops no others."""
    try:
        if kind == "pdf":
            text, pages = await parser.run(_read_pages, data)
            return ParsedDocument(text, "markdown", pages=pages)
        return ParsedDocument(*await parser.run(read_document, path, kind, data))
    except FormatError as error:
        return ParsedDocument("", kind, str(error))


def read_document(path: str, kind: str, data: bytes) -> tuple[str, str]:
    """Return a document as text, and as what kind to cut it. Blocks: call it off the event loop.

    Raises `FormatError` for a document that is damaged, encrypted or too large when unpacked, and for a large file of
    data that describes no API.
    """
    if kind in _BINARY_READERS:
        return _load(_BINARY_READERS[kind])(data), "markdown"
    text = decode(data)
    if kind in _TEXT_READERS:
        return _load(_TEXT_READERS[kind])(text), "markdown"
    if not path.lower().endswith(DATA_SUFFIXES):
        return text, kind
    api_text = _load("openapi.read_openapi")(text)
    if not api_text and len(data) > MAX_DATA_BYTES:
        raise FormatError(f"data of more than {MAX_DATA_BYTES // 1024} kB that is no OpenAPI description")
    return (api_text, "markdown") if api_text else (text, kind)


def _read_pages(data: bytes) -> tuple[str, tuple[int, ...]]:
    text, pages = _load("pdf.read_pages")(data)
    return text, pages


def _load(reader: str) -> Callable[[Any], Any]:
    module, _, name = reader.partition(".")
    function: Callable[[Any], Any] = getattr(import_module(f"{__name__}.{module}"), name)
    return function
