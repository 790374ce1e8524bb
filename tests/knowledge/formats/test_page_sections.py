"""Sections of printed pages: they flow over their pages, whose numbers are known for each line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from knowledge.formats.pdf import read_pages
from tests.support.pdf_documents import Area, Drawing, add_bookmarks, draw_pdf

START = (50.0, 760.0, 10.0, "Start")


def set_lines(*lines: str, top: float = 700, left: float = 50, size: float = 10) -> list[Drawing]:
    """Return lines below each other."""
    return [(left, top - 12 * number, size, line) for number, line in enumerate(lines)]


def read_section(*pages: Sequence[Drawing], areas: Sequence[Area] = ()) -> tuple[str, tuple[int, ...]]:
    """Return the text below the only bookmark of a PDF, and the pages of its lines."""
    first, *others = pages
    text, numbers = read_pages(add_bookmarks(draw_pdf([START, *first], *others, areas=areas), [(1, 0, "Start")]))
    assert text.startswith("# Start\n\n")
    return text.removeprefix("# Start\n\n"), numbers[2:]


def test_a_section_flows_over_its_pages() -> None:
    text, pages = read_section(set_lines("It starts."), set_lines("It waits."), set_lines("It stops."))
    assert text == "It starts.\n\nIt waits.\n\nIt stops."
    assert pages == (1, 1, 2, 2, 3)


def test_a_listing_goes_on_at_the_top_of_the_next_page() -> None:
    first = [*set_lines("Run it:", top=100), *set_lines("`def run():", "`    start()", top=62)]
    text, pages = read_section(first, set_lines("`    return stop()", "`run(again)", left=50))
    assert text == "Run it:\n\n```\ndef run():\n    start()\n    return stop()\nrun(again)\n```"
    assert pages == (1, 1, 1, 1, 1, 2, 2, 2)


def test_the_indentation_of_a_listing_is_the_same_on_both_pages() -> None:
    first = [*set_lines("Run it:", top=100), *set_lines("`def run():", "`    start()", top=62)]
    text, _ = read_section(first, set_lines("`stop(number)", "`return number", left=74))
    assert text.endswith("    start()\n    stop(number)\n    return number\n```")


@pytest.mark.parametrize(("top", "left"), [(500, 50), (62, 90)])
def test_another_listing_does_not_go_on(top: float, left: float) -> None:
    """The one before it ends above the foot of its page, or stands in another box."""
    boxes = [(40.0, 40.0, 400.0, 35.0), (80.0, 600.0, 300.0, 115.0)]
    first = set_lines("`def run():", "`    start()", top=top)
    second = set_lines("`def stop():", "`    wait()", left=left)
    text, _ = read_section(first, second, set_lines("A foot", top=50), areas=boxes)
    assert text.count("```") == 4


@pytest.mark.parametrize("sign", ["|===", "}"])
def test_a_short_line_of_code_goes_on_from_the_page_before(sign: str) -> None:
    first = [*set_lines("Run it:", top=100), *set_lines("`def run():", "`    start()", top=62)]
    text, _ = read_section(first, set_lines(f"`{sign}", left=50))
    assert text == f"Run it:\n\n```\ndef run():\n    start()\n{sign}\n```"


def test_a_short_line_where_code_stands_in_boxes_is_code() -> None:
    boxes = [(40.0, 695.0, 400.0, 15.0), (40.0, 595.0, 400.0, 15.0)]
    pages = [set_lines("`start(broker)", top=700), set_lines("`<<<", top=700), set_lines("Wait.", left=60, top=600)]
    text, _ = read_section(*pages, areas=boxes)
    assert text == "```\nstart(broker)\n```\n\n```\n<<<\n```\n\nWait."


def test_code_that_is_indented_in_its_box_stays_so() -> None:
    boxes = [(40.0, 690.0, 400.0, 22.0), (40.0, 590.0, 400.0, 22.0)]
    page = [*set_lines("`start(broker)"), *set_lines("`wait(for_it)", left=62, top=600)]
    text, _ = read_section(page, set_lines("`stop(broker)"), set_lines("Done."), areas=boxes)
    assert text.startswith("```\nstart(broker)\n```\n\n```\n  wait(for_it)\n")


def test_the_ground_of_a_page_is_no_box() -> None:
    pages = [set_lines("`start(broker)", left=70), [*set_lines("Wait."), *set_lines("`<<<", top=600, left=70)]]
    text, _ = read_section(*pages, areas=[(-5.0, 0.0, 610.0, 800.0)])
    assert text == "```\nstart(broker)\n```\n\nWait.\n\n<<<"


def test_a_term_at_the_foot_of_a_page_does_not_go_on_in_another_font() -> None:
    text, _ = read_section(set_lines("first term", top=60, size=10.4), set_lines("what it means"))
    assert text == "first term\n\nwhat it means"
    text, _ = read_section(set_lines("first we say", top=60), set_lines("what it means"))
    assert text == "first we say what it means"


def test_a_table_goes_on_without_its_header() -> None:
    rules = [(50.0, 700.0 - 30 * row, 300.0, 1.0) for row in range(3)]
    rules += [(place, 640.0, 1.0, 61.0) for place in (50.0, 150.0, 350.0)]
    pages = [
        [
            (x, 680.0 - 30 * row, 10.0, cell)
            for row, texts in enumerate(cells)
            for x, cell in zip((55, 155), texts, strict=True)
        ]
        for cells in ([("Name", "Use"), ("port", "to listen")], [("Name", "Use"), ("host", "to find it")])
    ]
    text, numbers = read_section(*pages, areas=rules)
    assert text == "| Name | Use |\n|---|---|\n| port | to listen |\n| host | to find it |"
    assert numbers == (1, 1, 1, 2)


def test_notes_follow_the_text_of_their_section() -> None:
    first = [(50, 700, 10, "The broker keeps messages"), (176.5, 704, 6, "1"), *set_lines("It stops.", top=600)]
    note = (50.0, 100.0, 8.0, "1 See the manual.")
    text, _ = read_section([*first, note], set_lines("It waits."))
    assert text == "The broker keeps messages\n\nIt stops.\n\nIt waits.\n\n1 See the manual."


def test_notes_stand_below_the_section_of_their_mark() -> None:
    first = [(50, 700, 10, "The broker keeps messages"), (176.5, 704, 6, "1"), *set_lines("Stop", "Now.", top=600)]
    notes = [(50.0, 100.0, 8.0, "1 See the manual."), (50.0, 90.0, 8.0, "It has a page"), (50.0, 80.0, 8.0, "1 more.")]
    pages = draw_pdf([START, *first, *notes], set_lines("It waits."))
    text, _ = read_pages(add_bookmarks(pages, [(1, 0, "Start"), (1, 0, "Stop")]))
    below, _, after = text.partition("\n\n# Stop\n\n")
    assert below.split("\n\n", 2)[1:] == ["The broker keeps messages", "1 See the manual.  \nIt has a page  \n1 more."]
    assert after == "Now.\n\nIt waits."


def test_a_note_ends_above_larger_text_also_on_a_page_of_small_code() -> None:
    code = set_lines(*(f"`start({number})" for number in range(9)), top=560, size=7)
    first = [(50, 700, 10, "The broker keeps messages"), (176.5, 704, 6, "1"), *code]
    notes = [(50.0, 100.0, 8.0, "1 See the manual"), (50.0, 90.0, 8.0, "of the broker."), (50, 60, 10, "It stops.")]
    text, _ = read_section([*first, *notes])
    assert text.endswith("It stops.\n\n1 See the manual  \nof the broker.")


def test_a_bookmark_heads_the_title_with_its_own_numbers() -> None:
    page = set_lines("2.1 Version 3.9", "It runs.", "2.2 Version 3.8", "It stops.")
    text, _ = read_pages(add_bookmarks(draw_pdf(page), [(1, 0, "Version 3.9"), (1, 0, "Version 3.8")]))
    assert text == "# Version 3.9\n\nIt runs.\n\n# Version 3.8\n\nIt stops."


LINES = ("The broker keeps every message on the disk until each", "of its readers has taken it, which needs space.")


def read_headings(*frames: Area, end: float = 10) -> list[str]:
    """Return the headings of a page with a title, a sample with others, and text, and of one with a line of a size."""
    sample: list[Drawing] = [(60, 655, 24, "A sample"), (60, 640, 10, "of"), (60, 615, 24, "a title")]
    page = [(50, 720, 16, "The broker"), (50, 700, 10, "It is small."), *set_lines(*LINES * 8, top=560), *sample]
    text, _ = read_pages(draw_pdf(page, [(50, 790, end, "It stops.")], areas=frames))
    assert "A sample" in text
    return [line for line in text.split("\n") if line.startswith("#")]


def test_what_is_framed_with_its_text_heads_nothing() -> None:
    assert read_headings((50, 605, 300, 80)) == ["# The broker"]


@pytest.mark.parametrize("frame", [(50, 648, 300, 30), (20, 20, 560, 760)])
def test_a_coloured_title_and_a_coloured_page_are_no_frame(frame: Area) -> None:
    assert read_headings(frame, end=24) == ["## The broker", "# A sample", "# a title", "# It stops."]


def test_where_all_is_framed_large_lines_are_headings() -> None:
    headings = ["## The broker", "# A sample", "# a title"]
    assert read_headings((50, 605, 300, 80), (40, 695, 400, 45)) == headings
