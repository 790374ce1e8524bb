"""A platform that takes no answer: it is delivered from the journal once it does, for as long as it is worth it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from sqlalchemy import select, text

from bots.common.connection import RetryLater, TokenRefused, Unreachable
from core.catalogue import messages_for
from core.errors import PlatformError, ServiceError
from core.messaging.feedback.handoff import make_handoff
from core.messaging.inbox import Inbox
from core.messaging.redelivery import Conversation, Undelivered, redelivery_time_s
from core.ports import ConnectionStatus, Delivery, Sink
from core.settings import Settings
from core.settings.audience import Audiences
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Citation, ConversationKey, Message, Origin, Question, Reply, SkipReason
from tests.support.fixtures import IdleAdapter, settings
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")

CHAT = ConversationKey("test", "room")
CITED = (Citation(1, "p", "docs", "Final", "final.md", "https://example.org/final"),)


def question(number: str = "1", **changes: object) -> Message:
    message = Message(number, CHAT, "42", "Ann", "How?", datetime.now(UTC), addressed=True)
    return replace(message, **changes)  # type: ignore[arg-type]


@dataclass
class Platform(IdleAdapter):
    """A platform that is away for some posts."""

    name: str = "test"
    failures: list[PlatformError] = field(default_factory=list)
    posts: list[str] = field(default_factory=list)
    tries: int = 0
    # What happens between the first part of an answer and the second one.
    between: Callable[[], Awaitable[object]] | None = None

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        return PlatformSink(self, delivery)


@dataclass
class PlatformSink:
    platform: Platform
    delivery: Delivery

    async def open(self) -> None:
        return None

    async def update(self, text: str) -> None:
        return None

    async def finish(self, reply: Reply) -> None:
        # Decided before the journal is written: meanwhile a test may see the try and let all failures end.
        error = self.platform.failures.pop(0) if self.platform.failures else None
        self.platform.tries += 1
        await self.delivery.mark_posting()
        if error:
            await self.delivery.mark_rejected()
            raise error
        self.platform.posts.append(reply.text)
        await self.delivery.mark_posted(f"reply {self.platform.tries}")
        if self.platform.between:
            await self.platform.between()
            await self.delivery.mark_part(1, "")
            # As the client of a sink does before each call.
            await self.delivery.require_rights()
            self.platform.posts.append(f"more: {reply.text}")
            await self.delivery.mark_part(1, "reply 2")

    async def fail(self, text: str) -> None:
        await self.finish(Reply(text))


class Answers:
    """Answers each question, and counts how often it was asked to; or raises an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self.says = ""
        self.trace = Reply("").trace
        self._error = error

    async def __call__(self, question: Question, sink: Sink) -> Reply:
        self.count += 1
        if self._error:
            raise self._error
        reply = Reply(f"{self.count}: {self.says or question.text}", CITED, trace=self.trace)
        await sink.finish(reply)
        return reply


class HeldAnswers(Answers):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.held = asyncio.Event()

    async def __call__(self, question: Question, sink: Sink) -> Reply:
        self.count += 1
        self.begun.set()
        await self.held.wait()
        self.count -= 1
        return await super().__call__(question, sink)


async def get_outcome(journal: Journal, number: str = "1") -> tuple[str, str]:
    async with journal.database.connect() as connection:
        row = (
            await connection.execute(text("SELECT state, reason FROM messages WHERE id = :id"), {"id": number})
        ).one()
    return str(row.state), str(row.reason)


def alerting(configuration: Settings) -> Settings:
    """Return settings with chats of this platform, which has no configuration, among those that get alerts."""
    alerts = configuration.alerts.model_copy(update={"chats": ("test:team", f"test:{question().key.chat}")})
    return configuration.model_copy(update={"alerts": alerts})


async def receive(
    journal: Journal, platform: Platform, *messages: Message, error: Exception | None = None, **changes: object
) -> tuple[Inbox, Answers]:
    answers = Answers(error)
    processor = make_processor(alerting(settings(**changes)), journal, answers)
    for message in messages:
        await processor.handler_for(platform)(message)
    return processor, answers


@pytest.mark.parametrize("error", [Unreachable("away"), RetryLater("slowly", 20), TokenRefused("revoked")])
async def test_an_answer_that_is_not_taken_is_delivered_later_and_made_once(
    journal: Journal, error: PlatformError
) -> None:
    platform = Platform(failures=[error] * 6)
    processor, answers = await receive(journal, platform, question())
    await processor.join()
    assert (platform.posts, platform.tries, answers.count) == (["1: How?"], 7, 1)
    assert await get_outcome(journal) == ("answered", "")


