"""A daemon is watched: its numbers and its health over a real socket, while it answers, refreshes and loses touch."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bots.daemon.monitor import MAX_LAG_S, EventLoopLag, Monitor, open_monitor
from bots.daemon.runner import run
from bots.discord.adapter import DiscordAdapter
from bots.http.adapter import HttpAdapter
from bots.slack.adapter import SlackAdapter
from core.errors import StoreError, UsageError
from core.llm.model_sets import ModelSets
from core.observability.metrics import DaemonStatus, MetricsRecorder, PrometheusMetrics
from core.ports import ConnectionStatus
from core.settings import HttpSettings, Settings
from core.settings.loader import load_settings
from core.storage.messages import Journal
from core.types import Passage, SourceState
from knowledge.live.search import LiveSources
from tests.support import discord_helpers, slack_helpers
from tests.support.deployment import README, Deployment
from tests.support.documented_metrics import documented
from tests.support.feeds import rss
from tests.support.fixtures import settings
from tests.support.free_ports import free_port
from tests.support.http_helpers import echo
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.discord_gateway import RECONNECT
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.peers.web import Page, WebPeer
from tests.support.waiting import until
from tests.support.wiring import make_processor

GROUP = -100200300
SOON_S = 60
SECRET_NAME = "Winnifred"


@dataclass
class Watcher:
    """Asks a daemon as Prometheus and an orchestrator would."""

    port: int
    session: aiohttp.ClientSession

    async def get(self, path: str) -> tuple[int, Any]:
        """Return the status and what was answered; status 0 while nobody listens."""
        try:
            async with self.session.get(f"http://127.0.0.1:{self.port}{path}") as response:
                return response.status, await response.json() if path != "/metrics" else await response.text()
        except aiohttp.ClientConnectionError:
            return 0, None

    async def samples(self) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
        status, text = await self.get("/metrics")
        assert status == 200
        families = text_string_to_metric_families(text)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    async def until(self, name: str, expected: float, **labels: str) -> None:
        async with asyncio.timeout(SOON_S):
            while (await self.samples()).get((name, frozenset(labels.items()))) != expected:
                await asyncio.sleep(0.05)

    async def until_status(self, path: str, status: int) -> Any:
        async with asyncio.timeout(SOON_S):
            while (results := await self.get(path))[0] != status:
                await asyncio.sleep(0.02)
        return results[1]


@asynccontextmanager
async def watcher(port: int) -> AsyncIterator[Watcher]:
    async with aiohttp.ClientSession() as session:
        yield Watcher(port, session)


@pytest.fixture
async def model() -> AsyncIterator[LanguageModelPeer]:
    async with LanguageModelPeer(reply="Call `rotate_keys` [p1].") as peer:
        yield peer


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        results = {"items": [{"t": "Harbour", "x": "The harbour office opens at nine."}]}
        peer.pages["/found"] = Page(json.dumps(results), headers={"Content-Type": "application/json"})
        yield peer


@pytest.fixture
def deployment(
    tmp_path: Path, telegram: TelegramPeer, model: LanguageModelPeer, web: WebPeer, monkeypatch: pytest.MonkeyPatch
) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    monkeypatch.setenv("BOT_TOKEN", telegram.token)
    main = {"base_url": model.base_url, "model": "peer", "price_prompt": 1, "price_completion": 2}
    return Deployment(
        tmp_path,
        {
            "sources": {
                "rocket": {"kind": "files", "path": "docs"},
                "gone": {"kind": "faq", "path": "gone.yaml"},
                "web": {
                    "kind": "http_api",
                    "url": web.url("/found"),
                    "allow_private": ["127.0.0.1"],
                    "results": "items",
                    "title": "t",
                    "text": "x",
                },
            },
            "models": {"main": main},
            "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
            "cache": {"enabled": True},
            "metrics": {"port": free_port()},
            # A stage that a busy machine cuts short makes an answer that is not kept.
            "budget": {"deadline_s": 120},
        },
    )


@asynccontextmanager
async def daemon(deployment: Deployment) -> AsyncIterator[Watcher]:
    """Run the daemon as a task for the length of the block, and end it in order."""
    async with watcher(deployment.settings["metrics"]["port"]) as watcher_client:
        daemon_task = asyncio.create_task(run(load_settings([deployment.config])))
        try:
            yield watcher_client
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.wait_for(daemon_task, SOON_S) == 0
            assert await watcher_client.get("/readyz") == (0, None), "nobody listens any more"
        finally:
            daemon_task.cancel()
            await asyncio.gather(daemon_task, return_exceptions=True)


async def test_a_daemon_shows_what_it_does(
    deployment: Deployment, telegram: TelegramPeer, model: LanguageModelPeer
) -> None:
    # A path that is found when the configuration is read, and not when the source is.
    (deployment.folder / "gone.yaml").write_text("- question: Who?\n  answer: Me.\n", "utf-8")
    configured = deployment.config
    assert configured.exists()
    started_at = time.time()
    async with daemon(deployment) as watcher_client:
        assert (await watcher_client.until_status("/readyz", 200)) == {"state": "ok", "reasons": []}
        assert (await watcher_client.until_status("/healthz", 200)) == {"state": "ok", "reasons": []}
        await watcher_client.until("kimas_source_documents", 1, source="rocket")
        await watcher_client.until("kimas_refreshes_total", 1, source="gone", outcome="succeeded")
        question = "@kimas_bot How do I change the signing key?"
        telegram.say(GROUP, question)
        await watcher_client.until("kimas_answers_total", 1, outcome="answered")
        telegram.say(GROUP, question)
        await watcher_client.until("kimas_answers_total", 1, outcome="cached")
        telegram.say(GROUP, f"Nice weather today, says {SECRET_NAME}")
        silent_labels = {"platform": "telegram", "outcome": "silent", "reason": "not_addressed"}
        await watcher_client.until("kimas_messages_total", 1, **silent_labels)
        model.status = 404
        telegram.say(GROUP, "@kimas_bot How do I install Rocket?")
        await watcher_client.until("kimas_answers_total", 1, outcome="extractive")
        await watcher_client.until("kimas_messages_in_flight", 0)
        output = {
            name: sample for name, sample in (await watcher_client.samples()).items() if name[0].startswith("kimas_")
        }
        _, text = await watcher_client.get("/metrics")
    result: dict[str, list[dict[str, str]]] = {}
    for name, labels in output:
        base = next(
            item
            for item in (name, *(name.removesuffix(end) for end in ("_bucket", "_sum", "_count")))
            if item in documented()
        )
        result.setdefault(base, []).append(dict(labels))
    # Everything that is documented has a number, under the labels that are documented.
    assert set(result) | {"kimas_source_next_refresh_timestamp_seconds"} == set(documented())
    for name, metric in result.items():
        assert {frozenset(labels) - {"le"} for labels in metric} == {documented()[name][1]}, name

    def value(name: str, **labels: str) -> float:
        return output[name, frozenset(labels.items())]

    host = model.base_url.split("/")[2]
    assert value("kimas_messages_total", platform="telegram", outcome="answered", reason="") == 3
    assert value("kimas_answer_seconds_count") == 3
    assert value("kimas_first_token_seconds_count") == 1
    assert 0 < value("kimas_first_token_seconds_sum") <= value("kimas_answer_seconds_sum") < SOON_S
    assert value("kimas_stage_seconds_count", stage="search") == 2
    assert value("kimas_degraded_stages_total", stage="write") == 1
    prompt = value("kimas_tokens_total", agent="summarizer", kind="prompt")
    completion = value("kimas_tokens_total", agent="summarizer", kind="completion")
    assert prompt > completion > 0
    assert value("kimas_cost_total", agent="summarizer") == pytest.approx((prompt + 2 * completion) / 1_000_000)
    assert value("kimas_model_calls_total", model="peer", endpoint=host, outcome="ok") >= 1
    assert value("kimas_model_calls_total", model="peer", endpoint=host, outcome="failed") >= 1
    assert value("kimas_circuit_open", model="peer", endpoint=host) in (0, 1)
    assert value("kimas_platform_connected", platform="telegram") == 1
    assert value("kimas_platform_outages_total", platform="telegram") == 0
    assert value("kimas_source_passages", source="rocket") > 0
    assert value("kimas_source_failing", source="rocket") == 0
    assert started_at <= value("kimas_source_last_try_timestamp_seconds", source="rocket") + 1
    assert started_at <= value("kimas_source_last_success_timestamp_seconds", source="rocket") + 1 <= time.time() + 1
    assert value("kimas_refreshes_total", source="rocket", outcome="succeeded") == 1
    assert value("kimas_refresh_seconds_count", source="rocket") == 1
    assert value("kimas_live_calls_total", source="web", outcome="answered") >= 1
    assert value("kimas_ready") == 1
    assert 0 <= value("kimas_event_loop_lag_seconds") < time.time() - started_at
    for private_text in (SECRET_NAME, "signing", str(GROUP), telegram.token, "Ann"):
        assert private_text not in text


async def test_a_source_that_fails_is_told(deployment: Deployment) -> None:
    path = deployment.folder / "gone.yaml"
    path.write_text("- nothing: at all\n", "utf-8")
    async with daemon(deployment) as watcher_client:
        await watcher_client.until_status("/readyz", 200)
        await watcher_client.until("kimas_refreshes_total", 1, source="gone", outcome="failed")
        await watcher_client.until("kimas_source_failing", 1, source="gone")
        await watcher_client.until("kimas_source_failing", 0, source="rocket")
        samples = await watcher_client.samples()
        assert ("kimas_source_last_success_timestamp_seconds", frozenset({("source", "gone")})) not in samples
        # A source that fails keeps nobody from answering.
        assert (await watcher_client.until_status("/healthz", 200)) == {"state": "ok", "reasons": []}


async def test_a_feed_that_is_away_leaves_its_copy_stale(deployment: Deployment, web: WebPeer) -> None:
    web.pages["/feed"] = rss(("one", "Rocket 1 is out.", 1))
    feed = {"kind": "feed", "url": web.url("/feed"), "allow_private": ["127.0.0.1"], "refresh": {"minutes": 0.01}}
    deployment.settings["sources"] = {"rocket": feed}
    await asyncio.to_thread(deployment.call, "ingest")
    web.status = 503
    async with daemon(deployment) as watcher_client:
        await watcher_client.until_status("/readyz", 200)
        rocket = {"source": "rocket"}
        stale = {"source": "rocket", "outcome": "stale"}
        async with asyncio.timeout(SOON_S):
            while not (await watcher_client.samples()).get(("kimas_refreshes_total", frozenset(stale.items()))):
                await asyncio.sleep(0.05)
        await watcher_client.until("kimas_source_failing", 1, **rocket)
        await watcher_client.until("kimas_source_documents", 1, **rocket)
        output = await watcher_client.samples()
    assert output["kimas_refreshes_total", frozenset(stale.items())] >= 1
    names = ("kimas_source_failing", "kimas_source_documents")
    assert [output[name, frozenset(rocket.items())] for name in names] == [1, 1], "what was known of it is still there"


async def test_live_sources_that_fail_or_take_too_long_are_counted(web: WebPeer) -> None:
    request = {"kind": "http_api", "url": web.url("/found"), "allow_private": ["127.0.0.1"], "results": "items"}
    sources = settings(sources={"web": {**request, "title": "t", "text": "x", "cache_s": 0}}).sources

    async def similarity(query: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.5] * len(texts)

    async def search_stored() -> Sequence[Passage]:
        return []

    metrics = PrometheusMetrics(30)
    for error, patience_s in (("", 30), ("broken", 30), ("slow", 0.3)):
        web.failure_mode = error
        live_sources = LiveSources(sources, similarity, timeout_s=patience_s, metrics_recorder=metrics)
        await live_sources.search_with_stored(["web"], "How?", search_stored())
        await live_sources.close()
    metrics_text = metrics.render(DaemonStatus()).decode()
    for outcome in ("answered", "failed", "cancelled"):
        assert f'kimas_live_calls_total{{outcome="{outcome}",source="web"}} 1.0' in metrics_text
    assert 'kimas_live_call_seconds_count{source="web"} 1.0' in metrics_text


async def test_a_platform_that_is_away_is_told_until_it_is_back(deployment: Deployment, telegram: TelegramPeer) -> None:
    deployment.settings["sources"].pop("gone")
    async with daemon(deployment) as watcher_client:
        await watcher_client.until_status("/healthz", 200)
        telegram.fail("getUpdates", 502, times=1000)
        telegram.say(GROUP, "wake up")
        status = await watcher_client.until_status("/healthz", 503)
        telegram._injected_errors.clear()
        assert status == {"state": "unwell", "reasons": ["telegram is not connected"]}
        assert (await watcher_client.get("/readyz"))[0] == 200
        await watcher_client.until_status("/healthz", 200)
        await watcher_client.until("kimas_platform_outages_total", 1, platform="telegram")


async def test_a_journal_that_cannot_be_written_is_told_as_such(deployment: Deployment, telegram: TelegramPeer) -> None:
    deployment.settings["sources"].pop("gone")
    async with daemon(deployment) as watcher_client:
        await watcher_client.until_status("/healthz", 200)
        journal = deployment.folder / "data" / "journal.db"
        journal.rename(journal.with_suffix(".away"))
        telegram.say(GROUP, "wake up")
        status = await watcher_client.until_status("/healthz", 503)
        assert status["reasons"] == ["telegram takes no messages: the journal cannot be written"]
        journal.with_suffix(".away").rename(journal)
        await watcher_client.until_status("/healthz", 200)


async def test_nobody_listens_without_a_port(telegram: TelegramPeer) -> None:
    async with open_monitor(settings()) as monitor:
        assert type(monitor.metrics_recorder) is MetricsRecorder
        assert monitor.instrument_answer(echo) is echo


@pytest.fixture
async def monitor_and_watcher(tmp_path: Path) -> AsyncIterator[tuple[Monitor, Watcher]]:
    configuration = settings(metrics={"port": free_port()}, data_dir=str(tmp_path))
    async with AsyncExitStack() as stack:
        monitor = await stack.enter_async_context(open_monitor(configuration))
        port = configuration.metrics.port or 0
        yield monitor, await stack.enter_async_context(watcher(port))


class FakeRefresher:
    """A refresher whose record can be lost."""

    def __init__(self) -> None:
        self.lost = False
        self.store_problem = ""

    async def states(self) -> Sequence[SourceState]:
        if self.lost:
            raise StoreError("the journal is locked")
        return [SourceState("docs", "files", passages=7)]

    async def refresh(self, names: Sequence[str] = ()) -> None:
        raise UsageError("nothing is refreshed here")

    async def pause(self, name: str) -> None:
        raise UsageError("nothing is paused here")

    async def resume(self, name: str) -> None:
        raise UsageError("nothing is resumed here")


async def start_monitoring(
    monitor: Monitor, configuration: Settings, journal: Journal
) -> tuple[HttpAdapter, FakeRefresher]:
    http = HttpSettings.model_validate({"secret": {"env": "NO_SECRET"}, "callback_url": "http://127.0.0.1:9"})
    adapter = HttpAdapter(http)
    refresher = FakeRefresher()
    monitor.attach([adapter], make_processor(configuration, journal, echo), refresher, ModelSets())
    return adapter, refresher


async def test_from_the_start_to_the_stop(monitor_and_watcher: tuple[Monitor, Watcher], journal: Journal) -> None:
    monitor, watcher_client = monitor_and_watcher
    assert await watcher_client.get("/readyz") == (503, {"state": "unwell", "reasons": ["starting"]})
    assert await watcher_client.get("/healthz") == (503, {"state": "unwell", "reasons": ["starting"]})
    assert (await watcher_client.samples())["kimas_ready", frozenset()] == 0
    adapter, refresher = await start_monitoring(monitor, settings(), journal)
    assert (await watcher_client.get("/healthz"))[1]["reasons"] == ["http is not connected"]
    assert not adapter.connection.is_connected
    adapter.connection.mark_connected()
    monitor.stage = "ready"
    assert [(await watcher_client.get(path))[0] for path in ("/healthz", "/readyz")] == [200, 200]
    refresher.store_problem = "the server does not answer"
    for path in ("/healthz", "/readyz"):
        unwell = {"state": "unwell", "reasons": ["the server does not answer"]}
        assert await watcher_client.get(path) == (503, unwell)
    refresher.store_problem = ""
    monitor.stage = "stopping"
    assert await watcher_client.get("/readyz") == (503, {"state": "unwell", "reasons": ["stopping"]})
    assert (await watcher_client.get("/healthz"))[0] == 200, "what is left is still answered"


async def test_a_record_that_cannot_be_read_takes_only_the_sources(
    monitor_and_watcher: tuple[Monitor, Watcher], journal: Journal
) -> None:
    monitor, watcher_client = monitor_and_watcher
    _, refresher = await start_monitoring(monitor, settings(), journal)
    passages_key = ("kimas_source_passages", frozenset({("source", "docs")}))
    assert (await watcher_client.samples())[passages_key] == 7
    refresher.lost = True
    samples = await watcher_client.samples()
    assert passages_key not in samples
    assert samples["kimas_scrape_errors_total", frozenset()] == 1
    assert ("kimas_platform_connected", frozenset({("platform", "http")})) in samples


async def test_many_scrapes_at_once_are_whole(monitor_and_watcher: tuple[Monitor, Watcher]) -> None:
    _, watcher_client = monitor_and_watcher
    all_samples = await asyncio.gather(*(watcher_client.samples() for _ in range(20)))
    assert len({frozenset(item) for item in all_samples}) == 1


async def test_only_reading_is_allowed(monitor_and_watcher: tuple[Monitor, Watcher]) -> None:
    _, watcher_client = monitor_and_watcher
    async with watcher_client.session.post(f"http://127.0.0.1:{watcher_client.port}/metrics", data=b"x") as response:
        assert response.status == 405
    async with watcher_client.session.get(f"http://127.0.0.1:{watcher_client.port}/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    async with watcher_client.session.get(f"http://127.0.0.1:{watcher_client.port}/") as response:
        assert response.status == 404


async def test_an_address_that_is_taken_is_told_by_its_setting() -> None:
    with socket.socket() as occupied_socket:
        occupied_socket.bind(("127.0.0.1", 0))
        occupied_socket.listen()
        port = occupied_socket.getsockname()[1]
        with pytest.raises(UsageError, match=rf"metrics\.port .* 127\.0\.0\.1:{port}: another program listens there"):
            async with open_monitor(settings(metrics={"port": port})):
                raise AssertionError("nothing is open")


async def test_the_delay_of_the_loop_is_felt() -> None:
    lag = EventLoopLag()
    watch_task = asyncio.create_task(lag.watch())
    started_at = time.monotonic()
    await asyncio.sleep(0.3)
    idle = lag.max_s
    # Longer than the loop stood still by itself, on a machine that has much to do.
    time.sleep(idle + 0.6)
    await until(lambda: lag.max_s > idle)
    watch_task.cancel()
    await asyncio.gather(watch_task, return_exceptions=True)
    assert idle + 0.3 < lag.max_s < time.monotonic() - started_at


async def test_a_loop_that_stood_still_is_not_well(journal: Journal) -> None:
    class Stalled(EventLoopLag):
        max_s = MAX_LAG_S + 1.24

    monitor = Monitor(PrometheusMetrics(30))
    adapter, _ = await start_monitoring(monitor, settings(), journal)
    adapter.connection.mark_connected()
    assert monitor.get_problems() == []
    monitor.lag = Stalled()
    assert monitor.get_problems() == ["the event loop stood still for 6.2 s within the last minute"]


async def test_discord_tells_whether_its_gateway_is_there(tmp_path: Path) -> None:
    async with DiscordPeer() as peer:
        adapter = DiscordAdapter(
            discord_helpers.settings(peer, tmp_path), discord_helpers.Positions(), discord_helpers.PACE
        )
        line = adapter.connection
        assert not line.is_connected
        async with discord_helpers.listening(peer, adapter, discord_helpers.Inbox().receive):
            await until(lambda: line.is_connected)
            await peer.gateway.tell(RECONNECT)
            await until(lambda: not line.is_connected)
            await until(lambda: line.is_connected)
            assert line.outages == 0, "Discord asked for another connection"
            peer.gateway.refuse_handshakes = 3
            peer.gateway.drop()
            await until(lambda: not line.is_connected)
            await until(lambda: line.is_connected)
            assert line.outages == 1


async def test_slack_tells_whether_its_socket_is_there(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        adapter = SlackAdapter(
            slack_helpers.settings(peer, tmp_path), slack_helpers.Threads().answered_in, slack_helpers.PACE
        )
        line = adapter.connection
        assert not line.is_connected
        async with slack_helpers.listening(adapter, slack_helpers.Inbox()):
            await until(lambda: line.is_connected)
            await peer.deliveries.disconnect("refresh_requested")
            await peer.wait_until(lambda: peer.deliveries.opened == 2, SOON_S)
            assert (line.is_connected, line.outages) == (True, 0)
            peer.fail("apps.connections.open", status=503, times=2)
            peer.deliveries.abort()
            await until(lambda: not line.is_connected)
            await until(lambda: line.is_connected)
            assert line.outages == 1


def test_an_outage_is_one_however_often_it_is_told() -> None:
    line = ConnectionStatus()
    assert (line.is_connected, line.outages) == (False, 0)
    line.mark_disconnected()
    line.mark_disconnected()
    assert (line.is_connected, line.outages) == (False, 1)
    line.mark_connected()
    line.mark_connected()
    assert line.is_connected
    line.mark_disconnected()
    assert (line.is_connected, line.outages) == (False, 2)
