"""Markdown as Slack's mrkdwn: what each construct becomes, that nobody is notified, and where long texts are split."""

from __future__ import annotations

import random
import re

import pytest

from bots.common.markdown import EMPTY_REPLY
from bots.slack.render import MAX_CHARS, get_streamable_prefix, render, split_message, to_mrkdwn
from core.types import Citation

URL = "https://example.org/a?b=1&c=2"
JOINER = "\u2060"


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("**bold** *it* ~~no~~ `code`", "*bold* _it_ ~no~ `code`"),
        ("***both***", "_*both*_"),
        ("**粗体**文字", "*粗体*\u200b文字"),
        ("**Status:**OK", "*Status:*\u200bOK"),
        ("**a (b)**c, **50%**of", "*a (b)*\u200bc, *50%*\u200bof"),
        ('say "**x**" or 2**3', 'say "*x*" or 2**3'),
        ("See <https://a.example/x|the guide>.", "See <https://a.example/x|the guide>."),
        ("<https://a.example|https://b.example>", "https://b.example (<https://a.example>)"),
        ("`<https://a.example|x>` <b|c>", "`&lt;https://a.example|x&gt;` &lt;b|c&gt;"),
        ("运行`make`即可", "运行\u200b`make`\u200b即可"),
        ("设置（**端口**）：`80`。", "设置（\u200b*端口*\u200b）：\u200b`80`\u200b。"),
        ("the (`make`) or **b**, a_`c`", "the (`make`) or *b*, a_\u200b`c`"),
        ("a**b**c", "a\u200b*b*\u200bc"),
        ("# Title **x**", "*Title x*"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("`a < b`", "`a &lt; b`"),
        ("[text](https://a.example/x)", "<https://a.example/x|text>"),
        ("[a|b](https://a.example/x?a=1&b=%7C)", "<https://a.example/x?a=1&amp;b=%7C|a¦b>"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("[x](/relative)", "x"),
        ("![alt](https://a.example/i.png)", "<https://a.example/i.png|alt>"),
        ("- a\n- b\n  - c", "• a\n• b\n    • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("> quoted\n> twice", "> quoted\n> twice"),
        ("***", "———"),
        ("```python\nx = 1 < 2\n```", "```\nx = 1 &lt; 2\n```"),
        ("```\nunfinished", "```\nunfinished\n```"),
        ("| a | b |\n|---|---|\n| `1` | **two** |", "```\na | b\n--+----\n1 | two\n```"),
        ("", ""),
        ("<b>html</b>", "&lt;b&gt;html&lt;/b&gt;"),
    ],
)
def test_each_construct_has_its_form(markdown: str, mrkdwn: str) -> None:
    assert to_mrkdwn(markdown) == mrkdwn


@pytest.mark.parametrize(
    "text",
    [
        "<!channel>",
        "<!here|x>",
        "<@U1ANN>",
        "<!subteam^S1|@team>",
        "<#C1|general>",
        "`<!channel>`",
        "```\n<@U1>\n```",
        "| <!here> |\n|---|\n| <@U1> |",
        "[<!channel>](https://a.example)",
        "# <@U1>",
        "> <!everyone>",
        "- <@W1>",
    ],
)
def test_nobody_is_notified(text: str) -> None:
    citation = Citation(1, "p", "s", text, text, f"https://a.example/{text}")
    for part in render(f"{text} [1]", [citation]):
        assert not re.search(r"<[!@#]", part)
        assert not re.search(r"[|<]<", part)
    assert not re.search(r"<[!@#]", get_streamable_prefix(text))


def test_group_mentions_in_words_are_broken() -> None:
    assert to_mrkdwn("@here me@here.example @Channel") == f"@{JOINER}here me@here.example @{JOINER}Channel"


def test_citations_become_links_and_a_list_of_sources() -> None:
    citations = [Citation(1, "p", "docs", "A <guide>", "a.md", URL), Citation(2, "q", "docs", "B", "b.md", "")]
    (part,) = render("Do it [1][2] [3] `[1]`.", citations)
    link = "<https://example.org/a?b=1&amp;c=2|"
    assert part == (f"Do it {link}[1]>[2] [3] `[1]`.\n\n*Sources*\n[1] {link}A &lt;guide&gt;>\n[2] B · `b.md`")


def test_an_empty_answer_says_so() -> None:
    assert render("") == render(" \n\n") == [EMPTY_REPLY]


def test_a_fence_in_the_text_neither_opens_nor_closes_one() -> None:
    mrkdwn = to_mrkdwn("\\`\\`\\`\n\n````\n```\ninside\n```\n````")
    assert mrkdwn.count("```") == 2


def test_what_is_streamed_only_ever_grows() -> None:
    numbers = random.Random(7)
    alphabet = ["<", ">", "!", "@", "#", "channel", "here", "everyone", " ", "a", "\n", "[1]", "|", "`", "\ud83d"]
    for _ in range(300):
        text = "".join(numbers.choice(alphabet) for _ in range(20))
        output = ""
        for end in range(len(text) + 1):
            prefix = get_streamable_prefix(text[:end])
            assert prefix.startswith(output) or "\ud83d" in text[:end]
            output = prefix
        assert not re.search(r"<[!@#]", output)


@pytest.mark.parametrize(
    "text",
    [
        "See [https://bank.example](https://evil.example) now",
        "See [https://bank.example][1] now\n\n[1]: https://evil.example",
        "See <https://evil.example|https://bank.example> now",
        "See <http://evil.example|bank.example>",
    ],
)
def test_what_is_streamed_has_no_link_whose_text_is_another_address(text: str) -> None:
    output = ""
    for end in range(len(text) + 1):
        prefix = get_streamable_prefix(text[:end])
        assert prefix.startswith(output)
        output = prefix
    assert not re.search(r"\][(\[:]|<http", output)
    assert output.replace(JOINER, "") == text


def test_parts_fit_and_lose_nothing() -> None:
    numbers = random.Random(11)
    for _ in range(60):
        blocks = []
        for _ in range(numbers.randint(1, 6)):
            words = [f"w{numbers.randint(0, 9999)}" for _ in range(numbers.randint(1, 300))]
            kind = numbers.choice(["text", "lines", "code", "word", "link"])
            blocks.append(
                {
                    "text": " ".join(words),
                    "lines": "\n".join(words),
                    "code": "```\n" + "\n".join(words) + "\n```",
                    "word": "".join(words),
                    "link": " ".join(f"<https://a.example/{word}|{word}>" for word in words),
                }[kind]
            )
        parts = split_message("\n\n".join(blocks), 400)
        assert all(0 < len(part) <= 400 for part in parts)
        assert all(part.count("```") % 2 == 0 for part in parts)
        matches = re.findall(r"[\w|<>:/.]", "".join(parts))
        assert matches == re.findall(r"[\w|<>:/.]", "".join(blocks))


def test_links_and_escapes_are_not_torn_apart() -> None:
    text = " ".join(["<https://a.example/path|label>", "&amp;", "`code`"] * 100)
    for part in split_message(text.replace(" ", ""), 101):
        assert part.count("<") == part.count(">")
        assert part.count("&") == part.count(";")


def test_a_part_is_no_longer_than_an_edit_may_be() -> None:
    parts = render("word " * 5000)
    assert len(parts) > 1
    assert max(map(len, parts)) <= MAX_CHARS < 4000
