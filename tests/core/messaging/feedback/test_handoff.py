"""Calling people, once and only those who are configured; learning from those who are trusted; reviewing it."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from core.catalogue import ENGLISH
from core.errors import MessageDeleted, UsageError
from core.messaging.feedback.handoff import get_people, make_handoff, mentioned_users
from core.ports import Sink
from core.settings.messaging import HandoffSettings, JournalSettings
from core.storage import message_lookup
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.retention import erase_expired
from core.types import Attachment, Citation, ConversationKey, Origin, Passage, Question, Reply, SourceState, ThreadState
from core.types.replies import Trace
from knowledge.sources.taught import TaughtAnswers
from tests.support.feedback_chat import CHAT, CITED, HELPER, MESSAGE, TRUSTED, deliver, make_escalate_command
from tests.support.fixtures import INSTALL, settings
from tests.support.operator_page import FixedSources

CALL = ENGLISH.handoff.format(author="Ann")


def reply(
    *, passages: tuple[Passage, ...] = (INSTALL,), citations: tuple[Citation, ...] = (), **trace: object
) -> Reply:
    extractive = bool(trace.pop("extractive", False))
    created = Trace(**{"query": "q", "strategy": "single", "agents": (), "timings_ms": {}, **trace})  # type: ignore[arg-type]
    return Reply("text", citations, passages, extractive, created)


async def list_taught_answers(journal: Journal) -> list[tuple[str, str, str]]:
    return [
        (answer.question, answer.answer, answer.state)
        for answer in await TaughtAnswerRepository(journal.database).list_answers(reader=None)
    ]


@pytest.mark.parametrize(
    ("given_reply", "reason"),
    [
        (reply(citations=CITED), None),
        (reply(), "nothing_found"),
        (replace(reply(citations=CITED), found_nothing=True), "nothing_found"),
        (reply(passages=()), "nothing_found"),
        (reply(extractive=True), "nothing_found"),
        (reply(dropped_citations=2), "unsupported"),
        (reply(extractive=True, citations=CITED, degraded=("write",)), "quoted"),
        (reply(passages=(), strategy="none"), None),
        (Reply("Help is on its way"), None),
    ],
)
def test_when_an_answer_is_not_likely_to_help(given_reply: Reply, reason: str | None) -> None:
    assert given_reply.shortfall == reason


async def test_a_call_names_the_people_of_the_platform_once_for_a_question(journal: Journal) -> None:
    adapter = await deliver(
        journal, MESSAGE, make_escalate_command("2"), make_escalate_command("3", author_id="43"), handoff=HELPER
    )
    assert adapter.get_reply("2") == ENGLISH.calling_people
    assert adapter.get_reply("1~h") == CALL
    assert mentioned_users(adapter.made_for["1~h"]) == ("@helper",)
    assert adapter.made_for["1~h"].key == MESSAGE.key
    assert adapter.sinks["3"].failures == [ENGLISH.already_handed_off]


async def test_without_a_reply_the_last_question_or_the_given_words_are_meant(
    journal: Journal,
) -> None:
    second = replace(MESSAGE, id="2", author_id="43", text="And this?")
    adapter = await deliver(journal, MESSAGE, second, make_escalate_command("3", reply_to=""), handoff=HELPER)
    assert "1~h" in adapter.sinks
    adapter = await deliver(journal, make_escalate_command("4", "How do I fly?", ""), handoff=HELPER)
    assert adapter.made_for["4~h"].text == "How do I fly?"
    adapter = await deliver(journal, make_escalate_command("5", reply_to="", author_id="99"), handoff=HELPER)
    assert adapter.sinks["5"].failures == [ENGLISH.question_unclear]


async def test_nobody_is_called_twice_in_a_short_time_nor_where_nobody_is(journal: Journal) -> None:
    second = replace(MESSAGE, id="2", text="And then?")
    adapter = await deliver(
        journal,
        MESSAGE,
        second,
        make_escalate_command("3"),
        make_escalate_command("4", reply_to="2"),
        handoff={"people": ["test:7"]},
    )
    assert adapter.sinks["4"].failures == [ENGLISH.handoff_cooldown]
    adapter = await deliver(journal, make_escalate_command("5", reply_to="2"))
    assert adapter.sinks["5"].failures == [ENGLISH.nobody_configured]
    lone_message = make_escalate_command("6", "How?", private=True)
    adapter = await deliver(journal, lone_message, handoff=HELPER)
    assert adapter.sinks["6"].failures == [ENGLISH.private_chat]


async def test_nobody_writes_a_call_of_their_own(journal: Journal) -> None:
    forged = replace(MESSAGE, id="2", command="handoff", text="@everyone come here")
    adapter = await deliver(journal, forged, handoff=HELPER)
    assert adapter.get_reply("2").startswith("I do not know `/handoff`.")
    assert mentioned_users(replace(MESSAGE, origin=Origin(mentioned_users=("@helper",)))) == (), (
        "only calls mention anybody"
    )
    second = replace(
        MESSAGE,
        id="5~2",
        origin=Origin(root_id="5", purpose="retry"),
    )
    assert make_handoff(second, ["x"]).id == "5~h", "a second answer has the call of the first"


def test_people_of_a_named_network_are_called_in_it_alone() -> None:
    people = ("http:ann", "http:ben@shop", "telegram:7", "http:cy@example.org")
    settings = HandoffSettings(people=people)
    assert get_people(settings, ConversationKey("http", "lobby@shop")) == ("ben@shop",)
    assert get_people(settings, ConversationKey("http", "lobby")) == ("ann", "cy@example.org")
    assert get_people(settings, ConversationKey("telegram", "-100")) == ("7",)


async def test_an_answer_without_evidence_calls_people_where_configured(journal: Journal) -> None:
    async def empty(question: Question, sink: Sink) -> Reply:
        created = reply(passages=())
        await sink.finish(created)
        return created

    adapter = await deliver(journal, MESSAGE, answer=empty, handoff=HELPER)
    assert "1~h" not in adapter.sinks
    adapter = await deliver(
        journal, replace(MESSAGE, id="2"), answer=empty, handoff={**HELPER, "when": ["nothing_found"]}
    )
    assert adapter.get_reply("2~h") == CALL
    adapter = await deliver(journal, replace(MESSAGE, id="3"), handoff={**HELPER, "when": ["nothing_found"]})
    assert "3~h" not in adapter.sinks, "a cited answer helps"
    for_followers = replace(MESSAGE, id="4", thread_state=ThreadState(is_restricted=True))
    adapter = await deliver(journal, for_followers, answer=empty, handoff={**HELPER, "when": ["nothing_found"]})
    assert "4~h" not in adapter.sinks, "they may not be among those who read the question"


@pytest.mark.parametrize("is_forgotten_first", [False, True])
async def test_nobody_is_called_to_a_question_that_was_forgotten(journal: Journal, is_forgotten_first: bool) -> None:
    """The call may be journalled behind the command to forget, before it runs or after."""
    call = make_handoff(MESSAGE, ["@helper"])
    forget = replace(MESSAGE, id="9", text="", command="forget")
    later = replace(MESSAGE, id="10", text="How do I fly?")
    await journal.record_message(MESSAGE)
    await journal.mark_answered(MESSAGE, reply())
    await journal.record_message(forget)
    if not is_forgotten_first:
        assert await journal.record_message(call)
    await journal.record_message(later)
    later_call = make_handoff(later, ["@helper"])
    assert await journal.record_message(later_call)
    await journal.erase_author(forget)
    if is_forgotten_first:
        assert not await journal.record_message(call)
    else:
        with pytest.raises(MessageDeleted):
            await journal.begin_answer(call, None)
    pending = [message.id for message, _ in await journal.get_pending("test")]
    assert pending == ["9", "10", "10~h"], "what was asked after the command is not forgotten"
    query = text("SELECT count(*) FROM messages WHERE text LIKE '%install%' OR quoted LIKE '%install%'")
    assert await journal.database.fetch_value(query) == 0


async def test_a_trusted_reply_to_what_nobody_answered_is_kept_for_review(journal: Journal) -> None:
    message = replace(MESSAGE, addressed=False, text="How do I reset the cache?")
    answers = [
        replace(message, id="2", author_id="7", author="Ben", text="Delete the folder.", reply_to="1"),
        replace(message, id="3", author_id="8", author="Eve", text="Burn the server.", reply_to="1"),
        replace(message, id="4", author_id="7", author="Ben", text="I had lunch", reply_to=""),
        replace(message, id="5", author_id="7", author="Ben", text="Which cache do you mean?", reply_to="1"),
    ]
    adapter = await deliver(journal, message, *answers, handoff=TRUSTED)
    assert await list_taught_answers(journal) == [("How do I reset the cache?", "Delete the folder.", "pending")]
    assert adapter.sinks == {}, "nothing is said about it"


async def test_a_reply_to_the_call_is_an_answer_and_no_question(journal: Journal) -> None:
    await deliver(journal, MESSAGE, make_escalate_command("2"), handoff=TRUSTED)
    await journal.mark_posted(make_handoff(MESSAGE, []), "77")
    await journal.mark_answered(make_handoff(MESSAGE, []), Reply(CALL))
    answer = replace(MESSAGE, id="3", author_id="7", text="Use the installer.", reply_to="77")
    adapter = await deliver(journal, answer, handoff=TRUSTED)
    assert await list_taught_answers(journal) == [(MESSAGE.text, "Use the installer.", "pending")]
    assert adapter.sinks == {}


async def test_what_was_answered_is_not_learned_again(journal: Journal) -> None:
    answer = replace(MESSAGE, id="2", author_id="7", text="Use apt.", reply_to="1", addressed=False)
    await deliver(journal, MESSAGE, answer, handoff=TRUSTED)
    assert await list_taught_answers(journal) == []


async def test_learn_keeps_any_message_with_its_question(journal: Journal) -> None:
    message = replace(MESSAGE, addressed=False, text="Which port is it?")
    notice = replace(message, id="2", author_id="8", author="Cleo", text="8000.", reply_to="1")
    learn = replace(MESSAGE, id="3", command="learn", text="", reply_to="2", quoted="8000.", author_id="7")
    repeated_command = replace(learn, id="4")
    untrusted = replace(learn, id="5", author_id="9")
    lone_message = replace(learn, id="6", reply_to="99", quoted="By bus.", text="How do I get there?")
    empty_command = replace(learn, id="7", reply_to="", quoted="")
    adapter = await deliver(
        journal, message, notice, learn, repeated_command, untrusted, lone_message, empty_command, handoff=TRUSTED
    )
    assert await list_taught_answers(journal) == [
        ("Which port is it?", "8000.", "pending"),
        ("How do I get there?", "By bus.", "pending"),
    ]
    assert adapter.get_reply("3") == ENGLISH.answer_submitted.format(number=1)
    assert adapter.get_reply("4") == ENGLISH.answer_known
    assert adapter.sinks["5"].failures == [ENGLISH.not_trusted]
    assert adapter.sinks["7"].failures == [ENGLISH.learn_usage]


# All but the end of an id, as long as those of Discord and Slack are.
LONG = "1700000000000000"


async def test_a_taught_answers_question_is_what_it_or_its_thread_replies_to(
    journal: Journal,
) -> None:
    thread = replace(CHAT, thread="1")
    first = replace(MESSAGE, addressed=False, text="Which port is it?")
    message = replace(first, id=f"{LONG}02", key=thread, author_id="8", text="It is 8000.")
    by_link = replace(MESSAGE, id="3", command="learn", text=f"https://chat.example/room/{LONG}02", author_id="7")
    # The message itself came with the command, and was not seen before.
    menu_command = replace(by_link, id="4", text="", reply_to="99", quoted="Port 8000.", parent_id="1")
    in_thread = replace(menu_command, id="5", key=thread, reply_to="98", quoted="8000!", parent_id="")
    await deliver(journal, first, message, by_link, menu_command, in_thread, handoff=TRUSTED)
    answers = ["It is 8000.", "Port 8000.", "8000!"]
    assert await list_taught_answers(journal) == [("Which port is it?", answer, "pending") for answer in answers]


async def test_a_link_into_a_closed_thread_or_another_chat_teaches_nothing(journal: Journal) -> None:
    restricted_message = replace(
        MESSAGE,
        id=f"{LONG}01",
        key=replace(CHAT, thread="9"),
        addressed=False,
        text="A secret.",
        thread_state=ThreadState(is_restricted=True),
    )
    other_chat_message = replace(
        MESSAGE, id=f"{LONG}02", key=replace(CHAT, chat="hall"), addressed=False, text="Another secret."
    )
    learn = replace(MESSAGE, id="3", command="learn", text=f"https://chat.example/room/{LONG}01 Why?", author_id="7")
    other = replace(learn, id="4", text=f"https://chat.example/hall/{LONG}02 Why?")
    ours = replace(learn, id="5", text=f"https://chat.example/room/{LONG}77")
    await deliver(journal, restricted_message, other_chat_message)
    await journal.mark_posted(restricted_message, f"{LONG}77")
    await journal.mark_answered(restricted_message, Reply("A secret answer."))
    adapter = await deliver(journal, learn, other, ours, handoff=TRUSTED)
    assert [adapter.sinks[name].failures for name in ("3", "4", "5")] == [[ENGLISH.learn_usage]] * 3
    assert await list_taught_answers(journal) == []


@pytest.mark.parametrize("is_spoken", [True, False])
async def test_what_a_model_has_written_down_teaches_nothing(journal: Journal, *, is_spoken: bool) -> None:
    """Nobody has written it, and a recording may be of somebody else."""
    voice = Attachment("voice", transcript="With pip." if is_spoken else "")
    answer = replace(MESSAGE, id="42", addressed=False, text="With pip.", author_id="8", attachments=(voice,))
    learn = replace(MESSAGE, id="43", command="learn", text="How?", reply_to="42", author_id="7")
    await deliver(journal, answer, learn, handoff=TRUSTED)
    assert await list_taught_answers(journal) == ([] if is_spoken else [("How?", "With pip.", "pending")])


async def test_what_ends_in_a_short_number_is_the_link_of_no_message(journal: Journal) -> None:
    lunch = replace(MESSAGE, id="42", addressed=False, text="Lunch at noon, I pay.", author_id="8")
    learn = replace(MESSAGE, id="43", command="learn", text="https://tracker.example/issues/42 Why?", author_id="7")
    adapter = await deliver(journal, lunch, learn, handoff=TRUSTED)
    assert adapter.sinks["43"].failures == [ENGLISH.learn_usage]
    assert await list_taught_answers(journal) == []


@pytest.mark.parametrize(
    ("reply_to", "quoted", "is_own"),
    [
        ("77", "With pip.", True),
        ("77", "", True),
        # A part of it that the platform does not know by its id, a cut quotation, a copy with the sources below.
        ("78", "**With pip**, in a virtual environment [1].", True),
        ("78", "in a virtual environment [1]. Then call the installer", True),
        ("78", "With pip, in a virtual environment [1]. Then call the installer.\n\n[1] install.md", True),
        ("78", "With pip, in a virtual environment [1] (https://docs.example/install). Then call the installer.", True),
        ("78", "With apt, and never with pip.", False),
        ("78", "With pip.", False),
    ],
)
async def test_our_own_words_are_never_learned(journal: Journal, reply_to: str, quoted: str, is_own: bool) -> None:
    await deliver(journal, MESSAGE)
    await journal.mark_posted(MESSAGE, "77")
    own_answer = Reply("**With pip**, in a virtual environment [1]. Then call the installer.")
    await journal.mark_answered(MESSAGE, own_answer)
    text = "How is it installed?"
    learn = replace(MESSAGE, id="2", command="learn", text=text, reply_to=reply_to, quoted=quoted, author_id="7")
    adapter = await deliver(journal, learn, handoff=TRUSTED)
    assert await list_taught_answers(journal) == ([] if is_own else [(text, quoted, "pending")])
    assert adapter.sinks["2"].failures == ([ENGLISH.learn_own_words] if is_own else [])


async def test_long_answers_are_compared_beside_the_event_loop(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deliver(journal, MESSAGE)
    await journal.mark_answered(MESSAGE, Reply("With pip, in a virtual environment."))
    threads: list[threading.Thread] = []
    to_words = message_lookup._to_words

    def note(text: str) -> str:
        threads.append(threading.current_thread())
        return to_words(text)

    monkeypatch.setattr(message_lookup, "_to_words", note)
    learn = replace(MESSAGE, id="2", command="learn", text="How?", reply_to="9", quoted="With apt.", author_id="7")
    await deliver(journal, learn, handoff=TRUSTED)
    assert threads
    assert threading.main_thread() not in threads


async def test_a_persons_correction_of_our_answer_is_learned(journal: Journal) -> None:
    await deliver(journal, MESSAGE)
    await journal.mark_posted(MESSAGE, "77")
    await journal.mark_answered(MESSAGE, Reply("With pip."))
    correction = replace(MESSAGE, id="2", author_id="8", text="No, with apt.", reply_to="1", addressed=False)
    learn = replace(MESSAGE, id="3", command="learn", text="", reply_to="2", quoted=correction.text, author_id="7")
    await deliver(journal, correction, learn, handoff=TRUSTED)
    assert await list_taught_answers(journal) == [(MESSAGE.text, "No, with apt.", "pending")]


async def submit_answers(journal: Journal, count: int = 1) -> None:
    for number in range(1, count + 1):
        message = replace(MESSAGE, id=f"l{number}", author="Ben", author_id="7")
        await TaughtAnswerRepository(journal.database).submit(
            message, "42", f"Question {number}?", f"Answer {number}.", (), words_of=()
        )


async def test_review_by_commands_needs_the_right_and_is_audited(journal: Journal) -> None:
    await submit_answers(journal, 2)
    boss = replace(MESSAGE, command="faq", author_id="9", author="Boss")
    texts = ["", "approve 1", "edit 2 A better one.", "reject 2", "approve 7", "approve"]
    orders = [replace(boss, id=f"o{number}", text=text) for number, text in enumerate(texts)]
    owners = {"owners": ["test:9"]}
    adapter = await deliver(
        journal, replace(boss, id="no", author_id="42", text="approve 1"), *orders, administration=owners
    )
    assert "Only" in adapter.sinks["no"].failures[0]
    assert "`Question 1?`" in adapter.get_reply("o0")
    assert "kind `learned`" in adapter.get_reply("o1"), "approved, and used by no source yet"
    assert await list_taught_answers(journal) == [
        ("Question 1?", "Answer 1.", "approved"),
        ("Question 2?", "A better one.", "rejected"),
    ]
    assert "There is no answer 7" in adapter.sinks["o4"].failures[0]
    assert "`number` is missing" in adapter.sinks["o5"].failures[0]


async def test_who_has_no_name_is_somebody_in_a_review(journal: Journal) -> None:
    """A network may say whose words somebody quotes, but not what they are called."""
    message = replace(MESSAGE, id="l1", author="", author_id="7")
    await TaughtAnswerRepository(journal.database).submit(message, "42", "Who?", "Me.", (), words_of=())
    boss = replace(MESSAGE, command="faq", author_id="9", author="Boss")
    orders = (replace(boss, id="1", text=""), replace(boss, id="2", text="list 1"))
    adapter = await deliver(journal, *orders, administration={"owners": ["test:9"]})
    assert "`Who?`, by somebody: `Me.`" in adapter.get_reply("1")
    assert "(pending) somebody" in adapter.get_reply("2")


@pytest.mark.parametrize("order", ["approve 1", "reject 1", "edit 1 A better one."])
async def test_a_decision_is_read_at_once_by_the_sources_of_taught_answers_alone(journal: Journal, order: str) -> None:
    await submit_answers(journal)
    sources = FixedSources([SourceState("docs", "git"), SourceState("people", "learned")])
    boss = replace(MESSAGE, id="1", command="faq", text=order, author_id="9")
    await deliver(journal, replace(boss, id="0", text="list"), refresher=sources, administration={"owners": ["test:9"]})
    assert sources.requests == []
    await deliver(journal, boss, refresher=sources, administration={"owners": ["test:9"]})
    assert sources.requests == [["people"]]


async def test_who_looks_after_one_chat_reviews_what_was_taught_there(journal: Journal) -> None:
    other_chat_message = replace(MESSAGE, id="x", key=replace(MESSAGE.key, chat="elsewhere"))
    await TaughtAnswerRepository(journal.database).submit(other_chat_message, "", "Secret?", "Yes.", (), words_of=())
    owner = replace(MESSAGE, id="1", command="admins", text="add 5", author_id="9")
    order = replace(MESSAGE, id="2", command="faq", text="approve 1", author_id="5")
    adapter = await deliver(
        journal, owner, order, replace(order, id="3", text="list"), administration={"owners": ["test:9"]}
    )
    assert "no answer 1 here" in adapter.sinks["2"].failures[0]
    assert adapter.get_reply("3") == "No answers are waiting for a review."


def take_all(platform: str, chat: str, closed_sources: Collection[str] | None) -> bool:
    return True


async def test_what_is_approved_becomes_documents_and_what_is_rejected_leaves(journal: Journal, tmp_path: Path) -> None:
    source = TaughtAnswers("learned", tmp_path, JournalSettings(), take_all)
    await submit_answers(journal, 3)
    book = TaughtAnswerRepository(journal.database)
    await book.decide(1, "approved", "Boss")
    await book.decide(2, "rejected", "Boss")
    listing = await source.listing()
    [path] = listing.fingerprints
    assert path == f"answer 1, approved on {datetime.now(UTC):%Y-%m-%d}"
    [document] = [item async for item in source.documents(listing, [path])]
    assert (document.title, document.text, document.kind) == ("Question 1?", "Question 1?\n\nAnswer 1.", "faq")
    await book.edit(MESSAGE, 1, "Another.", ())
    assert (await source.listing()).fingerprints == {}, "an edited answer waits for a review again"
    with pytest.raises(UsageError):
        await book.edit(MESSAGE, 1, "  ", ())
    assert (
        await TaughtAnswers("learned", tmp_path / "empty", JournalSettings(), take_all).listing()
    ).fingerprints == {}
    assert not (tmp_path / "empty").exists()


async def test_who_asked_is_forgotten_in_what_waits_for_a_review(journal: Journal) -> None:
    await submit_answers(journal)
    await deliver(journal, replace(MESSAGE, id="9", command="forget"))
    assert await list_taught_answers(journal) == []
    await submit_answers(journal)
    await TaughtAnswerRepository(journal.database).decide(2, "approved", "Boss")
    await deliver(journal, replace(MESSAGE, id="10", command="forget"))
    assert len(await list_taught_answers(journal)) == 1, "what became knowledge stays, without who asked"


async def test_what_was_never_approved_is_forgotten_in_time(journal: Journal) -> None:
    await submit_answers(journal, 2)
    await TaughtAnswerRepository(journal.database).decide(1, "approved", "Boss")
    async with journal.database.transaction() as connection:
        await connection.execute(text("UPDATE taught_answers SET at = '2020-01-01 00:00:00.000000'"))
    await erase_expired(settings(journal={"keep_days": None}), journal)
    assert len(await list_taught_answers(journal)) == 2
    await erase_expired(settings(journal={"keep_days": 1}), journal)
    assert await list_taught_answers(journal) == [("Question 1?", "Answer 1.", "approved")]
