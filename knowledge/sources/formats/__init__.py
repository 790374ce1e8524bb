"""Documents that are no plain text, read into Markdown: one module per family of formats."""

from __future__ import annotations

from collections.abc import Callable

from core.observability.logs import logger
from knowledge.sources.common.documents import decode
from knowledge.sources.formats.limits import FormatError
from knowledge.sources.formats.office import read_docx, read_pdf, read_pptx, read_xlsx
from knowledge.sources.formats.openapi import read_openapi
from knowledge.sources.formats.structured import read_asciidoc, read_csv, read_html, read_notebook
from knowledge.web.markup import without_hidden

BINARY: dict[str, Callable[[bytes], str]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "pptx": read_pptx,
    "xlsx": read_xlsx,
}
WRITTEN: dict[str, Callable[[str], str]] = {
    "html": read_html,
    "notebook": read_notebook,
    "asciidoc": read_asciidoc,
    "csv": read_csv,
}

DATA = (".json", ".yaml", ".yml", ".toml")
# More of these is no prose: only what describes an API is read then.
MOST_DATA_BYTES = 64 * 1024

__all__ = ["BINARY", "readable"]


def readable(path: str, kind: str, data: bytes) -> tuple[str, str]:
    """Return a document as text, and as what kind to cut it. Blocks: call it off the event loop.

    Of Markdown and notebooks what a browser would run is left out; lines keep their numbers. A document that is
    damaged, encrypted or too large when unpacked is empty text, and so is a large file of data that describes no API;
    the log says why: it must not stop the others.
    """
    try:
        if kind in BINARY:
            return BINARY[kind](data), "markdown"
        text = decode(data)
        if kind in WRITTEN:
            written = WRITTEN[kind](text)
            return (without_hidden(written) if kind == "notebook" else written), "markdown"
        if not path.lower().endswith(DATA):
            return (without_hidden(text, lines=True) if kind == "markdown" else text), kind
        described = read_openapi(text)
        if not described and len(data) > MOST_DATA_BYTES:
            raise FormatError(f"data of more than {MOST_DATA_BYTES // 1024} kB that is no OpenAPI description")
    except FormatError as fault:
        logger(__name__).warning("document.unreadable", path=path, reason=str(fault))
        return "", kind
    return (described, "markdown") if described else (text, kind)
