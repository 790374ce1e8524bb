"""Tables of printed pages: a row in a box is one, a note beside its icon is none."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.formats.pdf import read_pdf
from tests.support.pdf_documents import Drawing, draw_pdf


def read_row(*texts: str, columns: Sequence[float]) -> str:
    """Return a page with texts in a box, which upright lines divide at these places."""
    frame = (50.0, 650.0, 400.0, 40.0)
    rules = [(column, 650.0, 1.0, 40.0) for column in columns]
    cells: list[Drawing] = [(x + 5, 670, 10, text) for x, text in zip((50, *columns), texts, strict=True) if text]
    return read_pdf(draw_pdf([(50, 740, 10, "Before"), *cells], areas=[frame, *rules])).partition("\n\n")[2]


def test_a_row_in_a_box_is_a_table() -> None:
    text = read_row("Firefox", "Browser", "It shows pages.", columns=(150, 250))
    assert text == "Before\n\n| Firefox | Browser | It shows pages. |\n|---|---|---|"


def test_two_texts_in_a_box_or_an_empty_cell_are_no_row() -> None:
    assert "|" not in read_row("Note", "It shows pages.", columns=(150,))
    assert "|" not in read_row("Firefox", "", "It shows pages.", columns=(150, 250))
