"""Markdown to Telegram's HTML: judged by the strict parser that also guards the peer."""

from __future__ import annotations

import random
import time

import pytest

from bots.common.markdown import EMPTY_REPLY
from bots.common.message_split import strip_tags
from bots.telegram.render import MAX_UNITS, render, split_message, to_html
from core.types import Citation
from tests.support.answers import CITATIONS, PIECES
from tests.support.peers.telegram_text import parse_html, units


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**bold** *it* ~~gone~~ `a < b`", "<b>bold</b> <i>it</i> <s>gone</s> <code>a &lt; b</code>"),
        ("# Title\n\ntext", "<b>Title</b>\n\ntext"),
        ("a & b < c > d", "a &amp; b &lt; c &gt; d"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("[site](https://e.org/?a=1&b=2)", '<a href="https://e.org/?a=1&amp;b=2">site</a>'),
        ("<https://e.org>", '<a href="https://e.org">https://e.org</a>'),
        ("[`code`](https://e.org)", '<a href="https://e.org">code</a>'),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](tg://user?id=1) [y](../docs/y.md)", "x y"),
        ("![logo](https://e.org/l.png)", '<a href="https://e.org/l.png">logo</a>'),
        (
            "```python\nif a < b:\n    pass\n```",
            '<pre><code class="language-python">if a &lt; b:\n    pass</code></pre>',
        ),
        ("```\nplain\n```", "<pre>plain</pre>"),
        ("```py\nopen = 1", '<pre><code class="language-py">open = 1</code></pre>'),
        ("- a\n- b\n  - c\n\n1. x\n2. y", "• a\n• b\n  • c\n\n1. x\n2. y"),
        ("3. x\n4. y", "3. x\n4. y"),
        ("> quoted\n> > deeper", "<blockquote>quoted\n\ndeeper</blockquote>"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("one\ntwo  \nthree", "one\ntwo\nthree"),
        ("**unclosed and `half", "**unclosed and `half"),
        ("[1]: https://e.org", '[1]: <a href="https://e.org">https://e.org</a>'),
        ("", ""),
    ],
)
def test_markdown(markdown: str, html: str) -> None:
    assert to_html(markdown) == html
    parse_html(html)


def test_tables_are_aligned_by_display_width() -> None:
    html = to_html("| name | 数 |\n|---|---|\n| `a<b` | 1 |\n| 奶酪 | **22** |")
    assert html == "<pre>name | 数\n-----+---\na&lt;b  | 1\n奶酪 | 22</pre>"


def test_citations_become_links_but_not_in_code() -> None:
    html = to_html("It works [1][2], see [3] and `[1]` and [the [1] page](https://e.org).", CITATIONS)
    link = '<a href="https://example.org/a?b=1&amp;c=2#x">[1]</a>'
    assert html == (f'It works {link}[2], see [3] and <code>[1]</code> and <a href="https://e.org">the [1] page</a>.')
    parse_html(html)


def test_the_sources_are_listed() -> None:
    parts = render("It works [1].", CITATIONS)
    assert len(parts) == 1
    text, entities = parse_html(parts[0])
    assert text == "It works [1].\n\nSources\n[1] Installing <it>\n[2] Frequently asked · faq.yaml"
    assert [entity["url"] for entity in entities if entity["type"] == "text_link"] == [
        "https://example.org/a?b=1&c=2#x"
    ] * 2


def test_nobody_is_notified_but_the_asker() -> None:
    html = to_html(
        "@all ask @ann or @bob_1, **@eve**, @**x**, @@dan, me@mail.org, `@x`, https://e.org/@y", asker_username="Ann"
    )
    joiner = "\u2060"
    assert html == (
        f"<code>@all</code> ask @ann or <code>@bob_1</code>, <b><code>@eve</code></b>, @{joiner}<b>x</b>, "
        '@<code>@dan</code>, me@mail.org, <code>@x</code>, <a href="https://e.org/@y">https://e.org/@y</a>'
    )


def test_an_empty_reply_is_still_a_message() -> None:
    assert render("") == [EMPTY_REPLY]
    assert render("\u200b \n") != []


PIECES += ["&amp;", "&", "<", ">", "\\", "~~", "[1]", "@bob", "🦊", "奶", "\ud800", "\0", "x" * 30, "\t", "'", '"']


def test_whatever_comes_renders_within_the_limit_and_parses() -> None:
    chance = random.Random(7)
    for _ in range(400):
        markdown = "".join(chance.choices(PIECES, k=chance.randint(1, 120)))
        for part in render(markdown, CITATIONS):
            assert units(parse_html(part)[0]) <= MAX_UNITS
        for part in split_message(to_html(markdown, CITATIONS), 60):
            assert units(parse_html(part)[0]) <= 60, markdown


