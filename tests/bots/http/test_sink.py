from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from bots.common.caches import BoundedDict
from bots.http.signing import IdempotencyKeys
from core.ports import Sink
from core.storage.messages import Journal
from core.types import Question, Reply
from tests.support.http_helpers import CITED, echo, event, open_harness
from tests.support.peers.callback import CallbackPeer

pytestmark = pytest.mark.usefixtures("time_lapse")


@pytest.mark.parametrize("failure_mode", ["drop", "lost", 500, 503, 429])
async def test_an_outage_is_waited_out_and_the_reply_is_there_once(tmp_path: Path, failure_mode: int | str) -> None:
    async with open_harness(tmp_path) as harness:
        # The first failure meets the sign that a reply is begun, which nothing depends on.
        harness.peer.failures = [failure_mode, failure_mode, failure_mode]
        await harness.send(event())
        await harness.wait_until_finished()
        assert [message["text"] for message in harness.peer.of("final")] == ["0: How? [1]"]
        assert harness.peer.tries == 4
        assert (await harness.state())[0] == "answered"


async def test_a_slow_network_is_given_up_in_time_and_tried_again(tmp_path: Path) -> None:
    async with open_harness(tmp_path, http={"timeout_s": 0.2}) as harness:
        harness.peer.failures = ["slow"]
        await harness.send(event())
        await harness.wait_until_finished()
        assert len(harness.peer.of("final")) == 1


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (403, "failed", "answered with status 403"),
        (410, "silent", "deleted"),
        (412, "silent", "enough replies"),
        (307, "failed", "redirects"),
    ],
)
async def test_a_definite_refusal_is_recorded_and_not_repeated(
    tmp_path: Path, status: int, state: str, reason: str
) -> None:
    async def without_sign(question: Question, sink: Sink) -> Reply:
        reply = Reply("Yes.")
        await sink.finish(reply)
        return reply

    async with open_harness(tmp_path, without_sign) as harness:
        harness.peer.location = f"http://127.0.0.1:{harness.peer.port}/elsewhere"
        harness.peer.failures = [status]
        await harness.send(event())
        await harness.wait_until_finished()
        assert harness.peer.callbacks == []
        assert harness.peer.tries == 1
        outcome, reason_text = await harness.state()
        assert outcome == state
        assert reason in reason_text


async def test_the_reply_is_known_by_the_networks_own_id(tmp_path: Path) -> None:
    async def two_states(question: Question, sink: Sink) -> Reply:
        await sink.open()
        await sink.update("Yes, so")
        await harness.peer.until("partial")
        await sink.update("Yes, so far")
        await harness.peer.until("partial", 2)
        reply = Reply("Yes, so far so good. [1]", CITED)
        await sink.finish(reply)
        return reply

    async with open_harness(tmp_path, two_states, http={"partials": True}) as harness:
        await harness.send(event())
        await harness.wait_until_finished()
        first, second = harness.peer.of("partial")
        (final,) = harness.peer.of("final")
        assert [first["text"], second["text"]] == ["Yes, so", "Yes, so far"]
        own_id = f"r{[callback['state'] for callback in harness.peer.callbacks].index('partial')}"
        assert first["reply_id"] != own_id
        assert second["reply_id"] == final["reply_id"] == own_id


async def test_without_partials_only_the_beginning_and_the_end_are_sent(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        harness.peer.own_ids = False
        await harness.send(event())
        await harness.wait_until_finished()
        assert [callback["state"] for callback in harness.peer.callbacks] == ["started", "final"]


async def test_a_failure_is_told_as_one(tmp_path: Path) -> None:
    async def fail(question: Question, sink: Sink) -> Reply:
        raise ValueError("a bug with details")

    async with open_harness(tmp_path, fail) as harness:
        await harness.send(event())
        await harness.wait_until_finished()
        (callback,) = harness.peer.callbacks
        assert callback["state"] == "failed"
        assert "details" not in callback["text"]


async def test_after_a_stop_in_the_middle_the_same_reply_is_brought_to_its_end(tmp_path: Path) -> None:
    async def hang(question: Question, sink: Sink) -> Reply:
        await sink.open()
        await sink.update("Half")
        await harness.peer.until("partial")
        await asyncio.Event().wait()
        raise AssertionError

    async with open_harness(tmp_path, hang, http={"partials": True}) as harness:
        await harness.send(event())
        await harness.peer.until("partial")
        half = harness.peer.of("partial")[0]
        # Its outcome is written down a moment after the network has it.
        async with asyncio.timeout(30):
            while not [previous for _, previous in await harness.journal.get_pending("http") if previous]:
                await asyncio.sleep(0.01)
        assert await harness.processor.drain(0) == 1
    async with open_harness(tmp_path, echo) as harness:
        final = (await harness.peer.until("final"))[0]
        await harness.wait_until_finished()
        assert final["event_id"] == half["event_id"]
        assert final["reply_id"] == "r1"
        assert (await harness.state())[0] == "answered"


@pytest.mark.parametrize("is_taken", [True, False])
async def test_killed_at_the_last_callback_it_sends_it_again_under_the_same_key(
    tmp_path: Path, *, is_taken: bool
) -> None:
    peer = CallbackPeer()
    async with open_harness(tmp_path, peer=peer) as harness:
        peer.failures = [] if is_taken else [503, 403]
        await harness.send(event())
        await harness.wait_until_finished()
    # What the journal says between the last callback and its outcome.
    journal = await Journal.open(tmp_path / "journal.db")
    async with journal.database.transaction() as connection:
        await connection.execute(text("UPDATE messages SET state = 'sending', reply = '', settled_at = NULL"))
    await journal.close()
    async with open_harness(tmp_path, peer=peer) as harness:
        await harness.wait_until_finished()
        assert [callback["text"] for callback in peer.of("final")] == ["0: How? [1]"]
        assert (await harness.state())[0] == "answered"
        assert len(peer.keys) == len(set(peer.keys))


def test_memories_are_bounded() -> None:
    deletions = BoundedDict[tuple[str, str], None](limit=2)
    for number in ("1", "2", "3"):
        deletions["room", number] = None
    assert [("room", number) in deletions for number in ("1", "2", "3")] == [False, True, True]
    idempotency_keys = IdempotencyKeys(window_s=10)
    idempotency_keys.add(("room", "1"), now=0)
    assert idempotency_keys.contains(("room", "1"), now=10)
    assert not idempotency_keys.contains(("room", "1"), now=10.1)
    assert not idempotency_keys._expiry_times


@pytest.mark.parametrize("hanging_state", ["started", "partial"])
async def test_a_callback_that_hangs_before_the_end_does_not_delay_the_final_one(
    tmp_path: Path, hanging_state: str
) -> None:
    reached = asyncio.Event()

    async def hang(state: str, phase: str) -> None:
        if state == hanging_state and phase == "before":
            reached.set()
            await asyncio.Event().wait()

    async def answer(question: Question, sink: Sink) -> Reply:
        await sink.open()
        await sink.update("Yes, so")
        await reached.wait()
        reply = Reply("Yes, so far so good. [1]", CITED)
        await sink.finish(reply)
        return reply

    async with open_harness(tmp_path, answer, http={"partials": True, "timeout_s": 60}) as harness:
        harness.peer.watch = hang
        started_at = asyncio.get_running_loop().time()
        await harness.send(event())
        await harness.peer.until("final")
        await harness.wait_until_finished()
        assert asyncio.get_running_loop().time() - started_at < 10
