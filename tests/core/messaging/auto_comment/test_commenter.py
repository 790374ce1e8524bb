from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from core.errors import ConfigurationError, MessageDeleted, PlatformError, ServiceError, UsageError
from core.messaging.auto_comment.commenter import find_word, in_quiet_hours, is_post, reject_reason
from core.messaging.inbox import Inbox
from core.ports import AnswerFunction, Delivery, Sink
from core.settings.messaging import AutoCommentSettings
from core.storage.messages import Journal
from core.types import AgentScore, Citation, ConversationKey, Message, Question, Reply, SkipReason, skip
from core.types.replies import Trace
from tests.support.fixtures import IdleAdapter, InMemoryLibrary, settings
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")

CHAT = "test:channel"
CITED = (Citation(1, "p", "docs", "Final", "final.md", "https://example.org/final"),)
GOOD = Reply("Gold, at last! [1]", CITED)


def post(number: str = "100", **changes: Any) -> Message:
    values: dict[str, Any] = {
        "id": number,
        "key": ConversationKey("test", "channel", number),
        "author_id": "-1",
        "author": "Games Channel",
        "text": "Diving: gold for the pair from Brazil in the final",
        "sent_at": datetime.now(UTC),
        "is_post": True,
    }
    return Message(**{**values, **changes})


def competitor(number: str, parent: Message, **changes: Any) -> Message:
    values: dict[str, Any] = {
        "id": number,
        "author_id": number,
        "author": "Robot",
        "text": "What a jump!",
        "reply_to": parent.id,
        "is_post": False,
        "is_by_bot": True,
    }
    return replace(parent, **{**values, **changes})


@dataclass
class Board(IdleAdapter):
    """An adapter and a `Sink` for posts: remembers all that is shown, tells the journal like the real ones."""

    name: str = "test"
    posts: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    tries: int = 0
    signs: int = 0
    before_post: Callable[[], Awaitable[None]] | None = None
    while_posting: Callable[[], Awaitable[None]] | None = None
    after_post: Callable[[], Awaitable[None]] | None = None

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.messages.append(message)
        return BoardSink(self, delivery, previous_reply_id)


@dataclass
class BoardSink:
    board: Board
    delivery: Delivery
    previous_reply_id: str = ""

    async def open(self) -> None:
        self.board.signs += 1

    async def update(self, text: str) -> None:
        self.board.posts.append(text)

    async def finish(self, reply: Reply) -> None:
        board = self.board
        if self.previous_reply_id:
            # An edit: the comment is there already.
            return
        if board.before_post:
            await board.before_post()
        board.tries += 1
        await self.delivery.mark_posting()
        try:
            if board.while_posting:
                await board.while_posting()
        except PlatformError:
            await self.delivery.mark_rejected()
            raise
        board.posts.append(reply.text)
        await self.delivery.mark_posted(f"reply {len(board.posts)}")
        if board.after_post:
            await board.after_post()

    async def fail(self, text: str) -> None:
        self.board.posts.append(text)


async def comment(question: Question, sink: Sink) -> Reply:
    await sink.open()
    await sink.update("Gold")
    await sink.finish(GOOD)
    return GOOD


def with_comments(**changes: object) -> Any:
    return settings(auto_comment={"chats": [CHAT], **changes})


async def outcome(journal: Journal, message: Message) -> tuple[str, str]:
    async with journal.database.connect() as connection:
        query = text("SELECT state, reason FROM messages WHERE id = :id")
        row = (await connection.execute(query, {"id": message.id})).one()
    return str(row.state), str(row.reason)


async def play(
    journal: Journal,
    *messages: Message,
    answer: AnswerFunction = comment,
    board: Board | None = None,
    **changes: object,
) -> Board:
    board = board or Board()
    processor = make_processor(with_comments(**changes), journal, answer, InMemoryLibrary())
    for message in messages:
        await processor.handler_for(board)(message)
    assert await processor.drain(60) == 0
    return board


async def test_a_post_is_commented_on_once_and_in_one_piece(journal: Journal) -> None:
    board = await play(journal, post(), post())
    assert (board.posts, board.signs) == ([GOOD.text], 0)
    assert board.messages[0].reply_options.max_bot_replies == 2
    assert await outcome(journal, post()) == ("answered", "")
    # Nor after a restart, when the platform delivers it again.
    assert (await play(journal, post())).posts == []


