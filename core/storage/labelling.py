"""Candidates for labelled data in the journal: rated answers, unanswered questions, and the messages of a chat.

And what the router chose for its questions, with the conversations before them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, and_, case, exists, func, or_, select

from core.settings.answering import AnswerSettings
from core.settings.audience import ALL_OPEN
from core.storage.chat_history import is_user_message
from core.storage.engine import Repository
from core.storage.tables import feedback, may_be_shown, messages
from core.types import ASK_COMMANDS, DOWN, UP, Question, SkipReason, Turn

_COLUMNS = ("platform", "chat", "id", "text", "reply", "citations", "state")
_CONVERSATION_COLUMNS = (
    "platform",
    "chat",
    "thread",
    "id",
    "text",
    "author_id",
    "addressed",
    "reply",
    "visible_sources",
    "private",
    "settled_at",
)
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class JournaledQuestion:
    """A message of the journal with its answer; `documents` are those it cites, as "source: path"."""

    id: str
    text: str
    reply: str
    documents: tuple[str, ...]
    is_answered: bool


@dataclass(frozen=True, slots=True)
class RoutedQuestion:
    """A question for which a model chose the `strategy`, and the `query` that was searched, or the question back.

    `balance` is how many more people liked its answer than disliked it; None where nobody said anything.
    `visible_labels` name the sources that could be seen where it was asked.
    """

    question: Question
    strategy: str
    query: str
    balance: int | None
    visible_labels: frozenset[str]


class LabellingRepository(Repository):
    """Reads messages to be labelled, newest first. Every method raises `StoreError` when the database fails."""

    async def get_liked_answers(self, chat: tuple[str, str] | None, limit: int) -> Sequence[JournaledQuestion]:
        """Return questions whose cited answer more people liked than disliked; `chat` is a platform and a chat id."""
        questions = await self._fetch(_select(chat, limit).where(messages.c.state == "answered", _get_balance() > 0))
        return [question for question in questions if question.documents]

    async def get_unanswered_questions(self, chat: tuple[str, str] | None, limit: int) -> Sequence[JournaledQuestion]:
        """Return questions whose answer cited nothing or was disliked, and those without an answer."""
        is_disliked = exists(select(1).where(_is_rating(), feedback.c.verdict == DOWN)).correlate(messages)
        query = _select(chat, limit).add_columns(messages.c.trace, is_disliked.label("is_disliked"))
        is_unanswerable = messages.c.detail == SkipReason.NOTHING_FOUND.label
        was_tried = or_(messages.c.state.in_(("answered", "failed")), is_unanswerable)
        rows = await self._database.fetch_all(query.where(was_tried))
        return [_to_question(row) for row in rows if row.is_disliked or row.state != "answered" or _found_nothing(row)]

    async def get_messages(self, chat: tuple[str, str], limit: int) -> Sequence[JournaledQuestion]:
        """Return what people wrote in a chat."""
        return await self._fetch(_select(chat, limit))

    async def get_routed_questions(
        self, chat: tuple[str, str] | None, limits: AnswerSettings
    ) -> Sequence[RoutedQuestion]:
        """Return the questions for which a model chose the strategy, oldest first, each with its conversation.

        Names of people are left out. Choices that came too late or could not be read are none.
        """
        columns = messages.c
        trace = columns.trace
        trace_values = [trace[name].as_string().label(name) for name in ("strategy", "query")]
        trace_values += [trace[name].label(name) for name in ("tokens", "cut")]
        query = select(*(columns[name] for name in _CONVERSATION_COLUMNS), *trace_values)
        query = query.add_columns(_get_balance().label("balance"), is_user_message().label("is_user_message"))
        query = query.where(columns.state == "answered", columns.command.in_(ASK_COMMANDS), columns.reply != "")
        if chat is not None:
            query = query.where(columns.platform == chat[0], columns.chat == chat[1])
        turns_before: defaultdict[tuple[str, ...], deque[Row[Any]]] = defaultdict(
            lambda: deque(maxlen=(limits.history_turns + 1) // 2)
        )
        questions = []
        for row in await self._database.fetch_all(query.order_by(columns.number)):
            earlier_rows = turns_before[row.platform, row.chat, row.thread]
            if row.is_user_message and row.text and "choose.prompt" in (row.tokens or ()) and "choose" not in row.cut:
                history = _make_history(row, earlier_rows, limits)
                question_id = f"{row.platform}:{row.chat}:{row.id}"
                question = Question(
                    row.text, history, question_id, author_id=row.author_id, is_unprompted=not row.addressed
                )
                query = row.reply if row.strategy == "clarify" else row.query
                labels = frozenset(row.visible_sources or ())
                questions.append(RoutedQuestion(question, row.strategy, query, row.balance, labels))
            earlier_rows.append(row)
        return questions

    async def _fetch(self, query: Select[Any]) -> Sequence[JournaledQuestion]:
        return [_to_question(row) for row in await self._database.fetch_all(query)]


def _found_nothing(row: Row[Any]) -> bool:
    """Return whether sources were searched and nothing was cited: answers to commands and greetings search nothing."""
    return not row.citations and bool((row.trace or {}).get("agents"))


def _make_history(row: Row[Any], earlier_rows: Sequence[Row[Any]], limits: AnswerSettings) -> tuple[Turn, ...]:
    """Return the turns that the answer to a question could see (`Journal.get_history`)."""
    visible_labels = frozenset(row.visible_sources or (ALL_OPEN,))
    oldest = row.settled_at.timestamp() - _SECONDS_PER_HOUR * limits.history_hours
    turns = [
        turn
        for earlier_row in earlier_rows
        if may_be_shown(earlier_row.visible_sources, visible_labels)
        and earlier_row.settled_at.timestamp() > oldest
        and (row.private or not earlier_row.private)
        for turn in (
            Turn("user", earlier_row.text, author_id=earlier_row.author_id),
            Turn("assistant", earlier_row.reply),
        )
    ]
    return tuple(turns[-limits.history_turns :]) if limits.history_turns else ()


def _get_balance() -> ScalarSelect[Any]:
    """Return how many more people like an answer than dislike it."""
    ratings = select(func.sum(case((feedback.c.verdict == UP, 1), (feedback.c.verdict == DOWN, -1), else_=0)))
    return ratings.where(_is_rating()).correlate(messages).scalar_subquery()


def _is_rating() -> ColumnElement[bool]:
    key_conditions = (feedback.c[name] == messages.c[name] for name in ("platform", "bot", "chat"))
    return and_(*key_conditions, feedback.c.question == messages.c.id)


def _select(chat: tuple[str, str] | None, limit: int) -> Select[Any]:
    columns = messages.c
    query = select(*(columns[name] for name in _COLUMNS))
    query = query.where(is_user_message(), columns.text != "", columns.command.in_(ASK_COMMANDS))
    if chat is not None:
        query = query.where(columns.platform == chat[0], columns.chat == chat[1])
    return query.order_by(columns.number.desc()).limit(limit)


def _to_question(row: Row[Any]) -> JournaledQuestion:
    # Answers of earlier versions know the source alone.
    citations = [(citation["source"], citation.get("path", "")) for citation in row.citations or ()]
    documents = dict.fromkeys(f"{source}: {path}" if path else source for source, path in citations)
    question_id = f"{row.platform}:{row.chat}:{row.id}"
    return JournaledQuestion(question_id, row.text, row.reply, tuple(documents), row.state == "answered")
