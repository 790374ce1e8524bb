"""Converts documents to Markdown: one module per family of formats."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.formats.encoding import decode
from knowledge.formats.html import read_html
from knowledge.formats.notebook import read_notebook
from knowledge.formats.openapi import read_openapi
from knowledge.formats.pdf import read_pdf
from knowledge.formats.sheets import read_xlsx
from knowledge.formats.slides import read_pptx
from knowledge.formats.subtitles import read_subtitles
from knowledge.formats.tables import read_csv
from knowledge.formats.word import read_docx
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser

BINARY_READERS: dict[str, Callable[[bytes], str]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "pptx": read_pptx,
    "xlsx": read_xlsx,
    # A page says itself how it is encoded.
    "html": read_html,
}
TEXT_READERS: dict[str, Callable[[str], str]] = {
    "notebook": read_notebook,
    "csv": read_csv,
    "subtitles": read_subtitles,
}

DATA_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
# More of these is no prose: only what describes an API is read then.
MAX_DATA_BYTES = 64 * 1024

__all__ = ["BINARY_READERS", "parse_document", "read_document"]


async def parse_document(parser: Parser, path: str, kind: str, data: bytes) -> tuple[str, str, str]:
    """Return a document as text, as what kind to cut it, and why it has no text: a damaged one stops no others."""
    try:
        return *await parser.run(read_document, path, kind, data), ""
    except FormatError as error:
        return "", kind, str(error)


def read_document(path: str, kind: str, data: bytes) -> tuple[str, str]:
    """Return a document as text, and as what kind to cut it. Blocks: call it off the event loop.

    Raises `FormatError` for a document that is damaged, encrypted or too large when unpacked, and for a large file of
    data that describes no API.
    """
    if kind in BINARY_READERS:
        return BINARY_READERS[kind](data), "markdown"
    text = decode(data)
    if kind in TEXT_READERS:
        return TEXT_READERS[kind](text), "markdown"
    if not path.lower().endswith(DATA_SUFFIXES):
        return text, kind
    api_text = read_openapi(text)
    if not api_text and len(data) > MAX_DATA_BYTES:
        raise FormatError(f"data of more than {MAX_DATA_BYTES // 1024} kB that is no OpenAPI description")
    return (api_text, "markdown") if api_text else (text, kind)
