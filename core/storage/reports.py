"""Reports for the operator's page from the journal: questions with their outcomes, one question whole, and ratings.

Lists are paged by the row's number, never by an offset, and read no more than the days asked for: a page takes as long
with a hundred thousand questions as with a hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select, true, union

from core.storage.chat_history import is_readable_from, is_user_message
from core.storage.details import UNSURE_SILENCES, WEAK_ANSWERS
from core.storage.engine import Repository
from core.storage.message_rows import to_message
from core.storage.statements import UNFINISHED_STATES
from core.storage.tables import DRAFTED, chat_values, chats, feedback, messages
from core.types import ASK_COMMANDS, DOWN, UP, ConversationKey, Message

Outcome = Literal["questions", "answered", "unanswered", "failed", "waiting", "silent", "all"]
RatingFilter = Literal["", "up", "down"]
MAX_LISTED_CHARS = 300

_CHAT_COLUMNS = ("platform", "bot", "chat")
_NO_NUMBER = 2**31 - 1
OUTCOMES: tuple[Outcome, ...] = ("questions", "answered", "unanswered", "failed", "waiting", "silent", "all")


@dataclass(frozen=True, slots=True)
class QuestionFilter:
    """Which questions to list: received since a time, with an outcome, of a platform, in some chats, with a text.

    With a `reader`, only those that may be told of where that message was written; `is_public`: none of private chats
    and closed threads. `until` is a time before which they came.
    """

    since: datetime
    # None: whoever may read all of them.
    reader: Message | None
    outcome: Outcome = "questions"
    platform: str = ""
    chats: Collection[str] = ()
    text: str = ""
    is_public: bool = False
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListedQuestion:
    """One line of a list: `detail` says what an answer lacks, or is the label of a silence. `text` may be cut short.

    `visible_sources` are the labels of those that an answer could be made from; None where all were for everyone.
    """

    number: int
    platform: str
    chat: str
    author: str
    text: str
    received_at: datetime
    state: str
    detail: str
    is_addressed: bool = True
    visible_sources: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One question with all that the journal knows of it. `trace` and `citations` are plain JSON values.

    `verdicts` counts the ratings by verdict, `reasons` those of thumbs down. `attempts` are the numbers of the second
    answers and handoffs that belong to it. `visible_sources` are those that its answer could be made from; None: all
    were for everyone. `thread_start` is how the first message of its thread begins, "" where the journal has none.
    """

    number: int
    message: Message
    thread_start: str
    received_at: datetime
    settled_at: datetime | None
    state: str
    detail: str
    reason: str
    reply: str
    citations: Sequence[Mapping[str, Any]]
    trace: Mapping[str, Any]
    image_description: str
    verdicts: Mapping[str, int]
    reasons: Mapping[str, int]
    attempts: Sequence[int]
    visible_sources: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """One rating with its question: `question` is the number of its row, None where it is gone."""

    number: int
    at: datetime
    verdict: str
    reason: str
    platform: str
    chat: str
    question: int | None
    text: str


