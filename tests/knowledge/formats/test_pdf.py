"""PDF documents: bookmarks head their text, what every page repeats is left out, and no text is taken for Markdown."""

from __future__ import annotations

import pypdf
import pytest

from knowledge.formats.pdf import read_pdf
from knowledge.parsing.limits import FormatError
from tests.support.pdf_documents import add_bookmarks, write_pdf

TEXTS = ("The broker listens on port 9092.", "Backups run at three.", "Copies are kept for ninety days.", "It resumes.")


def read_pages(*pages: str) -> list[str]:
    """Return the text of the pages of a PDF, without their numbers and what keeps their lines apart."""
    text = read_pdf(write_pdf(*pages)).replace("  \n", "\n")
    return [page.partition("\n\n")[2] for page in f"\n\n{text}".split("\n\n# Page ")[1:]]


@pytest.mark.parametrize(
    ("head", "foot"),
    [
        ("Rocket manual", "{}"),
        ("Rocket manual                {}", "Confidential"),
        ("Chapter 3: Running    {}", "page {} of 4"),
        ("{}  Rocket manual", "- {} -"),
        ("Rocket manual 2.0", "Seite {}"),
    ],
)
def test_running_heads_and_numbers_of_pages_are_left_out(head: str, foot: str) -> None:
    pages = [
        f"{head.format(number)}\n{text}\nMore of {name}.\n{foot.format(number)}"
        for number, (text, name) in enumerate(zip(TEXTS, "abcd", strict=True), 47)
    ]
    assert read_pages(*pages) == [f"{text}\nMore of {name}." for text, name in zip(TEXTS, "abcd", strict=True)]


def test_heads_of_left_and_right_pages_are_left_out() -> None:
    heads = ("Rocket manual", "Chapter 2") * 3
    pages = [f"{head}\nText {name}." for head, name in zip(heads, "abcdef", strict=True)]
    assert read_pages(*pages) == [f"Text {name}." for name in "abcdef"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1.2 Install ............ 34", "1.2 Install"),
        ("Preface . . . . . . . . ix", "Preface"),
        ("........ 34", "After."),
        ("Wait ... 34", "Wait ... 34"),
        ("Port ....... 9092 of the broker", "Port ....... 9092 of the broker"),
    ],
)
def test_what_leads_to_the_number_of_a_page_is_left_out(line: str, expected: str) -> None:
    (text,) = read_pages(f"{line}\nAfter.")
    assert text.split("\n")[0] == expected


def test_text_at_the_edge_of_a_page_stays() -> None:
    pages = ["Step 4\nStop it.\nOne.", "Step 9\nCopy it.\nTwo.", "Step 2\nStart it.\nThree."]
    assert read_pages(*pages) == pages
    assert read_pages("Same head\nOne.", "Same head\nTwo.") == ["Same head\nOne.", "Same head\nTwo."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The con-\nfiguration is here.", "The configuration is here."),
        ("Une op\xe9ra-\ntion de s\xe9-\ncurit\xe9.", "Une op\xe9ration de s\xe9curit\xe9."),
        ("A well-known name is well-\nknown.", "A well-known name is well-known."),
        ("A comma-\nseparated list: some comma is separated.", "A comma-separated list: some comma is separated."),
        ("It is over-\nloaded when loaded over and over.", "It is over-loaded when loaded over and over."),
        ("Overloaded: it is over-\nloaded when loaded over.", "Overloaded: it is overloaded when loaded over."),
        ("For-\nmat it with a mat for it.", "Format it with a mat for it."),
        ("Use X-\nRay, or 10-\n20 of it.", "Use X-Ray, or 10-\n20 of it."),
        ("# install\n=====\nName\n-----", "\\# install\n\\=====\nName\n\\-----"),
        ("1. First\n> quoted\n* sign", "1\\. First\n\\> quoted\n\\* sign"),
        ("see <b> and *.py, `x`", "see \\<b> and \\*.py, \\`x\\`"),
    ],
)
def test_text_is_read_as_it_stands(text: str, expected: str) -> None:
    assert read_pages(text) == [expected]


def test_signs_of_a_font_of_icons_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypdf.PageObject, "extract_text", lambda page: "Start it.\n\uf0eb\n\uf0eb Hint: stop it.")
    assert read_pages("") == ["Start it.\n\nHint: stop it."]


def test_bookmarks_head_their_text() -> None:
    pages = ("Cover", "1 Install\nRun it.\n1.1 On Linux\nUse apt.", "It goes on.\n2 The\nBackup\nCopy it.")
    bookmarks = [(1, 1, "Install"), (2, 1, "On Linux"), (1, 2, "The Backup")]
    assert read_pdf(add_bookmarks(write_pdf(*pages), bookmarks)) == (
        "# Page 1\n\nCover\n\n# Install\n\nRun it.\n\n## On Linux\n\nUse apt.\n\n"
        "### Page 3\n\nIt goes on.\n\n# The Backup\n\nCopy it."
    )


def test_a_bookmark_that_its_page_does_not_show_heads_the_page() -> None:
    data = add_bookmarks(write_pdf("Run it.", "Copy it."), [(1, 0, "Start"), (1, 1, "# Backup")])
    assert read_pdf(data) == "# Start\n\nRun it.\n\n# # Backup\n\nCopy it."


def test_a_damaged_page_or_bookmark_costs_no_other() -> None:
    data = write_pdf("First page.", "Second page.", "Third page.")
    assert "# Page 3\n\nThird page." in read_pdf(data.replace(b"(Second page.) Tj", b"(Second page. Tj) "))
    bookmarked = add_bookmarks(data, [(1, 0, "Start")])
    assert "Third page." in read_pdf(bookmarked.replace(b"/Title (Start)", b"/Title 7 0 R  "))


def test_a_scan_is_named() -> None:
    with pytest.raises(FormatError, match="a scan needs text recognition first"):
        read_pdf(write_pdf("", ""))


WIDTHS = {"A": 667, "c": 500, "o": 556, "u": 556, "n": 556, "t": 278, "a": 556, "m": 833, "e": 556, " ": 278}


def draw_twice(*pieces: str) -> bytes:
    """Return a PDF whose first line is drawn twice, piece by piece, as makers of PDF draw what is bold."""
    stream, x = "", 50.0
    for piece in pieces:
        for shift in (0.0, 0.3):
            stream += f"1 0 0 1 {x + shift:.2f} 700 Tm ({piece}) Tj " if piece.strip() else ""
        x += sum(WIDTHS[letter] for letter in piece) * 12 / 1000
    whole = write_pdf("x" * (len(stream) + 4), "")
    drawn = f"({'x' * (len(stream) + 4)}) Tj T*"
    return whole.replace(drawn.encode(), f"{stream}1 0 0 1 50 680 Tm (Number one.) Tj".ljust(len(drawn)).encode())


@pytest.mark.parametrize("pieces", [["Account name"], ["Account", " ", "name"], [*"Account name"]])
def test_what_is_drawn_twice_at_one_place_is_read_once(pieces: list[str]) -> None:
    assert read_pdf(draw_twice(*pieces)).replace("  \n", "\n") == "# Page 1\n\nAccount name\nNumber one."


def test_what_is_said_twice_stays() -> None:
    assert read_pages("Copy that.\nCopy that.\nbeep beep byebye mama") == [
        "Copy that.\nCopy that.\nbeep beep byebye mama"
    ]
