"""The pictures of a chat: they are small, stand where the guide shows them, and look as Telegram would show a chat."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from core.types import Citation, Reply
from tests.lab.screenshots.clients import (
    BLOCK,
    DISCORD,
    IN_DISCORD,
    IN_SLACK,
    SLACK,
    Post,
    Theme,
    drawn,
    printed,
    terminal,
    to_runs,
    with_transcript,
)
from tests.lab.screenshots.hero import ANSWER, reply
from tests.lab.screenshots.newcomer import SHOWN as SETUP
from tests.lab.screenshots.operator_page import PICTURES as PHOTOGRAPHS
from tests.lab.screenshots.telegram import BUBBLE, PICTURES, WIDTH, Bubble, draw, runs_in, to_lines
from tests.support.deployment import ROOT
from tests.support.peers.telegram_text import parse_html

SVG = "{http://www.w3.org/2000/svg}"
PAGES = {
    "hero": "README.md",
    "group": "docs/telegram.md",
    "feedback": "docs/feedback.md",
    "discord": "docs/discord.md",
    "slack": "docs/slack.md",
}


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_a_picture_is_shown_with_words_for_who_cannot_see_it(name: str, page: str) -> None:
    output = (ROOT / page).read_text("utf-8")
    folder = "docs/images" if page == "README.md" else "images"
    description, text, _ = output.partition(f"]({folder}/{name}.svg)")
    assert text
    assert len(description.rpartition("![")[2]) > 20


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_needs_nothing_from_elsewhere_and_suits_dark_pages(name: str) -> None:
    text = (PICTURES / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)  # noqa: S314  our own picture
    assert "prefers-color-scheme:dark" in text
    assert _get_tags(text).count("http") == 1, "the name of the format, and no address"
    assert len(text) < 20_000
    words = " ".join(root.itertext())
    assert "You" in words
    assert "KIMAs" in words
    assert "Sources" in words
    assert {"👍", "👎"} <= {title.text for title in root.iter(f"{SVG}title")}


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_pictures_of_the_operators_page_are_small_and_shown(name: str) -> None:
    page = (ROOT / "docs/operate.md").read_text("utf-8")
    description, text, _ = page.partition(f"](images/{name}.png)")
    assert text
    assert name == "operator-phone" or len(description.rpartition("![")[2]) > 20
    assert 5_000 < (PICTURES / f"{name}.png").stat().st_size < 120_000


@pytest.mark.parametrize("name", SETUP)
def test_pictures_of_setting_up_are_small_and_shown(name: str) -> None:
    description, text, _ = (ROOT / "docs/install.md").read_text("utf-8").partition(f"](images/setup-{name}.png)")
    assert text
    assert len(description.rpartition("![")[2]) > 20
    assert 5_000 < (PICTURES / f"setup-{name}.png").stat().st_size < 120_000


def test_the_look_of_a_text_changes_where_the_entities_say_so() -> None:
    text, entities = parse_html(
        '<blockquote>👍 Call <code>rotate</code> <a href="https://a.example/">[1]</a></blockquote>'
    )
    runs = [(run.text, set(run.kinds) - {"blockquote"}) for run in runs_in(text, entities)]
    assert runs == [("👍 Call ", set()), ("rotate", {"code"}), (" ", set()), ("[1]", {"text_link"})]
    assert all("blockquote" in run.kinds for run in runs_in(text, entities))


def test_lines_are_broken_at_blanks_and_lose_nothing() -> None:
    text = "Sessions are kept in signed cookies.\n\n" + "Call it to change the key. " * 12
    lines = to_lines(runs_in(text, ()), 300)
    assert lines[1] == []
    assert all(sum(run.width for run in line) <= 300 + 5 for line in lines)
    assert " ".join("".join(run.text for run in line) for line in lines).split() == text.split()


def test_a_word_of_several_looks_is_not_broken() -> None:
    text, entities = parse_html("The second answer goes to somebody (<code>~2</code>), once.")
    narrow = min(sum(run.width for run in runs_in("The second answer goes to somebody (", ())) + 4, 300)
    first, second = ["".join(run.text for run in line) for line in to_lines(runs_in(text, entities), narrow)]
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


def test_the_text_of_discord_and_of_slack_looks_as_it_does_there() -> None:
    text = "> Call **it** `so` [[1]](<https://a.example/>)\n\n*Said* by <@5> \\*twice"
    results = [(run.text, set(run.kinds)) for run in to_runs(text, IN_DISCORD)]
    quote = {"blockquote"}
    assert results == [
        ("Call ", quote),
        ("it", quote | {"bold"}),
        (" ", quote),
        ("so", quote | {"code"}),
        (" ", quote),
        ("[1]", quote | {"link"}),
        ("\n", set()),
        ("\n", set()),
        ("Said", {"italic"}),
        (" by ", set()),
        ("@KIMAs", {"mention"}),
        (" ", set()),
        ("*", set()),
        ("twice", set()),
    ]
    text = "> Call *it* `so` <https://a.example/|[1]>\n_Said_ by <@U5> &lt;twice&gt; snake_case_name"
    results = [(run.text, set(run.kinds)) for run in to_runs(text, IN_SLACK, unescape)]
    assert results == [
        ("Call ", quote),
        ("it", quote | {"bold"}),
        (" ", quote),
        ("so", quote | {"code"}),
        (" ", quote),
        ("[1]", quote | {"link"}),
        ("\n", set()),
        ("Said", {"italic"}),
        (" by ", set()),
        ("@KIMAs", {"mention"}),
        (" <twice> snake_case_name", set()),
    ]


@pytest.mark.parametrize("theme", [DISCORD, SLACK])
def test_a_window_holds_all_of_its_messages(theme: Theme) -> None:
    posts = [
        Post("You", to_runs("What is <this>?", IN_DISCORD)),
        Post("KIMAs", to_runs("> " + "An answer " * 40, IN_DISCORD), True, True, ("You", "What?"), ("👍", "👎")),
    ]
    root = ElementTree.fromstring(drawn(posts, theme, 'a "title"'))  # noqa: S314  our own picture
    height = float(root.attrib["viewBox"].split()[3])
    for box in root.iter(f"{SVG}rect"):
        assert float(box.get("x", 0)) + float(box.attrib["width"]) <= WIDTH
        assert float(box.get("y", 0)) + float(box.attrib["height"]) <= height
    words = " ".join(root.itertext())
    assert "What is <this>?" in words
    assert strip_markup(words).count("Ananswer") == 40


def test_the_first_picture_holds_the_scripted_answer_with_citations() -> None:
    picture = (PICTURES / "hero.svg").read_text("utf-8")
    words = strip_markup("".join(ElementTree.fromstring(picture).itertext()))  # noqa: S314  our own picture
    for number, (statement, _) in enumerate(ANSWER, 1):
        assert f"{strip_markup(statement)}[{number}]" in words
    passages = [f'<passage id="p{number}">{heading}</passage>' for number, (_, heading) in enumerate(ANSWER, 4)]
    prompt = {"messages": [{"content": "\n".join(passages)}]}
    assert re.findall(r"\[(p\d+)\]", reply(prompt)) == ["p4", "p5", "p6"]
    with pytest.raises(AssertionError, match="no passage has the heading"):
        reply({"messages": [{"content": passages[0]}]})


def test_the_demo_is_the_same_in_the_picture_and_in_the_text() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    output = BLOCK.search(page)
    assert output is not None
    picture = (PICTURES / "ask.svg").read_text("utf-8")
    assert strip_markup(output[0]) in strip_markup("".join(ElementTree.fromstring(picture).itertext()))  # noqa: S314  our own picture
    assert "font-face" not in picture
    assert _get_tags(picture).count("http") == 1


def _get_tags(picture: str) -> str:
    """Return a picture without its words, which may name addresses."""
    return "".join(re.findall(r"<[^<>]*>", picture))


def strip_markup(text: str) -> str:
    """Return a text without blanks and without what Markdown or its rendering adds."""
    return re.sub(r"```\w*|[\s>▌*`]", "", text)


def test_an_answer_is_printed_as_it_is_drawn() -> None:
    reply = Reply("> Call `it`. [1]\n\n*Quoted.*", (Citation(1, "p", "docs", "Keys > Old", "keys.md", ""),))
    lines = printed(reply)
    assert lines == "> Call `it`. [1]\n\n*Quoted.*\n\n[1] Keys > Old  docs: keys.md\n"
    picture = terminal("How?", reply)
    assert strip_markup(lines) in strip_markup("".join(ElementTree.fromstring(picture).itertext()))  # noqa: S314  our own picture
    page = (ROOT / "README.md").read_text("utf-8")
    assert with_transcript(with_transcript(page, lines), BLOCK.search(page)[0]) == page  # type: ignore[index]
