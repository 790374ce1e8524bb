"""Thumbs: one per person, changed and taken back, safe before they are acknowledged, and another try for the asker."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text as sql

from core.answering.pipeline import answer
from core.answering.retry import ExcludingLibrary, RetryQuestion, to_retry_question, with_more_effort
from core.answering.service import AnswerService
from core.catalogue import ENGLISH
from core.catalogue.zh import MESSAGES as CHINESE
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import (
    get_rating_buttons,
    make_buttons,
    read_button,
)
from core.ports import Sink
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.storage.retention import erase_expired
from core.types import RATING_COMMAND, Message, Question, Reply, ReplyOptions, Turn
from core.types.replies import Trace
from tests.support.feedback_chat import CHAT, MESSAGE, Deaf, RecordingAdapter, answer_with_citation, deliver, make_press
from tests.support.fixtures import INSTALL, MEMORY, InMemoryLibrary, MemorySink, parts, settings
from tests.support.journal import read_history
from tests.support.scripted import ScriptedPeer, models
from tests.support.waiting import until
from tests.support.wiring import make_processor


async def counts(journal: Journal, question_id: str = "1", person: str = "42") -> tuple[str, str, int, int]:
    rating = await FeedbackRepository(journal.database).get_rating(make_press("up", "-", person), question_id)
    return rating.verdict, rating.reason, rating.up, rating.down


async def rows(journal: Journal, query: str) -> list[tuple[object, ...]]:
    async with journal.database.connect() as connection:
        return [tuple(row) for row in (await connection.execute(sql(query))).all()]


def test_a_button_says_what_it_is_and_nothing_else_is_one() -> None:
    [button] = make_buttons("123~2", [("outdated", "Outdated")])
    assert read_button(button.data) == ("outdated", "123~2")
    assert len(button.data.encode()) <= 64
    for forged in (
        "",
        None,
        7,
        "thumb:",
        "thumb:up:",
        "thumb:delete:1",
        "up:1",
        "thumb:up",
        "thumb:up:" + "9" * 200,
        "\udc80",
    ):
        assert read_button(forged) is None, forged
    assert read_button("thumb:up:a:b") == ("up", "a:b")
    assert make_buttons("x" * 200, [("up", "👍")]) == (), "a button that cannot name its question is none"


def test_only_answers_to_questions_are_rated() -> None:
    message = replace(MESSAGE, reply_options=ReplyOptions(has_rating_buttons=True))
    assert len(get_rating_buttons(message, Reply("yes"))) == 2
    assert get_rating_buttons(MESSAGE, Reply("yes")) == ()
    assert get_rating_buttons(message, Reply("Hello!", trace=Trace("hi", "none", (), {}))) == (), (
        "a greeting answers no question"
    )


async def test_thumbs_stand_below_answers_and_nothing_else(journal: Journal) -> None:
    helped = replace(MESSAGE, id="2", command="help", text="")
    empty = replace(MESSAGE, id="3", command="ask", text="")
    adapter = await deliver(journal, MESSAGE, helped, empty)
    assert {number: message.reply_options.has_rating_buttons for number, message in adapter.made_for.items()} == {
        "1": True,
        "2": False,
        "3": False,
    }
    adapter = await deliver(journal, replace(MESSAGE, id="4"), feedback={"thumbs": False})
    assert not adapter.made_for["4"].reply_options.has_rating_buttons


async def test_each_person_has_one_thumb_to_change_and_to_take_back(journal: Journal) -> None:
    adapter = await deliver(journal, MESSAGE, make_press("up", "a"), make_press("down", "b", "43"))
    assert (await counts(journal))[2:] == (1, 1)
    assert "👍 1 · 👎 1" in adapter.get_reply("b")
    await deliver(journal, make_press("down", "c"))
    assert await counts(journal) == ("down", "", 0, 2)
    adapter = await deliver(journal, make_press("down", "d"))
    assert await counts(journal) == ("", "", 0, 1)
    assert adapter.get_reply("d") == ENGLISH.rating_removed.format(up=0, down=1)


async def test_a_press_delivered_twice_counts_once(journal: Journal) -> None:
    await deliver(journal, MESSAGE, make_press("up", "a"), make_press("up", "a"))
    assert await counts(journal) == ("up", "", 1, 0)


async def test_a_press_left_half_done_by_a_crash_is_not_undone_by_the_next_start(journal: Journal) -> None:
    await deliver(journal, MESSAGE)
    half = make_press("up", "a")
    await journal.record_message(half)
    await FeedbackRepository(journal.database).rate(half, "1", "up")
    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, answer_with_citation)
    await processor.resume(adapter)
    assert await processor.drain(60) == 0
    assert await counts(journal) == ("up", "", 1, 0)
    assert await journal.get_pending("test") == []


async def test_a_press_that_cannot_be_acknowledged_counts_all_the_same(journal: Journal) -> None:
    await deliver(journal, MESSAGE)
    await deliver(journal, make_press("up", "a"), adapter=RecordingAdapter(deaf=True))
    assert await counts(journal) == ("up", "", 1, 0)
    assert (await rows(journal, "SELECT state, reason FROM messages WHERE id = 'a'")) == [
        ("silent", "feedback on 1: up")
    ]


@pytest.mark.parametrize(
    "forged",
    [
        make_press("up", "a", question_id="99"),
        make_press("up", "a", chat="elsewhere"),
        make_press("up", "a", question_id="2"),
    ],
)
async def test_a_press_under_no_answer_of_ours_says_so_and_changes_nothing(journal: Journal, forged: Message) -> None:
    silent_message = replace(MESSAGE, id="2", addressed=False)
    helped = replace(MESSAGE, id="3", command="help", text="")
    adapter = await deliver(journal, MESSAGE, silent_message, helped, forged, make_press("up", "b", question_id="3"))
    assert adapter.sinks["a"].failures == [ENGLISH.unknown_answer]
    assert adapter.sinks["b"].failures == [ENGLISH.unknown_answer]
    assert await rows(journal, "SELECT * FROM feedback") == []


async def test_a_press_neither_waits_for_an_answer_nor_counts_as_something_said(journal: Journal) -> None:
    event = asyncio.Event()

    async def slowly(question: Question, sink: Sink) -> Reply:
        if question.text == "Slow?":
            await event.wait()
        return await answer_with_citation(question, sink)

    adapter = await deliver(journal, MESSAGE)
    processor = make_processor(settings(run={"workers": 1}), journal, slowly)
    receive = processor.handler_for(adapter)
    await receive(replace(MESSAGE, id="2", text="Slow?"))
    await receive(make_press("up", "a"))
    await until(lambda: "a" in adapter.sinks and adapter.sinks["a"].replies)
    assert not adapter.sinks["2"].replies
    event.set()
    assert await processor.drain(60) == 0
    assert len(await read_history(journal, CHAT, 10)) == 4, "presses are no part of the conversation"


async def test_typing_the_command_is_no_press(journal: Journal) -> None:
    adapter = await deliver(journal, MESSAGE, replace(MESSAGE, id="2", command=RATING_COMMAND, text="up", reply_to="1"))
    assert "I do not know `/thumbs`" in adapter.get_reply("2")
    assert await rows(journal, "SELECT * FROM feedback") == []


async def test_who_is_not_content_is_asked_why(journal: Journal) -> None:
    adapter = await deliver(
        journal, MESSAGE, make_press("up", "a"), make_press("down", "b"), make_press("outdated", "c")
    )
    assert adapter.choices("a") == []
    assert adapter.choices("b") == ["wrong", "outdated", "other", "unclear", "again"]
    assert ENGLISH.ask_reason in adapter.get_reply("b")
    assert adapter.get_reply("c") == ENGLISH.reason_noted
    assert await counts(journal) == ("down", "outdated", 0, 1)
    adapter = await deliver(journal, make_press("outdated", "d"), feedback={"ask_why": False, "try_harder": False})
    assert await counts(journal) == ("down", "", 0, 1), "a reason is taken back by pressing it again"
    assert adapter.choices("d") == []
    assert adapter.made_for["d"].reply_options.buttons == ()


async def test_a_question_in_chinese_is_answered_in_it(journal: Journal) -> None:
    adapter = await deliver(journal, replace(MESSAGE, text="怎么安装这个软件？"), make_press("down", "a"))
    assert CHINESE.ask_reason in adapter.get_reply("a")


async def test_the_asker_has_it_answered_once_more_knowing_that_it_did_not_help(journal: Journal) -> None:
    questions: list[Question] = []

    async def record_and_answer(question: Question, sink: Sink) -> Reply:
        questions.append(question)
        return await answer_with_citation(question, sink)

    presses = [
        make_press("outdated", "a"),
        make_press("again", "b"),
        make_press("again", "c"),
        make_press("again", "d", question_id="1~2"),
    ]
    adapter = await deliver(journal, MESSAGE, *presses, answer=record_and_answer)
    second_question = questions[1]
    assert len(questions) == 2
    assert isinstance(second_question, RetryQuestion)
    assert [turn.text for turn in second_question.history] == [
        MESSAGE.text,
        "With pip [1]. 0",
        ENGLISH.complaints["outdated"],
    ]
    assert second_question.history[-1].author_id == "42"
    assert (second_question.text, second_question.excluded_ids, second_question.key) == (
        MESSAGE.text,
        ("install",),
        CHAT,
    )
    assert adapter.get_reply("b") == ENGLISH.retrying
    assert [adapter.sinks[number].failures for number in "cd"] == [[ENGLISH.already_retried], [ENGLISH.already_retried]]
    assert adapter.made_for["1~2"].reply_options.has_rating_buttons, "the second answer is rated as well"
    adapter = await deliver(journal, make_press("down", "e", question_id="1~2"))
    assert adapter.choices("e") == ["wrong", "outdated", "other", "unclear"]


async def test_nobody_else_has_it_answered_again_but_who_looks_after_the_bot(journal: Journal) -> None:
    adapter = await deliver(journal, MESSAGE, make_press("again", "a", "43"))
    assert adapter.sinks["a"].failures == [ENGLISH.only_asker]
    assert "1~2" not in adapter.sinks
    adapter = await deliver(journal, make_press("again", "b", "9"), administration={"owners": ["test:9"]})
    assert adapter.get_reply("b") == ENGLISH.retrying
    assert adapter.get_reply("1~2").startswith("With pip")
    assert adapter.made_for["1~2"].author_id == "42"


async def test_what_was_forgotten_can_be_rated_but_not_answered_again(journal: Journal) -> None:
    await deliver(journal, MESSAGE, make_press("down", "a"))
    await journal.erase_expired(datetime.now(UTC) + timedelta(days=1), None)
    adapter = await deliver(journal, make_press("up", "b"), make_press("again", "c"))
    assert "👍 1" in adapter.get_reply("b")
    assert adapter.sinks["c"].failures == [ENGLISH.only_asker], "whose question it was is forgotten, too"


async def test_another_try_survives_a_kill(journal: Journal) -> None:
    await deliver(journal, MESSAGE)
    start_event = asyncio.Event()

    async def hang(question: Question, sink: Sink) -> Reply:
        start_event.set()
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, hang)
    await processor.handler_for(adapter)(make_press("again", "a"))
    async with asyncio.timeout(60):
        await start_event.wait()
    await processor.drain(0)
    adapter = RecordingAdapter()
    second_processor = make_processor(settings(), journal, answer_with_citation)
    await second_processor.resume(adapter)
    assert await second_processor.drain(60) == 0
    assert adapter.get_reply("1~2").startswith("With pip")


async def test_forgetting_takes_what_somebody_said_about_answers(journal: Journal) -> None:
    await deliver(
        journal, MESSAGE, make_press("up", "a"), make_press("up", "b", "43"), replace(MESSAGE, id="2", command="forget")
    )
    assert await rows(journal, "SELECT author_id FROM feedback") == [("43",)]
    await erase_expired(settings(journal={"keep_days": 1}), journal)
    assert len(await rows(journal, "SELECT * FROM feedback")) == 1
    async with journal.database.transaction() as connection:
        await connection.execute(sql("UPDATE feedback SET at = '2020-01-01 00:00:00.000000'"))
    await erase_expired(settings(journal={"keep_days": 1}), journal)
    assert await rows(journal, "SELECT * FROM feedback") == []


async def test_days_and_labels(journal: Journal) -> None:
    second = replace(MESSAGE, id="2", text="And then?")
    presses = [
        make_press("up", "a"),
        make_press("wrong", "b", "43"),
        make_press("wrong", "c", question_id="2"),
        make_press("up", "d", "44"),
    ]
    await deliver(journal, MESSAGE, second, *presses)
    opinions = FeedbackRepository(journal.database)
    [day] = await opinions.get_daily_ratings(datetime.now(UTC) - timedelta(days=2))
    assert (day.up, day.down, dict(day.reasons)) == (2, 2, {"wrong": 2})
    assert [
        (labelled_question.text, labelled_question.is_good)
        for labelled_question in await opinions.get_labelled_questions(None)
    ] == [
        (MESSAGE.text, True),
        ("And then?", False),
    ]


async def test_more_effort_means_time_strategy_and_other_passages() -> None:
    question = to_retry_question(Question("How?"), (), ["install"], "wrong")
    stronger_deps = with_more_effort(
        parts(configuration=settings(budget={"deadline_s": 10}, feedback={"effort": 3})), question
    )
    assert (stronger_deps.settings.budget.deadline_s, stronger_deps.settings.strategies.allowed) == (30, ("planning",))
    assert stronger_deps.settings.strategies.iterations == 9
    unseen = ExcludingLibrary(InMemoryLibrary(), frozenset(["install"]))
    assert [result.id for result in await unseen.search("docs", "install memory package", 5)] == [MEMORY.id]
    assert [result.id for result in await unseen.search("docs", "pip", 5)] == [INSTALL.id], (
        "where nothing else is found"
    )
    assert to_retry_question(Question("How?"), (), ["install"], "unclear").excluded_ids == (), (
        "it may be said better with the same"
    )


async def test_what_did_not_satisfy_is_answered_by_planning_over_other_passages() -> None:
    async with ScriptedPeer(
        plan='{"steps": ["memory module"]}', filter="p1", decide="answer", write="Stored [p1]."
    ) as peer:
        model = models(peer)
        try:
            answering = AnswerService(parts(InMemoryLibrary((INSTALL, MEMORY)), model))
            history = (Turn("user", "install the memory package"), Turn("assistant", "With pip."))
            question = to_retry_question(Question("install the memory package"), history, ["install"], "wrong")
            reply = await answering.answer(question, MemorySink())
            plain_reply = await answer(
                Question("install the memory package"), MemorySink(), parts(InMemoryLibrary(), model)
            )
        finally:
            await model.close()
    assert reply.trace.strategy == "planning"
    assert [passage.id for passage in reply.passages] == ["memory"]
    assert plain_reply.trace.strategy == "single"
    assert ENGLISH.complaints["wrong"] in str(peer.sent("write")[0]["messages"])


async def test_an_answer_that_did_not_help_is_not_given_to_others_again(journal: Journal) -> None:
    text = "INSERT INTO replies (scope, fingerprint, question, canonical_form, text, versions, reply, made_at) VALUES "
    async with journal.database.transaction() as connection:
        for scope_parts in (["room"], ["room", "closed thread"], ["elsewhere"]):
            scope = json.dumps(["test", *scope_parts])
            await connection.execute(
                sql(text + "(:scope, '', '', '', :asked, '{}', '{}', 0)"), {"scope": scope, "asked": MESSAGE.text}
            )
    await deliver(journal, MESSAGE, make_press("up", "a"))
    assert len(await rows(journal, "SELECT * FROM replies")) == 3
    await deliver(journal, make_press("down", "b"))
    assert await rows(journal, "SELECT scope FROM replies") == [('["test", "elsewhere"]',)]


FIRST = (Turn("user", "How do I install the package?", "Ann", "42"), Turn("assistant", "Call the memory module [1]."))


@pytest.mark.usefixtures("time_lapse")
@pytest.mark.parametrize(
    ("second", "is_better"),
    [
        ("Install it with pip [p1].", True),
        # Found nothing, cites nothing, says the same, breaks off, cannot be written, cannot be searched.
        ("The documentation does not mention it.", False),
        ("Try it and see.", False),
        ("Call the **memory module** [p1].", False),
        ("stalled", False),
        ("failing", False),
        ("broken", False),
    ],
)
async def test_trying_harder_never_makes_an_answer_worse(
    second: str, is_better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.llm.role_models.STALL_S", 0.3)
    library = InMemoryLibrary(broken={"docs"} if second == "broken" else set())
    async with ScriptedPeer(write=second, look_back="none") as peer:
        peer.failing = {"write"} if second == "failing" else set()
        if second == "stalled":
            peer.replies["write"] = "Install it with pip [p1]. Then"
            peer.stall_after = 5
        model = models(peer)
        configuration = settings(feedback={"strategy": "single"})
        question = to_retry_question(
            Question("How do I install the package?", author_id="42"), FIRST, ["memory"], "wrong"
        )
        sink = MemorySink()
        service = AnswerService(parts(library, model, configuration))
        result = await service.answer(question, sink)
        await model.close()
    assert (sink.opened, sink.updates, len(sink.replies), sink.failures) == (1, [], 1, [])
    assert sink.replies[0] == result
    assert (result.text == ENGLISH.first_answer_stands) is not is_better
    assert bool(result.citations) is is_better


async def test_quotes_may_follow_quotes_but_not_what_a_model_wrote() -> None:
    configuration = settings(feedback={"strategy": "single"})
    question = Question("Was macht das memory module, it stores messages?", author_id="42")
    quoted = (FIRST[0], Turn("assistant", f"> Install it. [1]\n\n{ENGLISH.extractive}"))
    for first, is_better in ((quoted, True), (FIRST, False)):
        retry = to_retry_question(replace(question, text="memory module"), first, ["install"], "wrong")
        result = await AnswerService(parts(configuration=configuration)).answer(retry, MemorySink())
        assert (result.text == ENGLISH.first_answer_stands) is not is_better


async def test_that_the_first_answer_stands_is_said_in_the_askers_language() -> None:
    retry = to_retry_question(Question("怎么卸载？"), FIRST, ["install"], "wrong")
    result = await AnswerService(parts(InMemoryLibrary([]))).answer(retry, MemorySink())
    assert result.text == CHINESE.first_answer_stands


async def test_a_sink_that_is_gone_is_no_failure_of_the_second_answer() -> None:
    retry = to_retry_question(Question("How do I install the package?"), FIRST, ["memory"], "wrong")
    with pytest.raises(PlatformError):
        await AnswerService(parts()).answer(retry, Deaf())
