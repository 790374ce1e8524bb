"""Candidates for labelled data in the journal: rated answers, unanswered questions, and the messages of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, exists, func, or_, select

from core.storage.chat_history import is_user_message
from core.storage.engine import Repository
from core.storage.tables import feedback, messages
from core.types import ASK_COMMANDS, DOWN, UP, SkipReason

_COLUMNS = ("platform", "chat", "id", "text", "reply", "citations", "state")


@dataclass(frozen=True, slots=True)
class JournaledQuestion:
    """A message of the journal with its answer; `documents` are those it cites, as "source: path"."""

    id: str
    text: str
    reply: str
    documents: tuple[str, ...]
    is_answered: bool


class LabellingRepository(Repository):
    """Reads messages to be labelled, newest first. Every method raises `StoreError` when the database fails."""

    async def get_liked_answers(self, chat: tuple[str, str] | None, limit: int) -> Sequence[JournaledQuestion]:
        """Return questions whose cited answer more people liked than disliked; `chat` is a platform and a chat id."""
        ratings = select(func.sum(case((feedback.c.verdict == UP, 1), (feedback.c.verdict == DOWN, -1), else_=0)))
        balance = ratings.where(_is_rating()).correlate(messages).scalar_subquery()
        questions = await self._fetch(_select(chat, limit).where(messages.c.state == "answered", balance > 0))
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

    async def _fetch(self, query: Select[Any]) -> Sequence[JournaledQuestion]:
        return [_to_question(row) for row in await self._database.fetch_all(query)]


def _found_nothing(row: Row[Any]) -> bool:
    """Return whether sources were searched and nothing was cited: answers to commands and greetings search nothing."""
    return not row.citations and bool((row.trace or {}).get("agents"))


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
