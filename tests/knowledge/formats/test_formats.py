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
from knowledge.chunking import chunk
from knowledge.formats import read_document
from knowledge.parsing.limits import FormatError
from knowledge.ports import Document
from knowledge.sources.files import FilesFolder
from tests.support.pdf_documents import write_pdf


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
            {
                "cell_type": "code",
                "source": "load('x')",
                "outputs": [{"output_type": "error", "evalue": "SECRET OUTPUT"}],
            },
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
    "a.pdf": (write_pdf("First page", "Second page"), ["# Page 1\n\nFirst page", "# Page 2\n\nSecond page"]),
    "b.docx": (
        word(),
        ["# Manual", "# Installation\n\nRun the installer.\n\n- Then restart.", "| 8000 | web \\| api |"],
    ),
    "c.pptx": (slides(), ["# Road map\n\n- First the router\n- Then the cache\n\nMention the deadline.", "# Slide 2"]),
    "d.xlsx": (sheet(), ["# Prices\n\nPlan: Small  \nPrice: 5\n\nPlan: Large  \nPrice: 50"]),
    "e.ipynb": (NOTEBOOK.encode(), ["# Tutorial\n\nFirst load it.\n\n```python\nload('x')\n```"]),
    "g.csv": (b"name;port\nweb;80\n", ["name: web  \nport: 80"]),
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
    source = FilesFolder(
        "docs", FilesSource.model_validate({"kind": "files", "path": folder, **changes}), folder.parent / "data"
    )
    listing = await source.listing()
    documents = {document.path: document async for document in source.documents(listing, listing.fingerprints)}
    return documents, dict(listing.skipped)


@pytest.mark.parametrize("name", FILES)
async def test_a_document_is_read(name: str, tmp_path: Path) -> None:
    data, expected = FILES[name]
    (tmp_path / name).write_bytes(data)
    documents, skipped_counts = await read(tmp_path)
    document = documents[name]
    assert skipped_counts == {}
    assert document.kind == "markdown"
    for part in expected:
        assert part in document.text
    for noise in ("SECRET OUTPUT", "menu"):
        assert noise not in document.text


async def test_asciidoc_is_cut_as_blocks(tmp_path: Path) -> None:
    (tmp_path / "f.adoc").write_text(ASCIIDOC)
    documents, skipped_counts = await read(tmp_path)
    (piece,) = chunk(documents["f.adoc"])
    assert skipped_counts == {}
    assert (piece.title, piece.kind) == ("Manual > Installation", "markdown")
    assert piece.text.endswith("Run it.\n\n```bash\n== not a title\npip install rocket\n```")
    assert "a comment" not in piece.text