async def test_what_waits_for_its_platform_takes_no_worker(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("away")] * 6)
    other_platform = Platform()
    processor, _ = await receive(journal, platform, question(), run={"workers": 1})
    while not platform.tries:
        await asyncio.sleep(0.1)
    other = question("2", key=ConversationKey("test", "another room"))
    await processor.handler_for(other_platform)(other)
    while not other_platform.posts:
        await asyncio.sleep(0.1)
    assert platform.failures, "the first answer still waits"
    await processor.join()
    assert platform.posts == ["1: How?"]


async def test_it_is_delivered_by_the_next_start_too(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("away")] * 1000)
    processor, _ = await receive(journal, platform, question())
    while platform.tries < 2:
        await asyncio.sleep(0.1)
    started_at = asyncio.get_running_loop().time()
    assert await processor.drain(20) == 0
    assert asyncio.get_running_loop().time() - started_at < 5, "a stop does not wait for the platform"
    platform.failures = []
    second_journal = Journal(journal.database)
    answers = Answers()
    next_processor = make_processor(settings(), second_journal, answers)
    await next_processor.resume(platform)
    await next_processor.join()
    assert (platform.posts, answers.count) == (["1: How?"], 0), "the same text, not another answer"
    assert await get_outcome(journal) == ("answered", "")


async def test_in_the_end_it_is_given_up_and_the_journal_says_why(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("Telegram cannot be reached")] * 1000)
    processor, _ = await receive(journal, platform, question(), run={"redeliver_hours": 0.01})
    await processor.join()
    assert await get_outcome(journal) == (
        "failed",
        "the platform did not take the answer in time: Telegram cannot be reached",
    )
    assert 3 < platform.tries < 20


async def restart(journal: Journal, platform: Platform) -> Answers:
    answers = Answers()
    next_processor = make_processor(settings(), Journal(journal.database), answers)
    await next_processor.resume(platform)
    await next_processor.join()
    return answers


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_an_apology_is_delivered_later_too(journal: Journal, is_restarted: bool) -> None:
    platform = Platform(failures=[Unreachable("away")] * (1000 if is_restarted else 6))
    processor, answers = await receive(journal, platform, question(), error=ServiceError("the model is away"))
    if is_restarted:
        while platform.tries < 2:
            await asyncio.sleep(0.1)
        await processor.drain(20)
        platform.failures = []
        assert (await restart(journal, platform)).count == 0
    else:
        await processor.join()
    assert len(platform.posts) == answers.count == 1
    assert "Sorry" in platform.posts[0]
    assert await get_outcome(journal) == ("failed", "the model is away")


async def test_answers_of_a_conversation_keep_their_order(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("away")] * 7)
    processor, _ = await receive(journal, platform, *(question(number, text=f"{number}?") for number in "123"))
    await processor.join()
    assert [text.partition(" ")[2] for text in platform.posts] == ["1?", "2?", "3?"]


async def test_a_stop_leaves_what_waits_for_an_earlier_answer_to_the_next_start(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("away")] * 1000)
    processor, _ = await receive(journal, platform, *(question(number, text=f"{number}?") for number in "123"))
    while platform.tries < 2:
        await asyncio.sleep(0.1)
    started_at = asyncio.get_running_loop().time()
    platform.failures = []
    assert await processor.drain(20) == 0
    assert asyncio.get_running_loop().time() - started_at < 5
    assert platform.posts == []
    await restart(journal, platform)
    assert [text.partition(" ")[2] for text in platform.posts] == ["1?", "2?", "3?"]


@pytest.mark.parametrize("is_away", [False, True])
async def test_an_answer_that_alone_is_not_taken_holds_up_the_others_for_a_while(is_away: bool) -> None:
    """Where the platform itself is away, what comes later waits for as long as that."""
    conversation = Conversation(asyncio.Event(), 8.0)
    connection = ConnectionStatus()
    if not is_away:
        connection.mark_connected()
    first = conversation.join()
    second = conversation.join()

    async def fail() -> None:
        with suppress(Undelivered):
            async with conversation.turn(first, connection):
                raise Undelivered(Unreachable("error 500"), datetime.now(UTC), is_unprompted=False)

    async def succeed() -> None:
        async with conversation.turn(second, connection):
            pass

    await fail()
    success_task = asyncio.create_task(succeed())
    outcomes = []
    for _ in range(6):
        await asyncio.sleep(2.5)
        outcomes.append(success_task.done())
        await fail()
    assert outcomes == ([False] * 6 if is_away else [False, False, False, True, True, True])
    conversation.leave(first)
    await success_task


