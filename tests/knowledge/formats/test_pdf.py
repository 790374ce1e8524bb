"""PDF documents: bookmarks head their text, sentences and code are whole, and what every page repeats is left out."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from knowledge.formats.page_layout import make_lines
from knowledge.formats.pdf import read_pdf
from knowledge.parsing.limits import FormatError
from tests.support.pdf_documents import Drawing, add_bookmarks, draw_pdf, write_pdf

TEXTS = ("The broker listens on port 9092.", "Backups run at three.", "Copies are kept for ninety days.", "It resumes.")


def read_pages(*pages: str) -> list[str]:
    """Return the text of the pages of a PDF, without their numbers and what keeps their lines apart."""
    text = read_pdf(write_pdf(*pages)).replace("  \n", "\n")
    return [page.partition("\n\n")[2] for page in f"\n\n{text}".split("\n\n# Page ")[1:]]


def read_drawings(*pages: Sequence[Drawing]) -> list[str]:
    """Return the text below each heading of a drawn PDF."""
    text = read_pdf(draw_pdf(*pages)).replace("  \n", "\n")
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


def test_what_stands_where_other_pages_have_their_heads_is_one() -> None:
    heads = ["Running"] * 3 + ["Keeping"] * 3 + ["Stopping"]
    pages = [f"{head}\nText {name}.\nMore {name}." for head, name in zip(heads, "abcdefg", strict=True)]
    assert read_pages(*pages) == [f"Text {name}.\nMore {name}." for name in "abcdefg"]


def test_a_head_of_two_texts_is_one_where_the_first_is_the_same() -> None:
    pages: list[list[Drawing]] = [
        [(50, 760, 10, "Chapter 2"), (400, 760, 10, f"Of {name}s"), (50, 700, 12, f"Text {name}.")] for name in "abc"
    ]
    assert read_drawings(*pages) == [f"Text {name}." for name in "abc"]


@pytest.mark.parametrize(("end", "steps"), [("Stop it.", 9), ("|===", 0)])
def test_what_stands_at_other_heights_or_has_no_letters_is_no_head(end: str, steps: int) -> None:
    others = [[(50.0, 700.0, 12.0, f"Text {name}.")] for name in "abcdefghijklmn"]
    pages: list[list[Drawing]] = [
        [(50, 700, 12, f"Text {name}."), (50, 600 - steps * number, 12, end)] for number, name in enumerate("xyz")
    ]
    texts = read_drawings(*pages, *others)
    assert [text.replace("\\", "").split("\n\n") for text in texts[:3]] == [[f"Text {name}.", end] for name in "xyz"]


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
        ("First\n> quoted\n+ sign", "First\n\\> quoted\n\\+ sign"),
        ("see <b> and *.py, `x`", "see \\<b> and *.py, \\`x\\`"),
    ],
)
def test_text_is_read_as_it_stands(text: str, expected: str) -> None:
    assert read_pages(text) == [expected]


def test_bookmarks_head_their_text() -> None:
    pages = ("Cover", "1 Install\nRun it.\n1.1 On Linux\nUse apt.", "It goes on.\n2 The\nBackup\nCopy it.")
    bookmarks = [(1, 1, "Install"), (2, 1, "On Linux"), (1, 2, "The Backup")]
    assert read_pdf(add_bookmarks(write_pdf(*pages), bookmarks)) == (
        "Cover\n\n# Install\n\nRun it.\n\n## On Linux\n\nUse apt.\n\nIt goes on.\n\n# The Backup\n\nCopy it."
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


@pytest.mark.parametrize("pieces", [["Account name"], ["Account", " ", "name"], [*"Account name"]])
def test_what_is_drawn_twice_at_one_place_is_read_once(pieces: list[str]) -> None:
    # So makers of PDF draw what is bold, piece by piece.
    drawings: list[Drawing] = []
    x = 50.0
    for piece in pieces:
        drawings += [(x + shift, 700, 12, piece) for shift in (0.0, 0.3) if piece.strip()]
        x += sum(WIDTHS[letter] for letter in piece) * 12 / 1000
    text = read_pdf(draw_pdf([*drawings, (50, 680, 12, "Number one.")]))
    assert text.replace("  \n", "\n") == "# Page 1\n\nAccount name\nNumber one."


def test_what_is_said_twice_stays() -> None:
    assert read_pages("Copy that.\nCopy that.\nbeep beep byebye mama") == [
        "Copy that.\nCopy that.\nbeep beep byebye mama"
    ]


LINES = (
    "The broker keeps every message on the disk until each",
    "of its readers has taken it, which needs much space,",
    "but never loses one, as long as the machine has power",
)


def set_lines(*lines: str, top: float = 700, left: float = 50, size: float = 10) -> list[Drawing]:
    """Return lines below each other, all of one width, as they are in a book."""
    return [(left, top - 12 * number, size, line) for number, line in enumerate(lines)]


def test_lines_of_a_paragraph_are_joined_and_others_are_not() -> None:
    (text,) = read_drawings([*set_lines(*LINES, "and a backup."), *set_lines("A heading", "Short lines", top=600)])
    assert text == f"{' '.join(LINES)} and a backup.\n\nA heading\nShort lines"


def test_a_long_line_goes_on_in_brackets() -> None:
    start, end = (
        "To learn more of it, read the other guides",
        "(https://a.example/docs/of-the-broker) and its manual.",
    )
    (text,) = read_drawings(set_lines(start, end, "Short."))
    assert text == f"{start} {end}\nShort."


def test_rows_and_items_are_not_joined() -> None:
    rows = [("port of the broker that all of the clients use", "9092"), ("host", "10.0.0.1"), ("name", "broker")]
    table = [
        (x, 700 - 12 * row, 10.0, cell)
        for row, cells in enumerate(rows)
        for x, cell in zip((50, 350), cells, strict=True)
    ]
    items = [f"{mark} {LINES[0]}" for mark in ("-", "1.", "b)", "[3]")]
    (text,) = read_drawings([*table, *set_lines(*items, top=600)])
    assert [line.split()[0] for line in text.replace("\\", "").split("\n") if line] == [
        "port",
        "host",
        "name",
        "-",
        "1.",
        "b)",
        "[3]",
    ]


def test_sentences_go_on_over_columns_and_pages() -> None:
    first = [
        *set_lines(*LINES, left=40),
        *set_lines(*LINES[1:], "and then it starts again for all its readers at the next", left=330),
    ]
    second = set_lines("hour. Then it waits.", "It stops.")
    (text,) = read_drawings(first, second)
    last = "and then it starts again for all its readers at the next hour. Then it waits."
    assert text.startswith(f"{' '.join([*LINES, *LINES[1:]])} {last}")


def test_a_sentence_that_ends_with_its_page_is_not_joined() -> None:
    pages = [*LINES[:2], "and loses none, as long as the machine has no fault."], ["However, it waits."]
    assert len(read_drawings(*(set_lines(*page) for page in pages))) == 2


def test_marks_of_footnotes_are_no_part_of_words_and_the_notes_follow() -> None:
    page = [
        (50, 700, 10, "The broker keeps messages"),
        (176.5, 704, 6, "12"),
        (186, 700, 10, "on its disk."),
        (50, 688, 10, "So it has 10"),
        (103, 692, 6, "6"),
        (109, 688, 10, "of them, and more at"),
        (50, 100, 8, "12 See the manual."),
    ]
    (text,) = read_drawings(page, set_lines("once than others."))
    whole = "The broker keeps messages on its disk.\nSo it has 10⁶ of them, and more at once than others."
    assert text == f"{whole}\n\n12 See the manual."


def test_code_keeps_its_lines_and_loses_their_numbers() -> None:
    code = ["`def run():", "`    stop()", "`", "`    return 7"]
    numbered = [(30, 700 - 12 * number, 6, f"{number + 1}") for number in range(4)]
    drawings = [drawing for pair in zip(numbered, set_lines(*code, left=48), strict=True) for drawing in pair]
    assert (
        read_drawings(set_lines(*code))
        == read_drawings(drawings)
        == ["```\ndef run():\n    stop()\n\n    return 7\n```"]
    )


def test_signs_of_one_width_are_code_where_others_would_be_narrower() -> None:
    (text,) = read_drawings(set_lines("`,===", "`a,b,c", "`,==="))
    assert text == "```\n,===\na,b,c\n,===\n```"
    # Letters of one width in a font that has others.
    assert read_drawings(set_lines("bed", "hop", "gun")) == ["bed\nhop\ngun"]


def test_what_has_bullets_is_a_list() -> None:
    page = [
        *set_lines("It has", "\u2022 a disk", "\u2022 a port", "\u2013 of its own", top=700),
        *set_lines("\u2022 a name", top=620),
    ]
    (text,) = read_drawings([*page, *set_lines("\u2022 a user.", "It runs.", top=580)])
    assert text == "It has\n\n- a disk\n- a port\n  - of its own\n- a name\n- a user.\n\nIt runs."


def test_what_hangs_below_an_item_is_part_of_it_in_another_size() -> None:
    items = [*set_lines("\u2022 a disk"), *set_lines("(in the manual)", top=688, left=57, size=8)]
    (text,) = read_drawings([*items, *set_lines("\u2022 a port", top=674)])
    assert text == "- a disk\n  (in the manual)\n- a port"
    (text,) = read_drawings([*set_lines("\u2022 a disk"), *set_lines("A caption", top=688, size=8)])
    assert text == "- a disk\n\nA caption"


def test_what_has_numbers_is_a_list_that_holds_what_stands_below_its_items() -> None:
    items = set_lines("It has", "1. a disk", "\u2022 of its own", "2. a port")
    others = [*set_lines("3. a name", "10. users", top=560), *set_lines("\u2022 x", left=20, top=500)]
    (text,) = read_drawings([*items, *set_lines("So it is.", top=600), *others])
    assert text == "It has\n\n1. a disk\n   - of its own\n2. a port\n\nSo it is.\n\n3. a name\n\n10\\. users\n\n- x"
    (text,) = read_drawings([*set_lines("\u2022 a", "1. b", "\u2022 c", "1. d", "in May 5. x", "7. x")])
    assert text == "- a\n  1. b\n- c\n  1. d\n     in May 5. x\n\n7. x"


def test_an_asterisk_begins_an_item_below_others() -> None:
    (text,) = read_drawings(set_lines("\u2022 a disk", "* of its own", "\u2022 a port", top=700))
    assert text == "- a disk\n  - of its own\n- a port"
    assert read_drawings(set_lines("* as we know", top=700)) == ["\\* as we know"]


def test_a_line_is_full_where_most_lines_of_the_document_are() -> None:
    note = ("The broker keeps every message on", "Linux.")
    others = [set_lines(f"This one keeps each message{end}", end, left=90) for end in (" or so", ", too", " also")]
    (text, *_) = read_drawings(set_lines(*note, left=90), *others)
    assert text == "The broker keeps every message on Linux."
    (text, *_) = read_drawings(set_lines(*note, left=90))
    assert text == "The broker keeps every message on\nLinux."


def test_lines_that_are_set_to_the_right_are_not_joined() -> None:
    lines = ("said the broker who keeps all of it", "in the manual of the broker and of its disk.")
    page: list[Drawing] = [(344, 700, 10, lines[0]), (300, 688, 10, lines[1])]
    others = [set_lines(f"{lines[1][:-5]}{end}", f"It stops its {end}.", left=300) for end in ("disk", "port", "user")]
    assert read_drawings(page, *others)[0] == "\n".join(lines)


def test_paragraphs_of_single_lines_are_not_joined() -> None:
    """The distance of the lines of a sentence tells where a paragraph ends, on a page without any that of others."""
    paragraphs = ["It runs on each disk.", "It stops on each port.", "It waits for each user.", "It is asked."]
    single = [drawing for number, text in enumerate(paragraphs) for drawing in set_lines(text, top=600 - 21 * number)]
    sentence = set_lines("The broker keeps every message on", "the disk until it was read by", "each of its readers.")
    assert read_drawings([*sentence, *single])[0].split("\n\n")[1:] == paragraphs
    assert read_drawings(single, sentence)[0].split("\n\n") == paragraphs


def test_bullets_of_a_font_of_signs_are_bullets() -> None:
    segments = [[(sign, 10.0 * place, 0.0, 10.0 * place + 9, 10.0) for place, sign in enumerate("\uf0b7 disk")]]
    assert [line.text for line in make_lines(segments)] == ["\u2022 disk"]


def test_lines_that_begin_with_other_signs_are_no_items() -> None:
    assert read_drawings(set_lines("\u2013 as we know \u2013", "a disk")) == ["\u2013 as we know \u2013\na disk"]
    assert read_drawings(set_lines("It has", "\u2013 as we know \u2013", "a disk")) == [
        "It has\n\u2013 as we know \u2013\na disk"
    ]


def test_what_stands_at_one_place_of_many_pages_is_left_out() -> None:
    pages = [[*set_lines(f"Text {name}."), (10, 400, 8, "DRAFT"), *set_lines("a", "b", "c", top=50)] for name in "defg"]
    assert read_drawings(*pages) == [f"Text {name}." for name in "defg"]


def test_letters_and_icons_of_old_fonts_are_read() -> None:
    text = "na\xa8\u0131ve tr`es \uf0eb"
    segments = [[(sign, 10.0 * place, 0.0, 10.0 * place + 9, 10.0) for place, sign in enumerate(text)]]
    assert [line.text for line in make_lines(segments)] == ["na\xefve tr\xe8s"]


def test_words_whose_letters_are_spaced_are_whole() -> None:
    text = "run the broker now"
    drawings: list[Drawing] = [(50 + 6.0 * place, 700, 8, sign) for place, sign in enumerate(text) if sign != " "]
    assert read_drawings(drawings) == [text]


def test_words_without_a_space_between_them_are_two() -> None:
    assert read_drawings([(50, 700, 10, "The end"), (50 + 38.7, 700, 10, "of it is here")]) == ["The end of it is here"]


CODE = ("`def run():", "`    stop()", "`    return 7")


def test_what_is_drawn_last_stands_where_it_is_seen() -> None:
    # So browsers draw listings: after all of the text, which may be wider or narrower.
    texts = [*set_lines("Run it so:"), *set_lines("It stops then, and does so again.", top=600)]
    (text,) = read_drawings([*texts, *set_lines(*CODE, top=670)])
    assert text.startswith("Run it so:\n\n```\ndef run():\n    stop()\n    return 7\n```\n\nIt stops then")


def test_columns_are_read_one_after_the_other() -> None:
    columns = [*set_lines("One.", "Two.", left=50), *set_lines("Three.", "Four.", left=330)]
    assert read_drawings(columns) == ["One.\nTwo.\n\nThree.\nFour."]


@pytest.mark.parametrize(("raised", "expected"), [("-", "a10-x"), ("-3", "a10⁻³x")])
def test_a_hyphen_that_stands_high_is_no_power(raised: str, expected: str) -> None:
    text = f"a10{raised}x"
    places = [(place, 4.0 if sign in raised else 0.0) for place, sign in enumerate(text)]
    glyphs = [
        (sign, place * 5.0, rise, place * 5.0 + 5.0, rise + (6.0 if rise else 10.0))
        for sign, (place, rise) in zip(text, places, strict=True)
    ]
    assert [line.text for line in make_lines([glyphs])] == [expected]


def test_marks_of_items_stand_before_them() -> None:
    page = [(70, 700, 10, "Start it"), (90, 686, 10, "now"), (75, 686, 10, "a."), (58, 700, 10, "1.")]
    assert read_drawings(page) == ["1. Start it\n   a. now"]


def test_marks_of_notes_stay_with_their_line_of_code() -> None:
    marks = [(125, 700, 7, "1"), (52, 688, 7, "2")]
    (text,) = read_drawings([*set_lines("`run(start)", "`", "`run(stop)"), *marks])
    assert text == "```\nrun(start)  (1)\n(2)\nrun(stop)\n```"


def test_lines_within_a_grid_are_a_table() -> None:
    across = [(50.0, 690.0 - 30 * row, 300.0, 1.0) for row in range(4)]
    upright = [(place, 600.0, 1.0, 91.0) for place in (50.0, 150.0, 350.0)]
    cells = [("Name", "What it is"), ("port", "the number that all of its"), ("&#60;", "its *name*")]
    drawings = [
        (x, 680.0 - 30 * row, 10.0, cell)
        for row, texts in enumerate(cells)
        for x, cell in zip((55, 155), texts, strict=True)
    ]
    page = [(50, 720, 10, "Before"), *drawings, (155, 638, 10, "clients use"), (50, 570, 10, "After")]
    text = read_pdf(draw_pdf(page, areas=[*across, *upright]))
    table = (
        "| Name | What it is |\n|---|---|\n| port | the number that all of its clients use |\n"
        "| `&#60;` | its \\*name\\* |"
    )
    assert text == f"# Page 1\n\nBefore\n\n{table}\n\nAfter"


def test_a_listing_beside_its_numbers_is_no_table() -> None:
    areas = [(50.0, bottom, 300.0, 1.0) for bottom in (600.0, 660.0, 710.0)]
    areas += [(place, 600.0, 1.0, 110.0) for place in (50.0, 80.0, 350.0)]
    numbers = [*set_lines("1", "2", "3", left=60), (60, 640, 10, "4")]
    page = [*numbers, *set_lines(*CODE, left=90), (90, 640, 10, "`stop()")]
    assert "def run():\n    stop()\n    return 7" in read_pdf(draw_pdf(page, areas=areas))


def test_a_frame_is_no_table() -> None:
    frame = [
        (40.0, 600.0, 300.0, 1.0),
        (40.0, 720.0, 300.0, 1.0),
        (40.0, 600.0, 1.0, 120.0),
        (340.0, 600.0, 1.0, 120.0),
    ]
    text = read_pdf(draw_pdf(set_lines("One.", "Two."), areas=frame))
    assert text == "# Page 1\n\nOne.  \nTwo."


def test_icons_of_notes_are_read_as_their_labels() -> None:
    icon = ("\uf0eb", 50.0, 90.0, 70.0, 120.0)
    words = [(sign, 100.0 + 6 * place, 100.0, 106.0 + 6 * place, 112.0) for place, sign in enumerate("Take it")]
    mark = ("\uf0eb", 90.0, 100.0, 96.0, 112.0)
    assert [line.text for line in make_lines([[icon, *words]])] == ["TIP: Take it"]
    assert [line.text for line in make_lines([[mark, *words]])] == ["Take it"]


@pytest.mark.parametrize(("height", "expected"), [(694, "2 It keeps\nall of it."), (660, "2\n\nIt keeps\nall of it.")])
def test_a_number_beside_the_middle_of_a_text_stands_before_it(height: float, expected: str) -> None:
    assert read_drawings([(50, height, 8, "2"), *set_lines("It keeps", "all of it.", left=65)]) == [expected]


def test_a_bookmark_heads_the_line_that_has_its_number() -> None:
    pages = write_pdf("There are\n1. Running\n2. Stopping\n1.1 Running\nRun it.")
    text = read_pdf(add_bookmarks(pages, [(1, 0, "1.1 Running")]))
    assert text.endswith("2. Stopping\n\n# 1.1 Running\n\nRun it.")


def test_large_lines_head_their_text_where_no_bookmark_does() -> None:
    text = [*set_lines(*LINES, *LINES, top=650), *set_lines(*LINES, top=480)]
    first: list[Drawing] = [(50, 720, 24, "The broker"), (50, 680, 16, "1 Its disk")]
    page = [*first, *text[:6], (50, 510, 16, "2 Its memory"), *text[6:]]
    headings = [line for line in read_pdf(draw_pdf(page)).split("\n") if line.startswith("#")]
    assert headings == ["# The broker", "# 1 Its disk", "# 2 Its memory"]
    assert read_pdf(draw_pdf(first)) == "# Page 1\n\nThe broker\n\n1 Its disk"


def test_what_hangs_beside_a_term_explains_it() -> None:
    """What is in one line is divided where others hang; the mark of a book, and a formula, are no terms."""
    page: list[Drawing] = [
        *set_lines("a note", top=700), *set_lines("a text that is set apart", "from the others", left=150, top=700),
        *set_lines("a port", top=660), *set_lines("a number", left=150, top=660),
        *set_lines("[Ada]", top=620), *set_lines("A book of many", "pages.", left=150, top=620),
        *set_lines("2", top=580), *set_lines("x y", "3", left=150, top=580),
    ]  # fmt: skip
    (text,) = read_drawings(page)
    assert text.split("\n\n")[:3] == [
        "**a note**: a text that is set apart from the others",
        "**a port**: a number",
        "[Ada] A book of many pages.",
    ]
    assert "**2**" not in text


def test_short_lines_are_not_joined() -> None:
    assert read_drawings(set_lines("level one", "level two", "level three")) == ["level one\nlevel two\nlevel three"]


def test_a_page_without_end_takes_bounded_time() -> None:
    drawings: list[Drawing] = [(50, 700, 10, "x")] * 20_000
    start = time.thread_time()
    read_pdf(draw_pdf(drawings, [(number % 500, number % 700, 10, "x y") for number in range(20_000)]))
    assert time.thread_time() - start < 20


def test_short_lines_in_a_box_are_code_where_their_font_is_one_of_code() -> None:
    page = [*set_lines("`run(start)"), *set_lines("`---", "`***", top=640), *set_lines("It waits.", top=580)]
    text = read_pdf(draw_pdf(page, areas=[(40, 620, 300, 40)])).partition("\n\n")[2]
    assert text == "```\nrun(start)\n```\n\n```\n---\n***\n```\n\nIt waits."


@pytest.mark.parametrize(("height", "wide"), [(7.2, 5.4), (9.0, 6.2)])
def test_signs_on_equal_places_are_code(height: float, wide: float) -> None:
    """Also those of a font that is low, and one sign that is wider than its place."""
    glyphs = [
        (sign, 5.4 * place, 0.0, 5.4 * place + (wide if sign == "T" else 5.4), height)
        for place, sign in enumerate("# The end")
    ]
    (line,) = make_lines([glyphs])
    assert line.is_code


def test_columns_in_code_keep_their_places() -> None:
    parts: list[Drawing] = [
        (50, 700, 10, "`-c"),
        (98, 700, 10, "`checks only"),
        *set_lines("`--help  shows it", top=688),
    ]
    (text,) = read_drawings(parts)
    assert text == "```\n-c      checks only\n--help  shows it\n```"


def test_numbers_that_do_not_run_are_part_of_code() -> None:
    (text,) = read_drawings(set_lines("`4 CARD32 OFFSET", "`4 CARD32 LENGTH", "`2 CARD16 MAJOR"))
    assert text == "```\n4 CARD32 OFFSET\n4 CARD32 LENGTH\n2 CARD16 MAJOR\n```"


def test_numbers_of_lines_that_are_drawn_as_a_column_are_left_out() -> None:
    code = ("`def run():", "`    stop()", "`    wait()")
    numbers: list[Drawing] = [(30, 700 - 18 * row, 10, f"`{row + 1}") for row in range(3)]
    (text,) = read_drawings([*numbers, *((60, 700 - 18 * row, 10, line) for row, line in enumerate(code))])
    assert text == "```\ndef run():\n    stop()\n    wait()\n```"


def test_what_is_framed_has_no_space_before_its_mark() -> None:
    page: list[Drawing] = [
        (50, 700, 10, "See ("),
        (75, 700, 9, "`run"),
        (93, 700, 10, "), and"),
        (125, 700, 9, "`stop"),
    ]
    page += [(148.5, 700, 10, ". It waits , too.")]
    (text,) = read_drawings(page)
    assert text == "See (run), and stop. It waits , too."


def test_words_in_capitals_are_joined_if_they_are_whole_elsewhere() -> None:
    lines = (
        "An element that is OPTIONAL is left out, and an OP-",
        "TIONAL element of the FORM-",
        "AT is not, if it is there.",
    )
    (text,) = read_drawings([*set_lines(*lines)])
    assert "an OPTIONAL element of the FORM-AT is" in text.replace("\n", " ")


def test_a_line_to_the_left_of_an_item_is_no_part_of_it() -> None:
    page = [
        *set_lines("• a disk", left=70),
        *set_lines("Providers", top=688),
        *set_lines("• a network", left=70, top=676),
    ]
    assert read_drawings(page) == ["- a disk\n\nProviders\n\n- a network"]


def test_large_signs_of_quotes_are_an_ornament() -> None:
    page = [*set_lines("The broker keeps every message.", "It waits for all."), (50, 600, 40, "\u201c")]
    assert read_drawings(page) == ["The broker keeps every message.\nIt waits for all."]


def test_a_note_may_begin_right_after_its_number() -> None:
    page = [(50, 700, 10, "The broker keeps messages"), (176.5, 704, 6, "1"), *set_lines("It stops.", top=650)]
    (text,) = read_drawings([*page, (50, 100, 8, "1See the manual.")])
    assert text == "The broker keeps messages\n\nIt stops.\n\n1 See the manual."


@pytest.mark.parametrize("distance", [12, 40])
def test_texts_in_two_columns_are_terms_and_what_they_mean(distance: float) -> None:
    rows = [("none", "Reads no marks"), ("normal", "Reads all marks"), ("quotes", "Reads some of them")]
    drawn = [
        (x, 700 - distance * row, 10, text)
        for row, texts in enumerate(rows)
        for x, text in zip((50, 200), texts, strict=True)
    ]
    assert read_drawings(drawn) == ["\n\n".join(f"**{term}**: {text}" for term, text in rows)]


def test_what_is_the_same_beside_each_line_explains_nothing() -> None:
    drawn = [
        (x, 700 - 40 * row, 10, text) for row in range(3) for x, text in ((50, f"int run{row}()"), (200, "[Function]"))
    ]
    assert "**" not in read_drawings(drawn)[0]


def test_a_raised_number_is_a_mark_also_where_most_of_the_line_is_smaller() -> None:
    page: list[Drawing] = [
        (50, 700, 8.3, "`books"),
        (75.5, 700, 10, "."),
        (78.5, 704, 8.3, "1"),
        *set_lines("It stops.", top=650),
    ]
    (text,) = read_drawings([*page, *set_lines(*LINES, top=600), (50, 100, 8, "1 See the manual.")])
    assert text.startswith("books.\n\nIt stops.")
    assert text.endswith("\n\n1 See the manual.")


def test_short_lines_of_a_narrow_column_are_not_joined() -> None:
    lines = ("minimum of each value", "maximum of each value", "averages of each value", "differences of values")
    assert read_drawings(set_lines(*lines)) == ["\n".join(lines)]
