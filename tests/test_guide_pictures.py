"""The pictures of a chat: they are small, stand where the guide shows them, and look as Telegram would show a chat."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.deployment import ROOT
from tests.peers.telegram_text import parse_html
from tests.pictures import BUBBLE, PICTURES, WIDTH, Bubble, draw, lines_of, runs_in

SVG = "{http://www.w3.org/2000/svg}"
PAGES = {"group": "README.md", "feedback": "docs/feedback.md"}


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_a_picture_is_shown_with_words_for_who_cannot_see_it(name: str, page: str) -> None:
    shown = (ROOT / page).read_text("utf-8")
    folder = "docs/images" if page == "README.md" else "images"
    about, found, _ = shown.partition(f"]({folder}/{name}.svg)")
    assert found
    assert len(about.rpartition("![")[2]) > 20


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_needs_nothing_from_elsewhere_and_suits_dark_pages(name: str) -> None:
    text = (PICTURES / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)  # noqa: S314  our own picture
    assert "prefers-color-scheme:dark" in text
    assert text.count("http") == 1, "the name of the format, and no address"
    assert len(text) < 20_000
    words = " ".join(root.itertext())
    assert "You" in words
    assert "KIMAs" in words
    assert "Sources" in words
    assert {"👍", "👎"} <= {title.text for title in root.iter(f"{SVG}title")}


def test_the_look_of_a_text_changes_where_the_entities_say_so() -> None:
    text, entities = parse_html(
        '<blockquote>👍 Call <code>rotate</code> <a href="https://a.example/">[1]</a></blockquote>'
    )
    runs = [(run.text, set(run.kinds) - {"blockquote"}) for run in runs_in(text, entities)]
    assert runs == [("👍 Call ", set()), ("rotate", {"code"}), (" ", set()), ("[1]", {"text_link"})]
    assert all("blockquote" in run.kinds for run in runs_in(text, entities))


def test_lines_are_broken_at_blanks_and_lose_nothing() -> None:
    text = "Sessions are kept in signed cookies.\n\n" + "Call it to change the key. " * 12
    lines = lines_of(runs_in(text, ()), 300)
    assert lines[1] == []
    assert all(sum(run.width for run in line) <= 300 + 5 for line in lines)
    assert " ".join("".join(run.text for run in line) for line in lines).split() == text.split()


def test_a_word_of_several_looks_is_not_broken() -> None:
    text, entities = parse_html("The second answer goes to somebody (<code>~2</code>), once.")
    narrow = min(sum(run.width for run in runs_in("The second answer goes to somebody (", ())) + 4, 300)
    first, second = ["".join(run.text for run in line) for line in lines_of(runs_in(text, entities), narrow)]
    assert (first, second) == ("The second answer goes to somebody ", "(~2), once.")


def test_buttons_stand_below_and_everything_is_inside_the_picture() -> None:
    chat = [
        Bubble("You", "What is <this> & that?", mine=True),
        Bubble("Bot", "An answer " * 40, reply_to=("You", "What?"), buttons=(("👍", "👎"), ("Try harder",))),
    ]
    root = ElementTree.fromstring(draw(chat, 'a "title"'))  # noqa: S314  our own picture
    height = float(root.attrib["viewBox"].split()[3])
    boxes = list(root.iter(f"{SVG}rect"))
    for box in boxes:
        assert float(box.get("x", 0)) + float(box.attrib["width"]) <= WIDTH
        assert float(box.get("y", 0)) + float(box.attrib["height"]) <= height
    buttons = [box for box in boxes if box.get("class") == "button"]
    assert [float(box.attrib["width"]) for box in buttons] == [BUBBLE / 2 - 2, BUBBLE / 2 - 2, BUBBLE]
    assert "What is <this> & that?" in "".join(root.itertext())
    assert root.attrib["aria-label"] == 'a "title"'
