"""Documents that were made to stop a daemon."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import docx


def rewrite(data: bytes, name: str, change: Callable[[str], str]) -> bytes:
    """Return an office document with one of its parts changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in archive.namelist():
            content = archive.read(entry)
            new.writestr(entry, change(content.decode()) if entry == name else content)
    return buffer.getvalue()


def make_docx() -> bytes:
    document = docx.Document()
    buffer = io.BytesIO()
    document.add_paragraph("text")
    document.add_table(1, 1)
    document.save(buffer)
    return buffer.getvalue()


def wide_docx() -> bytes:
    return rewrite(
        make_docx(),
        "word/document.xml",
        lambda text: text.replace("<w:tcPr>", '<w:tcPr><w:gridSpan w:val="300000"/>', 1),
    )


def author_feed(author: str) -> bytes:
    return f"""<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>
        <item><title>x</title><author>{author}</author><description>text</description></item></channel></rss>""".encode()
