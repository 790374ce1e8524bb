"""Which citations an answer keeps: judged by all passages of a prompt, the labelled set as a whole, in the line."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bots.evaluation.citations import CITATION_CASE_FORMAT, CitationCase, evaluate_citations, parse_citation_case
from bots.evaluation.datasets import read_cases
from core.answering.pipeline import answer
from core.citations.check import check_citations, find_support_by_overlap
from core.citations.inventions import _get_facts
from core.citations.markers import extract_claims, find_markers, resolve_markers
from core.citations.support import _read_lines
from core.evidence.rendering import passage_ref
from core.language.prose import split_sentences
from core.settings import Settings
from core.types import Passage, Question, Reply
from knowledge.chunking import chunk
from knowledge.ports import Document
from tests.support.fixtures import INSTALL, MEMORY, InMemoryLibrary, MemorySink, parts, passage, settings
from tests.support.scripted import ScriptedPeer, models

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parents[1] / "data" / "citations.jsonl"
PROMPT = [
    passage("port", "The server listens on port 8000. Another port is set with `listen_port`."),
    passage("session", "A session is kept for 2 hours after the last request. Its cookie is signed."),
    passage("upload", "An upload may have 512 MB at most. Larger files are refused with the status 413."),
    passage("log", "The log is written to standard error, one JSON object per line."),
    passage("Chinese", "日志按天切割，旧日志保留七天，然后删除。"),
]


# All passages of a prompt


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("Sessions last for 2 hours after the last request [p2].", {}),
        ("Sessions last for 2 hours after the last request [p4].", {(0, 3): 1}),
        ("Sessions last for 2 hours after the last request [p2][p4].", {(1, 3): 1}),
        ("Sessions last for 2 hours [p2], and uploads may have 512 MB [p1].", {(1, 0): 2}),
        ("旧日志保留七天 [p5]。上传最多 512 MB [p1]。", {(1, 0): 2}),
        ("Logs are kept for seven days [p5].", {}),
        ("The founders met on a sailing boat near Lisbon [p1].", {(0, 0): None}),
        ("Sessions last for 3 hours after the last request [p2].", {(0, 1): None}),
        ("Set `listen_on` to another port [p1].", {(0, 0): None}),
        ("An upload of 512 MB is not refused with the status 413 [p3].", {}),
        ("See below [p3].", {}),
    ],
)
def test_a_mark_goes_where_the_sentence_is_supported(text: str, changes: dict[tuple[int, int], int | None]) -> None:
    assert check_citations(text, PROMPT).changes == changes


def test_what_was_said_before_needs_no_support() -> None:
    text = "Your `listen_on` sets another port than 8000 [p1]."
    assert check_citations(text, PROMPT).changes == {(0, 0): None}
    assert check_citations(text, PROMPT, known="I use listen_on for the port").changes == {}


def test_a_mark_that_is_hardly_worse_stays_but_is_in_doubt() -> None:
    passages = [
        passage("a", "A failed job is tried again three times."),
        passage("b", "A failed job is tried again three times, with a pause of ten seconds."),
    ]
    check = check_citations("A failed job is tried again, with a pause [p1].", passages)
    assert check.doubts == {(0, 0): "A failed job is tried again, with a pause"}


# What a mark stands behind


@pytest.mark.parametrize(
    ("text", "claim_texts"),
    [
        ("Apples grow slowly [p1]. Pears grow fast [p2].", ["Apples grow slowly", "Pears grow fast"]),
        ("One thing happens. [p1] Another follows. [p2]", ["One thing happens.", "Another follows."]),
        ("Apples grow slowly [p1], while pears grow fast [p2].", ["Apples grow slowly", ", while pears grow fast"]),
        ("No. Feeds are read-only [p1], and bins keep things [p2].", ["Feeds are read-only", ", and bins keep things"]),
        ("Apples grow slowly everywhere [p1][p2].", ["Apples grow slowly everywhere"] * 2),
        ("Apples grow slowly [p1], [p2].", ["Apples grow slowly"] * 2),
        ("Apples grow slowly.\n\n\n[p1] Pears grow fast.", ["Pears grow fast."]),
        ("| port | 8000 [p1] |", ["port 8000"]),
        ("- Apples grow slowly [p1]\n- Pears grow fast [p2]", ["- Apples grow slowly", "- Pears grow fast"]),
        ("苹果长得慢【p1】。梨长得快【p2】。", ["苹果长得慢", "梨长得快"]),
        ("[p1] says that apples grow slowly.", ["says that apples grow slowly."]),
        ("```\ncode\n```\n[p1]", []),
        ("`x[p1]` is code.", []),
    ],
)
def test_a_mark_stands_behind_the_words_before_it(text: str, claim_texts: list[str]) -> None:
    assert [claim.text for claim in extract_claims(text)] == claim_texts


# The labelled set


@pytest.fixture(scope="module")
def cases() -> list[CitationCase]:
    return read_cases(DATA, parse_citation_case, CITATION_CASE_FORMAT)


@pytest.mark.parametrize(
    ("start", "size", "kept", "removed", "looked_back"),
    [("", 108, 0.97, 0.74, 0.7), ("b-", 57, 0.92, 0.5, 0.6), ("c-", 32, 0.97, 0.3, 0.5)],
)
async def test_the_labelled_set_keeps_its_figures(
    cases: list[CitationCase], start: str, size: int, kept: float, removed: float, looked_back: float
) -> None:
    own_cases = [case for case in cases if (case.id[:2] if case.id[1] == "-" else "") == start]
    assert len(own_cases) == size
    measurement = await evaluate_citations(own_cases, parts(InMemoryLibrary()))
    recalls = measurement.citations["checked"].recall.value, measurement.removals.recall.value
    scores = measurement.look_back["words"]
    assert None not in (*recalls, scores.precision.value, scores.f1.value)
    assert (recalls[0] or 0) >= kept
    assert (recalls[1] or 0) >= removed
    assert (scores.precision.value or 0) >= 0.75
    assert (scores.f1.value or 0) >= looked_back


def test_what_is_quoted_word_for_word_is_never_refused() -> None:
    """Every sentence of our own guide, cited to its passage among its neighbours."""
    quoted = 0
    for page in sorted((ROOT / "docs").glob("*.md")):
        pieces = chunk(Document(page.name, page.read_text("utf-8"), "markdown", "", ""))
        passages = [Passage(str(at), "docs", page.name, piece.title, piece.text) for at, piece in enumerate(pieces)]
        for at, message in enumerate(passages):
            neighbours = passages[max(0, at - 2) : at + 3]
            paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n\s*(?=[-|#]|\d+\.)", message.text)]
            sentences = [sentence for part in paragraphs for sentence in split_sentences(part) if "[" not in sentence]
            text = "\n\n".join(
                f"{sentence.rstrip('.')} [{passage_ref(neighbours.index(message))}]." for sentence in sentences[:5]
            )
            changes = check_citations(text, neighbours).changes
            assert not changes, (page.name, text, changes)
            quoted += len(sentences[:5])
    assert quoted > 200


# In the line


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer() as model_peer:
        yield model_peer


async def ask(
    peer: ScriptedPeer, library: InMemoryLibrary | None = None, configuration: Settings | None = None
) -> Reply:
    model = models(peer)
    try:
        question = Question("How do I install the package with pip in a virtual environment, with long-term memory?")
        return await answer(question, MemorySink(), parts(library, model, configuration))
    finally:
        await model.close()


async def test_an_unsupported_sentence_loses_its_citation_and_numbers_close_up(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Install the package with pip 77 [p1]. Long-term memory needs a vector database [p2]."
    reply = await ask(peer)
    assert reply.text == "Install the package with pip 77. Long-term memory needs a vector database [1]."
    assert [citation.passage_id for citation in reply.citations] == [reply.passages[1].id]
    assert reply.trace.dropped_citations == 1
    assert "look_back" not in peer.agents


async def test_the_best_passages_are_at_both_ends_and_ids_follow_the_order(peer: ScriptedPeer) -> None:
    passages = [
        passage(f"pip{rank}", f"pip {'install package virtual environment'.rsplit(' ', rank)[0]} fact{rank}")
        for rank in range(4)
    ]
    peer.replies["write"] = "All of it is about pip install package [p4]."
    reply = await ask(peer, InMemoryLibrary(passages))
    assert [item.id for item in reply.passages] == ["pip0", "pip2", "pip3", "pip1"]
    assert [citation.passage_id for citation in reply.citations] == ["pip1"]
    prompt = peer.sent("write")[0]["messages"][-1]["content"]
    assert [prompt.index(f"fact{rank}") for rank in (0, 2, 3, 1)] == sorted(
        prompt.index(f"fact{rank}") for rank in range(4)
    )


async def test_a_weight_brings_a_source_forward(peer: ScriptedPeer) -> None:
    passages = [passage("docs", "Install the package with pip"), passage("forum", "pip fact", source="forum")]
    configuration = settings(
        sources={name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "forum")},
        evidence={"weights": {"forum": 9.0}},
    )
    reply = await ask(peer, InMemoryLibrary(passages), configuration)
    assert [item.id for item in reply.passages] == ["forum", "docs"]


async def test_switched_off_everything_stays(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Install the package with pip 77 [p1]."
    reply = await ask(peer, configuration=settings(evidence={"support_check": "none"}))
    assert reply.text == "Install the package with pip 77 [1]."


async def test_when_all_citations_are_gone_they_are_looked_back_for(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Matrix [7] aside, it costs 99 coins [p1]. Long-term memory needs a vector database."
    peer.replies["look_back"] = "1: p1\n2: p2"
    reply = await ask(peer, InMemoryLibrary([INSTALL, MEMORY]))
    # The model's second try, 99 coins, is refused like its first.
    assert [item.id for item in reply.passages] == ["install", "memory"]
    assert "look_back" in peer.agents
    assert reply.text == "Matrix [7] aside, it costs 99 coins. Long-term memory needs a vector database [1]."
    assert [citation.passage_id for citation in reply.citations] == ["memory"]


async def test_marks_move_and_are_counted(peer: ScriptedPeer) -> None:
    peer.replies["write"] = "Long-term memory needs a vector database [p1]."
    reply = await ask(peer, InMemoryLibrary([INSTALL, MEMORY]))
    assert [citation.passage_id for citation in reply.citations] == ["memory"]
    assert (reply.trace.moved_citations, reply.trace.dropped_citations) == (1, 0)


def test_refused_marks_leave_no_gap() -> None:
    text = "A [p1, p2] and B [p2]."
    assert [marker.positions for marker in find_markers(text)] == [(0, 1), (1,)]
    cited_answer = resolve_markers(text, [INSTALL, MEMORY], {(0, 0): None, (1, 1): None})
    assert (cited_answer.text, cited_answer.dropped_count) == ("A [1] and B.", 2)
    assert [citation.passage_id for citation in cited_answer.citations] == ["memory"]


def test_moved_marks_in_a_row_are_one() -> None:
    cited_answer = resolve_markers("A [p1][p2] and B [p1].", [INSTALL, MEMORY], {(0, 0): 1})
    assert (cited_answer.text, cited_answer.moved_count) == ("A [1] and B [2].", 1)
    assert [citation.passage_id for citation in cited_answer.citations] == ["memory", "install"]


def test_looking_back_by_words_refuses_other_numbers() -> None:
    text = "The memory module stores messages. The memory module stores 500 messages."
    assert find_support_by_overlap(text, [INSTALL, MEMORY]) == {0: [1]}


def test_a_passage_is_read_once_for_many_answers() -> None:
    for kept in (_get_facts, _read_lines):
        kept.cache_clear()
    check_citations("It listens on port 8000 [p1].", PROMPT)
    read_counts = [kept.cache_info().misses for kept in (_get_facts, _read_lines)]
    for rank, text in enumerate(("It keeps a session for 2 hours [p2].", "日志保留七天 [p5]。")):
        check_citations(text, [replace(item, score=0.1 * rank) for item in PROMPT])
    assert [kept.cache_info().misses for kept in (_get_facts, _read_lines)] == read_counts


def test_a_chinese_sentence_is_found_by_its_names_and_numbers() -> None:
    passages = [INSTALL, Passage("p", "docs", "a", "", "Tern 3.2 listens on port 8123.")]
    assert find_support_by_overlap("Tern 默认监听 8123 端口。", passages) == {0: [1]}
