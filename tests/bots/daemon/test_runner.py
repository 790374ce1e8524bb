"""The daemon from the inside: real signals, sockets and peers, in this process so that nothing has to be started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bots.daemon import runner
from bots.daemon.runner import run
from core.errors import JournalError, PlatformError
from core.runtime.locks import daemon_lock, refresh_lock
from core.settings.loader import load_settings
from core.storage.messages import Journal
from tests.support.deployment import README, Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.waiting import until

GROUP = -100200300
SOON_S = 60


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ingested")
    (folder / "docs").mkdir()
    (folder / "docs" / "rocket.md").write_text(README, "utf-8")
    Deployment(folder, {"sources": {"rocket": {"kind": "files", "path": "docs"}}}).call("ingest")
    return folder


@pytest.fixture
def deployment(
    ingested: Path,
    tmp_path: Path,
    telegram: TelegramPeer,
    model: LanguageModelPeer,
    monkeypatch: pytest.MonkeyPatch,
) -> Deployment:
    monkeypatch.setenv("BOT_TOKEN", telegram.token)
    folder = shutil.copytree(ingested, tmp_path / "deployment")
    return Deployment(
        folder,
        {
            "sources": {"rocket": {"kind": "files", "path": "docs"}},
            "models": {"main": {"base_url": model.base_url, "model": "peer"}},
            "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
        },
    )


@asynccontextmanager
async def daemon(deployment: Deployment) -> AsyncIterator[asyncio.Task[int]]:
    """Run the daemon as a task for the length of the block."""
    task = asyncio.create_task(run(load_settings([deployment.config])))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def model_request(model: LanguageModelPeer) -> None:
    """Wait until the model works on an answer."""
    await until(lambda: model.requests)


def terminate(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


async def test_sigterm_ends_an_opening_that_waits_for_a_platform(deployment: Deployment) -> None:
    call_event = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        call_event.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    deployment.settings["telegram"]["api_url"] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with daemon(deployment) as daemon_task:
        await asyncio.wait_for(call_event.wait(), SOON_S)
        terminate()
        assert await asyncio.wait_for(daemon_task, 30) == 0
    with daemon_lock(deployment.folder / "data"):
        pass
    server.close()


async def test_it_waits_for_the_server_of_the_passage_store(
    deployment: Deployment, unused_tcp_port_factory: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    ports = {"http_port": unused_tcp_port_factory(), "grpc_port": unused_tcp_port_factory()}
    deployment.settings["knowledge"] = {"store": {"provider": "weaviate", "weaviate": ports}}
    async with daemon(deployment) as daemon_task:
        await until(lambda: caplog.text.count("store.unreachable") >= 2)
        assert not daemon_task.done()
        terminate()
        assert await asyncio.wait_for(daemon_task, 30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_an_answer_is_finished_within_the_grace_period(
    deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer, number: int
) -> None:
    model.ttft_s = 1
    async with daemon(deployment) as daemon_task:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await model_request(model)
        assert not any("rotate_keys" in message.text for message in telegram.messages(GROUP))
        terminate(number)
        assert await asyncio.wait_for(daemon_task, SOON_S) == 0
    assert "nobody is logged out" in telegram.messages(GROUP)[-1].text


async def test_a_second_signal_hurries(
    deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    deployment.settings["run"] = {"grace_s": 60}
    model.hang = True
    async with daemon(deployment) as daemon_task:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await model_request(model)
        terminate()
        await asyncio.sleep(0.3)
        assert not daemon_task.done()
        terminate()
        assert await asyncio.wait_for(daemon_task, 30) == 0


async def test_a_platform_that_fails_for_good_ends_the_daemon_after_the_answers(
    deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.ttft_s = 1.5
    async with daemon(deployment) as daemon_task:
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await model_request(model)
        for method in ("getUpdates", "getMe"):
            telegram.fail(method, 401, description="Unauthorized", times=9)
        telegram.say(GROUP, "nice weather today")
        with pytest.raises(PlatformError) as error_info:
            await asyncio.wait_for(daemon_task, SOON_S)
    assert error_info.value.exit_code == 77
    assert "nobody is logged out" in telegram.messages(GROUP)[-1].text


async def test_what_is_due_is_refreshed_at_the_start_and_nothing_else(deployment: Deployment) -> None:
    (deployment.folder / "new").mkdir()
    (deployment.folder / "new" / "moon.md").write_text("# Moon\n\nThe moon is reached in three days.\n", "utf-8")
    deployment.settings["sources"]["moon"] = {"kind": "files", "path": "new"}

    async def get_source_states() -> dict[str, dict[str, Any]]:
        # Beside the daemon, as its operator would.
        thread = await asyncio.to_thread(deployment.json, "sources")
        return {source["name"]: source for source in thread["sources"]}

    state_before = await get_source_states()
    async with daemon(deployment) as daemon_task, asyncio.timeout(SOON_S):
        first = state_before
        # The copied folder has another path, and the other source was never read.
        while any(first[name]["last_success"] == state_before[name]["last_success"] for name in state_before):
            await asyncio.sleep(0.1)
            first = await get_source_states()
        terminate()
        assert await daemon_task == 0
    assert [entry["documents"] for entry in first.values()] == [1, 1]
    async with daemon(deployment) as daemon_task:
        await asyncio.sleep(3)
        terminate()
        assert await asyncio.wait_for(daemon_task, 30) == 0
    assert {name: entry["last_try"] for name, entry in (await get_source_states()).items()} == {
        name: entry["last_try"] for name, entry in first.items()
    }


async def test_the_service_manager_hears_that_it_is_ready_alive_and_stopping(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{folder}/notify")
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/notify")
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        loop = asyncio.get_running_loop()
        async with daemon(deployment) as daemon_task, asyncio.timeout(SOON_S):
            assert await loop.sock_recv(manager, 100) == b"READY=1"
            # Often enough for the time that was agreed, as soon as the machine has time for it.
            times: list[float] = []
            while len(times) < 6 or times[-1] - times[-6] >= 5 * 0.2:
                assert await loop.sock_recv(manager, 100) == b"WATCHDOG=1"
                times.append(time.monotonic())
            terminate()
            while (message := await loop.sock_recv(manager, 100)) == b"WATCHDOG=1":
                pass
            assert message == b"STOPPING=1"
            assert await daemon_task == 0


@pytest.mark.parametrize(
    ("lock", "command", "expected_text"),
    [
        (daemon_lock, "run", "another `kimas run` answers from"),
        (refresh_lock, "ingest", "another process is refreshing the knowledge in"),
    ],
)
def test_a_lock_that_is_held_is_told_with_its_file(
    ingested: Path,
    tmp_path: Path,
    lock: Callable[[Path], AbstractContextManager[None]],
    command: str,
    expected_text: str,
) -> None:
    folder = shutil.copytree(ingested, tmp_path / "deployment")
    telegram = {"token": {"env": "BOT_TOKEN"}, "api_url": "http://127.0.0.1:9"}
    sources = {"rocket": {"kind": "files", "path": "docs"}}
    deployment = Deployment(folder, {"sources": sources, "telegram": telegram}, {"BOT_TOKEN": "42:token-for-tests"})
    with lock(folder / "data"):
        result = deployment.call(command, code=1)
    assert expected_text in result.stderr
    assert str(folder / "data" / f"{lock.__name__.removesuffix('_lock')}.lock") in result.stderr
    assert "stop it" in result.stderr


async def test_a_journal_that_is_locked_at_the_start_is_waited_for(
    deployment: Deployment,
    telegram: TelegramPeer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    restart_begun = Journal.restart_begun
    failures = [JournalError("database is locked") for _ in range(2)]

    async def fail_twice(journal: Journal, platform: str) -> int:
        if failures:
            raise failures.pop()
        return await restart_begun(journal, platform)

    monkeypatch.setattr(Journal, "restart_begun", fail_twice)
    async with daemon(deployment):
        telegram.say(GROUP, "@kimas_bot How do I change the signing key?")
        await telegram.wait_for_reply(GROUP, SOON_S, containing="nobody is logged out")
    assert caplog.text.count("journal.unavailable") == 2


async def test_a_journal_that_stays_unusable_at_the_start_ends_the_daemon(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> int:
        raise JournalError("database disk image is malformed")

    monkeypatch.setattr(Journal, "restart_begun", fail)
    monkeypatch.setattr(runner, "RESUME_RETRIES", 1)
    async with daemon(deployment) as daemon_task:
        with pytest.raises(JournalError, match="malformed"):
            await asyncio.wait_for(daemon_task, SOON_S)