@pytest.mark.parametrize(
    "message",
    [
        post(key=ConversationKey("test", "elsewhere", "100")),
        post(is_post=False),
        post(is_post=None, key=ConversationKey("test", "channel", "")),
        post(is_post=None, private=True),
        post(is_post=None, reply_to="99"),
    ],
)
async def test_what_is_no_post_of_these_chats_needs_to_address_the_bot(journal: Journal, message: Message) -> None:
    board = await play(journal, message)
    assert board.posts == []
    assert await outcome(journal, message) == ("silent", "the bot was not addressed")


async def test_a_post_that_addresses_the_bot_is_answered_as_any_question(journal: Journal) -> None:
    board = await play(journal, post(addressed=True))
    assert (board.posts, board.signs) == (["Gold", GOOD.text], 1)


@pytest.mark.parametrize("is_addressed", [True, False])
async def test_other_bots_are_never_answered(journal: Journal, is_addressed: bool) -> None:
    message = competitor("7", post(), addressed=is_addressed, text="Who are you?")
    assert (await play(journal, message)).posts == []
    assert await outcome(journal, message) == ("silent", "written by another bot")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"include": ["swimming", "100 m"]}, "another topic"),
        ({"include": ["diving"], "exclude": ["Brazil"]}, "'Brazil'"),
        ({"quiet_hours": "00:00-23:59"}, "quiet hours"),
        ({"min_relevance": 1.0}, "outside our knowledge"),
    ],
)
async def test_a_post_that_is_not_for_us_costs_no_answer(
    journal: Journal, changes: dict[str, object], reason: str
) -> None:
    class UnrelatedLibrary(InMemoryLibrary):
        async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
            return [AgentScore("docs", 0.4)]

    async def never(question: Question, sink: Sink) -> Reply:
        raise AssertionError("no answer was to be made")

    processor = make_processor(with_comments(**changes), journal, never, UnrelatedLibrary())
    if "quiet_hours" in changes and datetime.now().time() >= time(23, 59):
        pytest.skip("the last minute of the day is the one that is not quiet")
    await processor.handler_for(Board())(post())
    assert await processor.drain(60) == 0
    state, reason_text = await outcome(journal, post())
    assert state == "silent"
    assert reason in reason_text


async def test_a_relevant_post_of_the_topic_is_commented_on(journal: Journal) -> None:
    board = await play(journal, post(), include=["diving"], exclude=["boxing"], min_relevance=0.9)
    assert board.posts == [GOOD.text]


async def test_when_enough_bots_were_faster_no_comment_is_written(journal: Journal) -> None:
    async def never(question: Question, sink: Sink) -> Reply:
        raise AssertionError("no answer was to be made")

    board = await play(journal, competitor("1", post()), competitor("2", post(), reply_to=""), post(), answer=never)
    assert board.posts == []
    state, reason = await outcome(journal, post())
    assert (state, reason.split(" (")[0]) == ("silent", "2 replies of bots below the post already")


async def test_humans_other_posts_and_one_competitor_leave_room(journal: Journal) -> None:
    human = competitor("2", post(), is_post=False, is_by_bot=False)
    other = competitor("3", post("200"))
    board = await play(journal, competitor("1", post()), human, other, post())
    assert board.posts == [GOOD.text]


@pytest.mark.parametrize("max_replies", [1, 2, 3])
async def test_the_race_is_looked_at_again_right_before_posting(journal: Journal, max_replies: int) -> None:
    own_post = post()
    processor: Inbox
    board = Board()

    async def overtaken(question: Question, sink: Sink) -> Reply:
        for number in range(max_replies):
            await processor.handler_for(board)(competitor(f"r{number}", own_post))
        return await comment(question, sink)

    processor = make_processor(with_comments(replies_per_post=max_replies), journal, overtaken)
    await processor.handler_for(board)(own_post)
    assert await processor.drain(60) == 0
    assert (board.posts, board.tries) == ([], 1)
    state, reason = await outcome(journal, own_post)
    assert (state, reason) == (
        "silent",
        f"{max_replies} replies of bots below the post already ({max_replies} at most)",
    )


async def test_after_a_restart_a_posted_or_doubtful_comment_is_not_posted_again(journal: Journal) -> None:
    posted_post, doubtful_post, begun_post, fresh_post = (post(number) for number in ("1", "2", "3", "4"))
    for item in (posted_post, doubtful_post, begun_post, fresh_post):
        await journal.record_message(item)
    await journal.begin_answer(posted_post, None)
    await journal.mark_posting(posted_post)
    await journal.mark_posted(posted_post, "reply 9")
    await journal.mark_posting(doubtful_post)
    await journal.begin_answer(begun_post, None)
    board = Board()
    processor = make_processor(with_comments(), journal, comment)
    await processor.resume(board)
    assert await processor.drain(60) == 0
    # What had not been posted is in time still.
    assert sorted(message.id for message in board.messages) == ["3", "4"]
    assert await outcome(journal, posted_post) == ("silent", "the comment was posted before a restart")
    assert (await outcome(journal, doubtful_post))[0] == "failed"