def test_deep_nesting_does_not_raise() -> None:
    for markdown in ("> " * 3000 + "x", "- " * 2000 + "x", "*" * 9000, "[" * 9000, "**a " * 2000):
        parts = render(markdown)
        # Whatever is left of it can be read, and something is.
        assert any(parse_html(part)[0].strip() for part in parts), markdown[:20]


def test_a_short_text_is_not_split() -> None:
    html = "<b>a</b>\n\nb"
    assert split_message(html) == [html]


def test_split_prefers_blocks_then_lines_then_words() -> None:
    assert split_message("aaaa bbbb\n\ncccc dddd\neeee", 20) == ["aaaa bbbb", "cccc dddd\neeee"]
    assert split_message("aaaa bbbb\ncccc dddd", 14) == ["aaaa bbbb", "cccc dddd"]
    assert split_message("aaaa bbbb cccc", 10) == ["aaaa bbbb", "cccc"]
    assert split_message("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_a_line_is_split_after_a_sentence_unless_that_wastes_too_much() -> None:
    assert split_message("Aaaa bbb. Cccc dddd eeee", 16) == ["Aaaa bbb.", "Cccc dddd eeee"]
    assert split_message("第一句<b>话。第二</b>句话是的", 8) == ["第一句<b>话。</b>", "<b>第二</b>句话是的"]
    assert split_message("A. bbbb cccc dddd", 14) == ["A. bbbb cccc", "dddd"]


def test_split_counts_what_is_shown_in_utf16() -> None:
    assert split_message("&amp;" * 10, 10) == ["&amp;" * 10]
    assert split_message("🦊" * 10, 10) == ["🦊" * 5, "🦊" * 5]
    assert split_message("🦊" * 5, 9) == ["🦊" * 4, "🦊"]


def test_a_code_block_goes_on_as_one_with_its_indentation() -> None:
    code = "\n".join(f"    line_{n} = {n}" for n in range(400))
    parts = split_message(to_html(f"Look:\n\n```python\n{code}\n```\n\nDone."))
    assert len(parts) > 1
    assert all(part.count('<pre><code class="language-python">') == 1 == part.count("</code></pre>") for part in parts)
    texts = [parse_html(part)[0] for part in parts]
    assert all(units(text) <= MAX_UNITS for text in texts)
    assert "\n".join(texts) == f"Look:\n\n{code}\n\nDone."
    assert texts[1].startswith("    line_")


def test_open_tags_are_closed_and_opened_again() -> None:
    assert split_message("<b>aaaa <i>bbbb cccc</i></b> dd", 10) == ["<b>aaaa <i>bbbb</i></b>", "<b><i>cccc</i></b> dd"]


def test_no_empty_block_is_left_when_the_split_is_at_its_end() -> None:
    parts = split_message("<pre>" + "x" * 9 + "\n</pre>yyyy", 10)
    assert parts == ["<pre>xxxxxxxxx\n</pre>", "yyyy"]


def test_many_long_links_stay_below_the_raw_limit() -> None:
    citations = tuple(Citation(n, str(n), "s", f"t{n}", "", f"https://e.org/{'x' * 900}/{n}") for n in range(1, 60))
    parts = render(" ".join(f"[{n}]" for n in range(1, 60)), citations)
    assert len(parts) > 1
    assert all(len(part.encode()) < 32768 for part in parts)
    assert sum(part.count("<a ") for part in parts) == 2 * 59


def test_plain_is_what_is_shown() -> None:
    html = to_html("**a** & [b](https://e.org) `<c>`")
    assert strip_tags(html) == parse_html(html)[0] == "a & b <c>"


def test_it_is_fast_enough_for_the_loop_beside_it() -> None:
    markdown = "Some **text** with `code`, [1] and a [link](https://e.org).\n\n- item\n- item\n\n" * 50
    render(markdown, CITATIONS)
    # Its own time, not that of others on this machine.
    started_at = time.thread_time()
    render(markdown, CITATIONS)
    assert time.thread_time() - started_at < 2


def test_nobody_is_mentioned_by_a_title_or_behind_an_address() -> None:
    titles = (
        Citation(1, "p", "faq", "@alice how do I?", "faq.yaml", ""),
        Citation(2, "p", "faq", "ask @bob", "x", "https://x.y"),
    )
    (output,) = render("see https://a.b,@carol and https://a.b/@dave [1]", titles, asker_username="Bob")
    assert "@alice" not in output
    assert "<code>@carol</code>" in output
    assert "https://a.b/@dave" in output
    assert "ask @bob" in output