class ReportRepository(Repository):
    """Reads reports. Every method raises `StoreError` when the database fails."""

    async def list_questions(
        self, question_filter: QuestionFilter, limit: int, before: int | None = None
    ) -> Sequence[ListedQuestion]:
        """Return the newest `limit` questions of a filter, newest first; `before` is the number where to go on."""
        columns = messages.c
        conditions = [columns.number >= _first_number(question_filter.since), is_user_message()]
        if question_filter.platform:
            conditions.append(columns.platform == question_filter.platform)
        if question_filter.chats:
            conditions.append(columns.chat.in_(question_filter.chats))
        if question_filter.text:
            conditions.append(columns.text.icontains(question_filter.text, autoescape=True))
        conditions += _find_told(question_filter.reader, is_public=question_filter.is_public)
        if question_filter.until:
            conditions.append(columns.received_at < question_filter.until)
        if before is not None:
            conditions.append(columns.number < before)
        numbers = [
            select(columns.number).where(condition, *conditions).order_by(columns.number.desc()).limit(limit).subquery()
            for condition in _outcome_conditions(question_filter.outcome)
        ]
        # Each part has its own index; a condition that joins them with OR would read all that fulfil any.
        newest = union(*(select(part.c.number) for part in numbers))
        query = (
            select(
                columns.number,
                columns.platform,
                columns.chat,
                columns.author,
                _get_start(columns.text),
                columns.received_at,
                columns.state,
                columns.detail,
                columns.addressed,
                columns.visible_sources,
            )
            .where(columns.number.in_(newest))
            .order_by(columns.number.desc())
        )
        return [ListedQuestion(*row) for row in await self._database.fetch_all(query.limit(limit))]

    async def find_told(
        self, numbers: Collection[int], *, reader: Message | None, is_public: bool = False
    ) -> frozenset[int]:
        """Return those of some messages, by their numbers, whose authors and words are still there, and told.

        `reader` and `is_public` are those of a `QuestionFilter`.
        """
        columns = messages.c
        conditions = (columns.author_id != "", columns.text != "", *_find_told(reader, is_public=is_public))
        query = select(columns.number).where(columns.number.in_(numbers), *conditions)
        return frozenset(row.number for row in await self._database.fetch_all(query))

    async def count_states(self, since: datetime) -> Mapping[str, int]:
        """Return how many messages since a time are in each state; the key "weak" counts weak answers.

        Commands other than `/ask` do not count.
        """
        columns = messages.c
        query = select(columns.state, columns.detail, func.count()).where(columns.number >= _first_number(since))
        query = query.where(is_user_message(), columns.command.in_(ASK_COMMANDS))
        rows = await self._database.fetch_all(query.group_by(columns.state, columns.detail))
        counts: Counter[str] = Counter()
        for state, detail, count in rows:
            counts[state] += count
            counts["weak"] += count if state == "answered" and detail in WEAK_ANSWERS else 0
        return counts

    async def get_question(self, number: int) -> QuestionReport | None:
        """Return the question of a row's number, or None."""
        row = await self._database.fetch_first(select(messages).filter_by(number=number))
        if row is None:
            return None
        is_rated = {name: getattr(row, name) for name in ("platform", "bot", "chat")}
        ratings = await self._database.fetch_all(
            select(feedback.c.verdict, feedback.c.reason).filter_by(**is_rated, question=row.root_id or row.id)
        )
        attempts = select(messages.c.number).filter_by(**is_rated, root_id=row.id)
        return QuestionReport(
            row.number,
            to_message(row),
            await self._get_thread_start(row) if row.thread not in ("", row.id) else "",
            row.received_at,
            row.settled_at,
            row.state,
            row.detail,
            row.reason,
            row.reply,
            row.citations or (),
            row.trace or {},
            row.image_description or "",
            Counter(rating.verdict for rating in ratings if rating.verdict),
            Counter(rating.reason for rating in ratings if rating.reason),
            [attempt.number for attempt in await self._database.fetch_all(attempts.order_by(messages.c.number))],
            row.visible_sources,
        )

    async def _get_thread_start(self, row: Row[Any]) -> str:
        """Return how the first message of a thread begins: on most platforms, its id is the thread's."""
        identity = {"platform": row.platform, "bot": row.bot, "chat": row.chat, "id": row.thread}
        return await self._database.fetch_value(select(_get_start(messages.c.text)).filter_by(**identity)) or ""

    async def count_ratings(
        self, since: datetime, chat: tuple[str, str] | None = None
    ) -> Mapping[tuple[str, str], int]:
        """Return the number of ratings since a time by verdict and reason, in all chats or in one (platform and id)."""
        columns = feedback.c
        query = select(columns.verdict, columns.reason, func.count()).where(columns.at >= since, columns.verdict != "")
        if chat is not None:
            query = query.where(columns.platform == chat[0], columns.chat == chat[1])
        rows = await self._database.fetch_all(query.group_by(columns.verdict, columns.reason))
        return {(verdict, reason): count for verdict, reason, count in rows}

    async def get_chat_titles(self) -> Mapping[tuple[str, str], str]:
        """Return what chats are called, by platform and id, as far as platforms say it."""
        return {(row.platform, row.chat): row.title for row in await self._database.fetch_all(select(chats))}

    async def get_chat_title(self, key: ConversationKey) -> str:
        """Return what a chat is called, or ""."""
        row = await self._database.fetch_first(select(chats.c.title).filter_by(**chat_values(key)))
        return row.title if row else ""

    async def list_ratings(self, since: datetime, limit: int, verdict: RatingFilter = "") -> Sequence[RatedAnswer]:
        """Return the newest ratings since a time, newest first: all, or those with one verdict."""
        ratings = feedback.c
        columns = messages.c
        is_question = and_(columns.id == ratings.question, *(columns[name] == ratings[name] for name in _CHAT_COLUMNS))
        verdicts = (verdict,) if verdict else (UP, DOWN)
        query = (
            select(
                ratings.number,
                ratings.at,
                ratings.verdict,
                ratings.reason,
                ratings.platform,
                ratings.chat,
                columns.number.label("question"),
                _get_start(columns.text),
            )
            .select_from(feedback.outerjoin(messages, is_question))
            .where(ratings.at >= since, ratings.verdict.in_(verdicts))
            .order_by(ratings.at.desc(), ratings.number.desc())
        )
        return [RatedAnswer(*row) for row in await self._database.fetch_all(query.limit(limit))]