async def test_an_old_post_is_left_alone(journal: Journal) -> None:
    old_post = post(sent_at=datetime.now(UTC) - timedelta(seconds=11))
    assert (await play(journal, old_post)).posts == []
    state, reason = await outcome(journal, old_post)
    assert state == "silent"
    assert "10 s" in reason


async def test_a_late_comment_is_not_posted(journal: Journal) -> None:
    cancelled = False

    async def slow(question: Question, sink: Sink) -> Reply:
        nonlocal cancelled
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled = True
            raise
        return await comment(question, sink)

    board = await play(journal, post(), answer=slow, deadline_s=1.5)
    assert (board.posts, cancelled) == ([], True)
    assert (await outcome(journal, post()))[1] == "not finished within 1.5 s after the post (auto_comment.deadline_s)"


async def test_a_network_that_keeps_us_waiting_past_the_deadline_gets_nothing(journal: Journal) -> None:
    async def wait() -> None:
        await asyncio.sleep(30)

    board = await play(journal, post(), board=Board(before_post=wait), deadline_s=1.5)
    assert (board.posts, board.tries) == ([], 0)
    assert (await outcome(journal, post()))[0] == "silent"


async def test_a_posting_cut_by_the_deadline_stays_in_doubt(journal: Journal) -> None:
    async def wait() -> None:
        await asyncio.sleep(30)

    await play(journal, post(), board=Board(while_posting=wait), deadline_s=1.5)
    state, reason = await outcome(journal, post())
    assert state == "failed"
    assert "not known" in reason


async def test_what_is_posted_when_the_deadline_comes_is_posted_to_its_end(journal: Journal) -> None:
    async def wait() -> None:
        await asyncio.sleep(30)

    board = Board(after_post=wait)
    processor = make_processor(with_comments(deadline_s=1.5), journal, comment, InMemoryLibrary())
    await processor.handler_for(board)(post())
    await processor.join()
    assert (board.posts, len(board.messages)) == ([GOOD.text], 2)
    assert await outcome(journal, post()) == ("answered", "")


async def test_a_comment_interrupted_by_a_kill_is_posted_as_it_was_written(journal: Journal) -> None:
    texts = []

    async def answer(question: Question, sink: Sink) -> Reply:
        texts.append(replace(GOOD, text=f"Version {len(texts) + 1} [1]"))
        await sink.finish(texts[-1])
        return texts[-1]

    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.sleep(3600)

    processor = make_processor(with_comments(deadline_s=600), journal, answer, InMemoryLibrary())
    await processor.handler_for(Board(before_post=hang))(post())
    await reached.wait()
    assert await processor.drain(0) == 1
    board = Board()
    next_processor = make_processor(with_comments(deadline_s=600), Journal(journal.database), answer, InMemoryLibrary())
    await next_processor.resume(board)
    await next_processor.join()
    assert (board.posts, len(texts)) == (["Version 1 [1]"], 1)
    assert await outcome(journal, post()) == ("answered", "")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (replace(GOOD, text=" "), "empty"),
        (replace(GOOD, citations=()), "cite nothing"),
        (replace(GOOD, trace=Trace("", "single", (), {}, degraded=("write",))), "did not finish it"),
    ],
)
async def test_a_comment_without_worth_is_kept_back(journal: Journal, reply: Reply, reason: str) -> None:
    async def poor(question: Question, sink: Sink) -> Reply:
        await sink.finish(reply)
        return reply

    assert (await play(journal, post(), answer=poor)).posts == []
    state, reason_text = await outcome(journal, post())
    assert state == "silent"
    assert reason in reason_text


async def test_uncited_comments_may_be_allowed(journal: Journal) -> None:
    async def answer_plainly(question: Question, sink: Sink) -> Reply:
        reply = Reply("Hooray!")
        await sink.finish(reply)
        return reply

    assert (await play(journal, post(), answer=answer_plainly, needs_citation=False)).posts == ["Hooray!"]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ServiceError("the model is down"), "failed"),
        (ValueError("a bug"), "failed"),
        (TimeoutError("somewhere inside"), "failed"),
        (UsageError("the limit of the day is used up"), "silent"),
        (MessageDeleted("deleted"), "silent"),
    ],
)
async def test_a_failure_is_recorded_and_told_to_nobody(journal: Journal, error: Exception, state: str) -> None:
    async def fail(question: Question, sink: Sink) -> Reply:
        raise error

    assert (await play(journal, post(), answer=fail)).posts == []
    assert await outcome(journal, post()) == (state, str(error))


