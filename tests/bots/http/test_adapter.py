from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import select

from bots.common.connection import EXIT_REFUSED
from bots.daemon.adapters import make_adapters
from bots.daemon.bootstrap import make_live_settings
from bots.http.adapter import HttpAdapter
from core.errors import PlatformError
from core.ports import Sink
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Question, Reply
from tests.support.fixtures import settings
from tests.support.http_helpers import echo, event, http_settings, open_harness
from tests.support.peers.callback import CallbackPeer, signed

pytestmark = pytest.mark.usefixtures("time_lapse")


async def test_a_question_is_answered_by_signed_callbacks(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        status, body = await harness.peer.send(harness.adapter.port, event(text="How?\nReally?", thread="t"))
        assert (status, body) == (202, {"state": "taken", "event_id": "1"})
        await harness.wait_until_finished()
        first_callback, final = harness.peer.callbacks
        assert (first_callback["state"], first_callback["text"], first_callback["event_id"]) == ("started", "", "1")
        assert (final["state"], final["text"], final["chat"], final["thread"]) == (
            "final",
            "0: How?\nReally? [1]",
            "room",
            "t",
        )
        assert final["citations"] == [
            {
                "n": 1,
                "source": "docs",
                "title": "Install",
                "path": "install.md",
                "url": "https://example.org/install",
            }
        ]
        assert first_callback["reply_id"] == final["reply_id"]
        assert len(set(harness.peer.keys)) == 2
        assert await harness.state() == ("answered", "")


async def test_the_event_is_in_the_journal_when_it_is_confirmed(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert await harness.send(event(addressed=False)) == [202]
        assert (await harness.state())[0] in ("received", "silent")
        await harness.wait_until_finished()
        assert await harness.state() == ("silent", "the bot was not addressed")


async def test_an_event_that_cannot_be_kept_is_not_confirmed_and_may_come_again(tmp_path: Path) -> None:
    refusing = True

    async def receive(message: object) -> None:
        if refusing:
            raise OSError("the disk with /secret/path is full")

    async with CallbackPeer() as peer:
        adapter = HttpAdapter(http_settings(peer, tmp_path))
        await adapter.open()
        listen_task = asyncio.create_task(adapter.listen(receive))
        await asyncio.wait_for(adapter.ready.wait(), 30)
        status, body = await peer.send(adapter.port, event())
        assert (status, body["error"]) == (503, "not_taken")
        assert "secret" not in body["reason"]
        refusing = False
        assert (await peer.send(adapter.port, event()))[0] == 202
        listen_task.cancel()
        await asyncio.gather(listen_task, return_exceptions=True)
        await adapter.close()


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "not kept"])
async def test_a_second_try_is_told_how_the_first_one_ends(tmp_path: Path, is_kept: bool) -> None:
    async with open_harness(tmp_path) as harness:
        with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other_process:
            other_process.execute("BEGIN IMMEDIATE")
            tries = [asyncio.create_task(harness.peer.send(harness.adapter.port, event())) for _ in range(2)]
            done_tries, _ = await asyncio.wait(tries, timeout=0.5 if is_kept else None)
            assert bool(done_tries) != is_kept, "nobody knows yet"
            other_process.execute("ROLLBACK")
        statuses = sorted([status for status, _ in await asyncio.gather(*tries)])
        assert statuses == ([202, 409] if is_kept else [503, 503])
        assert await harness.send(event()) == [409 if is_kept else 202]
        await harness.wait_until_finished()
        assert len(harness.peer.of("final")) == 1