def _find_told(reader: Message | None, *, is_public: bool) -> list[ColumnElement[bool]]:
    """Return the conditions that messages are told to a reader, or in public."""
    conditions = [is_readable_from(reader)] if reader else []
    return [*conditions, ~or_(messages.c.private, messages.c.in_restricted_thread)] if is_public else conditions


def _first_number(since: datetime) -> ColumnElement[int]:
    """Return the number of the first message since a time: numbers grow with time, and are the primary key."""
    columns = messages.c
    first = select(columns.number).where(columns.received_at >= since).order_by(columns.received_at).limit(1)
    # Without any message since then, no number is large enough.
    return func.coalesce(first.scalar_subquery(), _NO_NUMBER)


def _get_start(text: ColumnElement[str]) -> ColumnElement[str]:
    return func.coalesce(func.substr(text, 1, MAX_LISTED_CHARS), "")


def _outcome_conditions(outcome: Outcome) -> Sequence[ColumnElement[bool]]:
    """Return the conditions of which a message of an outcome fulfils one."""
    columns = messages.c
    if outcome == "all":
        return [true()]
    is_question = columns.command.in_(ASK_COMMANDS)
    # A label of a silence never is what an answer lacks.
    is_unanswered = [
        columns.state == "failed",
        *(columns.detail == name for name in (*WEAK_ANSWERS, *UNSURE_SILENCES)),
        columns.number.in_(_select_disliked()),
    ]
    conditions: Mapping[str, Sequence[ColumnElement[bool]]] = {
        "questions": [or_(columns.state != "silent", columns.detail.in_(UNSURE_SILENCES))],
        "answered": [columns.state == "answered"],
        "unanswered": is_unanswered,
        "failed": [columns.state == "failed"],
        "waiting": [columns.state.in_((*UNFINISHED_STATES, DRAFTED))],
        "silent": [columns.state == "silent"],
    }
    return [and_(is_question, condition) for condition in conditions[outcome]]


def _select_disliked() -> Select[tuple[int]]:
    """Select the numbers of questions with an answer that somebody found bad."""
    columns = messages.c
    ratings = feedback.c
    is_question = and_(columns.id == ratings.question, *(columns[name] == ratings[name] for name in _CHAT_COLUMNS))
    return select(columns.number).join(feedback, is_question).where(ratings.verdict == DOWN)


def to_outcome(name: str) -> Outcome:
    """Return the outcome of a name; "questions" for any other text."""
    return next((outcome for outcome in OUTCOMES if outcome == name), "questions")
