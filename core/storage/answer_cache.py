"""Earlier replies, kept in the journal's database to be given again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, or_, select

from core.runtime.tasks import unbroken
from core.settings import CacheSettings
from core.storage.engine import Database
from core.storage.tables import replies
from core.types import Citation, ConversationKey, Passage, Reply, Trace

# Questions of one sense are few; each costs an embedding.
MOST_CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the cache knows it: `scope` is the chat, the others come from `core.text.question_matching`."""

    scope: str
    text: str
    normal: str
    sense: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A reply that was given before, to the question `asked`; `versions` are those of its cited sources then."""

    number: int
    asked: str
    same_words: bool
    versions: Mapping[str, str]
    reply: Reply


def scope_of(key: ConversationKey | None, *, closed: bool = False) -> str:
    """Return who gets a reply again: its chat or, where only a part of that reads it, its thread.

    What one chat asks is nobody else's business, least of all what a private one does.
    """
    if key is None:
        return json.dumps([])
    return json.dumps([key.platform, key.chat, key.thread] if closed else [key.platform, key.chat])


def of_chat(key: ConversationKey) -> ColumnElement[bool]:
    """Return the condition that a reply belongs to a chat, whichever of its threads."""
    return replies.c.scope.startswith(scope_of(key)[:-1], autoescape=True)


class AnswerCache:
    """Replies by question. `made_by` names the configuration: replies of another one are not found.

    Every method raises `StoreError` when the database refuses.
    """

    def __init__(self, database: Database, settings: CacheSettings, made_by: str) -> None:
        self._database = database
        self._settings = settings
        self._made_by = made_by

    async def find(self, asked: Asked) -> Sequence[Kept]:
        """Return replies to the same words, or to a question of the same sense, that are not too old: best first."""
        columns = replies.c
        same_words: ColumnElement[bool] = columns.question == asked.normal
        alike = or_(same_words, columns.sense == asked.sense) if self._by_sense(asked) else same_words
        query = (
            select(columns.number, columns.asked, same_words.label("same_words"), columns.versions, columns.reply)
            .where(columns.scope == asked.scope, alike)
            .where(columns.made_by == self._made_by, columns.made_at > self._oldest())
            .order_by(same_words.desc(), columns.made_at.desc())
            .limit(MOST_CANDIDATES)
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [Kept(row.number, row.asked, bool(row.same_words), row.versions, _reply(row.reply)) for row in rows]

    @unbroken
    async def keep(self, asked: Asked, reply: Reply, versions: Mapping[str, str]) -> None:
        """Keep a reply in place of an earlier one to the same words, and let go of what is too old or too many."""
        columns = replies.c
        values = {
            "scope": asked.scope,
            "made_by": self._made_by,
            "question": asked.normal,
            "sense": asked.sense,
            "asked": asked.text,
            "versions": dict(versions),
            "reply": _plain(reply),
            "made_at": time.time(),
        }
        newest = select(columns.number).order_by(columns.number.desc()).limit(self._settings.entries)
        same = (columns.scope == asked.scope) & (columns.question == asked.normal)
        async with self._database.writing() as connection:
            await connection.execute(delete(replies).where(or_(same, columns.made_at <= self._oldest())))
            await connection.execute(insert(replies).values(values))
            await connection.execute(delete(replies).where(columns.number.not_in(newest)))

    @unbroken
    async def drop(self, numbers: Sequence[int]) -> None:
        """Let go of replies whose sources have changed."""
        async with self._database.writing() as connection:
            await connection.execute(delete(replies).where(replies.c.number.in_(numbers)))

    def _by_sense(self, asked: Asked) -> bool:
        return bool(asked.sense) and self._settings.similarity < 1

    def _oldest(self) -> float:
        return time.time() - self._settings.hours * 3600


@unbroken
async def forget_replies(database: Database, before: float) -> int:
    """Remove replies made before a time (seconds of the epoch), whether or not they may be given again."""
    async with database.writing() as connection:
        done = await connection.execute(delete(replies).where(replies.c.made_at <= before))
    return done.rowcount


def _plain(reply: Reply) -> dict[str, Any]:
    """Return a reply as JSON values; of its trace what stays true when it is given again."""
    trace = {"query": reply.trace.query, "strategy": reply.trace.strategy, "agents": list(reply.trace.agents)}
    return {
        "text": reply.text,
        "citations": [asdict(one) for one in reply.citations],
        "passages": [asdict(one) for one in reply.passages],
        "extractive": reply.extractive,
        "trace": trace,
    }


def _reply(plain: Mapping[str, Any]) -> Reply:
    trace = plain["trace"]
    return Reply(
        plain["text"],
        tuple(Citation(**one) for one in plain["citations"]),
        tuple(Passage(**one) for one in plain["passages"]),
        plain["extractive"],
        Trace(trace["query"], trace["strategy"], tuple(trace["agents"]), {}, cached=True),
    )
