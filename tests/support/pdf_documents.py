"""PDF documents that are written by hand."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pypdf

# Where a text stands from the left and from the bottom, how large it is, and the text; what begins with "`" is code.
Drawing = tuple[float, float, float, str]
# The left and bottom edge, the width and the height of a filled area, on every page.
Area = tuple[float, float, float, float]


def write_pdf(*pages: str) -> bytes:
    """Return a PDF with the lines of each page."""
    return draw_pdf(
        *([(50, 700 - 14 * number, 12, line) for number, line in enumerate(page.split("\n"))] for page in pages)
    )


def draw_pdf(*pages: Sequence[Drawing], areas: Sequence[Area] = ()) -> bytes:
    """Return a PDF with texts at their places on each page, drawn one after the other, above areas."""
    drawn = " ".join(f"{left:.2f} {bottom:.2f} {width:.2f} {height:.2f} re f" for left, bottom, width, height in areas)
    count = len(pages)
    kids = " ".join(f"{number + 5} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>",
    ]
    fonts = "<< /Font << /F1 3 0 R /F2 4 0 R >> >>"
    for number in range(count):
        page_fields = f"/Contents {number + 5 + count} 0 R /Resources {fonts} /MediaBox [0 0 600 800]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {page_fields} >>")
    for page in pages:
        stream = " ".join([drawn, "BT", *map(_draw, page), "ET"])
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    data = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n"
    return data + f"{tail}startxref\n{len(data)}\n%%EOF".encode()


def add_bookmarks(data: bytes, bookmarks: Sequence[tuple[int, int, str]]) -> bytes:
    """Return a PDF with bookmarks, each a level from 1, a page from 0 and a title."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    parents: dict[int, pypdf.generic.IndirectObject] = {}
    for level, page, title in bookmarks:
        parents[level] = writer.add_outline_item(title=title, page_number=page, parent=parents.get(level - 1))
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _draw(drawing: Drawing) -> str:
    x, y, size, text = drawing
    font = "F2" if text.startswith("`") else "F1"
    return f"/{font} {size} Tf 1 0 0 1 {x:.2f} {y:.2f} Tm ({_escape(text.removeprefix('`'))}) Tj"
