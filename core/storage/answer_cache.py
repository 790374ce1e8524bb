"""The cache of answers, in the journal's database."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, or_, select

from core.runtime.tasks import uncancellable
from core.settings import CacheSettings
from core.storage.engine import Database
from core.storage.tables import replies
from core.types import Citation, ConversationKey, Passage, Reply
from core.types.replies import Trace

# Few questions share a canonical form; each costs an embedding.
MAX_CANDIDATES = 4
# Older ones leave.
MAX_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class CacheKey:
    """A question in the cache: `scope` is the chat, the other texts come from `core.language.question_matching`.

    `visible_labels` are those of what its asker may see: a reply is for those who may see the same. None: everything.
    `persona` and `language` are those that the chat has for itself: with others, it would be another reply.
    """

    scope: str
    text: str
    normalized: str
    canonical_form: str
    visible_labels: frozenset[str] | None
    persona: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A reply that was given before, to `question`; `versions` are those of its cited sources then."""

    number: int
    question: str
    is_exact_match: bool
    versions: Mapping[str, str]
    reply: Reply


def to_scope(key: ConversationKey | None, *, is_restricted_thread: bool = False) -> str:
    """Return the scope of a cached reply: its chat or, if only some members can read it, its thread.

    A chat never gets replies from another chat.
    """
    if key is None:
        return json.dumps([])
    return json.dumps([key.platform, key.chat, key.thread] if is_restricted_thread else [key.platform, key.chat])


class AnswerCache:
    """Cached replies by question. Those made with another configuration than that of `fingerprint` are ignored.

    Every method raises `StoreError` when the database refuses.
    """

    def __init__(self, database: Database, settings: CacheSettings, fingerprint: str) -> None:
        self._database = database
        self._settings = settings
        self._fingerprint = fingerprint

    def for_fingerprint(self, fingerprint: str) -> AnswerCache:
        """Return the cache of another configuration in the same database."""
        return AnswerCache(self._database, self._settings, fingerprint)

    async def find_replies(self, key: CacheKey) -> Sequence[CacheEntry]:
        """Return current replies to the same words or to a question of the same meaning, best first."""
        columns = replies.c
        is_exact_match: ColumnElement[bool] = columns.question == key.normalized
        is_match = (
            or_(is_exact_match, columns.canonical_form == key.canonical_form)
            if key.canonical_form and self._settings.similarity < 1
            else is_exact_match
        )
        query = (
            select(columns.number, columns.text, is_exact_match.label("same_words"), columns.versions, columns.reply)
            .where(columns.scope == key.scope, is_match)
            .where(columns.fingerprint == self._make_fingerprint(key), columns.made_at > self._min_made_at())
            .order_by(is_exact_match.desc(), columns.made_at.desc())
            .limit(MAX_CANDIDATES)
        )
        return [
            CacheEntry(row.number, row.text, bool(row.same_words), row.versions, _reply_from_json(row.reply))
            for row in await self._database.fetch_all(query)
        ]

    @uncancellable
    async def store(self, key: CacheKey, reply: Reply, versions: Mapping[str, str]) -> None:
        """Store a reply in place of an earlier one to the same words, and remove old and surplus replies."""
        columns = replies.c
        values = {
            "scope": key.scope,
            "fingerprint": self._make_fingerprint(key),
            "question": key.normalized,
            "canonical_form": key.canonical_form,
            "text": key.text,
            "versions": dict(versions),
            "reply": _reply_to_json(reply),
            "made_at": time.time(),
        }
        newest_numbers = select(columns.number).order_by(columns.number.desc()).limit(MAX_ENTRIES)
        has_same_question = (columns.scope == key.scope) & (columns.question == key.normalized)
        async with self._database.transaction() as connection:
            await connection.execute(
                delete(replies).where(or_(has_same_question, columns.made_at <= self._min_made_at()))
            )
            await connection.execute(insert(replies), values)
            await connection.execute(delete(replies).where(columns.number.not_in(newest_numbers)))

    async def evict(self, numbers: Sequence[int]) -> None:
        """Remove replies whose sources have changed."""
        await self._database.write(delete(replies).where(replies.c.number.in_(numbers)))

    def _make_fingerprint(self, key: CacheKey) -> str:
        """Return what a reply was made from: the configuration, as far as its asker may see it."""
        conditions = [key.persona, key.language, sorted(key.visible_labels or ())]
        if key.visible_labels is None and not any(conditions):
            return self._fingerprint
        return hashlib.sha256(json.dumps([self._fingerprint, conditions]).encode()).hexdigest()

    def _min_made_at(self) -> float:
        return time.time() - self._settings.hours * 3600


async def delete_replies(database: Database, before: float) -> int:
    """Remove replies made before a time (seconds since 1970); return how many."""
    return await database.write(delete(replies).where(replies.c.made_at <= before))


def _reply_to_json(reply: Reply) -> dict[str, Any]:
    """Return a reply as JSON values, with only the reusable part of its trace."""
    trace = {"query": reply.trace.query, "strategy": reply.trace.strategy, "agents": list(reply.trace.agents)}
    return {
        "text": reply.text,
        "citations": [asdict(citation) for citation in reply.citations],
        "passages": [asdict(passage) for passage in reply.passages],
        "extractive": reply.is_extractive,
        "trace": trace,
    }


def _reply_from_json(data: Mapping[str, Any]) -> Reply:
    trace = data["trace"]
    return Reply(
        data["text"],
        tuple(Citation(**citation) for citation in data["citations"]),
        tuple(Passage(**passage) for passage in data["passages"]),
        data["extractive"],
        Trace(trace["query"], trace["strategy"], tuple(trace["agents"]), {}, cached=True),
    )
