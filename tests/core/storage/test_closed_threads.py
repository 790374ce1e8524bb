"""A thread that is closed later is told to its own readers alone, in messages, lessons and the cache."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import insert, select

from core.storage.closed_threads import close_thread
from core.storage.messages import Journal
from core.storage.tables import messages, replies, taught_answers
from core.types import ConversationKey, Message

LESSON = dict.fromkeys(("asked_by", "taught_by", "teacher", "question", "answer", "reviewer"), "")


async def test_a_closed_thread_takes_those_within_it(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    threads = ["issues/1", "issues/1/n", "issues/11", ""]
    for number, thread in enumerate(threads):
        for chat in ("p", "q"):
            message = Message(
                f"{number}", ConversationKey("gitlab", chat, thread), "1", "ann", "how?", datetime.now(UTC)
            )
            await journal.record_message(message)
    async with journal.database.transaction() as connection:
        for thread in threads:
            place = {"platform": "gitlab", "chat": "p", "lesson": thread, "thread": thread}
            values = {**LESSON, **place, "state": "pending", "at": datetime.now(UTC)}
            await connection.execute(insert(taught_answers).values(values))
        for chat in ("p", "q"):
            cached = {"scope": json.dumps(["gitlab", chat]), "made_at": time.time(), "versions": {}, "reply": {}}
            texts = dict.fromkeys(("fingerprint", "question", "canonical_form", "text"), "")
            await connection.execute(insert(replies).values({**cached, **texts}))
    assert await close_thread(journal.database, "gitlab", "p", "issues/1") == 2
    for table in (messages, taught_answers):
        query = select(table.c.thread).filter_by(chat="p", in_restricted_thread=True)
        assert {row.thread for row in await journal.database.fetch_all(query)} == {"issues/1", "issues/1/n"}
    assert not await journal.database.fetch_all(select(messages).filter_by(chat="q", in_restricted_thread=True))
    scopes = [row.scope for row in await journal.database.fetch_all(select(replies.c.scope))]
    assert scopes == [json.dumps(["gitlab", "q"])], "what was cached may have been asked there"
    assert await close_thread(journal.database, "gitlab", "p", "issues/1") == 0
    await journal.close()
