from __future__ import annotations

import time
from dataclasses import replace

import pytest

from core.answering.pipeline import answer
from core.catalogue import ENGLISH
from core.citations.check import find_support_by_overlap
from core.citations.markers import insert_markers, resolve_markers, strip_markers, trim_partial_marker
from core.language.prose import split_sentences
from core.storage.details import get_detail
from core.types import Question
from tests.support.fixtures import INSTALL, MEMORY, MemorySink, parts, passage
from tests.support.scripted import ScriptedPeer, models

PASSAGES = (INSTALL, MEMORY)


@pytest.mark.parametrize(
    ("answer_text", "expected_text", "cited_ids"),
    [
        ("Use pip [p1].", "Use pip [1].", ["install"]),
        ("Use pip[p1].", "Use pip[1].", ["install"]),
        ("Both [p1, p2].", "Both [1][2].", ["install", "memory"]),
        ("Both [p2][p1].", "Both [1][2].", ["memory", "install"]),
        ("Both [p1; p2].", "Both [1][2].", ["install", "memory"]),
        ("记忆【p2】。", "记忆[1]。", ["memory"]),
        ("Footnote [^p1].", "Footnote [1].", ["install"]),
        ("Loud [P1].", "Loud [1].", ["install"]),
        ("Wordy [passage p2].", "Wordy [1].", ["memory"]),
        ("Bare [2].", "Bare [1].", ["memory"]),
        ("Range [p1-p2].", "Range [1][2].", ["install", "memory"]),
        ("Words [p1 and p2].", "Words [1][2].", ["install", "memory"]),
        ("Comma and word [p1, and p2].", "Comma and word [1][2].", ["install", "memory"]),
        ("Blank [p1 p2].", "Blank [1][2].", ["install", "memory"]),
        ("Slash [p1/p2].", "Slash [1][2].", ["install", "memory"]),
        ("Left over [p1, p2,].", "Left over [1][2].", ["install", "memory"]),
        ("宽括号［p2］。", "宽括号[1]。", ["memory"]),
        ("Spelled [passage 1].", "Spelled [1].", ["install"]),
        ("Linked [p1](https://evil.example).", "Linked [1].", ["install"]),
        ("Matrix A [7] and [p1].", "Matrix A [7] and [1].", ["install"]),
        ("Twice [p1] and [p1].", "Twice [1] and [1].", ["install"]),
    ],
)
def test_marks_become_numbers_in_order_of_mention(answer_text: str, expected_text: str, cited_ids: list[str]) -> None:
    result = resolve_markers(answer_text, PASSAGES)
    assert (result.text, [citation.passage_id for citation in result.citations], result.dropped_count) == (
        expected_text,
        cited_ids,
        0,
    )


@pytest.mark.parametrize(
    "untouched",
    [
        "`items[1]` is the second",
        "```python\nfirst = items[p1]\nx = [1]\n```",
        "array[1] and call()[0]",
        "x = [1, 2]",
        "~~~\nfirst = items[p1]\n~~~",
        "a [1](https://example.org) link",
        "in the year [2024]",
        "an empty [] and a [word]",
    ],
)
def test_code_indices_and_links_are_not_marks(untouched: str) -> None:
    assert resolve_markers(untouched, PASSAGES).text == untouched


def test_an_id_that_was_never_retrieved_is_dropped_and_counted() -> None:
    result = resolve_markers("True [p1]. Invented [p7]. Mixed [p9, p2].", PASSAGES)
    assert result.text == "True [1]. Invented. Mixed [2]."
    assert result.dropped_count == 2


def test_two_passages_behind_one_link_share_a_number() -> None:
    other = passage("install", "Another part of the same page.")
    result = resolve_markers("One [p1] two [p2].", (INSTALL, other))
    assert result.text == "One [1] two [1]."
    assert len(result.citations) == 1


@pytest.mark.parametrize(
    "partial_marker", ["Use pip [", "Use pip [p", "Use pip [p1", "Use pip [p1,", "Use pip【p1", "Use pip [^p"]
)
def test_a_streamed_text_never_shows_half_a_mark(partial_marker: str) -> None:
    assert trim_partial_marker(partial_marker) == "Use pip"


@pytest.mark.parametrize("text", ["Use pip [p1].", "a [word", "x [p1] and"])
def test_what_cannot_be_half_a_mark_is_shown(text: str) -> None:
    assert trim_partial_marker(text) == text


def test_sentences_leave_code_blocks_out_and_keep_inline_code() -> None:
    text = "Run `pip install kimas` first. Then start it!\n\n```sh\nkimas run. Now.\n```\n记忆需要数据库。没有别的。"
    sentences = [sentence.strip() for sentence in split_sentences(text)]
    assert sentences == ["Run `pip install kimas` first.", "Then start it!", "记忆需要数据库。", "没有别的。"]


