"""Files of Google Drive, and what Google exports of its own documents, as Markdown."""

from __future__ import annotations

from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown
from knowledge.formats import read_document


def write_file(kind: str, data: bytes) -> str:
    """Return a file as Markdown. Raises `FormatError`."""
    text, _ = read_document("", kind, data)
    # Google writes pictures into the text.
    return write_markdown(list(read_markdown(text))) if kind == "markdown" else text
