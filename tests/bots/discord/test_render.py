"""Replies in Discord's dialect, in parts of a length that it takes."""

from __future__ import annotations

import random
import time

import pytest

from bots.common.markdown import EMPTY_REPLY
from bots.common.message_split import utf16_length
from bots.discord.render import render, split_message, to_markdown
from core.types import Citation

CITED = (
    Citation(1, "p1", "docs", "In[st]all", "docs/in.md", "https://example.org/a(b)"),
    Citation(2, "p2", "docs", "", "x.md", ""),
)


@pytest.mark.parametrize(
    ("markdown", "expected_text"),
    [
        ("# Title *x*\n\ntext", "# Title *x*\n\ntext"),
        ("#### Deep **x**", "**Deep x**"),
        ("Title\n=====", "# Title"),
        ("**b** *i* ~~s~~ `c`", "**b** *i* ~~s~~ `c`"),
        ("- a\n  - b\n- c", "- a\n  - b\n- c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("- a\n\n  ```sh\n  ls\n  ```", "- a\n```sh\nls\n```"),
        ("> a\n> > b", "> a\n> \n> b"),
        ("---", "———"),
        ("[text](https://e.org/a_b)", "[text](<https://e.org/a_b>)"),
        ("[bad](javascript:x)", "\\[bad\\](javascript:x)"),
        ("![p](https://e.org/p.png)", "[p](<https://e.org/p.png>)"),
        ("https://e.org/a_b_c.", "<https://e.org/a_b_c>."),
        ("[https://good.org](https://evil.org)", "https://good.org (<https://evil.org>)"),
        ("snake_case 2*3 ||x||", "snake\\_case 2\\*3 \\|\\|x\\|\\|"),
        ("\\# no heading", "\\# no heading"),
        ("1\\. no list", "1\\. no list"),
        ("<@123> <@&5> <#7> <:x:1> <t:1:R>", "\\<@\u2060123> \\<@\u2060&5> \\<#7> \\<:x:1> \\<t:1:R>"),
        ("@everyone @here a@b.org", "@\u2060everyone @\u2060here a@b.org"),
        ("`<@123>`", "`<@123>`"),
        ("``a`b``", "``a`b``"),
        ("```py\nx", "```py\nx\n```"),
        ("````\na ``` b\n````", "```\na `\u2060`` b\n```"),
        ("| a | bb |\n|---|---|\n| 日本 | 2 |", "```\na    | bb\n-----+---\n日本 | 2\n```"),
        ("<b>x</b>", "\\<b>x\\</b>"),
    ],
)
def test_markdown(markdown: str, expected_text: str) -> None:
    assert to_markdown(markdown) == expected_text


def test_citations_become_links_but_not_in_code() -> None:
    (part,) = render("Yes [1], no [2], `x[1]` and [3].", CITED)
    assert part == (
        "Yes [[1]](<https://example.org/a(b)>), no [2], `x[1]` and [3].\n\n"
        "**Sources**\n[1] [In\\[st\\]all](<https://example.org/a(b)>)\n[2] x.md"
    )


def test_an_address_that_would_fill_the_message_is_left_out() -> None:
    long_text = Citation(1, "p", "docs", "Title", "a.md", "https://example.org/" + "x" * 3000)
    assert render("Yes [1].", (long_text,)) == ["Yes [1].\n\n**Sources**\n[1] Title · `a.md`"]


def test_nothing_to_see_is_said() -> None:
    assert render(" \n") == [EMPTY_REPLY]
    assert render("```\n```") == [EMPTY_REPLY]


def test_parts_end_between_blocks() -> None:
    parts = split_message("a" * 30 + "\n\n" + "b" * 30 + "\n\n" + "c" * 30, 70)
    assert parts == ["a" * 30 + "\n\n" + "b" * 30, "c" * 30]


def test_links_and_code_are_not_torn() -> None:
    link = "[a b c](<https://example.org/a%20b>)"
    for part in split_message(" ".join([f"word {link} `x y z`"] * 40), 120):
        assert part.count("[a") == part.count(">)")
        assert part.count("`") % 2 == 0


def test_every_part_fits_and_nothing_is_lost() -> None:
    dice = random.Random(7)
    pieces = [
        "word",
        "日本語",
        "😀😀",
        "`code span`",
        "x" * 300,
        "[l](https://e.org/x)",
        "\n\n",
        "\n",
        "- item\n",
        "```py\n" + "y = 1\n" * 60 + "```\n",
    ]
    for _ in range(60):
        text = " ".join(dice.choice(pieces) for _ in range(dice.randint(1, 120)))
        markdown = to_markdown(text)
        for limit in (2000, 400):
            parts = split_message(markdown, limit)
            assert all(0 < utf16_length(part) <= limit for part in parts)
            letters = [name for name in "".join(parts) if name.isalnum()]
            # A code block that goes on is opened again with its language.
            reopened_count = "".join(parts).count("```py") - markdown.count("```py")
            assert len(letters) == len([name for name in markdown if name.isalnum()]) + 2 * reopened_count
            assert all(part.count("```") % 2 == 0 for part in parts)


@pytest.mark.parametrize(
    "text", ["[" * 6000, "[\\_" * 3000, "x" * 9000, "`a" * 4000, "http://" + "." * 6000, "<" * 6000, "> " * 900]
)
def test_hostile_text_takes_no_time(text: str) -> None:
    # Its own time, not that of others on this machine.
    started_at = time.thread_time()
    parts = render(text)
    assert all(utf16_length(part) <= 2000 for part in parts)
    assert time.thread_time() - started_at < 5
