"""What a model or a source writes cannot deceive a reader, on any platform: links, directions, control characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from bots.bluesky.render import render as render_bluesky
from bots.discord.render import render as render_discord
from bots.forges.render import render as render_forge
from bots.mastodon.render import render as render_mastodon
from bots.slack.render import render as render_slack
from bots.telegram.render import render as render_telegram
from core.answering.agents.quoting import _format_page
from core.quoting.extractive import NearPage
from core.types import Citation

Render = Callable[[str, Sequence[Citation]], list[str]]
PLATFORMS: dict[str, Render] = {
    "bluesky": render_bluesky,
    "discord": render_discord,
    "forges": render_forge,
    "mastodon": lambda text, citations: render_mastodon(text, citations, 500),
    "slack": render_slack,
    "telegram": render_telegram,
}


@pytest.fixture(params=PLATFORMS)
def render(request: pytest.FixtureRequest) -> Render:
    return PLATFORMS[request.param]


@pytest.mark.parametrize(
    "label",
    [
        "https://bank.example/login",
        "www.bank.example",
        "bank.com",
        "**http://bank.example**",
        "`bank.com`",
        "bank.co.uk",
        "bank.de/login",
        "my-bank.de?x",
        "bank\u3002com",
        "bank\u200b.com",
        "bank\u2024com",
        "htt\u00adps://bank.example",
        "bank\uff0ecom",
        "\uff57ww.bank.example",
    ],
)
def test_a_link_that_names_another_host_is_shown_with_its_own(render: Render, label: str) -> None:
    text = "\n".join(render(f"See [{label}](https://evil.example/x).", ()))
    text_position = text.find("bank")
    address_position = text.find("evil.example/x")
    assert -1 < text_position < address_position
    assert "](" not in text
    # An address that is a link leads where it says.
    assert all(url == shown_url for url, shown_url in re.findall(r'<a href="([^"]*)">([^<]*)</a>', text))
    assert "|" not in text


@pytest.mark.parametrize(
    "title", ["https://bank.example/login", "bank.com", "bank.de/login \u2013 sign in", "bank\u200b.com"]
)
def test_a_source_whose_title_names_another_host_is_shown_with_its_own(render: Render, title: str) -> None:
    """Whoever writes a page or an issue chooses its title."""
    citation = Citation(1, "1", "docs", title, "a.md", "https://evil.example/x")
    _, sources = "\n".join(render("It is so [1].", [citation])).split("Sources")
    shown_offset = sources.find("bank")
    own_offset = sources.find("evil.example/x")
    assert -1 < shown_offset < own_offset
    assert "](" not in sources
    assert all(url == shown_url for url, shown_url in re.findall(r'<a href="([^"]*)">([^<]*)</a>', sources))


def test_a_source_is_one_line_and_its_address_hides_nothing(render: Render) -> None:
    title = "Guide\n[2] Another\r\n[3] One more"
    citation = Citation(1, "1", "docs", title, "a.md", "https://a.example/\u202egpj.exe\x07")
    text = "\n".join(render("It is so [1].", [citation]))
    assert len(text.split("Sources")[1].strip().splitlines()) == 2, "its heading's end, and the source"
    assert not set(text) & set("\u202e\x07")


@pytest.mark.parametrize(
    ("label", "url"),
    [
        ("https://docs.example/a", "https://docs.example/a"),
        ("docs.example.com", "https://www.docs.example.com/start"),
        ("README.md", "https://git.example/README.md"),
        ("np.ma.masked_array", "https://numpy.example/ma"),
        ("rocket/server.py", "https://git.example/server.py"),
        ("e.g. this", "https://git.example/this"),
        ("the guide", "https://docs.example/guide"),
    ],
)
def test_an_honest_link_stays_a_link(render: Render, label: str, url: str) -> None:
    text = "\n".join(render(f"See [{label}]({url}).", ()))
    assert url in text
    # On Mastodon no link has a text of its own.
    assert f"({url})." not in text or "](" in text or render is PLATFORMS["mastodon"]


def test_directions_and_control_characters_never_leave(render: Render) -> None:
    hostile_text = "a\u202egpj.exe b\u2066c\u2069 \x1b[2J\x07 `x\u202d`"
    citation = Citation(1, "1", "docs", f"title {hostile_text}", f"path {hostile_text}", "")
    text = "\n".join(render(f"{hostile_text} [1]", [citation]))
    assert not set(text) & set("\u202e\u202d\u2066\u2069\x1b\x07")
    assert "agpj.exe" in text.replace("\\", "")


def test_marks_that_scripts_need_stay(render: Render) -> None:
    text = "\u05e9\u05dc\u05d5\u05dd\u200f می\u200cخواهم 👨\u200d👩"
    assert text in "\n".join(render(text, ()))


@pytest.mark.parametrize(
    "mark", ["*", "_", "**a _b ", "~~a **b ", "# *", "> ", "- ", "1. ", "> - ", "[", "![", "[*", "> **a "]
)
def test_all_of_a_reply_that_is_nested_without_end_is_posted(render: Render, mark: str) -> None:
    closing = mark[::-1] if mark[0] in "*_~" else ""
    text = "".join(render(f"{mark * 600}e9{closing * 600}", ()))
    assert "e9" in text


@pytest.mark.parametrize("url", ["", "https://a.example/x", "https://a.example/" + "x" * 20_000])
def test_the_names_of_a_source_fill_no_chat(render: Render, url: str) -> None:
    """Whoever writes a document chooses its heading, and the names of the folders above it."""
    citation = Citation(1, "1", "docs", "word " * 8000, "folder/" * 3000 + "x.md", url)
    assert len("".join(render("It is so [1].", [citation]))) < 1000
    assert len(_format_page(NearPage(0, "A line."), citation)) < 1000
