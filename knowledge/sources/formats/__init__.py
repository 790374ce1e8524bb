"""Converts documents to Markdown: one module per family of formats."""

from __future__ import annotations

from collections.abc import Callable

from core.observability.logs import get_logger
from knowledge.sources.common.documents import decode
from knowledge.sources.formats.limits import FormatError
from knowledge.sources.formats.office import read_docx, read_pdf, read_pptx, read_xlsx
from knowledge.sources.formats.openapi import read_openapi
from knowledge.sources.formats.structured import read_asciidoc, read_csv, read_html, read_notebook
from knowledge.web.markup import strip_hidden_markup

BINARY_READERS: dict[str, Callable[[bytes], str]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "pptx": read_pptx,
    "xlsx": read_xlsx,
}
TEXT_READERS: dict[str, Callable[[str], str]] = {
    "html": read_html,
    "notebook": read_notebook,
    "asciidoc": read_asciidoc,
    "csv": read_csv,
}

DATA_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
# More of these is no prose: only what describes an API is read then.
MAX_DATA_BYTES = 64 * 1024

__all__ = ["BINARY_READERS", "read_document"]


def read_document(path: str, kind: str, data: bytes) -> tuple[str, str]:
    """Return a document as text, and as what kind to cut it. Blocks: call it off the event loop.

    Of Markdown and notebooks what a browser would run is left out; lines keep their numbers. A document that is
    damaged, encrypted or too large when unpacked is empty text, and so is a large file of data that describes no API;
    the log says why: it must not stop the others.
    """
    try:
        if kind in BINARY_READERS:
            return BINARY_READERS[kind](data), "markdown"
        text = decode(data)
        if kind in TEXT_READERS:
            markdown = TEXT_READERS[kind](text)
            return (strip_hidden_markup(markdown) if kind == "notebook" else markdown), "markdown"
        if not path.lower().endswith(DATA_SUFFIXES):
            return (strip_hidden_markup(text, keep_line_numbers=True) if kind == "markdown" else text), kind
        api_text = read_openapi(text)
        if not api_text and len(data) > MAX_DATA_BYTES:
            raise FormatError(f"data of more than {MAX_DATA_BYTES // 1024} kB that is no OpenAPI description")
    except FormatError as error:
        get_logger(__name__).warning("document.unreadable", path=path, reason=str(error))
        return "", kind
    return (api_text, "markdown") if api_text else (text, kind)
