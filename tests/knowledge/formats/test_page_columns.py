"""Texts of printed pages that were drawn across each other are read where they are seen."""

from __future__ import annotations

import time

import pytest

from knowledge.formats.page_layout import make_lines
from knowledge.formats.pdf import read_pdf
from tests.support.pdf_documents import Drawing, draw_pdf

FIRST = (
    "The broker keeps every message",
    "on the disk until each of its",
    "readers has taken it, which can",
    "need much space. A second one",
    "takes over when the first stops",
)
SECOND = (
    "and reads the messages that are",
    "left there. Nothing is lost as",
    "long as the disk of one of them",
    "is whole, and a third can be",
    "added while both of them run.",
)


def read_words(*drawings: Drawing) -> str:
    """Return the words of a page without its heading."""
    return " ".join(read_pdf(draw_pdf(drawings)).split()[3:])


@pytest.mark.parametrize(("count", "shift"), [(2, 0), (2, 5), (3, 0)])
def test_columns_that_were_drawn_row_by_row_are_read_one_by_one(count: int, shift: int) -> None:
    columns = (FIRST, SECOND, FIRST)[:count]
    drawings: list[Drawing] = [(50, 760, 10, "Of brokers and of the disks that they need")]
    for row in range(5):
        drawings += [
            (50 + 170 * column, 700 - 14 * row - shift * column, 10, texts[row]) for column, texts in enumerate(columns)
        ]
    drawings.append((50, 500, 10, "It was read."))
    words = [drawings[0][3], *(" ".join(texts) for texts in columns), "It was read."]
    assert read_words(*drawings) == " ".join(words)


def test_rows_of_short_texts_and_of_code_are_read_as_rows() -> None:
    rows = [("Port", "where it listens"), ("Host", "which it takes"), ("Disk", "where it keeps"), ("Time", "it waits")]
    drawings: list[Drawing] = [
        (left, 700 - 14 * number, 10, text)
        for number, row in enumerate(rows)
        for left, text in zip((50, 150), row, strict=True)
    ]
    assert read_words(*drawings).split(" ", 3)[:3] == ["**Port**:", "where", "it"]


def test_signs_around_a_word_stand_there_though_they_were_drawn_later() -> None:
    # So browsers draw what a style sheet puts before and after an element.
    button: list[Drawing] = [(50, 700, 10, "Press the"), (98, 700, 10, "Stop"), (125, 700, 10, "button.")]
    after: list[Drawing] = [(50, 600, 10, "It stops."), (94, 700.5, 10, "["), (119, 700.5, 10, "]")]
    assert read_words(*button, *after) == "Press the [Stop] button. It stops."


def test_what_stands_upon_a_text_or_far_from_it_is_not_put_into_it() -> None:
    texts: list[Drawing] = [(50, 700, 10, "The end of it"), (200, 700, 10, "is here.")]
    assert read_words(*texts, (50, 500, 10, "It stops."), (58, 700, 10, "xxx")).endswith("It stops.")
    words = read_words(*texts, (50, 500, 10, "It stops."), (140, 700, 10, "row"))
    assert words == "The end of it is here. It stops. row"


BOX = (40.0, 650.0, 500.0, 70.0)


@pytest.mark.parametrize("has_late_code", [True, False])
def test_the_label_in_the_corner_of_a_box_stands_above_its_code(has_late_code: bool) -> None:
    code: list[Drawing] = [(50, 700, 10, "`run(broker)"), (50, 688, 10, "`stop(broker)")]
    label: Drawing = (510, 707, 6, "Python")
    texts: list[Drawing] = [(40, 740, 10, "Run it so:"), (40, 600, 10, "It stops then.")]
    drawings = [*texts, *code, label] if has_late_code else [*code, *texts, label]
    text = read_pdf(draw_pdf(drawings, areas=[BOX]))
    assert text.split("\n\n")[1:] == ["Run it so:", "Python", "```\nrun(broker)\nstop(broker)\n```", "It stops then."]


def test_what_was_drawn_apart_from_the_others_in_its_box_stands_among_them() -> None:
    texts: list[Drawing] = [(40, 740, 10, "Run it so:"), (50, 700, 10, "run.py"), (50, 660, 10, "It runs.")]
    assert read_words((400, 700, 10, "raw"), *texts, (40, 600, 10, "It stops.")).startswith("raw Run it so: run.py")
    text = read_pdf(draw_pdf([(400, 700, 10, "raw"), *texts], areas=[BOX]))
    assert text.split("\n\n")[1:] == ["Run it so:", "run.py", "raw", "It runs."]


def test_many_texts_at_one_place_take_bounded_time() -> None:
    segments = [[("a", 50.0 + 2 * place, 700.0, 51.0 + 2 * place, 710.0) for place in range(200)]] * 999
    start = time.process_time()
    make_lines(segments)
    assert time.process_time() - start < 10
