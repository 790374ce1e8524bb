"""Markdown of others: what a browser would run goes, what is code stays, and nothing takes long."""

from __future__ import annotations

import json
import time

import pytest

from knowledge.formats import read_document
from knowledge.web.markup import strip_hidden_markup

BAD = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"One {BAD}two", "One two"),
        ("a <svg onload=alert(2)><path/></svg> b", "a  b"),
        ("a <!-- do as I say --> b", "a  b"),
        ("<img src=x onerror=alert(3)>", "<img src=x >"),
        ("<svg/onload=alert(1)>", "<svg/>"),
        ('<div title=">" onclick="evil()">x</div>', '<div title=">" >x</div>'),
        ("<a href='javascript:evil()'>x</a>", "<a >x</a>"),
        ('<a href="&#106;ava\tscript:evil()">x</a>', "<a >x</a>"),
        ("<iframe srcdoc='<b onclick=evil()>'>x", "<iframe >x"),
        ("<embed src=evil.swf>x", "x"),
        ("[a](javascript:alert(4)) b", "[a](#) b"),
        ("[a](JaVaScRiPt:alert) [b](https://x.org/a(b))", "[a](#) [b](https://x.org/a(b))"),
        ("[a](java&#115;cript:x) ![b](data:text/html,x)", "[a](#) ![b](#)"),
        ("[a](<javascript:alert(1, 2)>)", "[a](#)"),
        ("[a]: vbscript:x\n\n[a]", "[a]: #\n\n[a]"),
        ("<javascript:alert(1)>", ""),
        ("- a\n\n    <script>x</script>b", "- a\n\n    b"),
        ("> <script>x</script>b", "> b"),
        ("<!--\n```\n-->\n<script>x</script>b", "\nb"),
    ],
)
def test_what_a_browser_would_run_goes(text: str, expected: str) -> None:
    assert strip_hidden_markup(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"```html\n{BAD}\n```\n",
        f"~~~\n{BAD}\n<!-- x -->\n[a](javascript:x)\n",
        f"Use `{BAD}` here, or ``<svg onload=x>`y` `` there",
        f"A code block:\n\n    {BAD}\n\n    <img onerror=x>\n",
        f"    {BAD}\n",
        f"\t{BAD}\n",
        f"1. First:\n\n    ```html\n    {BAD}\n    ```\n\n    Then.\n",
        f"- ```\n  {BAD}\n  ```\n",
        f"- First:\n\n        {BAD}\n",
        f"> ```html\n> {BAD}\n> ```\n",
        f"`two\nlines {BAD}` of code",
        "The <script> tag, <b>bold</b>, Vec<String>, a < b, and [a link](https://x.org/on=1).",
        "![a](data:image/png;base64,AAAA) <img src='a.png' alt=\"it's on = x\">",
        "<T extends Handler> and <https://x.org/?onclick=1>",
    ],
)
def test_code_and_harmless_text_stay_as_they_are(text: str) -> None:
    assert strip_hidden_markup(text) == text


def test_what_follows_code_is_looked_at() -> None:
    for code in ("```\nx\n```\n", "> ```\n> x\n\n", "    x\n\ny\n", "- ```\n  x\n  ```\n", "`x` "):
        assert strip_hidden_markup(f"a\n\n{code}b {BAD}c") == f"a\n\n{code}b c"


def test_every_line_keeps_its_number() -> None:
    text = f"one\n<script>\nevil()\n</script>\nfive <!--\n--> six\n<img\nonerror='\nx'>\n\n{BAD}last"
    clean_text = strip_hidden_markup(text, keep_line_numbers=True)
    assert clean_text.count("\n") == text.count("\n")
    assert [clean_text.split("\n").index(line) for line in ("one", "last")] == [0, 10]
    assert "evil" not in clean_text


def test_documents_of_files_lose_it_and_keep_their_lines() -> None:
    data = f"# Hi\n\n<script>\nevil()\n</script>\n\n`{BAD}` [a](javascript:evil())\n".encode()
    assert read_document("x.md", "markdown", data) == (f"# Hi\n\n\n\n\n\n`{BAD}` [a](#)\n", "markdown")
    cells = [{"cell_type": "markdown", "source": f"Text {BAD}"}, {"cell_type": "code", "source": BAD}]
    text, kind = read_document("x.ipynb", "notebook", json.dumps({"cells": cells}).encode())
    assert (text, kind) == (f"Text \n\n```python\n{BAD}\n```", "markdown")
    assert read_document("x.html.txt", "text", BAD.encode()) == (BAD, "text")


@pytest.mark.parametrize(
    "part",
    [
        "     ```x\n",
        '<a "',
        "<script>",
        "`a ",
        "\n    x\n",
        "- a\n\n    b\n",
        "[a](",
        "](((((",
        "<!--",
        "> ```\n",
        "~~~",
    ],
)
def test_nothing_takes_long(part: str) -> None:
    """Four times the text takes about four times as long, where a search to the end for each part takes sixteen."""
    seconds = []
    for size in (60_000, 240_000):
        started_at = time.thread_time()
        strip_hidden_markup(part * (size // len(part)), keep_line_numbers=True)
        seconds.append(time.thread_time() - started_at)
    assert seconds[0] < 3
    assert seconds[1] < 8 * seconds[0] + 0.05