@pytest.mark.parametrize(
    ("hours", "is_unprompted", "age_s", "expected_s"),
    [(6, False, 0, 21600), (6, True, 0, 600), (6, False, 86400, 120), (0, False, 0, 0), (0.1, True, 0, 360)],
)
def test_how_long_an_answer_is_worth_delivering(
    hours: float, is_unprompted: bool, age_s: float, expected_s: float
) -> None:
    now = datetime.now(UTC)
    error = Undelivered(Unreachable("away"), now - timedelta(seconds=age_s), is_unprompted=is_unprompted)
    assert abs(redelivery_time_s(error, hours) - expected_s) < 5


async def test_the_late_reply_of_a_command_is_not_searched_for_words(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("away")] * 2)
    command = question(command="help", text="")
    processor, _ = await receive(journal, platform, command, outgoing={"words": ["commands", "ask"]})
    await processor.join()
    assert "ask" in platform.posts[0]
    assert await get_outcome(journal) == ("answered", "")


async def test_a_command_is_not_run_again_where_sources_are_closed(journal: Journal) -> None:
    platform = Platform()
    docs = {"kind": "faq", "path": "docs.yaml"}
    sources = {"docs": docs, "plans": {**docs, "path": "plans.yaml", "audience": ["owners"]}}
    processor, _ = await receive(journal, platform, question(), sources=sources)
    await processor.join()
    platform.failures = [Unreachable("away")] * 2
    await processor.handler_for(platform)(question("2", text="", command="forget"))
    await processor.join()
    assert "Nothing to forget" not in platform.posts[-1]


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_words_that_were_forgotten_meanwhile_are_not_delivered(journal: Journal, is_restarted: bool) -> None:
    platform = Platform()
    said = "The numbat sleeps under the launcher"
    processor, answers = await receive(journal, platform, question(text=said))
    await processor.join()
    platform.posts.clear()
    platform.failures = [Unreachable("away")] * 1000
    answers.says = said
    asked = question("2", author_id="43", author="Bob", text="And now?", reply_to="1", quoted=said)
    await processor.handler_for(platform)(asked)
    while platform.tries < 3:
        await asyncio.sleep(0.1)
    if is_restarted:
        await processor.drain(20)
    await journal.erase_author(question())
    answers.says = ""
    rows = await journal.database.fetch_all(select(messages))
    assert "numbat" not in repr(rows)
    if is_restarted:
        processor = make_processor(settings(), journal, answers)
        await processor.resume(platform)
    platform.failures.clear()
    await processor.join()
    # What it quoted is still in the memory of who does not restart.
    [post] = platform.posts
    assert post == ("3: And now?" if is_restarted else messages_for("").rights_changed)
    assert "numbat" not in repr(await journal.database.fetch_all(select(messages)))


@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_a_report_that_waits_has_no_forgotten_question(journal: Journal, is_forgotten: bool) -> None:
    said = "Where does the numbat sleep?"
    await journal.record_message(question(text=said))
    await journal.mark_answered(question(), Reply("Here."))
    platform = Platform(failures=[Unreachable("away")] * 1000)
    team = ConversationKey("test", "team")
    report = question("alert", key=team, author_id="kimas", text=f"- {said}", origin=Origin(purpose="report"))
    processor, _ = await receive(journal, platform, report)
    while platform.tries < 3:
        await asyncio.sleep(0.1)
    if is_forgotten:
        await journal.erase_author(question())
        assert "numbat" not in repr(await journal.database.fetch_all(select(messages)))
    platform.failures.clear()
    await processor.join()
    assert platform.posts == ([] if is_forgotten else [f"- {said}"])
    outcome = ("silent", SkipReason.DRAFT_FORGOTTEN.text) if is_forgotten else ("answered", "")
    assert await get_outcome(journal, "alert") == outcome


