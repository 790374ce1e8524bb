"""Which passages reach the model, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.evidence.selection import (
    apply_source_weights,
    join_titles,
    keep_best_of_groups,
    lost_in_the_middle_order,
    merge_adjacent,
    select,
)
from core.language.tokens import estimate_tokens
from core.types import Passage
from tests.support.fixtures import INSTALL, MEMORY, passage

LINK = "https://git.example/tern/blob/abc/guide.md"


def lines(start: int, end: int, name: str = "", **changes: object) -> Passage:
    """Return lines of a document whose every line says its number in words of its own."""
    text = "\n".join(f"line{number} alpha{number} beta{number} gamma{number}" for number in range(start, end + 1))
    created = replace(
        passage(name or f"{start}-{end}", text, kind="text"), path="guide.txt", start_line=start, end_line=end
    )
    return replace(created, **{"url": f"{LINK}#L{start}-L{end}", **changes})  # type: ignore[arg-type]


def select_passages(*passages: Passage, limit: int = 8, tokens: int = 4000, duplicates: float = 0.85) -> list[Passage]:
    return select(passages, limit=limit, max_tokens=tokens, duplicate_threshold=duplicates)


def ids(passages: object) -> list[str]:
    return [item.id for item in passages]  # type: ignore[attr-defined]


def test_selection_keeps_order_limit_budget_and_drops_repeated_text() -> None:
    long_passage = passage("long", "word " * 400)
    copy = passage("copy", "  " + INSTALL.text.upper())
    assert ids(select_passages(INSTALL, copy, MEMORY)) == ["install", "memory"]
    assert ids(select_passages(INSTALL, long_passage, MEMORY, tokens=140)) == ["install", "memory"]
    assert ids(select_passages(INSTALL, MEMORY, limit=1)) == ["install"]


def test_headers_count() -> None:
    small = [passage(f"name{number}", f"Fact number{number}.") for number in range(20)]
    selected = select(small, limit=20, max_tokens=200)
    assert sum(estimate_tokens(message.text) for message in selected) < 60


SENTENCE = "Tern keeps its settings in a file below the home folder and reads it again whenever the file was changed"
CHINESE = "燕鸥把所有设置保存在用户目录下面的一个文件里，并在文件发生变化的时候重新读取"


@pytest.mark.parametrize(
    ("other", "left_out"),
    [
        (f"{SENTENCE}.", True),
        (f"  {SENTENCE.upper()} !", True),
        (SENTENCE.replace("whenever", "when"), True),
        (SENTENCE.replace("and reads it again whenever the file was changed", "and never looks at it again"), False),
        (SENTENCE.replace("reads it again", "reads it 2 times"), False),
        (f"{SENTENCE}. It may be moved with an option, and a second one may follow it in the same folder.", False),
        ("Tern has a web console.", False),
    ],
)
def test_near_copies_are_left_out(other: str, left_out: bool) -> None:
    assert ids(select_passages(passage("best", SENTENCE), passage("other", other), duplicates=0.75)) == (
        ["best"] if left_out else ["best", "other"]
    )


def test_a_part_of_a_better_passage_is_left_out_but_a_whole_stays() -> None:
    whole_passage = passage("whole", f"{SENTENCE}. It may be moved with an option.")
    part = passage("part", SENTENCE)
    assert ids(select_passages(whole_passage, part)) == ["whole"]
    assert ids(select_passages(part, whole_passage)) == ["part", "whole"]


def test_another_number_is_another_passage() -> None:
    old_passage, new_passage = (passage(name, f"{SENTENCE}, in version {name}") for name in ("1.4", "2.0"))
    assert ids(select_passages(old_passage, new_passage)) == ["1.4", "2.0"]


def test_chinese_near_copies_are_left_out() -> None:
    similar_text = CHINESE.replace("的时候", "时")
    assert ids(select_passages(passage("a", CHINESE), passage("b", similar_text), duplicates=0.75)) == ["a"]


def test_with_a_threshold_of_one_only_copies_are_left_out() -> None:
    other = passage("other", SENTENCE.replace("whenever", "when"))
    assert ids(select_passages(passage("best", SENTENCE), other, passage("copy", f"{SENTENCE} "), duplicates=1)) == [
        "best",
        "other",
    ]


def test_neighbours_become_one_with_the_better_ones_id_and_a_link_to_both() -> None:
    better = lines(11, 20, score=0.9)
    other = lines(5, 10, score=0.4)
    [joined] = select_passages(better, other)
    assert (joined.id, joined.score, joined.start_line, joined.end_line) == ("11-20", 0.9, 5, 20)
    assert joined.text == lines(5, 20).text
    assert joined.url == f"{LINK}#L5-L20"


def test_neighbours_keep_the_blank_lines_between_them_and_a_gap_parts_them() -> None:
    """A short passage may stand in any gap: lines that do not touch are not those of neighbours."""
    above = replace(lines(1, 4), end_line=5)
    [joined] = select_passages(above, lines(6, 9))
    assert joined.text == f"{lines(1, 4).text}\n\n{lines(6, 9).text}"
    assert len(joined.text.split("\n")) == joined.end_line - joined.start_line + 1
    assert len(select_passages(lines(1, 4), lines(6, 9))) == 2


def test_a_passage_between_two_joins_all_three_at_the_best_place() -> None:
    passages = select_passages(passage("first", "Something else entirely."), lines(1, 4), lines(9, 12), lines(5, 8))
    assert ids(passages) == ["first", "1-4"]
    assert passages[1].text == lines(1, 12).text


def test_a_neighbour_takes_no_place_of_its_own() -> None:
    assert ids(select_passages(lines(1, 4), MEMORY, lines(5, 8), INSTALL, limit=2)) == ["1-4", "memory"]
    assert ids(select_passages(lines(1, 4), lines(5, 8), MEMORY, limit=2)) == ["1-4", "memory"]


@pytest.mark.parametrize(
    "other",
    [
        lines(5, 8, source="elsewhere"),
        lines(5, 8, path="other.md"),
        replace(lines(5, 8), start_line=0, end_line=0),
        lines(4, 8),
        lines(6, 8),
    ],
)
def test_what_is_no_neighbour_stays_apart(other: Passage) -> None:
    assert merge_adjacent(lines(1, 4), other) is None


@pytest.mark.parametrize(
    ("link", "joined"),
    [
        ("https://h/x/-/blob/c/a.md#L1-4", "https://h/x/-/blob/c/a.md#L1-8"),
        ("https://h/x/src/c/a.md#lines-1:4", "https://h/x/src/c/a.md#lines-1:8"),
        ("https://h/x/blob/c/a14.md#L1", "https://h/x/blob/c/a14.md#L1"),
        ("https://h/guide#section-2-3", "https://h/guide#section-2-3"),
        ("", ""),
    ],
)
def test_links_of_every_host_cover_the_lines_or_stay(link: str, joined: str) -> None:
    merged_passages = merge_adjacent(lines(1, 4, url=link), lines(5, 8))
    assert merged_passages is not None
    assert merged_passages.url == joined


@pytest.mark.parametrize(
    ("text", "other_text"),
    [
        ("when x >= 5 and the call is made with care", "when x <= 5 and the call is made with care"),
        ("when x < y and the call is made with care", "when x > y and the call is made with care"),
        ("Write it in C++ and compile it as usual", "Write it in C# and compile it as usual"),
        ("The limit is -1 if nothing is said of it", "The limit is 1 if nothing is said of it"),
        ("{ }", "[ ]"),
    ],
)
def test_signs_make_another_text(text: str, other_text: str) -> None:
    passages = [passage("one", text), passage("other", other_text)]
    assert select(passages, limit=5, max_tokens=500) == passages


def test_weights_change_the_order_and_the_scores() -> None:
    docs = passage("docs", "a", similarity=0.5)
    forum = passage("forum", "b", source="forum", similarity=0.6)
    assert apply_source_weights([forum, docs], {}) == [forum, docs]
    weighed = apply_source_weights([forum, docs], {"forum": 0.5, "docs": 3.0})
    assert [(item.id, item.score, item.standing) for item in weighed] == [
        ("docs", 1.0, "preferred"),
        ("forum", 0.3, "secondary"),
    ]
    weighed = apply_source_weights([replace(docs, standing="secondary"), forum], {"forum": 2.0})
    assert [item.standing for item in weighed] == ["preferred", "secondary"], "a remote base keeps its own"


def test_in_an_order_of_turns_a_weight_moves_a_passage_by_its_place() -> None:
    dealt = [passage(f"a{n}", "x", similarity=0.1 * n) for n in range(3)] + [passage("b", "y", source="b")]
    assert ids(apply_source_weights(dealt, {"b": 2.5}, is_ranked=True)) == ["a0", "b", "a1", "a2"]
    assert ids(apply_source_weights(dealt, {"b": 1.0}, is_ranked=True)) == ["a0", "a1", "a2", "b"]


def test_the_best_stand_at_both_ends() -> None:
    ranked = [passage(str(rank), "x") for rank in range(1, 7)]
    assert ids(lost_in_the_middle_order(ranked)) == ["1", "3", "5", "6", "4", "2"]
    assert ids(lost_in_the_middle_order(ranked[:2])) == ["1", "2"]
    assert lost_in_the_middle_order([]) == []


def test_without_a_limit_the_room_is_filled() -> None:
    passages = [passage(f"p{number}", f"word{number} " * 40) for number in range(40)]
    selected_passages = select(passages, max_tokens=2000)
    assert len(selected_passages) > 8
    assert 2000 * 0.85 < sum(estimate_tokens(item.text) + 30 for item in selected_passages) < 2000 * 1.15
    assert ids(select(passages, max_tokens=2000, limit=3)) == ["p0", "p1", "p2"]


def test_every_agent_keeps_its_best_two_among_the_first() -> None:
    docs = [replace(passage(f"docs{number}", str(number)), source="docs") for number in range(10)]
    code = [replace(passage(f"code{number}", str(number)), source="code") for number in range(4)]
    ranked = [*docs, *code]
    selected_passages = keep_best_of_groups(ranked, [["docs"], ["code", "other"], ["nothing"]], top=5)
    assert ids(selected_passages) == ["docs0", "docs1", "docs2", "code0", "code1", *ids(docs[3:]), "code2", "code3"]
    assert keep_best_of_groups(ranked, [["docs"]]) == ranked, "nothing moves where they are there already"
    assert keep_best_of_groups([], [["docs"]]) == []


@pytest.mark.parametrize(
    ("first", "second", "title"),
    [
        ("Guide > Install", "Guide > Install", "Guide > Install"),
        ("Guide > Install", "Guide > Update", "Guide > Install / Update"),
        ("Guide > Install > Linux", "Guide > Install", "Guide > Install"),
        ("Guide > " + "a" * 40, "Guide > " + "b" * 40, "Guide"),
        ("One", "Two", "One / Two"),
        ("Imports / Modules", "Imports", "Imports / Modules"),
        ("run / init", "init / handle", "run / init / handle"),
    ],
)
def test_joined_passages_have_a_title_for_both(first: str, second: str, title: str) -> None:
    assert join_titles(first, second) == title
    joined = merge_adjacent(lines(10, 20, title=first), lines(21, 30, title=second))
    assert joined
    assert joined.title == title


def test_neighbours_that_were_read_as_blocks_have_a_blank_line_between_them() -> None:
    first = replace(lines(1, 2), kind="markdown")
    joined = merge_adjacent(first, replace(lines(3, 4), kind="markdown"))
    assert joined is not None
    assert "gamma2\n\nline3" in joined.text
