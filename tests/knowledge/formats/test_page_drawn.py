"""Signs of printed pages that are drawn: bullets of lists, and underscores of names."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.formats.page_drawn import add_drawn
from knowledge.formats.page_layout import make_lines
from knowledge.formats.pdf import read_pdf
from tests.support.pdf_documents import Area, Drawing, draw_pdf


def read_page(page: Sequence[Drawing], *areas: Area) -> str:
    """Return the text of a page above filled areas."""
    return read_pdf(draw_pdf(page, areas=areas)).partition("\n\n")[2].replace("  \n", "\n")


def test_a_square_before_a_line_is_its_bullet() -> None:
    page: list[Drawing] = [
        (50, 740, 10, "It has parts:"),
        (70, 720, 10, "a disk"),
        (90, 700, 10, "with space"),
        (70, 680, 10, "a network"),
    ]
    bullets = [(60.0, 721.5, 4.0, 4.0), (80.5, 701.5, 4.0, 4.0), (60.0, 681.5, 4.0, 4.0)]
    assert read_page(page, *bullets) == "It has parts:\n\n- a disk\n  - with space\n- a network"


def test_a_bullet_between_an_icon_and_its_text_begins_an_item() -> None:
    icon = ("\uf0eb", 50.0, 90.0, 70.0, 120.0)
    words = [(sign, 100.0 + 6 * place, 100.0, 106.0 + 6 * place, 112.0) for place, sign in enumerate("Take it")]
    (glyphs,) = add_drawn([[icon, (" ", 70.0, 90.0, 74.0, 120.0), *words]], [(91.0, 103.0, 96.0, 108.0)])
    assert [line.text for line in make_lines([glyphs])] == ["TIP:\n\u2022 Take it"]


def test_what_is_drawn_elsewhere_is_no_bullet() -> None:
    page: list[Drawing] = [(70, 720, 10, "a disk"), (70, 640, 10, "a network")]
    # Too far from its line, above it, too wide, and too large.
    areas = [(20.0, 721.5, 4.0, 4.0), (60.0, 730.0, 4.0, 4.0), (58.0, 641.5, 9.0, 4.0), (58.0, 636.0, 12.0, 12.0)]
    assert read_page(page, *areas) == "a disk\n\na network"


def test_a_short_rule_between_words_is_an_underscore() -> None:
    page: list[Drawing] = [(50, 720, 10, "call"), (70.5, 720, 10, "load"), (95, 720, 10, "or"), (110, 720, 10, "stop")]
    # One between two words, and one that underlines a word.
    assert read_page(page, (65.4, 719.0, 4.8, 0.5), (95.0, 718.5, 5.0, 0.5)) == "call_load or stop"
