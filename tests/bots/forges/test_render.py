"""What a comment does beside being read: it calls nobody, closes nothing, and leaves no traces in other issues."""

from __future__ import annotations

import pytest

from bots.forges.render import MAX_CHARS, ZERO_WIDTH_SPACE, render, to_plain
from core.types import Citation
from tests.support.peers.github import NOTIFIES, find_references


def rendered(text: str, *citations: Citation, host: str = "github.com") -> str:
    (comment,) = render(text, citations, host)
    return comment


@pytest.mark.parametrize(
    "text",
    [
        "Import `@angular/core` and ask @org/team.",
        "```ts\n@Component({})\nclass A {}\n```",
        "| a | b |\n|---|---|\n| @ann | `@ben` |",
        "- @ann\n  - **@ben**, _@cat_, (@dora)",
        "[@ann](https://example.org/@ann)",
        "> @ann",
        "@ann\r@ben\u2028@cat",
    ],
)
def test_nobody_is_called(text: str) -> None:
    assert NOTIFIES.findall(rendered(text).replace("example.org/@ann", "")) == []


@pytest.mark.parametrize(
    "line",
    ["/label ~x", "  /close", "> /close", "how? \r/close", "a\u2028/close", "```\n/close\n```", "- a\n\n/assign me"],
)
@pytest.mark.parametrize("write", [rendered, lambda text: to_plain(text)[0]])
def test_no_line_is_a_command(line: str, write: object) -> None:
    text = write(line)  # type: ignore[operator]
    assert "/" in text
    assert [line for line in text.splitlines() if line.lstrip("> \t").startswith("/")] == []


@pytest.mark.parametrize(
    "text", ["Duplicate of #12", "Duplicate of GH-12", "Fixes #12", "**#12**", "see a/b#12 or !12"]
)
def test_no_number_refers_to_an_issue(text: str) -> None:
    assert find_references(rendered(text)) == []
    assert "12" in rendered(text)


def test_a_changelog_leaves_no_back_links() -> None:
    lines = [f"- Fix the start (#{number}), https://github.com/a/b/issues/{number}" for number in range(30)]
    citation = Citation(1, "1", "docs", "Changes of #3", "CHANGELOG.md", "https://github.com/a/b/pull/7")
    text = rendered("\n".join(lines) + " [1]", citation)
    assert find_references(text) == []
    assert text.count("https://redirect.github.com/a/b/issues/") == 30
    assert "<https://redirect.github.com/a/b/pull/7>" in text


def test_on_a_server_of_ones_own_an_issue_is_named_in_code() -> None:
    text = rendered("See https://forge.example/a/b/-/issues/7 and https://example.org/x.", host="forge.example")
    assert "`https://forge.example/a/b/-/issues/7`" in text
    assert "(<https://example.org/x>)" in text


def test_markup_stays_markup() -> None:
    text = "# Title\n\nUse **pip** or `uv`:\n\n1. one\n2. two\n   - a\n\n```sh\npip install it\n```\n\n> so"
    table = "| a | b |\n| --- | --- |\n| 1 | x\\|y |"
    assert rendered(f"{text}\n\n{table}") == f"{text}\n\n{table}"


@pytest.mark.parametrize(
    "text",
    [
        "<!-- kimas 12 -->",
        "<details>",
        "a &lt;b&gt; c",
        "\\# no title",
        "\\* no list",
        "![x](https://e.org/a.png)",
        "\\`x`",
    ],
)
def test_what_is_no_markup_stays_text(text: str) -> None:
    result = rendered(text)
    assert "<!--" not in result.replace("\\<", "")
    assert "![" not in result


def test_code_that_holds_fences_stays_in_its_block() -> None:
    text = rendered("````\n```\n@ann\n```\n````\nand `` a`b ``")
    assert text.startswith("````\n```\n")
    assert "``a`b``" in text


def test_what_is_refused_is_split_and_still_harmless() -> None:
    assert to_plain("a /b\n/close " * 10, 40)[0].count(f"{ZERO_WIDTH_SPACE}/close") == 3
    assert all(len(piece) <= MAX_CHARS for piece in to_plain("word " * 40_000))