async def test_a_replay_is_refused_and_answered_once_even_after_a_restart(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        status = await harness.send(event(), event(), event(chat="elsewhere"))
        assert status == [202, 409, 202]
        await harness.wait_until_finished()
        assert len(harness.peer.of("final")) == 2
    async with open_harness(tmp_path) as harness:
        assert await harness.send(event()) == [202]
        await harness.wait_until_finished()
        assert harness.peer.callbacks == []


async def test_a_refused_event_may_be_sent_again_in_a_better_form(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert await harness.send(event(text=""), event()) == [422, 202]


# Far enough from now for a suite that takes its time between collecting and running this.
UNSIGNED: list[tuple[dict[str, Any], str]] = [
    ({"secret": "another secret of the same length"}, "does not fit"),
    ({"signature": ""}, "missing"),
    ({"signature": "v1=é"}, "does not fit"),
    ({"timestamp": str(int(time.time()) - 40_000)}, "behind this machine"),
    ({"timestamp": str(int(time.time()) + 40_000)}, "ahead of this machine"),
    ({"timestamp": "now"}, "seconds since 1970"),
    ({"timestamp": "²"}, "seconds since 1970"),
]


async def test_what_is_not_signed_now_by_the_secret_is_refused(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        for values, reason in UNSIGNED:
            status, body = await harness.peer.send(harness.adapter.port, event(), **values)
            assert (status, body["error"]) == (401, "unsigned")
            assert reason in body["reason"]
        assert harness.adapter.event_counts.total() == 0


async def test_a_clock_that_differs_is_a_warning_until_the_next_event_that_is_right(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        connection = harness.adapter.connection
        await harness.peer.send(harness.adapter.port, event(), secret="another secret of the same length")
        assert connection.warning == "", "only who has the secret says anything about clocks"
        await harness.peer.send(harness.adapter.port, event(), timestamp=str(int(time.time()) - 40_000))
        assert "behind this machine's clock" in connection.warning
        assert connection.is_connected, "it is no reason to restart the daemon"
        await harness.send(event())
        assert connection.warning == ""


async def test_a_signature_holds_for_one_body(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        now = str(int(time.time()))
        other = signed(harness.peer.secret, now, b"{}")
        status, _ = await harness.peer.send(harness.adapter.port, event(), timestamp=now, signature=other)
        assert status == 401


MALFORMED: list[tuple[object, int, str]] = [
    (b"{", 400, "no_json"),
    (b"\xff\xfe", 400, "no_json"),
    (b"[" * 30000, 400, "no_json"),
    (b"[]", 422, "malformed"),
    (b"x" * (64 * 1024 + 1), 413, "too_large"),
    (event(kind="shout"), 422, "malformed"),
    (event(extra=1), 422, "malformed"),
    (event(author="Ann"), 422, "malformed"),
    (event(id=7), 422, "malformed"),
    (event(id="x" * 129), 422, "malformed"),
    (event(text=" "), 422, "malformed"),
    (event(text="\ud800"), 422, "malformed"),
    (event(private="yes"), 422, "malformed"),
    (event(sent_at="yesterday"), 422, "malformed"),
    (event(sent_at="2026-01-02T03:04:05"), 422, "malformed"),
    (event(sent_at="0001-01-01T00:00:00+14:00"), 422, "malformed"),
    (event(kind="delete"), 422, "malformed"),
]


async def test_malformed_events_are_refused_with_the_reason(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        for body, status, error in MALFORMED:
            response_status, data = await harness.peer.send(harness.adapter.port, body)
            assert (response_status, data["error"]) == (status, error), body
            assert data["reason"]
        # None of them stands in the way of the next one.
        assert await harness.send(event()) == [202]


async def test_compressed_bodies_other_paths_and_health(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness, aiohttp.ClientSession() as session:
        status, data = await harness.peer.send(harness.adapter.port, event(), headers={"Content-Encoding": "gzip"})
        assert (status, data["error"]) in ((415, "encoded"), (400, "refused"))
        base = f"http://127.0.0.1:{harness.adapter.port}"
        async with session.get(f"{base}/health") as answer:
            assert (answer.status, await answer.json()) == (200, {"state": "ready"})
        async with session.get(f"{base}/v1/events") as answer:
            assert (answer.status, (await answer.json())["error"]) == (405, "refused")
        async with session.get(f"{base}/etc") as answer:
            assert (answer.status, (await answer.json())["error"]) == (404, "refused")


async def test_an_edit_counts_before_the_answer_begins(tmp_path: Path) -> None:
    first_asked = asyncio.Event()
    edit_received = asyncio.Event()

    async def patient(question: Question, sink: Sink) -> Reply:
        first_asked.set()
        await edit_received.wait()
        return await echo(question, sink)

    async with open_harness(tmp_path, patient) as harness:
        # The second question waits for the first one of its conversation.
        await harness.send(event("1"), event("2", text="Whta?"))
        await first_asked.wait()
        assert await harness.send(event("3", kind="edit", changes="2", text="What?")) == [202]
        edit_received.set()
        await harness.wait_until_finished()
        assert [message["text"] for message in harness.peer.of("final")] == ["0: How? [1]", "2: What? [1]"]
        assert await harness.send(event("4", kind="edit", changes="2", text="/help")) == [202]
        query = select(messages.c.id, messages.c.state, messages.c.text).where(messages.c.reason.contains("new text"))
        rows = await harness.journal.database.fetch_all(query)
        assert [tuple(row) for row in rows] == [("3", "silent", ""), ("4", "silent", "")]


async def test_a_deleted_question_gets_no_answer(tmp_path: Path) -> None:
    request = asyncio.Event()
    deletion_received = asyncio.Event()

    async def patient(question: Question, sink: Sink) -> Reply:
        request.set()
        await deletion_received.wait()
        return await echo(question, sink)

    async with open_harness(tmp_path, patient) as harness:
        await harness.send(event())
        await request.wait()
        assert await harness.send({"id": "2", "chat": "room", "kind": "delete", "changes": "1"}) == [202]
        deletion_received.set()
        await harness.wait_until_finished()
        assert harness.peer.of("final") == []
        assert (await harness.state())[0] == "silent"


async def test_commands_private_chats_and_other_bots(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.send(
            event("1", addressed=False, text="/help"),
            event("2", addressed=False, private=True, chat="dm"),
            event("3", author={"id": "7", "name": "Robot", "bot": True}, chat="third"),
            event("4", addressed=False, text="/tmp/file is full", chat="fourth"),
        )
        await harness.wait_until_finished()
        texts = {message["event_id"]: message["text"] for message in harness.peer.of("final")}
        assert set(texts) == {"1", "2"}
        assert texts["1"].startswith("I am KIMAs")
        private = [message["event_id"] for message in harness.peer.of("final") if message.get("private")]
        assert private == ["2"], "its network may know that others read it by now"
        assert await harness.state("3") == ("silent", "written by another bot")
        assert (await harness.state("4"))[0] == "silent"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"callback_url": "http://10.0.0.1/callback"}, "private address"),
        ({"callback_url": "http://name:word@example.org/"}, "password"),
    ],
)
async def test_a_callback_that_cannot_be_used_is_told_at_the_start(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    async with CallbackPeer() as peer:
        adapter = HttpAdapter(http_settings(peer, tmp_path, **changes))
        with pytest.raises(PlatformError, match=reason):
            await adapter.open()


async def test_a_missing_or_weak_secret_is_told_without_the_secret(tmp_path: Path) -> None:
    async with CallbackPeer() as peer:
        weak = http_settings(peer, tmp_path)
        (tmp_path / "secret").write_text("hunter2")
        with pytest.raises(PlatformError, match="too short") as error_info:
            await HttpAdapter(weak).open()
        assert error_info.value.exit_code == EXIT_REFUSED
        assert "hunter2" not in str(error_info.value)
        (tmp_path / "secret").unlink()
        with pytest.raises(PlatformError, match=r"http\.secret cannot be read"):
            await HttpAdapter(weak).open()


async def test_a_taken_port_is_told(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        adapter = HttpAdapter(http_settings(harness.peer, tmp_path, port=harness.adapter.port))
        await adapter.open()

        async def receive(message: object) -> None:
            return None

        with pytest.raises(PlatformError, match="cannot be listened on"):
            await adapter.listen(receive)
        await adapter.close()


async def test_the_wiring_knows_the_platform(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.db")
    http = {"secret": {"env": "KIMAS_HTTP_SECRET"}, "callback_url": "https://network.example.org/kimas"}
    adapters = make_adapters(make_live_settings(settings(http=http), journal.database), journal)
    assert [adapter.name for adapter in adapters] == ["http"]
    with pytest.raises(PlatformError, match="not open"):
        await adapters[0].listen(lambda message: asyncio.sleep(0))
    await adapters[0].close()
    await journal.close()
