"""The patch with a place for each answer that is lacking: real tools apply it, and it changes no answer."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.operator_page.gap_patch import make_patch
from core.messaging.gaps import Gap
from core.settings import Settings
from core.storage.reports import ListedQuestion
from knowledge.formats.question_pairs import read_entries
from tests.support.fixtures import passage

AT = datetime(2026, 11, 20, tzinfo=UTC)
PAGE = passage("proxy", "Behind a proxy.")


def _question(text: str) -> ListedQuestion:
    return ListedQuestion(1, "telegram", "-1", "Ann", text, AT, "answered", "nothing_found")


def make_gap(*texts: str) -> Gap:
    questions = [_question(text) for text in texts]
    return Gap(questions[0], questions, 0, AT, 0, PAGE)


GAPS = (
    make_gap("How do I set a proxy?", "proxy settings", "How do I set a proxy?"),
    make_gap('Is "x: y" # a comment\n- question: no?\u2028', "怎么配置代理？"),
)


def _settings(path: Path) -> Settings:
    return Settings.model_validate({"sources": {"faq": {"kind": "faq", "path": str(path)}}})


@pytest.mark.parametrize(
    "content",
    [
        "- question: A?\n  answer: B\n",
        "- question: A?\n  answer: B",
        "- question: A?\n  answer: B\n\n\n",
        "# Ours\nfaq:\n  - question: A?\n    answer: |\n      B\n      - C\n  - q: D?\n    a: E\n",
        "- question: A?\r\n  answer: B\r\n",
        "- question: 怎么？\n  answer: \u200f\u00e4\n- question: C?\n  answer: D\n- question: E?\n  answer: F\n",
    ],
)
@pytest.mark.parametrize("tool", [["patch", "--quiet", "-p1"], ["git", "apply"]])
@pytest.mark.parametrize("file_name", ["faq.yaml", "our own faq.yaml"])
def test_the_patch_appends_entries_that_wait_for_an_answer(
    tmp_path: Path, file_name: str, content: str, tool: list[str]
) -> None:
    path = tmp_path / file_name
    path.write_bytes(content.encode())
    before, _ = read_entries("faq.yaml", path.read_bytes())
    name, diff = make_patch(GAPS, _settings(path), 7, str)
    assert name == "gaps.patch"
    (tmp_path / "gaps.patch").write_bytes(diff.encode())
    subprocess.run([*tool, "gaps.patch"] if tool[0] == "git" else [*tool, "-i", "gaps.patch"], cwd=tmp_path, check=True)
    after, incomplete_count = read_entries("faq.yaml", path.read_bytes())
    assert (after, incomplete_count) == (before, len(GAPS))
    text = path.read_text()
    assert text.count("proxy settings") == 1
    assert "nearest page: https://example.org/proxy" in text
    path.write_text(text.replace('answer: ""', "answer: Like this."))
    filled, incomplete_count = read_entries("faq.yaml", path.read_bytes())
    assert incomplete_count == 0
    assert [entry.question for entry in filled[len(before) :]] == [
        "How do I set a proxy?",
        'Is "x: y" # a comment - question: no?',
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("faq.yaml", "How?: Like this.\nWhy?: Because.\n"),
        ("faq.yaml", "- question: A?\n  answer: 'broken\n"),
        ("faq.yaml", ""),
        ("faq.yaml", None),
        ("faq.yaml", "- question: A?\n  answer: \ufffe\n"),
        ("faq.csv", "question,answer\nA?,B\n"),
        ("faq.json", '[{"question": "A?", "answer": "B"}]'),
    ],
)
def test_what_takes_no_entries_gets_markdown(tmp_path: Path, name: str, content: str | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    file_name, text = make_patch(GAPS, _settings(path), 7, str)
    assert file_name == "gaps.md"
    assert text.startswith("## How do I set a proxy?\n\n*Asked 3 times in 7 days.* Nearest page: [Proxy](<https://")
    assert text.count("\n## ") == 1, "what members wrote makes no heading of its own"
    assert "\n- proxy settings\n" in text


def test_what_strangers_wrote_is_cleaned_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "faq.yaml"
    path.write_text("- question: A?\n  answer: B\n")
    gap = make_gap(*(f"question {number} with s3cret?" for number in range(40)))
    _, diff = make_patch([gap], _settings(path), 7, lambda text: text.replace("s3cret", "***"))
    assert "s3cret" not in diff
    assert diff.count("***") == 6


def test_nothing_open_is_an_empty_file(tmp_path: Path) -> None:
    assert make_patch([], _settings(tmp_path / "faq.yaml"), 7, str) == ("gaps.md", "")
