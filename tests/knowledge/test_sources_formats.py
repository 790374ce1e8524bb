"""Documents of other formats: made with their own libraries, read through a real folder."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import docx
import openpyxl
import pptx
import pypdf
import pytest

from core.settings import FilesSource
from knowledge.ports import Document
from knowledge.sources.files import FilesFolder
from knowledge.sources.formats import readable


def pdf(*pages: str) -> bytes:
    """Write a PDF by hand: one line of text a page."""
    count = len(pages)
    kids = " ".join(f"{number + 4} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    font = "<< /Font << /F1 3 0 R >> >>"
    for number in range(count):
        place = f"/Contents {number + 4 + count} 0 R /Resources {font} /MediaBox [0 0 600 800]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {place} >>")
    for page in pages:
        stream = f"BT /F1 12 Tf 50 700 Td ({page}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n"
    return data + f"{tail}startxref\n{len(data)}\n%%EOF".encode()


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Manual", 0)
    document.add_heading("Installation", 1)
    document.add_paragraph("Run the installer.")
    document.add_paragraph("Then restart.", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for row, values in zip(table.rows, [("Port", "Use"), ("8000", "web | api")], strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    return saved(document)


def slides() -> bytes:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Road map"
    slide.placeholders[1].text = "First the router\nThen the cache"
    slide.notes_slide.notes_text_frame.text = "Mention the deadline."
    show.slides.add_slide(show.slide_layouts[6])
    return saved(show)


def sheet() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    for row in (["Plan", "Price"], ["Small", 5], [None, None], ["Large", 50]):
        book.active.append(row)
    return saved(book)


def saved(document: object) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)  # type: ignore[attr-defined]
    return buffer.getvalue()


NOTEBOOK = json.dumps(
    {
        "metadata": {"kernelspec": {"language": "python"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Tutorial\n", "First load it."]},
            {"cell_type": "code", "source": "load('x')", "outputs": [{"text": "SECRET OUTPUT"}]},
            {"cell_type": "raw", "source": "raw"},
        ],
    }
)
ASCIIDOC = """= Manual
:toc:

// a comment
== Installation

Run it.

[source,bash]
----
== not a title
pip install rocket
----
"""
OPENAPI = """openapi: 3.0.0
info: {title: Rockets, version: 1.2.0, description: All about rockets.}
paths:
  /rockets/{id}:
    parameters: [{name: id, in: path, description: Which rocket}]
    get:
      operationId: get_rocket
      summary: Return one rocket
      responses:
        200: {description: The rocket}
        404: {description: There is no such rocket}