async def test_a_refused_comment_failed_and_was_not_posted(journal: Journal) -> None:
    async def refuse() -> None:
        raise PlatformError("comments are closed")

    board = await play(journal, post(), board=Board(while_posting=refuse))
    assert board.posts == []
    assert await outcome(journal, post()) == ("failed", "comments are closed")


async def test_the_hourly_rate_holds_one_after_the_other_and_at_once(journal: Journal) -> None:
    board = await play(journal, *(post(str(number)) for number in range(5)), per_hour=2)
    assert len(board.posts) == 2
    second_result = await play(journal, post("6"), per_hour=2)
    assert second_result.posts == []
    state, reason = await outcome(journal, post("6"))
    assert (state, reason) == ("silent", "2 comments within the last hour (auto_comment.per_hour)")
    assert len((await play(journal, post("7"), per_hour=None)).posts) == 1


async def test_a_stop_leaves_the_post_to_the_next_start(journal: Journal) -> None:
    start_event = asyncio.Event()

    async def hang(question: Question, sink: Sink) -> Reply:
        start_event.set()
        await asyncio.Event().wait()
        raise AssertionError

    processor = make_processor(with_comments(), journal, hang)
    await processor.handler_for(Board())(post())
    await start_event.wait()
    assert await processor.drain(0) == 1
    board = Board()
    second_processor = make_processor(with_comments(), journal, comment)
    await second_processor.resume(board)
    assert await second_processor.drain(60) == 0
    assert board.posts == [GOOD.text]


async def test_a_long_post_is_shortened_for_the_question(journal: Journal) -> None:
    questions: list[str] = []

    async def note(question: Question, sink: Sink) -> Reply:
        questions.append(question.text)
        return await comment(question, sink)

    await play(journal, post(text="word " * 2000), answer=note)
    assert len(questions[0]) == 4000


@pytest.mark.parametrize(
    ("text", "words", "expected_word"),
    [
        ("GOLD for Kenya", ["gold"], "gold"),
        ("a golden age", ["gold"], ""),
        ("the 100 m final", ["100 m"], "100 m"),
        ("C++ meeting", ["c++"], "c++"),
        ("中国队夺得跳水金牌", ["跳水"], "跳水"),
        ("看diving比赛", ["diving"], "diving"),
        ("anything", [], ""),
        ("anything", [" "], ""),
        ("straße", ["STRASSE"], "STRASSE"),
    ],
)
def test_words_are_found(text: str, words: list[str], expected_word: str) -> None:
    assert find_word(text, words) == expected_word


@pytest.mark.parametrize(
    ("hours", "now", "is_quiet"),
    [
        ("22:00-07:00", time(23, 30), True),
        ("22:00-07:00", time(6, 59), True),
        ("22:00-07:00", time(7, 0), False),
        ("12:00-13:00", time(12, 0), True),
        ("12:00-13:00", time(13, 0), False),
        ("", time(3, 0), False),
    ],
)
def test_quiet_hours(hours: str, now: time, is_quiet: bool) -> None:
    assert in_quiet_hours(hours, now) is is_quiet


def test_what_opens_a_thread_is_a_post_unless_a_bot_wrote_it() -> None:
    opening = post(is_post=None, reference={"channel": "C1"})
    assert is_post(opening)
    assert not is_post(replace(opening, is_by_bot=True))
    assert is_post(replace(opening, is_post=True, is_by_bot=True))


@pytest.mark.parametrize("hours", ["24:00-07:00", "22-7", "22:00"])
def test_unusable_quiet_hours_are_refused(tmp_path: Path, hours: str) -> None:
    from core.settings.loader import load_settings

    file = tmp_path / "kimas.yaml"
    file.write_text(f"auto_comment:\n  quiet_hours: '{hours}'\n", "utf-8")
    with pytest.raises(ConfigurationError, match="quiet_hours"):
        load_settings([file], (), {}, require_secrets=False)


@pytest.mark.parametrize("words", ["Good morning everyone!", "大家好！", "Thanks!"])
def test_a_post_that_only_is_polite_gets_no_comment(words: str) -> None:
    silence = reject_reason(replace(post(), text=words), AutoCommentSettings(), datetime(2026, 1, 2, 12, tzinfo=UTC))
    assert silence == skip(SkipReason.COURTESY)
