"""Every public function that meets text from outside takes linear time, and so do the patterns that it makes.

A function may be slow for its own reasons, so it is measured against itself: what a hostile text takes, and what a
quarter of it does. Patterns that a function compiles at run time are recorded and measured as those of the source.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bots.bluesky.render import render as render_posts
from bots.discord.render import render as render_for_discord
from bots.forges.render import render as render_for_forges
from bots.mastodon.render import render as render_statuses
from bots.slack.render import render as render_for_slack
from bots.slack.visible_text import to_plain_text
from bots.telegram.render import render as render_for_telegram, split_message
from core.answering.agents import context_manager
from core.answering.agents.decision_maker import DECISION_SCHEMA
from core.citations.check import check_citations
from core.citations.markers import extract_claims, resolve_markers
from core.llm.decision_schema import iter_parsed_replies
from core.markup.components import read_source
from knowledge.formats.tables import read_csv
from tests.support.foreign import (
    NOT_FOREIGN,
    OTHER_FUNCTIONS,
    OUR_ERRORS,
    PASSAGES,
    ROOT,
    SLACK_BOT,
    Function,
    find_functions,
)
from tests.support.growth import ATTEMPTS, FACTOR, UNITS, Growth, Text, find_growth, measure
from tests.support.patterns import METHOD_ALIASES, METHODS, find_superlinear

pytestmark = pytest.mark.timeout(600)
SHARDS = 6
BENIGN = Text("", "The cat sat on the mat, and it was fine. ", "")
# A text is as long as what takes so much time when it is harmless.
TARGET_S = 0.0002
MIN_SIZE = 200
MAX_SIZE = 2000
TYPICAL = ("How do I install_it 2.0, Ann? [1] `x` @here <b>", "1. 安装 pip，怎么办？呢", "- a: b\n```py\nx\n```")
OURS = tuple(f"{ROOT / package}/" for package in ("bots", "core", "knowledge", "tests"))
# Their patterns meet short texts only, as their callers see to.
SHORT_INPUTS = ("core/llm/decision_schema.py", "core/language/courtesies.py", "core/language/question_matching.py")
# A text that takes so many times longer than a harmless one is looked at closely.
SUSPICIOUS = 6
FAR_TOO_LONG = 3
HOSTILE = tuple(Text("x\n\n", unit, "\x00!") for unit in UNITS)


@cache
def get_functions() -> Mapping[str, Function]:
    return find_functions()


def quietly(function: Function) -> Function:
    """Return a function without the errors that say that a text is not what it should be."""

    def run(text: str) -> None:
        with suppress(*OUR_ERRORS):
            function(text)

    return run


def get_limits(run: Function) -> Growth:
    """Return the sizes for a function: harmless texts of the first take about `TARGET_S`."""
    run(BENIGN.make(50))
    size = MAX_SIZE
    # What takes far too long is not measured closely.
    while size > MIN_SIZE and measure_benign(run, size, 2) > FAR_TOO_LONG * TARGET_S:
        size = max(MIN_SIZE, size // 2)
    while (seconds := measure_benign(run, size)) > TARGET_S and size > MIN_SIZE:
        size = max(MIN_SIZE, size // 2)
    return Growth(size, SUSPICIOUS * max(seconds, TARGET_S / 4), FACTOR * size, 0.005, max_s=4.0)


def measure_benign(run: Function, size: int, runs: int = 5) -> float:
    return min(measure(run, BENIGN.make(size), time.perf_counter) for _ in range(runs))


def find_slow_text(function: Function) -> str:
    """Return the text for which a function is slow, or an empty string."""
    run = quietly(function)
    limits = get_limits(run)
    return find_growth(run, [BENIGN], replace(limits, quick_s=0.0)) or find_growth(run, HOSTILE, limits)


@contextmanager
def recording(patterns: dict[re.Pattern[str], set[str]]) -> Iterator[None]:
    """Record the patterns that our code compiles in the block, with the methods by which it uses them."""
    original = re._compile  # type: ignore[attr-defined]

    def compile_(pattern: Any, flags: Any) -> Any:
        compiled = original(pattern, flags)
        caller = sys._getframe(1)
        user = sys._getframe(2)
        if caller.f_globals.get("__name__") == "re" and str(user.f_code.co_filename).startswith(OURS):
            method = METHOD_ALIASES.get(caller.f_code.co_name, caller.f_code.co_name)
            if isinstance(compiled.pattern, str) and not user.f_code.co_filename.endswith(SHORT_INPUTS):
                patterns.setdefault(compiled, set()).update({method} if method in METHODS else METHODS)
        return compiled

    re._compile = compile_  # type: ignore[attr-defined]
    try:
        yield
    finally:
        re._compile = original  # type: ignore[attr-defined]


def test_there_are_functions_of_every_layer() -> None:
    names = [name for name in get_functions() if "." in name]
    assert len(names) + len(OTHER_FUNCTIONS) >= 130
    for package in ("core.language.", "core.citations.", "core.llm.", "knowledge.sources.", "knowledge.web.", "bots."):
        assert any(name.startswith(package) for name in names)
    for name in NOT_FOREIGN:
        assert callable(getattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2])), name


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_function_is_linear(shard: int) -> None:
    names = sorted(get_functions())[shard::SHARDS]
    reasons = {name: find_slow_text(get_functions()[name]) for name in names}
    assert {name: reason for name, reason in reasons.items() if reason} == {}


def test_patterns_that_are_made_at_run_time_are_linear() -> None:
    patterns: dict[re.Pattern[str], set[str]] = {}
    # Modules that are loaded only now would count as patterns that are made at run time.
    functions = get_functions()
    with recording(patterns):
        for function in functions.values():
            for text in TYPICAL:
                quietly(function)(text)
    assert len(patterns) >= 10
    reasons = {pattern.pattern: find_superlinear(pattern, methods) for pattern, methods in patterns.items()}
    assert {pattern: reason for pattern, reason in reasons.items() if reason} == {}


def render_for_mastodon(text: str) -> list[str]:
    return render_statuses(text, (), 500)


def render_for_bluesky(text: str) -> list[str]:
    return render_posts(text, ())


def count_pairs(text: str) -> int:
    """Quadratic for every text: for each character it reads all before it."""
    return sum(text[index] == other for index in range(len(text)) for other in text[:index])


def remove_marks(text: str) -> str:
    """Quadratic for one text, by a pattern that it makes."""
    return re.sub(rf"\*+{'x'}", "", text)


@pytest.mark.parametrize("function", [count_pairs, remove_marks])
def test_a_function_that_is_not_linear_is_found(function: Function) -> None:
    assert any(find_slow_text(function) for _ in range(ATTEMPTS))


def test_a_pattern_that_is_made_at_run_time_is_seen() -> None:
    patterns: dict[re.Pattern[str], set[str]] = {}
    with recording(patterns):
        remove_marks("a")
    ((pattern, methods),) = patterns.items()
    assert (pattern.pattern, methods) == (r"\*+x", {"finditer"})
    assert any(find_superlinear(pattern, methods) for _ in range(ATTEMPTS))


def test_a_linear_function_is_not_blamed_for_being_slow() -> None:
    assert find_slow_text(lambda text: [hash(character) for character in text * 40]) == ""


def test_replies_full_of_spaces_are_read_in_time() -> None:
    """The patterns of decisions are no better than quadratic over runs of spaces: a reply has none for them."""
    for start in ("[ final", "retrieve_knowledge ( a", " retrieve_knowledge*:*a", "final_answer“"):
        for unit in (" ", "\t", "\n", " \n", "a ", "final_answer“"):
            started_at = time.thread_time()
            list(iter_parsed_replies(start + unit * 20_000 + "\x00", DECISION_SCHEMA))
            assert time.thread_time() - started_at < 1.0


def test_a_rewrite_that_never_becomes_a_query_is_given_up() -> None:
    pieces = 0

    async def write() -> AsyncGenerator[str]:
        nonlocal pieces
        while pieces < 20_000:
            pieces += 1
            yield "a:\n"

    assert asyncio.run(context_manager._read_query_line(write())) == ""
    assert pieces < 2000


def test_a_mention_in_a_message_of_spaces_or_mentions_is_read_in_time() -> None:
    for unit in (" ", " <@U1|", "<@U1|"):
        started_at = time.thread_time()
        to_plain_text(unit * (40_000 // len(unit)), SLACK_BOT.user_id)
        assert time.thread_time() - started_at < 0.5


def check_all(text: str) -> None:
    check_citations(text, PASSAGES)


CITED = (
    Text("Install pip here ", "[p1] ", ""),
    Text("Install pip here ", "[1] ", ""),
    Text("", "Run a pip install [p1]. ", ""),
    Text("", "install pip [p1] ", ""),
    Text("Install pip here ", "[p1], ", ""),
    Text("| pip install ", "[p1] ", "|"),
    Text("Install pip here.", "\n[p1]", ""),
    Text("Install pip here.", "\n\n[p1]", ""),
)


@pytest.mark.parametrize("function", [extract_claims, check_all, lambda text: resolve_markers(text, PASSAGES)])
def test_a_reply_full_of_citations_is_read_in_time(function: Function) -> None:
    assert find_growth(function, CITED, Growth(200, 0.0, 16_000, 0.02)) == ""


@pytest.mark.parametrize(
    "render",
    [
        render_for_telegram,
        render_for_discord,
        render_for_slack,
        render_for_mastodon,
        render_for_bluesky,
        render_for_forges,
    ],
)
def test_a_table_with_one_long_cell_is_written_in_time(render: Function) -> None:
    def render_table(text: str) -> None:
        render("|---|---|\n" * (len(text) // 20) + text)

    assert find_growth(render_table, [Text("", "--a ", "")], Growth(200, 0.0, 32_000, 0.02, max_s=4.0)) == ""


def test_a_table_with_a_long_head_and_short_rows_is_read_in_time() -> None:
    def read(text: str) -> None:
        read_csv("a," * (len(text) // 2) + text)

    assert find_growth(read, [Text("\n", "b,c\n", "")], Growth(200, 0.0, 16_000, 0.02, max_s=4.0)) == ""


def test_a_text_of_tags_that_are_not_closed_is_split_in_time() -> None:
    assert find_growth(split_message, [Text("", "<b>a ", "")], Growth(200, 0.0, 32_000, 0.02, max_s=4.0)) == ""


@pytest.mark.parametrize("tags", ["<Code>{`````}</Code>", "<A b={1}>x</A> "])
def test_one_line_of_tags_is_read_in_time(tags: str) -> None:
    assert find_growth(read_source, [Text("", tags, "")], Growth(200, 0.0, 200_000, 0.02, max_s=4.0)) == ""
