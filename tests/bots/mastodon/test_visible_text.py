"""What servers send as HTML, as people read it."""

from __future__ import annotations

import time

import pytest

from bots.mastodon.visible_text import BOT_MENTION, get_text, html_to_text

LINK = (
    '<a href="https://example.org/a/long/path?x=1&amp;y=2" rel="nofollow"><span class="invisible">https://</span>'
    '<span class="ellipsis">example.org/a/long</span><span class="invisible">/path?x=1&amp;y=2</span></a>'
)
MENTION = '<span class="h-card"><a href="https://b.example/@ann" class="u-url mention">@<span>ann</span></a></span>'


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a</p><p>b<br>c</p>", "a\n\nb\nc"),
        (f"<p>see {LINK} now</p>", "see https://example.org/a/long/path?x=1&y=2 now"),
        (f"<p>{MENTION} how?</p>", "@ann@b.example how?"),
        ('<p>on <a href="https://e.org/tags/x" class="mention hashtag" rel="tag">#<span>x</span></a></p>', "on #x"),
        ('<p><a href="javascript:alert(1)">this</a> 1 &lt; 2 &amp; 3</p>', "this 1 < 2 & 3"),
        ("<ul><li>one</li><li>two</li></ul><p>a<!-- hidden -->b</p>", "one\ntwo\n\nab"),
        ("<blockquote><p>said</p></blockquote><pre><code>x = 1\ny = 2</code></pre>", "said\n\nx = 1\ny = 2"),
        ("no markup", "no markup"),
        ("", ""),
        ("<p>cut <b>off", "cut off"),
        ("<p>a\x00b</p>", "ab"),
    ],
)
def test_html_is_read_as_people_see_it(html: str, text: str) -> None:
    assert html_to_text(html, {"https://b.example/@ann": "@ann@b.example"}) == text


def test_the_bot_is_marked_where_it_is_mentioned() -> None:
    mentions = [{"id": "900", "url": "https://b.example/@ann", "acct": "ann@b.example"}]
    status = {"content": f"<p>hi {MENTION}</p>", "mentions": mentions, "spoiler_text": "a warning"}
    assert get_text(status, "900") == f"a warning\n\nhi {BOT_MENTION}"
    assert get_text(status, "901") == "a warning\n\nhi @ann@b.example"
    assert get_text({"content": "<p>which?</p>", "poll": {"options": [{"title": "this"}]}}, "1") == "which?\n\n- this"


@pytest.mark.parametrize(
    "html", ["<p>" * 60_000, "<b><i>" * 30_000, "<a href='x'>" * 20_000, "<!--" * 50_000, "&" * 200_000]
)
def test_hostile_html_takes_no_longer(html: str) -> None:
    started_at = time.monotonic()
    html_to_text(html, {})
    assert time.monotonic() - started_at < 5