def test_marks_stay_out_of_code_headings_and_tables() -> None:
    line = "Long-term memory needs a vector database"
    text = f"# {line}\n\n```\n{line}\n```\n\n| {line} |\n\n{line}."
    marked = insert_markers(text, find_support_by_overlap(text, PASSAGES))
    assert marked == text.replace(f"{line}.", f"{line} [p2].")


@pytest.mark.parametrize("text", ["[p1" + ", 1" * 200, "[p1" + " p1" * 200 + " and so on]", "[p" + " " * 20_000])
def test_a_mark_that_never_ends_takes_no_time(text: str) -> None:
    started_at = time.thread_time()
    assert resolve_markers(text, PASSAGES).citations == ()
    assert strip_markers(text) == text
    assert time.thread_time() - started_at < 1


def test_what_is_quoted_holds_no_mark_of_ours() -> None:
    quoted = strip_markers("By Smith [2] and others [p3], in `x[1]`.")
    assert quoted == "By Smith (2) and others (p3), in `x[1]`."
    assert resolve_markers(quoted, PASSAGES).citations == ()


def test_shared_words_support_a_sentence_and_marks_go_before_its_end() -> None:
    text = "Long-term memory needs a vector database. Bananas are yellow."
    marked = insert_markers(text, find_support_by_overlap(text, PASSAGES))
    assert marked == "Long-term memory needs a vector database [p2]. Bananas are yellow."


@pytest.mark.parametrize(
    ("text", "shown", "is_asked", "shortfall"),
    [
        ("[p0] The documentation does not say it.", "The documentation does not say it.", False, "nothing_found"),
        ("[P0]\n文档没有回答这个问题。", "文档没有回答这个问题。", False, "nothing_found"),
        ("The documentation does not say it. 【p0】", "The documentation does not say it.", False, "nothing_found"),
        ("[p0]", ENGLISH.no_evidence.format(sources="docs"), False, "nothing_found"),
        # A part of it: the facts keep their citation.
        ("Why is not said. Install it with pip [p1].", "Why is not said. Install it with pip [1].", False, None),
        # Beside the question: the citation stays, and the question counts as unanswered.
        ("[p0] Only pip is described [p1].", "Only pip is described [1].", False, "nothing_found"),
        # Models that know no mark: what no passage supports is no answer either, and says so.
        ("It is not mentioned.", f"It is not mentioned.\n\n{ENGLISH.uncited}", True, "nothing_found"),
        ("Bananas are yellow.", f"Bananas are yellow.\n\n{ENGLISH.uncited}", True, "nothing_found"),
        # Code is no mark.
        ("Install the package with pip, as in `rows[p0]` [p1].", None, False, None),
    ],
)
async def test_what_was_not_found_is_said_by_a_mark(
    text: str, shown: str | None, is_asked: bool, shortfall: str | None
) -> None:
    async with ScriptedPeer(write=text, look_back="none") as peer:
        model = models(peer)
        sink = MemorySink()
        reply = await answer(Question("How do I install the package with pip?"), sink, parts(model=model))
        await model.close()
    assert ("look_back" in peer.agents) == is_asked
    assert reply.shortfall == shortfall
    assert get_detail(reply) == (shortfall or "")
    assert shown in (None, reply.text)
    assert not any("p0" in update.replace("rows[p0]", "") for update in (*sink.updates, reply.text))


@pytest.mark.parametrize("text", ["[p0] Nothing is said of it.", "Nothing [p0] is said. 【P0】", "Of it\n\n[^p0]"])
def test_the_mark_is_never_shown_wherever_a_stream_is_split(text: str) -> None:
    for end in range(len(text) + 1):
        shown = resolve_markers(trim_partial_marker(text[:end]), PASSAGES)
        assert not set("[]【】^0") & set(shown.text)
        assert shown.dropped_count == 0
    assert resolve_markers(text, PASSAGES).finds_nothing
    assert not resolve_markers("The first of them is [0], the second [1].", PASSAGES).finds_nothing, "an index"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil.example"])
def test_only_a_web_address_is_cited_as_a_link(url: str) -> None:
    resolved_citations = resolve_markers("It is so [p1].", [replace(INSTALL, url=url)])
    assert [citation.url for citation in resolved_citations.citations] == [""]


def test_a_chinese_sentence_ends_behind_its_closing_quotes_and_brackets() -> None:
    text = "他说「先备份。」再升级（见升级指南。）然后重启。"
    assert split_sentences(text) == ["他说「先备份。」", "再升级（见升级指南。）", "然后重启。"]
