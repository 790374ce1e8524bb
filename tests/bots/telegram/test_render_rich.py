"""Markdown to rich messages: judged by the strict parser that also guards the peer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from bots.common.message_split import strip_tags
from bots.telegram.render import MAX_BLOCKS, MAX_RICH_CHARS, render_rich, to_html
from core.types import Citation
from tests.support.answers import ADDRESSES, CITATIONS, PIECES, long_answer
from tests.support.peers.telegram_rich import RichContent, parse_rich_html
from tests.support.peers.telegram_text import ParseError


def rendered(markdown: str, citations: tuple[Citation, ...] = ()) -> RichContent:
    """Return what Telegram makes of an answer, which has a heading at least."""
    html = render_rich(f"# T\n\n{markdown}", citations)
    assert html is not None
    return parse_rich_html(html)


def links_of(content: RichContent) -> list[str]:
    return [entity["url"] for entity in content.entities if entity["type"] == "text_link"]


@pytest.mark.parametrize(
    ("markdown", "block"),
    [
        ("**b** a", {"type": "paragraph", "text": [{"type": "bold", "text": "b"}, " a"]}),
        ("one\ntwo  \nthree<br>four", {"type": "paragraph", "text": "one\ntwo\nthree\nfour"}),
        ("### Sub *it*", {"type": "heading", "size": 3, "text": ["Sub ", {"type": "italic", "text": "it"}]}),
        ("Title\n-----", {"type": "heading", "size": 2, "text": "Title"}),
        ("---", {"type": "divider"}),
        ("> quoted", {"type": "blockquote", "blocks": [{"type": "paragraph", "text": "quoted"}]}),
        ("```python\na < b &amp;\n\n  c\n```", {"type": "pre", "text": "a < b &amp;\n\n  c", "language": "python"}),
        (r"\[ a < b & c \\ d \]", {"type": "mathematical_expression", "expression": r"a \lt  b & c \\ d"}),
        ("$$\nE = mc^2\n$$", {"type": "mathematical_expression", "expression": "E = mc^2"}),
        ("```math\n\\frac{1}{2}\n```", {"type": "mathematical_expression", "expression": r"\frac{1}{2}"}),
        ("~~gone~~ `x  <y>`", {"type": "paragraph",
         "text": [{"type": "strikethrough", "text": "gone"}, " ", {"type": "code", "text": "x <y>"}]}),
        ("[x](javascript:a) [y](tg://user?id=1)", {"type": "paragraph", "text": "[x](javascript:a) y"}),
        ("costs $5 and $$ and <b>no</b> tag", {"type": "paragraph", "text": "costs $5 and $$ and <b>no</b> tag"}),
    ],
)  # fmt: skip
def test_blocks(markdown: str, block: Mapping[str, Any]) -> None:
    assert rendered(markdown).blocks[1:] == [block]


def test_a_formula_stands_in_its_line() -> None:
    (paragraph,) = rendered(r"The area \(x_1 * y\) and $$z^2$$.").blocks[1:]
    math = [span["expression"] for span in paragraph["text"] if isinstance(span, dict)]
    assert math == ["x_1 * y", "z^2"]


def test_a_table_keeps_alignment_markup_and_links() -> None:
    content = rendered("| name | where |\n|:--|--:|\n| **x** | [here](https://e.org/a_b)<br>or |\n| y | |")
    table = content.blocks[1]
    assert (table["is_bordered"], [len(row) for row in table["cells"]]) == (True, [2, 2, 2])
    assert table["cells"][0][1] == {"align": "right", "valign": "top", "text": "where", "is_header": True}
    assert table["cells"][1][0]["text"] == {"type": "bold", "text": "x"}
    assert "text" not in table["cells"][2][1]
    assert links_of(content) == ["https://e.org/a_b"]
    assert "here or" in content.text


def test_a_table_of_many_columns_is_read_row_by_row() -> None:
    names = [f"c{n}" for n in range(9)]
    rows = [[f"r{row}c{n}" for n in range(9)] for row in range(2)]
    content = rendered("\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * 9, *rows)))
    assert [block["type"] for block in content.blocks[1:]] == ["paragraph", "list"] * 2
    assert "c8: r1c8" in content.text


def test_lists_keep_their_depth_numbers_and_blocks() -> None:
    content = rendered("3. x\n\n   more\n4. y\n   - z\n-\n- w")
    first, second = content.blocks[1:]
    assert [item["label"] for item in first["items"]] == ["3.", "4."]
    assert [block["type"] for block in first["items"][0]["blocks"]] == ["paragraph", "paragraph"]
    assert first["items"][1]["blocks"][1]["items"][0]["blocks"] == [{"type": "paragraph", "text": "z"}]
    assert len(second["items"]) == 2


def test_citations_are_links_and_the_sources_stand_below() -> None:
    content = rendered("Works [1][2], not `[1]` or @all and #tag.", CITATIONS)
    assert links_of(content) == ["https://example.org/a?b=1&c=2#x"] * 2
    assert content.blocks[-1]["type"] == "footer"
    assert content.text.endswith("Sources\n[1] Installing <it>\n[2] Frequently asked · faq.yaml")
    assert "@all and #tag" in content.text


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "frame", ["See {} for more.", "({})", "看{}。", "**{}**", "- {},\n- it", "{}", "| a |\n|--|\n| {} |"]
)
def test_an_address_is_a_link_as_it_stands(address: str, frame: str) -> None:
    assert links_of(rendered(frame.format(address))) == [address]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("Install @types/node and a.b@example.org.", "Install @types/node and a.b@example.org."),
        (r"It costs 2 * 3, \_private\_ and \*args, \*x\*.", "It costs 2 * 3, _private_ and *args, *x*."),
        ("这是**“重要”**的，**注意：**看**《手册》**。", "这是“重要”的，注意：看《手册》。"),
        ("Write `` a`b `` and `` `y` ``.", "Write a`b and `y`."),
        ("**unclosed and `half", "**unclosed and `half"),
        ("[1]: x", "[1]: x"),
        ("<details>\nhidden\n</details>", "<details>\nhidden\n</details>"),
        ("مرحبا 👩‍👩‍👧‍👦 𝒳 e\u0301", "مرحبا 👩‍👩‍👧‍👦 𝒳 e\u0301"),
    ],
)
def test_what_is_no_markup_can_be_copied(markdown: str, text: str) -> None:
    assert rendered(markdown).text == f"T\n\n{text}"


def test_a_long_link_and_a_long_answer_are_whole() -> None:
    address = f"https://example.org/{'a_' * 400}"
    assert links_of(rendered(f"See [the guide]({address}).")) == [address]
    markdown, code = long_answer(6, 30)
    content = rendered(markdown)
    lines = [line for block in content.blocks if block["type"] == "pre" for line in block["text"].splitlines()]
    assert lines == code


def test_only_what_gains_by_it_is_rich() -> None:
    for markdown in (
        "",
        "plain",
        "**b** a # b | c",
        "- a\n- b",
        "costs $$ or $5",
        "```\n# x | \\(a_b\\)\n```",
        "a\n\n---",
    ):
        assert render_rich(markdown) is None, markdown
    for markdown in ("# a", "a\n=", "| a |\n|--|\n| b |", r"- \(x_1\)", "> $$x^2$$", "~~~ math\nx\n~~~"):
        assert render_rich(markdown) is not None, markdown


def test_what_exceeds_the_limits_is_not_rich() -> None:
    assert render_rich("# T\n\n" + "x" * (MAX_RICH_CHARS - 1)) is not None
    assert render_rich("# T\n\n" + "x" * MAX_RICH_CHARS) is None
    row_count = MAX_BLOCKS - 3
    rows = "| a |\n|--|\n" + "| b |\n" * row_count
    assert render_rich(f"# T\n\n{rows}") is not None
    assert render_rich(f"# T\n\n{rows}| b |\n") is None
    for markdown in ("> " * 3000, "- " * 2000, "*" * 9000, "[" * 9000, "**a " * 2000):
        html = render_rich(f"# T\n\n{markdown}x")
        assert html is None or parse_rich_html(html).text


def test_whatever_comes_is_taken_whole() -> None:
    chance = random.Random(7)
    pieces = [*PIECES, r"\(", r"\)", "$$", "x_1", "|--|", "\n| a | b |\n", "1. ", "```math"]
    rich_count = 0
    for _ in range(150):
        markdown = "".join(chance.choices(pieces, k=chance.randint(1, 120)))
        html = render_rich(f"# T\n\n{markdown}", CITATIONS)
        if html is not None:
            rich_count += 1
            try:
                content = parse_rich_html(html)
            except ParseError as error:
                raise AssertionError(f"{markdown!r}: {error}: {html}") from error
            # A table in a text message names its links twice.
            if "](" not in markdown:
                text = strip_tags(to_html(f"# T\n\n{markdown}", CITATIONS))
                assert [content.text.count(sign) for sign in "🦊奶"] == [text.count(sign) for sign in "🦊奶"], markdown
    assert rich_count > 100