"""
MAIN = "<main><h1>Guide</h1><p>Install it with pip, please.</p></main>"
HTML = f"<html><head><title>Guide</title></head><body><nav>menu</nav>{MAIN}</body></html>"
FILES = {
    "a.pdf": (pdf("First page", "Second page"), ["# Page 1\n\nFirst page", "# Page 2\n\nSecond page"]),
    "b.docx": (
        word(),
        ["# Manual", "# Installation\n\nRun the installer.\n\n- Then restart.", "| 8000 | web \\| api |"],
    ),
    "c.pptx": (slides(), ["# Road map\n\nFirst the router\nThen the cache\n\nMention the deadline.", "# Slide 2"]),
    "d.xlsx": (sheet(), ["# Prices\n\nPlan: Small\nPrice: 5\n\nPlan: Large\nPrice: 50"]),
    "e.ipynb": (NOTEBOOK.encode(), ["# Tutorial\nFirst load it.\n\n```python\nload('x')\n```"]),
    "f.adoc": (
        ASCIIDOC.encode(),
        ["# Manual\n", "## Installation\n", "```bash\n== not a title\npip install rocket\n```"],
    ),
    "g.csv": (b"name;port\nweb;80\n", ["name: web\nport: 80"]),
    "h.html": (HTML.encode(), ["# Guide", "Install it with pip"]),
    "i.yaml": (
        OPENAPI.encode(),
        [
            "# Rockets 1.2.0",
            "## GET /rockets/{id}\n\nReturn one rocket",
            "`get_rocket`",
            "| id | path | Which rocket |",
        ],
    ),
    "j.json": (
        json.dumps({"swagger": "2.0", "info": {}, "paths": {"/x": {"post": {"summary": "Do x"}}}}).encode(),
        ["# API", "## POST /x\n\nDo x"],
    ),
}


async def read(folder: Path, **changes: object) -> tuple[dict[str, Document], dict[str, int]]:
    source = FilesFolder("docs", FilesSource.model_validate({"kind": "files", "path": folder, **changes}))
    listing = await source.listing()
    documents = {one.path: one async for one in source.documents(listing, listing.fingerprints)}
    return documents, dict(listing.skipped)


@pytest.mark.parametrize("name", FILES)
async def test_a_document_is_read(name: str, tmp_path: Path) -> None:
    data, expected = FILES[name]
    (tmp_path / name).write_bytes(data)
    documents, skipped = await read(tmp_path)
    document = documents[name]
    assert skipped == {}
    assert document.kind == "markdown"
    for part in expected:
        assert part in document.text
    for noise in ("SECRET OUTPUT", "menu", ":toc:", "a comment"):
        assert noise not in document.text


@pytest.mark.parametrize("name", ["a.pdf", "b.docx", "c.pptx", "d.xlsx", "e.ipynb"])
@pytest.mark.parametrize("damage", ["half", "noise", "other"])
async def test_a_damaged_document_stops_nothing(name: str, damage: str, tmp_path: Path) -> None:
    data = FILES[name][0]
    broken = {"half": data[: len(data) // 2], "noise": b"\x00\xff" * 300, "other": b"PK\x03\x04 nothing"}[damage]
    (tmp_path / name).write_bytes(broken)
    (tmp_path / "good.md").write_text("Good.")
    documents, _ = await read(tmp_path)
    assert documents["good.md"].text == "Good."
    assert documents[name].text == ""


def test_what_unpacks_into_too_much_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"word/{number}.xml", b"0" * (80 << 20))
    assert len(buffer.getvalue()) < 1 << 20
    for kind in ("docx", "pptx", "xlsx"):
        assert readable(f"bomb.{kind}", kind, buffer.getvalue()) == ("", kind)


def test_an_encrypted_pdf_is_left_out() -> None:
    writer = pypdf.PdfWriter(io.BytesIO(pdf("Secret")))
    writer.encrypt("password", algorithm="RC4-128")
    assert readable("x.pdf", "pdf", saved(Writing(writer))) == ("", "pdf")


class Writing:
    def __init__(self, writer: pypdf.PdfWriter) -> None:
        self._writer = writer

    def save(self, buffer: io.BytesIO) -> None:
        self._writer.write(buffer)


def test_a_scan_is_left_out() -> None:
    assert readable("x.pdf", "pdf", pdf("")) == ("", "pdf")


async def test_their_size_has_its_own_limit(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(FILES["a.pdf"][0])
    (tmp_path / "good.md").write_text("Good.")
    documents, skipped = await read(tmp_path, max_file_kb=1, max_document_kb=2)
    assert set(documents) == {"a.pdf", "good.md"}
    (tmp_path / "a.pdf").write_bytes(FILES["a.pdf"][0] + b" " * 3000)
    documents, skipped = await read(tmp_path, max_document_kb=2)
    assert set(documents) == {"good.md"}
    assert skipped == {"too large": 1}


@pytest.mark.parametrize(
    "text", ["openapi: 3", "openapi: [", '{"openapi": "3", "paths": 3}', "swagger: 2\npaths:\n  /x: 7\n", "a: b"]
)
def test_what_is_no_api_stays_as_it_is(text: str) -> None:
    described, kind = readable("x.yaml", "text", text.encode())
    assert described == text or described.startswith("# API")
    assert kind == "text" or described.startswith("# API")
