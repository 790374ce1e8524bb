"""Several daemons on one journal, as processes and in parts; `python -m tests.lab.benchmarks daemons` has many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from psycopg import sql

from bots.common.dry_run import DryRunAdapter
from bots.common.namespaced import NamespacedAdapter
from bots.daemon.monitor import Monitor
from bots.daemon.sharing import ReloadFollower, Sharing, join_daemons
from bots.discord.adapter import DiscordAdapter
from bots.http.adapter import HttpAdapter
from bots.slack.adapter import SlackAdapter
from bots.slack.settings_modal import FIELD
from core.errors import ConfigurationError, UsageError
from core.llm.model_sets import ModelSets
from core.messaging.claiming import ClaimQueue, is_bound
from core.messaging.commands.context import CommandContext
from core.settings import DiscordSettings, HttpSettings, Settings, SlackSettings
from core.settings.messaging import JournalSettings
from core.storage.claims import ClaimRepository
from core.storage.engine import Database
from core.storage.leases import open_leases
from core.storage.messages import Journal
from core.types import ConversationKey, Message, Origin
from tests.lab.benchmarks.daemons import Fleet, Shape, run
from tests.support.fixtures import settings
from tests.support.peers.postgresql import PostgresServer
from tests.support.waiting import until
from tests.support.wiring import wire_dispatcher

SMALL = Shape(60, 12, 6, workers=16, model_s=0.3, lease_s=3, kill_after_s=3)
ALONE = Shape(6, 6, 0, daemons=1, workers=16, model_s=3, lease_s=15)
MESSAGE = Message("1", ConversationKey("x", "1", ""), "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.serial
async def test_when_the_receiving_daemon_is_killed_everything_is_answered_once(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    outcome = await run(tmp_path, SMALL, postgres_server)
    assert (outcome.lost, outcome.twice, outcome.out_of_order) == (0, 0, 0)
    assert outcome.taken_over, "nothing was in progress when it was killed"
    assert outcome.placeholders <= outcome.taken_over
    assert outcome.leader_s <= SMALL.lease_s


@pytest.mark.serial
async def test_a_daemon_whose_lease_ran_out_begins_nothing_again(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """The clock of the server steps, say, or the daemon was paused."""
    async with AsyncExitStack() as stack:
        fleet = Fleet(tmp_path, ALONE, postgres_server)
        await fleet.open(stack)
        await fleet.ask()
        await until(lambda: len(fleet.model.requests) >= ALONE.messages)
        # It is renewed sooner or later, and the daemon looks for work more often.
        for _ in range(10):
            expiry = sql.SQL("UPDATE leases SET expires_at = now() - interval '1 hour'")
            await asyncio.to_thread(postgres_server.execute, expiry, fleet.database)
            await asyncio.sleep(0.1)
        await fleet.wait_until_finished()
        # An answer that was begun again would come now.
        await asyncio.sleep(ALONE.model_s)
        assert {number: len(answers) for number, answers in fleet.answers().items()} == dict.fromkeys(range(6), 1)
        assert len(fleet.model.requests) == ALONE.messages


class TestJoining:
    @pytest.fixture
    async def databases(self, postgres_journal: JournalSettings) -> AsyncIterator[list[Database]]:
        databases = [await Database.open_server(postgres_journal) for _ in range(2)]
        yield databases
        for database in databases:
            await database.close()

    def settings(self, journal: JournalSettings, folder: Path, provider: str) -> Settings:
        return Settings.model_validate(
            {
                "data_dir": folder,
                "journal": journal.model_copy(update={"lease_s": 1}),
                "sources": {"docs": {"kind": "files", "path": folder}},
                "knowledge": {"store": {"provider": provider}},
            }
        )

    async def test_passages_of_one_machine_are_not_shared(
        self, databases: list[Database], postgres_journal: JournalSettings, tmp_path: Path
    ) -> None:
        local = self.settings(postgres_journal, tmp_path, "sqlite")
        async with join_daemons(local, databases[0]) as first:
            assert first is not None
            assert databases[0].owner == first.owner
            with pytest.raises(UsageError, match="provider to weaviate"):
                async with join_daemons(local, databases[1]):
                    pytest.fail("two daemons have different passages")
            async with join_daemons(self.settings(postgres_journal, tmp_path, "weaviate"), databases[1]) as second:
                assert second is not None
                assert await second.count_others() == 1
        async with join_daemons(local, databases[1]):
            pass

    async def test_a_daemon_with_a_file_is_alone(self, tmp_path: Path) -> None:
        database = await Database.open(tmp_path / "journal.db")
        async with join_daemons(Settings(data_dir=tmp_path), database) as leases:
            assert leases is None
        assert database.owner == ""
        await database.close()


@pytest.mark.serial
async def test_a_reload_reaches_the_daemon_that_did_not_get_it(tmp_path: Path, postgres_server: PostgresServer) -> None:
    shape = replace(ALONE, daemons=2, settings={"administration": {"owners": ["telegram:1001"]}})
    async with AsyncExitStack() as stack:
        fleet = Fleet(tmp_path, shape, postgres_server)
        await fleet.open(stack)
        for deployment in fleet.deployments:
            files = yaml.safe_load(deployment.config.read_text())
            deployment.config.write_text(yaml.safe_dump({**files, "gate": {"mode": "off"}}))
        fleet.telegram.say(1001, "/reload")
        await until(lambda: any('"configuration.reloaded"' in item.log() for item in fleet.deployments))
        followed = [line for item in fleet.deployments for line in item.log().splitlines() if "configuration.r" in line]
        assert [json.loads(line)["live"] for line in followed] == [["gate"]]


class TestReloads:
    """What `/reload` to one of two daemons does in the other one."""

    @pytest.fixture
    async def databases(self, postgres_journal: JournalSettings) -> AsyncIterator[list[Database]]:
        databases = [await Database.open_server(postgres_journal) for _ in range(2)]
        for number, database in enumerate(databases):
            database.owner = f"daemon{number}"
        yield databases
        for database in databases:
            await database.close()

    def make_context(self, database: Database, files: list[Settings | ConfigurationError]) -> CommandContext:
        """Return what commands of a daemon work with; each reload reads the next of `files`."""

        async def read() -> Settings:
            content = files.pop(0)
            if isinstance(content, ConfigurationError):
                raise content
            return content

        context = wire_dispatcher(settings(), Journal(database), reload_settings=read).context
        context.overrides._cache_ttl_s = 0
        return context

    async def test_the_others_apply_their_own_files_once_and_do_not_answer_with_a_reload(
        self, databases: list[Database]
    ) -> None:
        changed = settings(chats={"slack:C1": {"answers": "asker"}})
        first = self.make_context(databases[0], [])
        second = self.make_context(databases[1], [changed])
        followers = [ReloadFollower(context) for context in (first, second)]
        await followers[1].look()
        assert second.settings.chats == {}
        await first.reload(changed)
        for follower in (*followers, *followers):
            await follower.look()
        assert second.settings.chats == first.settings.chats == changed.chats

    async def test_files_with_errors_are_read_again_with_the_next_reload(
        self, databases: list[Database], caplog: pytest.LogCaptureFixture
    ) -> None:
        changed = settings(chats={"slack:C1": {"answers": "asker"}})
        first = self.make_context(databases[0], [])
        second = self.make_context(databases[1], [ConfigurationError(["chats: no"]), changed])
        follower = ReloadFollower(second)
        for expected_chats in ({}, changed.chats):
            await first.reload(changed)
            await follower.look()
            assert second.settings.chats == expected_chats
        assert "chats: no" in caplog.text


class HealthyStore:
    """What the monitor asks of refreshes."""

    store_problem = ""


async def test_a_daemon_on_standby_is_well(postgres_journal: JournalSettings) -> None:
    class Bot(HttpAdapter):
        needs_leader = True

    database = await Database.open_server(postgres_journal)
    adapter = Bot(HttpSettings.model_validate({"secret": {"env": "X"}, "callback_url": "https://example.org/"}))
    connection = adapter.connection
    is_listening = asyncio.Event()
    monitor = Monitor()
    monitor.attach([adapter], None, HealthyStore(), ModelSets())  # type: ignore[arg-type]

    async def listen() -> None:
        connection.mark_connected()
        is_listening.set()
        await asyncio.Event().wait()

    async with open_leases(database, 1) as leader, open_leases(database, 1) as standby, asyncio.timeout(10):
        assert leader is not None
        assert standby is not None
        assert await leader.acquire("bot:http:")
        queue = ClaimQueue(Journal(database), ClaimRepository(database), 1, None)  # type: ignore[arg-type]
        waiting_task = asyncio.create_task(Sharing(standby, queue).listen(adapter, listen))
        while not connection.is_standby:
            assert monitor.get_problems() == ["http is not connected"]
            await asyncio.sleep(0)
        assert monitor.get_problems() == []
        await leader.release("bot:http:")
        await is_listening.wait()
        assert (connection.is_connected, connection.is_standby) == (True, False)
        waiting_task.cancel()
        await asyncio.gather(waiting_task, return_exceptions=True)
        assert (connection.is_connected, connection.is_standby) == (False, True)
    await database.close()


class TestAdapters:
    """Who may listen, and what only the receiver can answer."""

    def test_discord(self) -> None:
        class Positions:
            async def load(self, name: str) -> int | None:
                return None

            async def save(self, name: str, position: int) -> None: ...

        adapter = DiscordAdapter(DiscordSettings.model_validate({"token": {"env": "X"}}), Positions())
        command = replace(MESSAGE, reference={"interaction": "5", "token": "t", "channel": "1"})
        for wrapper in (adapter, NamespacedAdapter("support", adapter), DryRunAdapter(adapter)):
            assert wrapper.needs_leader
            assert is_bound(wrapper, command)
            assert not is_bound(wrapper, MESSAGE)
            assert not is_bound(wrapper, replace(command, origin=Origin(purpose="retry"))), (
                "the second answer is a post of its own"
            )

    def test_slack(self) -> None:
        async def has_answered(_key: ConversationKey) -> bool:
            return False

        socket = {"bot_token": {"env": "X"}, "app_token": {"env": "Y"}}
        events = {"bot_token": {"env": "X"}, "signing_secret": {"env": "Z"}}
        adapter, posted_to = (
            SlackAdapter(SlackSettings.model_validate(section), has_answered) for section in (socket, events)
        )
        assert (adapter.needs_leader, posted_to.needs_leader) == (True, False)
        assert is_bound(adapter, replace(MESSAGE, reference={FIELD: "mode"}))
        assert not is_bound(adapter, MESSAGE)

    def test_http(self) -> None:
        settings = HttpSettings.model_validate({"secret": {"env": "X"}, "callback_url": "https://example.org/"})
        assert not NamespacedAdapter("support", HttpAdapter(settings)).needs_leader
