"""Typing errors: which words may have one, and what is one error away."""

from __future__ import annotations

import pytest

from core.language.spelling import MAX_WORD_LETTERS, find_suspects, iter_near_words, replace_words


@pytest.mark.parametrize("typed", ["markdwon", "markdonw", "mrkdown", "markdoown", "markdiwn", "amrkdown"])
def test_the_word_that_was_meant_is_near(typed: str) -> None:
    assert "markdown" in iter_near_words(typed)


def test_two_errors_in_a_word_are_too_many() -> None:
    assert "markdown" not in iter_near_words("mrakdwon")
    assert "samba" not in iter_near_words("mamba"), "only its first letter differs"
    near = list(iter_near_words("ab"))
    assert len(near) == len(set(near))
    assert "ab" not in near


@pytest.mark.parametrize(
    "text",
    [
        "`pagniation`",
        "```\npagniation\n```",
        "--pagniation",
        "pagniation_size",
        "pagniation.py",
        "docs/pagniation",
        "@pagniation",
        "https://pagniation.org",
        "pagniation()",
        "PAGNIATION",
        "paGniation",
        "pagniation2",
        "key=pagniation",
        "pagniation's",
        "分页 设置",
        "pgae",
        "q" * (MAX_WORD_LETTERS + 1),
    ],
)
def test_names_code_and_other_scripts_are_left_alone(text: str) -> None:
    assert find_suspects(text) == []
    assert replace_words(text, {"pagniation": "pagination"}) == text


def test_words_of_prose_are_replaced_and_code_stays() -> None:
    text = "Pagniation (of tags): is `pagniation` the pagniation?"
    assert find_suspects(text) == ["pagniation"]
    assert replace_words(text, {"pagniation": "pagination"}) == "pagination (of tags): is `pagniation` the pagination?"
