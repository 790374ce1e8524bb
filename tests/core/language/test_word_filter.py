"""Words are found however they are spelled; a growing text is shown up to where one may begin."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from core.language.word_filter import SEARCH_S, TOO_SLOW, WordFilter, compile_pattern

WORDS = ("numbat", "two words", "违禁词", "금지", "C++", "straße")
FILTER = WordFilter(WORDS, (r"sk-\w{4,}",))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A NUMBAT, indeed", "words.0"),
        ("numbats are others", ""),
        ("num\u200bbat", "words.0"),
        ("nu\u00admbat", "words.0"),
        ("num\u2060b\ufe0fat", "words.0"),
        *((f"num{control}bat", "words.0") for control in "\0\x0b\x0c\r\x1f\x85"),
        *((f"two{control}words", "words.1") for control in "\t\x0b\x0c\r\x1f\x85"),
        ("two\r\nwords", "words.1"),
        ("ｎｕｍｂａｔ", "words.0"),
        ("𝐧𝐮𝐦𝐛𝐚𝐭", "words.0"),
        ("n\u0336u\u0336mbat", "words.0"),
        ("num&shy;bat", "words.0"),
        ("num&#8203;bat", "words.0"),
        ("num**bat**", "words.0"),
        ("_numbat_ and `x`", "words.0"),
        ("这个numbat词", "words.0"),
        ("two\n  words", "words.1"),
        ("two wordsmiths", ""),
        ("two [words](https://a.example/b)", "words.1"),
        ("[two](<https://a.example/(b)> 'c') words", "words.1"),
        ("two ![wo](a.png)rds", "words.1"),
        ("[two][1] words", "words.1"),
        ("> of two\n> words", "words.1"),
        ("> > two\n>\n> > words", "words.1"),
        ("two > words", ""),
        ("https://a.example/two%20words", "words.1"),
        ("https://a.example/%E8%BF%9D%E7%A6%81%E8%AF%8D", "words.2"),
        ("有违禁词吗", "words.2"),
        ("违\u200d禁词", "words.2"),
        ("금지는", "words.3"),
        ("C++ is named", "words.4"),
        ("STRASSE", "words.5"),
        ("the key sk-abcd1", "patterns.0"),
        ("the key sk-ab\u200bcd1", "patterns.0"),
        ("sk-ab", ""),
        ("", ""),
    ],
)
def test_it_is_found_as_people_read_it(text: str, found: str) -> None:
    assert FILTER.find(text) == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The animal is a num", "The animal is a "),
        ("The animal is a numb question", "The animal is a numb question"),
        # It may still become another word.
        ("The animal is a numbat", "The animal is a "),
        ("It is a numbat and more", "It is a "),
        ("It is a num\u200b", "It is a "),
        ("It is a **num", "It is a **"),
        ("It is [two](https://a.exa", "It is ["),
        ("It is num\x0cba", "It is "),
        ("It is two\x0c", "It is "),
        ("> It is two\n> wo", "> It is "),
        ("两个违禁", "两个"),
        ("two w", ""),
        # Cut before what may be a key, it would end in a word.
        ("A numbatsk", "A "),
        ("a key: sk", "a key: "),
    ],
)
def test_what_may_begin_a_word_is_held_back(text: str, shown: str) -> None:
    assert text[: FILTER.count_settled(text)] == shown


PIECES = ("num", "bat", "numbat", "s", "k", "sk-", "abcd", "two", "words", "违", "禁词", " ", "*", "\u200b", "&shy;")
MARKUP = ("\x0c", "[", "](a)", "\n> ", "%6E%75")


@given(st.lists(st.sampled_from(PIECES + MARKUP), max_size=12).map("".join))
def test_what_is_shown_of_a_text_has_no_word(text: str) -> None:
    assert FILTER.find(text[: FILTER.count_settled(text)].rstrip()) == ""


def test_a_pattern_without_end_counts_as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.language.word_filter.SEARCH_S", 0.2)
    endless = WordFilter((), ("(a+)+$",))
    started_at = time.process_time()
    assert endless.find("a" * 5000 + "b") == TOO_SLOW
    assert endless.count_settled("a" * 5000 + "b") == 0
    assert time.process_time() - started_at < 6 * SEARCH_S


@pytest.mark.parametrize(("pattern", "words"), [("(", r"missing \)"), ("a*", "every text"), ("[z-a]", "range")])
def test_a_pattern_that_cannot_work_is_named(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compile_pattern(pattern)


def test_a_word_that_nobody_sees_is_an_error() -> None:
    with pytest.raises(ValueError, match="can see"):
        WordFilter(("\u200b",))