@pytest.mark.parametrize("purpose", ["alert", "report"])
@pytest.mark.parametrize(
    ("later", "is_told"),
    [
        ({"docs": {"path": "docs.yaml", "audience": ["owners"]}}, False),
        ({"docs": {"path": "elsewhere.yaml"}, "plans": {"path": "docs.yaml", "audience": ["owners"]}}, False),
        ({"docs": {"path": "docs.yaml"}, "more": {"path": "more.yaml"}}, True),
    ],
)
async def test_a_notice_that_waits_names_no_source_that_was_closed_since(
    journal: Journal, purpose: Literal["alert", "report"], later: dict[str, dict[str, object]], is_told: bool
) -> None:
    before = settings(sources={"docs": {"kind": "faq", "path": "docs.yaml"}})
    label = Audiences.from_settings(before).labels["docs"] if purpose == "alert" else ""
    platform = Platform(failures=[Unreachable("away")] * 1000)
    notice = question("notice", author_id="kimas", text="docs is stale", origin=Origin(purpose, label))
    processor = make_processor(alerting(before), journal, Answers())
    await processor.handler_for(platform)(notice)
    while platform.tries < 3:
        await asyncio.sleep(0.1)
    await processor.drain(20)
    sources = {name: {"kind": "faq", **source} for name, source in later.items()}
    processor = make_processor(alerting(settings(sources=sources)), journal, Answers())
    await processor.resume(platform)
    platform.failures.clear()
    await processor.join()
    assert platform.posts == (["docs is stale"] if is_told else [])
    outcome = ("answered", "") if is_told else ("silent", SkipReason.RIGHTS_CHANGED.text)
    assert await get_outcome(journal, "notice") == outcome


async def test_what_was_made_of_forgotten_words_is_not_shown_nor_recorded(journal: Journal) -> None:
    """A model may have told of them in other words, by which they are not found in an answer that waits."""
    platform = Platform(failures=[Unreachable("away")] * 1000)
    await journal.record_message(question(text="Where is the numbat?"))
    await journal.mark_answered(question(), Reply("Here."))
    processor, answers = await receive(journal, platform, question("2", author_id="43", author="Bob", text="And now?"))
    answers.trace = replace(answers.trace, query="And where is the numbat now?")
    while platform.tries < 3:
        await asyncio.sleep(0.1)
    await journal.erase_author(question())
    platform.failures.clear()
    await processor.join()
    assert platform.posts == [messages_for("").rights_changed]
    assert "numbat" not in repr(await journal.database.fetch_all(select(messages)))


@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_who_forgets_during_a_long_answer_gets_no_more_of_it(journal: Journal, is_forgotten: bool) -> None:
    async def forget() -> None:
        erased_count = await journal.erase_author(question("2", author_id="42" if is_forgotten else "43"))
        assert erased_count == is_forgotten

    platform = Platform(between=forget)
    processor, _ = await receive(journal, platform, question(text="Where is the numbat?"))
    await processor.join()
    shown = "1: Where is the numbat?"
    assert platform.posts == ([shown] if is_forgotten else [shown, f"more: {shown}"])
    assert ("numbat" in repr(await journal.database.fetch_all(select(messages)))) != is_forgotten
    outcome = ("silent", SkipReason.DRAFT_FORGOTTEN.text) if is_forgotten else ("answered", "")
    assert await get_outcome(journal) == outcome


async def test_who_forgets_gets_no_answer_that_waits_for_its_platform(journal: Journal) -> None:
    platform = Platform(failures=[Unreachable("away")] * 1000)
    processor, _ = await receive(journal, platform, question(text="Where is the numbat?"))
    while platform.tries < 3:
        await asyncio.sleep(0.1)
    await journal.erase_author(question("2"))
    platform.failures.clear()
    await processor.join()
    assert platform.posts == []
    assert "numbat" not in repr(await journal.database.fetch_all(select(messages)))


@pytest.mark.parametrize("is_begun", [True, False])
async def test_what_was_asked_elsewhere_in_the_chat_is_forgotten_too(journal: Journal, is_begun: bool) -> None:
    platform = Platform()
    answers = HeldAnswers()
    processor = make_processor(settings(run={"workers": 1 + is_begun}), journal, answers)
    other = question("0", key=ConversationKey("test", "another room"), author_id="43")
    asked = question("1", key=ConversationKey("test", "room", "thread"), text="Where is the numbat?")
    for message in (other, asked):
        await processor.handler_for(platform)(message)
        await answers.begun.wait()
    while answers.count < 1 + is_begun:
        await asyncio.sleep(0.1)
    command = question("2", text="", command="forget")
    later = question("3", key=asked.key, text="And where is the quokka?")
    for message in (make_handoff(asked, ["7"]), command, later):
        await journal.record_message(message)
    assert await journal.erase_author(command) == 1, "the call for people is no message of hers"
    answers.held.set()
    await processor.join()
    assert [text for text in platform.posts if "numbat" in text] == []
    assert answers.count == 1 + is_begun, "what was not begun is not asked of a model"
    rows = repr(await journal.database.fetch_all(select(messages)))
    assert "numbat" not in rows
    assert "quokka" in rows, "what was said later is not forgotten"
    for number in ("1", "1~h"):
        assert await get_outcome(journal, number) == ("silent", SkipReason.DRAFT_FORGOTTEN.text)
    assert await get_outcome(journal, "0") == ("answered", "")