@pytest.mark.parametrize("name", ["a.pdf", "b.docx", "c.pptx", "d.xlsx", "e.ipynb"])
@pytest.mark.parametrize("damage", ["half", "noise", "other"])
async def test_a_damaged_document_stops_nothing(name: str, damage: str, tmp_path: Path) -> None:
    data = FILES[name][0]
    contents = {"half": data[: len(data) // 2], "noise": b"\x00\xff" * 300, "other": b"PK\x03\x04 nothing"}[damage]
    (tmp_path / name).write_bytes(contents)
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
        with pytest.raises(FormatError, match="too large when unpacked"):
            read_document(f"bomb.{kind}", kind, buffer.getvalue())


def test_an_encrypted_pdf_is_left_out() -> None:
    writer = pypdf.PdfWriter(io.BytesIO(write_pdf("Secret")))
    writer.encrypt("password", algorithm="RC4-128")
    with pytest.raises(FormatError, match="encrypted"):
        read_document("x.pdf", "pdf", saved(Writing(writer)))


class Writing:
    def __init__(self, writer: pypdf.PdfWriter) -> None:
        self._writer = writer

    def save(self, buffer: io.BytesIO) -> None:
        self._writer.write(buffer)


def test_a_scan_is_left_out() -> None:
    with pytest.raises(FormatError, match="holds no text"):
        read_document("x.pdf", "pdf", write_pdf(""))


async def test_their_size_has_its_own_limit(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(FILES["a.pdf"][0])
    (tmp_path / "good.md").write_text("Good.")
    documents, skipped_counts = await read(tmp_path, max_file_kb=1, max_document_kb=2)
    assert set(documents) == {"a.pdf", "good.md"}
    (tmp_path / "a.pdf").write_bytes(FILES["a.pdf"][0] + b" " * 3000)
    documents, skipped_counts = await read(tmp_path, max_document_kb=2)
    assert set(documents) == {"good.md"}
    assert skipped_counts == {"larger than max_document_kb": 1}


@pytest.mark.parametrize(
    "text", ["openapi: 3", "openapi: [", '{"openapi": "3", "paths": 3}', "swagger: 2\npaths:\n  /x: 7\n", "a: b"]
)
def test_what_is_no_api_stays_as_it_is(text: str) -> None:
    markdown, kind = read_document("x.yaml", "text", text.encode())
    assert markdown == text or markdown.startswith("# API")
    assert kind == "text" or markdown.startswith("# API")


BODY = {
    "openapi": "3.0.0",
    "info": {"title": "Paint", "version": "1"},
    "paths": {
        "/walls": {
            "parameters": [{"name": "lim", "in": "query", "description": "shared, and told better below"}],
            "post": {
                "summary": "Paint a wall",
                "parameters": [
                    {"$ref": "#/components/parameters/Lim"},
                    {"$ref": "common.yaml#/parameters/Trace"},
                    {"$ref": "#/components/parameters/Nowhere"},
                ],
                "requestBody": {"$ref": "#/components/requestBodies/Wall"},
                "responses": {
                    "200": {"$ref": "#/components/responses/Done"},
                    "404": {"description": "No such wall"},
                    "500": {"$ref": "common.yaml#/responses/Broken"},
                },
            },
        },
        "/rooms": {"$ref": "#/x-paths/~1rooms"},
    },
    "x-paths": {"/rooms": {"get": {"summary": "List all rooms"}}},
    "components": {
        "parameters": {
            "Lim": {
                "name": "lim",
                "in": "query",
                "description": "how many at most",
                "content": {
                    "application/json": {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
                },
            }
        },
        "requestBodies": {
            "Wall": {
                "description": "What it is made of",
                "required": True,
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Wall"}},
                    "application/xml": {"schema": {"$ref": "#/components/schemas/Wall"}},
                    "image/png": {},
                },
            }
        },
        "responses": {
            "Done": {
                "description": "It is painted",
                "content": {"application/json": {"schema": {"items": {"$ref": "#/components/schemas/Wall"}}}},
            }
        },
        "schemas": {
            "Wall": {
                "allOf": [{"$ref": "#/components/schemas/Thing"}, {"$ref": "#/components/schemas/Wall"}],
                "required": ["colour"],
                "properties": {
                    "colour": {"type": "string", "description": "paint | lacquer", "enum": ["red", "blue"]},
                    "behind": {"$ref": "#/components/schemas/Wall", "description": "the next wall"},
                    "room": {"$ref": "#/components/schemas/Room"},
                    "sizes": {"type": "array", "items": {"type": "number"}},
                },
            },
            "Thing": {"properties": {"made": {"type": ["string", "null"], "format": "date", "title": "When"}}},
            "Room": {"description": "where it stands", "properties": {"house": {"$ref": "#/components/schemas/House"}}},
            "House": {"description": "what it is in", "properties": {"inner": {"description": "NOT SHOWN"}}},
        },
    },
}


def test_what_is_sent_and_comes_back_is_read() -> None:
    text, kind = read_document("x.json", "text", json.dumps(BODY).encode())
    assert kind == "markdown"
    for part in (
        "| lim | query | how many at most (object, `n`: (integer)) |",
        "| Trace |  | see common.yaml#/parameters/Trace |",
        "| Nowhere |  | see #/components/parameters/Nowhere |",
        "Request body (required): What it is made of",
        "As `application/json`, `application/xml`: Wall",
        "As `image/png`",
        "| colour | one of red, blue | paint \\| lacquer (required) |",
        "| behind | Wall | the next wall |",
        "| room | Room | where it stands |\n| room.house | House | what it is in |\n| sizes",
        "| sizes | list of number |  |",
        "| made | string or null (date) | When |",
        "| 200 | It is painted (list of Wall) |",
        "Reply 200\n\n| field | type | meaning |\n|---|---|---|\n| colour | one of red, blue |",
        "| 404 | No such wall |",
        "| 500 | see common.yaml#/responses/Broken |",
        "## GET /rooms\n\nList all rooms",
    ):
        assert part in text
    assert "shared, and told better below" not in text
    assert "NOT SHOWN" not in text


def test_the_body_of_an_older_description_is_read() -> None:
    description = {
        "swagger": "2.0",
        "consumes": ["application/json"],
        "definitions": {"Pet": {"properties": {"name": {"type": "string", "description": "how it is called"}}}},
        "parameters": {
            "Body": {"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}, "required": True}
        },
        "paths": {
            "/pets": {
                "post": {
                    "parameters": [
                        {"$ref": "#/parameters/Body"},
                        {"name": "id", "in": "path", "type": "integer", "required": True, "description": "Which"},
                    ],
                    "responses": {200: {"description": "Kept", "schema": {"$ref": "#/definitions/Pet"}}},
                }
            }
        },
    }
    text, _ = read_document("x.json", "text", json.dumps(description).encode())
    for part in (
        "| id | path | Which (integer, required) |",
        "Request body (required)\n\nAs `application/json`: Pet\n\n",
        "| name | string | how it is called |",
        "| 200 | Kept (Pet) |",
        "Reply 200\n\n| field | type | meaning |\n|---|---|---|\n| name | string | how it is called |",
    ):
        assert part in text
    assert "| pet |" not in text


@pytest.mark.parametrize(
    "reference", ["#/paths/~1x", "#/components/a", "#/components/a/b/c", "#", "", "#/%zz", "other.yaml", 7]
)
def test_references_that_go_round_or_nowhere_end(reference: object) -> None:
    round_about = {
        "a": {"$ref": "#/components/b"},
        "b": {"$ref": "#/components/a", "allOf": [{"$ref": "#/components/b"}]},
    }
    entry = {"$ref": reference}
    operation = {
        "summary": "Here",
        "parameters": [entry],
        "requestBody": entry,
        "responses": {"200": entry},
    }
    content = {"content": {"a/b": {"schema": {"$ref": "#/components/b"}}}}
    paths = {"/x": {"get": operation, "put": {"requestBody": content, "summary": "There"}}, "/y": entry}
    description = {"openapi": "3.1", "paths": paths, "components": round_about}
    text, kind = read_document("x.json", "text", json.dumps(description).encode())
    assert kind == "markdown"
    assert "## GET /x\n\nHere" in text
    assert "## PUT /x\n\nThere" in text


async def test_a_long_description_of_an_api_is_read_and_other_data_is_not(tmp_path: Path) -> None:
    paths = {
        f"/thing{number}": {"get": {"summary": f"Thing {number} is read and given to whoever asks for it"}}
        for number in range(900)
    }
    # With its keys in order, as some tools write it, the mark of what it is comes last.
    description = json.dumps({"paths": paths, "swagger": "2.0"})
    assert 64_000 < len(description) < 1_000_000
    (tmp_path / "api.json").write_text(description)
    (tmp_path / "data.json").write_text(json.dumps({"values": list(range(30_000))}))
    (tmp_path / "small.json").write_text('{"openapi": "is only a word here"}')
    documents, skipped_counts = await read(tmp_path)
    assert skipped_counts == {}
    assert documents["api.json"].kind == "markdown"
    assert "## GET /thing899\n\nThing 899" in documents["api.json"].text
    assert documents["data.json"].text == ""
    assert documents["small.json"].text == '{"openapi": "is only a word here"}'
    documents, skipped_counts = await read(tmp_path, max_file_kb=16)
    assert set(documents) == {"small.json"}
    assert skipped_counts == {"larger than max_file_kb": 2}


def test_the_fields_of_objects_within_objects_are_read() -> None:
    zone = {"type": "object", "properties": {"city": {"type": "string"}}}
    user = {"type": "object", "required": ["zone"], "properties": {"zone": zone}}
    row = {"type": "object", "properties": {"cells": {"type": "array", "items": {"type": "string"}}}}
    reply = {"type": "object", "properties": {"user": user, "rows": {"type": "array", "items": row}}}
    responses = {
        "200": {"content": {"application/json": {"schema": reply}}},
        "400": {"content": {"application/json": {"schema": {"properties": {"error": {"type": "string"}}}}}},
    }
    spec = {"openapi": "3.1.0", "paths": {"/x": {"get": {"responses": responses}}}}
    text, _ = read_document("x.json", "text", json.dumps(spec).encode())
    names = ["user", "user.zone", "user.zone.city", "rows", "rows[].cells"]
    assert [line.split(" ")[1] for line in text.partition("Reply 200")[2].splitlines()[4:]] == names
    assert "| user.zone | object | (required) |" in text
    assert "Reply 400" not in text


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"swagger": "2.0", "basePath": "/api/"}, "/api/x"),
        ({"openapi": "3.0.0", "servers": [{"url": "https://{region}.example.org/v1"}]}, "/v1/x"),
        ({"openapi": "3.0.0", "servers": [{"url": "/v1"}, {"url": "https://example.org/v1/"}]}, "/v1/x"),
        ({"openapi": "3.0.0", "servers": [{"url": "/v1"}, {"url": "/v2"}]}, "/x"),
        ({"openapi": "3.0.0", "servers": [{"url": "https://example.org"}]}, "/x"),
        ({"openapi": "3.0.0", "servers": ["x", {"url": 7}]}, "/x"),
    ],
)
def test_a_path_is_the_one_that_is_called(said: dict[str, object], path: str) -> None:
    text, _ = read_document("x.json", "text", json.dumps({**said, "paths": {"/x": {"get": {}}}}).encode())
    assert f"## GET {path}" in text.split("\n")


