"""`/threshold auto`: fitted to the thumbs of one chat, written down, in force after a restart; refused with too few."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from core.errors import ServiceError, UsageError
from core.messaging.commands.chat_commands import format_result
from core.messaging.gate.calibration import (
    MAX_CALIBRATION_MESSAGES,
    MIN_CASES,
    CalibrationResult,
    GateCase,
    ScoredCase,
    best_threshold,
    calibrate,
    cross_validate_threshold,
)
from core.messaging.gate.classification_metrics import Counts, compute_scores
from core.messaging.gate.features import FEATURE_NAMES, NGRAM_BUCKETS, GateFeatures
from core.messaging.gate.model import GateModel
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.types import ConversationKey
from tests.support.command_bot import (
    ANN,
    BOSS,
    GROUP,
    Bot,
    RecordingAdapter,
    configured,
    echo,
    says,
)
from tests.support.fixtures import InMemoryLibrary
from tests.support.ratings import rate
from tests.support.wiring import make_processor, wire_dispatcher

QUESTIONS = [f"How do I install the package with pip on machine number {number}?" for number in range(MIN_CASES)]
FOREIGN = [f"What is the best way to paint fence number {number}?" for number in range(MIN_CASES)]
HALL = ConversationKey("test", "hall")


def get_bot(journal: Journal, **changes: object) -> Bot:
    configuration = configured(**changes)
    library = InMemoryLibrary()
    dispatcher = wire_dispatcher(configuration, journal, library=library)
    return Bot(
        journal, make_processor(configuration, journal, echo, library, dispatcher), dispatcher, RecordingAdapter()
    )


async def test_it_is_fitted_written_down_and_survives_a_restart(journal: Journal) -> None:
    await rate(journal, GROUP, QUESTIONS, "up")
    await rate(journal, GROUP, FOREIGN, "down")
    changes = {"gate": {"threshold": 0.0001, "mode": "auto", "wait_s": 0, "cooldown_s": 0}}
    bot = get_bot(journal, administration={"platform_admins": True}, **changes)
    lines = (await bot.deliver(says("threshold", "auto", person=BOSS))).splitlines()
    threshold = bot.dispatcher.context.overrides.threshold("test:room")
    assert threshold is not None
    assert 0 < threshold < 0.95
    assert lines[:3] == [
        f"The threshold of this chat is now {threshold:g}; it was 0.0001.",
        "",
        "- Rated questions: 10 to answer, 10 to leave alone",
    ]
    assert re.fullmatch(r"- With 0\.0001: precision 0\.50 \(0\.[1-4]\d to 0\.[6-8]\d\), recall 1\.00 .*", lines[3])
    assert lines[4] == "- Fitted, on questions not fitted to: precision 1.00 (1.00 to 1.00), recall 1.00 (1.00 to 1.00)"
    [entry] = await bot.entries()
    assert (entry.author_id, entry.command, entry.subject) == (BOSS, "threshold auto", "test:room threshold")
    assert (entry.outcome, entry.before, entry.after) == ("changed", "0.0001", f"{threshold:g}")

    second_bot = get_bot(journal, **changes)
    foreign = replace(says("", FOREIGN[0], person=ANN), addressed=False)
    assert await second_bot.deliver(foreign) == ""
    assert f"threshold {threshold:.2f}" in (await second_bot.state(foreign))[1]
    assert "stays" in await second_bot.deliver(says("threshold", "AUTO"))
    assert "is now 0.0001" in await second_bot.deliver(says("threshold", "default"))


async def test_too_few_of_a_kind_are_told_and_change_nothing(journal: Journal) -> None:
    bot = get_bot(journal)
    await rate(journal, GROUP, QUESTIONS, "up")
    await rate(journal, GROUP, FOREIGN[1:], "down")
    # Neither those of other chats count, nor those that no threshold decides.
    await rate(journal, HALL, FOREIGN, "down")
    await rate(journal, GROUP, ["thanks!"], "down")
    reply = await bot.deliver(says("threshold", "auto"))
    assert "needs 10 messages to answer and 10 to leave alone at least" in reply
    assert "there are 10 and 9. Rate answers in this chat" in reply
    assert bot.dispatcher.context.overrides.threshold("test:room") is None
    assert await bot.entries() == []
    await rate(journal, GROUP, FOREIGN[:1], "down")
    reply = await bot.deliver(says("threshold", "auto"))
    assert "10 to answer, 11 to leave alone, 1 of them decided by their wording alone" in reply


async def test_a_stranger_may_not(journal: Journal) -> None:
    bot = get_bot(journal)
    assert "Only this bot's admins in this chat" in await bot.deliver(says("threshold", "auto", person=ANN))
    assert [(entry.outcome, entry.command) for entry in await bot.entries()] == [("refused", "threshold")]


async def test_without_knowledge_or_with_a_broken_one_nothing_changes(journal: Journal) -> None:
    await rate(journal, GROUP, QUESTIONS, "up")
    await rate(journal, GROUP, FOREIGN, "down")
    configuration = configured()
    dispatcher = wire_dispatcher(configuration, journal)
    bot = Bot(journal, make_processor(configuration, journal, echo, None, dispatcher), dispatcher, RecordingAdapter())
    assert "kimas feedback --calibrate" in await bot.deliver(says("threshold", "auto"))
    dispatcher.context.library = InMemoryLibrary(broken={"docs"})
    await bot.deliver(says("threshold", "auto"))
    assert dispatcher.context.overrides.threshold("test:room") is None
    assert await bot.entries() == []


async def test_what_fits_no_better_leaves_the_threshold_as_it_is(journal: Journal) -> None:
    # Nothing tells those that people liked from those that they did not.
    await rate(journal, GROUP, QUESTIONS, "up")
    await rate(journal, GROUP, QUESTIONS, "down")
    bot = get_bot(journal, gate={"threshold": 0.1})
    reply = await bot.deliver(says("threshold", "auto"))
    assert reply.startswith("The threshold of this chat stays 0.1. ")
    assert "does no better on questions that it was not fitted to" in reply
    assert bot.dispatcher.context.overrides.threshold("test:room") is None
    assert await bot.entries() == []


async def test_labels_of_one_chat(journal: Journal) -> None:
    await rate(journal, GROUP, QUESTIONS[:1], "up")
    await rate(journal, HALL, FOREIGN[:1], "down")
    opinions = FeedbackRepository(journal.database)
    assert [labelled_question.chat for labelled_question in await opinions.get_labelled_questions(None)] == [
        "room",
        "hall",
    ]
    assert [
        (labelled_question.text, labelled_question.is_good)
        for labelled_question in await opinions.get_labelled_questions(("test", "hall"))
    ] == [(FOREIGN[0], False)]
    assert await opinions.get_labelled_questions(("telegram", "hall")) == []


async def test_the_newest_count_and_no_more_than_can_be_searched_for() -> None:
    library = InMemoryLibrary()
    old_cases = [GateCase(f"old {number}", FOREIGN[0], True) for number in range(50)]
    new = [
        GateCase(str(number), f"{texts[0]} {number}", texts is QUESTIONS)
        for texts in (QUESTIONS, FOREIGN)
        for number in range(MAX_CALIBRATION_MESSAGES // 2)
    ]
    calibration_result = await calibrate([*old_cases, *new], library, configured(), 0.05)
    assert (calibration_result.answer_count, calibration_result.ignore_count, len(library.queries)) == (
        MAX_CALIBRATION_MESSAGES // 2,
        MAX_CALIBRATION_MESSAGES // 2,
        MAX_CALIBRATION_MESSAGES,
    )
    assert calibration_result.cross_validated_scores.precision.value == 1
    with pytest.raises(ServiceError):
        await calibrate(new, InMemoryLibrary(broken={"docs"}), configured(), 0.05)
    with pytest.raises(UsageError, match="there are 0 and 9"):
        await calibrate(new[-9:], library, configured(), 0.05)


def make_cases(matches: list[float], *, truth: bool) -> list[ScoredCase]:
    rest = (0.0,) * (len(FEATURE_NAMES) - 1)
    return [ScoredCase(GateCase(f"{truth} {match}", "?", truth), GateFeatures((match, *rest), {})) for match in matches]


def match_alone() -> GateModel:
    """Return a model whose log-odds are the first feature."""
    count = len(FEATURE_NAMES)
    weights = (1.0, *(0.0,) * (count - 1))
    return GateModel("", (), 0.0, (0.0,) * count, (1.0,) * count, weights, 1.0, [0] * NGRAM_BUCKETS)


def test_the_threshold_stands_between_what_is_wanted_and_what_is_not() -> None:
    model = match_alone()
    cases = make_cases([2.0, 1.0], truth=True) + make_cases([-1.0, -2.0], truth=False)
    # Halfway between the chances of 1 and of -1.
    assert best_threshold(cases, model) == 0.5
    # One wrong below many right ones is worth less than being silent to it.
    cases += make_cases([0.5], truth=False)
    assert best_threshold(cases, model) == round((0.7311 + 0.6225) / 2, 2)
    silent_case = ScoredCase(GateCase("by words", "?", True), None)
    assert silent_case.confidence(model) == 0.0
    clear = make_cases([2 + number / 9 for number in range(9)], truth=True)
    clear += make_cases([-number / 9 for number in range(9)], truth=False)
    assert cross_validate_threshold([*clear, silent_case], model) == [True] * 9 + [False] * 10


def test_better_means_better_where_it_was_not_fitted_to() -> None:
    def make_result(threshold: float, present: Counts, crossed: Counts) -> CalibrationResult:
        return CalibrationResult(10, 10, 0, threshold, 0.6, compute_scores([present]), compute_scores([crossed]))

    good_counts = Counts(8, 0, 2)
    bad_counts = Counts(10, 10, 0)
    assert (
        make_result(0.1, bad_counts, good_counts).is_better,
        make_result(0.1, bad_counts, good_counts).recommended_threshold,
    ) == (True, 0.6)
    assert (
        make_result(0.1, good_counts, bad_counts).is_better,
        make_result(0.1, good_counts, bad_counts).recommended_threshold,
    ) == (False, 0.1)
    assert not make_result(0.6, bad_counts, good_counts).is_better
    assert not make_result(0.1, good_counts, good_counts).is_better
    assert make_result(0.9, Counts(0, 0, 10), good_counts).is_better
    assert "precision none" in format_result(make_result(0.9, Counts(0, 0, 10), good_counts))
    assert "would be 0.6; it is 0.9" in format_result(make_result(0.9, Counts(0, 0, 10), good_counts), is_applied=False)
