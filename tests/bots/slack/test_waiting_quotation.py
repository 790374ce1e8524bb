"""What an answer to a command quotes of somebody else goes with them, also while the answer waits for Slack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Row, select

from bots.slack.adapter import SlackAdapter
from core.messaging.feedback.handoff import ASK_SHORTCUT_ID
from core.ports import Sink
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import ConversationKey, Question, Reply
from tests.support.fixtures import settings as make_settings
from tests.support.peers.slack import SlackPeer
from tests.support.slack_helpers import PACE, settings
from tests.support.waiting import LONGEST_S, until
from tests.support.wiring import make_processor

ANN, BOB = "U1042", "U1043"
SAID = "My launcher key is numbatological, where does it go?"


async def answer(question: Question, sink: Sink) -> Reply:
    await sink.open()
    reply = Reply("Into the lock.")
    await sink.finish(reply)
    return reply


async def never(_key: ConversationKey) -> bool:
    return False


async def until_asked(journal: Journal, is_true: Callable[[Row[Any]], bool]) -> None:
    """Wait until the row of the question is as it should be."""
    asked = select(messages.c.state, messages.c.quoted, messages.c.delivery).filter_by(command="ask")
    async with asyncio.timeout(LONGEST_S):
        while (row := await journal.database.fetch_first(asked)) is None or not is_true(row):
            await asyncio.sleep(0.01)


async def test_an_answer_that_waits_quotes_nobody_who_was_forgotten(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        journal = await Journal.open(tmp_path / "journal.db")
        adapter = SlackAdapter(settings(peer, tmp_path), never, replace(PACE, retry_timeout_s=0.3))
        inbox = make_processor(make_settings(), journal, answer)
        await adapter.open()
        listening = asyncio.create_task(adapter.listen(inbox.handler_for(adapter)))
        await until(lambda: bool(peer.deliveries.connections))
        said = peer.say("C1", SAID, user=ANN)
        peer.fail("response_url", times=1000, status=503)
        peer.choose("C1", said, ASK_SHORTCUT_ID, user=BOB)
        await until_asked(journal, lambda row: row.delivery is not None and row.quoted == SAID)
        # Until the first try is given up: from then on it waits to be delivered.
        await asyncio.sleep(1)
        peer.command("forget", channel="C1", user=ANN)
        await until_asked(journal, lambda row: not row.quoted)
        peer.heal("response_url")
        await until_asked(journal, lambda row: row.state not in ("answering", "sending"))
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        await inbox.drain(0)
        await adapter.close()
        await journal.close()
    assert "numbatological" not in str(peer.responses)