def test_what_a_schema_says_of_values_is_read() -> None:
    fields = {
        "method": {"allOf": [{"$ref": "#/components/schemas/Method"}], "description": "How", "default": "POST"},
        "mode": {"$ref": "#/components/schemas/Method"},
        "size": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "exclusiveMaximum": True},
        "share": {"type": "number", "exclusiveMinimum": 0, "deprecated": True},
        "loud": {"type": "boolean", "default": False},
        "self": {"$ref": "#/components/schemas/Self"},
    }
    limit = {"name": "lim", "in": "query", "deprecated": True, "schema": {"type": "integer", "maximum": 50}}
    body = {"content": {"application/json": {"schema": {"properties": fields}}}}
    spec = {
        "openapi": "3.1.0",
        "paths": {"/x": {"post": {"parameters": [limit], "requestBody": body}}},
        "components": {
            "schemas": {
                "Method": {"type": "string", "enum": ["GET", "POST"], "default": "GET"},
                "Self": {"$ref": "#/components/schemas/Self"},
            }
        },
    }
    text, _ = read_document("x.json", "text", json.dumps(spec).encode())
    for row in (
        "| lim | query | (integer, at most 50, deprecated) |",
        "| method | Method | How (default POST, one of GET, POST) |",
        "| mode | Method | (default GET, one of GET, POST) |",
        "| size | integer | (default 20, at least 1, at most 100) |",
        "| share | number | (more than 0, deprecated) |",
        "| loud | boolean | (default false) |",
        "| self | Self |  |",
    ):
        assert row in text
