"""Several daemons on one PostgreSQL journal: leases, claims, and who may still write what of a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, update

from core.answering.quota import QuotaLimiter
from core.catalogue import ENGLISH
from core.errors import ClaimLost, QuotaExceeded, StoreLocked
from core.settings import Settings
from core.settings.messaging import JournalSettings
from core.storage.claims import ClaimRepository, MessageIdentity, get_identity
from core.storage.engine import Database
from core.storage.leases import DAEMON_PREFIX, Leases, open_leases
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.tables import leases
from core.storage.usage import TokenUsage, UsageRepository
from core.types import ConversationKey, Message, Question, Reply
from tests.support.fixtures import settings
from tests.support.waiting import until
from tests.support.wiring import wire_dispatcher

CHAT = ConversationKey("telegram", "1", "")
OTHER_CHAT = ConversationKey("telegram", "2", "")
MESSAGE = Message("1", CHAT, "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC), bot="9", addressed=True)
LEASE_S = 1.0
TEAM = {"kind": "faq", "path": "a.yaml"}
OPEN = {"kind": "faq", "path": "open.yaml"}


class Member:
    """One of several daemons, as far as the journal knows it."""

    def __init__(self, database: Database, own_leases: Leases) -> None:
        self.database = database
        self.leases = own_leases
        self.journal = Journal(database)
        self.claims = ClaimRepository(database)
        self.begun: set[MessageIdentity] = set()

    async def claim(self, limit: int = 10) -> list[str]:
        claims = await self.claims.claim(["telegram"], limit, self.begun)
        self.begun.update(get_identity(claim.message) for claim in claims)
        return [claim.message.id for claim in claims]

    async def die(self, ago: timedelta = timedelta(seconds=1)) -> None:
        """Let its leases run out, as if nobody had renewed them."""
        past = func.now() - ago
        await self.database.write(update(leases).filter_by(owner=self.database.owner).values(expires_at=past))


Join = Callable[..., Awaitable[Member]]


def make_settings(sources: dict[str, dict[str, str]]) -> Settings:
    return Settings.model_validate({"sources": sources, "telegram": {"token": {"env": "TELEGRAM"}}})


@pytest.fixture
async def join(postgres_journal: JournalSettings) -> AsyncIterator[Join]:
    members: list[Member] = []

    async def make(lease_s: float = 60) -> Member:
        database = await Database.open_server(postgres_journal)
        own_leases = Leases(database, lease_s)
        await own_leases.acquire(DAEMON_PREFIX + own_leases.owner)
        database.owner = own_leases.owner
        members.append(Member(database, own_leases))
        return members[-1]

    yield make
    for member in members:
        await member.database.close()


async def test_a_reload_says_that_other_daemons_read_their_files_too(join: Join) -> None:
    first = await join()
    configuration = settings(administration={"owners": ["telegram:1"]}, telegram={"token": {"env": "TOKEN"}})

    async def read() -> Settings:
        return configuration

    dispatcher = wire_dispatcher(configuration, first.journal, reload_settings=read)
    message = replace(MESSAGE, text="", command="reload", author_id="1", private=True)
    replies = [await dispatcher.dispatch(message, None)]
    second = await join()
    replies.append(await dispatcher.dispatch(message, None))
    await second.die()
    replies.append(await dispatcher.dispatch(message, None))
    assert [ENGLISH.reloaded_elsewhere in reply for reply in replies] == [False, True, False]


class TestAudiences:
    """What one of several daemons closes."""

    async def start(self, join: Join, audience: str) -> tuple[Member, LiveSettings]:
        return await self.start_with(join, {"a": {**TEAM, "audience": audience}})

    async def start_with(self, join: Join, sources: dict[str, dict[str, str]]) -> tuple[Member, LiveSettings]:
        settings = make_settings(sources)
        member = await join()
        live = LiveSettings(settings, RuntimeOverrides(member.database, 0))
        await live.publish_audiences(settings)
        return member, live

    async def is_closed(self, live: LiveSettings) -> bool:
        await live.load()
        return live.audiences.has_closed_sources

    async def test_a_restart_with_an_older_file_opens_nothing_while_another_daemon_closes_it(self, join: Join) -> None:
        first, _ = await self.start(join, "everyone")
        _, closing = await self.start(join, "owners")
        await first.die()
        _, restarted = await self.start(join, "everyone")
        assert (await self.is_closed(restarted), await self.is_closed(closing)) == (True, True)

    async def test_what_all_of_them_have_opened_one_after_the_other_is_open(self, join: Join) -> None:
        first, _ = await self.start(join, "owners")
        second, _ = await self.start(join, "owners")
        await first.die()
        _, first_live = await self.start(join, "everyone")
        assert await self.is_closed(first_live)
        await second.die()
        _, second_live = await self.start(join, "everyone")
        assert (await self.is_closed(first_live), await self.is_closed(second_live)) == (False, False)

    async def test_what_a_dead_daemon_closed_is_open_before_another_one_starts(self, join: Join) -> None:
        closing, _ = await self.start(join, "owners")
        _, open_live = await self.start(join, "everyone")
        assert await self.is_closed(open_live)
        await closing.die()
        assert not await self.is_closed(open_live)

    @pytest.mark.parametrize("absence", [timedelta(seconds=1), timedelta(hours=2)])
    async def test_who_was_taken_for_dead_closes_again_what_it_closed(self, join: Join, absence: timedelta) -> None:
        sleeper, closing = await self.start(join, "owners")
        other, _ = await self.start(join, "everyone")
        await sleeper.die(absence)
        await other.leases.release_all()
        _, restarted = await self.start(join, "everyone")
        assert not await self.is_closed(restarted)
        sleeper.leases.lease_s = LEASE_S
        sleeper.leases.before_rejoin = closing.overrides.republish_audiences
        renewal_task = asyncio.create_task(sleeper.leases.run())
        async with asyncio.timeout(10):
            while not await self.is_closed(restarted):
                await asyncio.sleep(0.05)
        renewal_task.cancel()
        await asyncio.gather(renewal_task, return_exceptions=True)

    @pytest.mark.parametrize(
        ("newer", "closed"),
        [
            ({"plans": {**TEAM, "audience": "owners"}}, {"a"}),
            ({"plans": TEAM}, {"a"}),
            ({}, {"a"}),
            ({"a": OPEN, "plans": {**TEAM, "audience": "owners"}}, {"a"}),
            ({"a": TEAM, "same": {**TEAM, "audience": "owners"}}, set()),
            ({"a": TEAM, "more": OPEN}, set()),
        ],
    )
    async def test_what_a_newer_file_closed_or_removed_is_closed_under_its_old_name(
        self, join: Join, newer: dict[str, dict[str, str]], closed: set[str]
    ) -> None:
        _, old = await self.start_with(join, {"a": TEAM})
        newest, _ = await self.start_with(join, {**newer, "docs": OPEN})
        await old.load()
        assert {name for name, audiences in old.audiences.by_source.items() if audiences} == closed
        await newest.die()
        await old.load()
        assert not old.audiences.has_closed_sources

    async def test_a_rollback_closes_what_it_lacks_until_all_have_the_same_file(self, join: Join) -> None:
        first, _ = await self.start_with(join, {"docs": OPEN})
        _, newer = await self.start_with(join, {"docs": OPEN, "a": TEAM})
        assert not await self.is_closed(newer)
        await first.die()
        rolled_back, _ = await self.start_with(join, {"docs": OPEN})
        await newer.load()
        assert newer.audiences.by_source == {"docs": set(), "a": {frozenset({"owners"})}}
        await rolled_back.die()
        await self.start_with(join, {"docs": OPEN, "a": TEAM})
        assert not await self.is_closed(newer)

    async def test_a_daemon_that_has_stopped_has_no_sources_that_others_could_have_removed(self, join: Join) -> None:
        former, _ = await self.start_with(join, {"docs": OPEN, "a": TEAM})
        await former.leases.release_all()
        await self.start_with(join, {"docs": OPEN})
        _, newer = await self.start_with(join, {"docs": OPEN, "a": TEAM})
        assert not await self.is_closed(newer)

    async def test_of_two_that_start_at_once_one_knows_what_the_other_file_lacks(self, join: Join) -> None:
        moment = asyncio.Barrier(2)

        class AtOnce(RuntimeOverrides):
            async def list_other_audiences(self) -> Sequence[str]:
                await moment.wait()
                others = await super().list_other_audiences()
                await moment.wait()
                return others

        files = [make_settings({**sources, "docs": OPEN}) for sources in ({"a": TEAM}, {})]
        started = [LiveSettings(file, AtOnce((await join()).database, 0)) for file in files]
        async with asyncio.TaskGroup() as tasks:
            for live, file in zip(started, files, strict=True):
                tasks.create_task(live.publish_audiences(file))
        assert await self.is_closed(started[0])

    async def test_files_that_are_read_again_before_they_are_written_close_nothing(self, join: Join) -> None:
        _, old = await self.start_with(join, {"docs": OPEN})
        _, newer = await self.start_with(join, {"docs": OPEN, "a": TEAM})
        await old.publish_audiences(old.settings)
        assert not await self.is_closed(newer)


class TestLeases:
    async def test_a_lease_has_one_owner_until_it_is_given_back_or_runs_out(self, join: Join) -> None:
        first = await join()
        second = await join()
        assert await first.leases.acquire("bot:1")
        assert await first.leases.acquire("bot:1"), "it may be taken again by its owner"
        assert not await second.leases.acquire("bot:1")
        await first.leases.release("bot:1")
        assert await second.leases.acquire("bot:1")
        await second.die()
        assert await first.leases.acquire("bot:1")
        assert not await second.leases.acquire("bot:1")

    async def test_of_many_attempts_at_once_one_succeeds(self, join: Join) -> None:
        members = [await join() for _ in range(4)]
        results = await asyncio.gather(*(member.leases.acquire("bot:1") for member in members for _ in range(3)))
        owners = {index // 3 for index, is_held in enumerate(results) if is_held}
        assert len(owners) == 1

    async def test_what_is_renewed_does_not_run_out(self, join: Join) -> None:
        first = await join()
        second = await join()
        async with open_leases(first.database, LEASE_S) as kept_leases:
            assert kept_leases is not None
            assert await kept_leases.acquire("source:docs")
            for _ in range(8):
                await asyncio.sleep(LEASE_S / 4)
                assert not await second.leases.acquire("source:docs")
        assert await second.leases.acquire("source:docs"), "all are given back at the end"

    async def test_a_source_that_another_daemon_refreshes_is_locked(self, join: Join) -> None:
        first = await join()
        second = await join()
        async with first.leases.hold("source:docs"):
            with pytest.raises(StoreLocked, match="source:docs"):
                async with second.leases.hold("source:docs"):
                    pytest.fail("two hold it")
        async with second.leases.hold("source:docs"):
            pass

    async def test_the_leader_is_followed_when_it_dies(self, join: Join) -> None:
        first = await join(LEASE_S)
        second = await join(LEASE_S)
        led: list[str] = []

        async def work(name: str) -> None:
            led.append(name)
            await asyncio.Event().wait()

        leading = asyncio.create_task(first.leases.lead("bot:1", lambda: work("first")))
        await until(lambda: led)
        lead_task = asyncio.create_task(second.leases.lead("bot:1", lambda: work("second")))
        # Nobody renews the first one's leases.
        started_at = asyncio.get_running_loop().time()
        await until(lambda: len(led) >= 2)
        assert asyncio.get_running_loop().time() - started_at < LEASE_S + 0.3
        assert led == ["first", "second"]
        # The first one notices when it comes back to renew them.
        renewing = asyncio.create_task(first.leases.run())
        await until(lambda: "bot:1" not in first.leases._lost_events)
        for task in (leading, lead_task, renewing):
            task.cancel()
        await asyncio.gather(leading, lead_task, renewing, return_exceptions=True)

    async def test_a_lease_of_a_clock_that_was_set_back_ends_soon(self, join: Join) -> None:
        dead = await join(LEASE_S)
        living = await join(LEASE_S)
        await dead.leases.acquire("source:docs")
        future = func.now() + timedelta(hours=1)
        await dead.database.write(update(leases).filter_by(owner=dead.database.owner).values(expires_at=future))
        async with asyncio.timeout(20):
            renewal = asyncio.create_task(living.leases.run())
            while not await living.leases.acquire("source:docs"):
                await asyncio.sleep(0.1)
            renewal.cancel()
        assert await living.leases.count_others() == 0

    async def test_the_end_of_the_work_gives_the_lease_back(self, join: Join) -> None:
        first = await join()
        second = await join()

        async def fail() -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await first.leases.lead("bot:1", fail)
        assert await second.leases.acquire("bot:1")

    async def test_long_dead_daemons_are_forgotten(self, join: Join) -> None:
        first = await join()
        second = await join()
        past = func.now() - timedelta(hours=2)
        await first.database.write(update(leases).filter_by(owner=first.database.owner).values(expires_at=past))
        await second.leases.release_all()
        assert await first.database.fetch_all(leases.select()) == []

    async def test_who_was_taken_for_dead_is_among_the_living_again(self, join: Join) -> None:
        sleeper, other = await join(LEASE_S), await join()
        past = func.now() - timedelta(hours=2)
        await sleeper.database.write(update(leases).filter_by(owner=sleeper.database.owner).values(expires_at=past))
        await other.leases.release_all()
        await other.leases.acquire(DAEMON_PREFIX + other.leases.owner)
        assert await other.leases.count_others() == 0
        renewal_task = asyncio.create_task(sleeper.leases.run())
        async with asyncio.timeout(10):
            while not await other.leases.count_others():
                await asyncio.sleep(0.05)
        await other.journal.record_message(MESSAGE)
        assert await sleeper.claim() == ["1"]
        renewal_task.cancel()
        await asyncio.gather(renewal_task, return_exceptions=True)


class TestClaims:
    async def test_a_message_is_claimed_once(self, join: Join) -> None:
        members = [await join() for _ in range(3)]
        for number in range(30):
            key = replace(CHAT, chat=str(number))
            await members[0].journal.record_message(replace(MESSAGE, id=str(number), key=key))
        claimed: list[str] = []
        while batches := await asyncio.gather(*(member.claim(3) for member in members)):
            if not any(batches):
                break
            assert all(len(batch) <= 3 for batch in batches)
            claimed += [message_id for batch in batches for message_id in batch]
        assert sorted(claimed, key=int) == [str(number) for number in range(30)]

    async def test_a_conversation_stays_with_its_daemon_while_it_lasts(self, join: Join) -> None:
        first = await join()
        second = await join()
        for number in (1, 2):
            await first.journal.record_message(replace(MESSAGE, id=str(number)))
        await first.journal.record_message(replace(MESSAGE, id="3", key=OTHER_CHAT))
        assert await first.claim(1) == ["1"]
        assert await second.claim() == ["3"], "the second message of the chat waits for the first"
        assert await first.claim(0) == ["2"], "which takes no worker: it waits for the first"
        await first.journal.mark_answered(replace(MESSAGE, id="1"), Reply("So."))
        await first.journal.mark_answered(replace(MESSAGE, id="2"), Reply("So."))
        await first.journal.record_message(replace(MESSAGE, id="4"))
        assert await second.claim() == ["4"]

    async def test_order_holds_in_a_race(self, join: Join) -> None:
        first = await join()
        second = await join()
        for number in range(40):
            await first.journal.record_message(replace(MESSAGE, id=str(number)))
        order: list[str] = []
        owners: set[str] = set()

        async def work(member: Member) -> None:
            while len(order) < 40:
                for claim in await member.claims.claim(["telegram"], 1):
                    order.append(claim.message.id)
                    owners.add(member.database.owner)
                    await asyncio.sleep(0)
                    await member.journal.mark_answered(claim.message, Reply("So."))

        async with asyncio.timeout(30):
            await asyncio.gather(work(first), work(second))
        assert order == [str(number) for number in range(40)]

    async def test_what_a_dead_daemon_left_is_taken_over_as_it_stands(self, join: Join) -> None:
        dead = await join()
        heir = await join()
        for number in range(1, 5):
            await dead.journal.record_message(replace(MESSAGE, id=str(number), key=replace(CHAT, chat=str(number))))
        assert len(await dead.claim()) == 4
        messages = [replace(MESSAGE, id=str(number), key=replace(CHAT, chat=str(number))) for number in range(1, 5)]
        await dead.journal.begin_answer(messages[1], None)
        await dead.journal.mark_posting(messages[2])
        await dead.journal.mark_posting(messages[3])
        await dead.journal.mark_posted(messages[3], "77")
        assert await heir.claim() == []
        await dead.die()
        claims = await heir.claims.claim(["telegram"], 10)
        assert [(claim.reply_id, claim.is_in_doubt, claim.is_taken_over) for claim in claims] == [
            ("", False, True),
            ("", False, True),
            ("", True, True),
            ("77", False, True),
        ]
        assert await heir.journal.record_edit(replace(messages[1], text="Why?")), "what had only begun begins anew"

    async def test_who_lost_a_message_writes_nothing_of_it(self, join: Join) -> None:
        late = await join()
        heir = await join()
        await late.journal.record_message(MESSAGE)
        assert await late.claim() == ["1"]
        await late.journal.begin_answer(MESSAGE, None)
        await late.die()
        assert await heir.claim() == ["1"]
        for write in (
            late.journal.begin_answer(MESSAGE, None),
            late.journal.require_claim(MESSAGE),
            late.journal.mark_posting(MESSAGE),
            late.journal.mark_delivery(MESSAGE, Reply("So."), {}),
            late.journal.mark_answered(MESSAGE, Reply("So.")),
            late.journal.mark_failed(MESSAGE, "late"),
        ):
            with pytest.raises(ClaimLost):
                await write
        assert await late.journal.find_unfinished(MESSAGE) is None
        await heir.journal.require_claim(MESSAGE)
        await heir.journal.mark_answered(MESSAGE, Reply("So."))
        assert await heir.journal.get_pending("telegram") == []

    async def test_what_is_ours_stays_ours_when_our_lease_runs_out(self, join: Join) -> None:
        paused, other = await join(), await join()
        for number in (1, 2):
            await paused.journal.record_message(replace(MESSAGE, id=str(number), key=replace(CHAT, chat=str(number))))
        assert await paused.claim() == ["1", "2"]
        await paused.die()
        await paused.journal.record_message(replace(MESSAGE, id="3", key=replace(CHAT, chat="3")))
        assert await paused.claim() == [], "the others would take it at once"
        await paused.leases.acquire(DAEMON_PREFIX + paused.leases.owner)
        assert await paused.claim() == ["3"]
        await paused.die()
        assert await other.claim() == ["1", "2", "3"]

    async def test_what_we_lost_is_not_claimed_while_we_still_work_on_it(self, join: Join) -> None:
        late, heir = await join(), await join()
        await late.journal.record_message(MESSAGE)
        assert await late.claim() == ["1"]
        await late.die()
        assert await heir.claim() == ["1"]
        await heir.journal.mark_posted(MESSAGE, "77")
        await heir.die()
        await late.leases.acquire(DAEMON_PREFIX + late.leases.owner)
        assert await late.claim() == []
        with pytest.raises(ClaimLost):
            await late.journal.mark_posting(MESSAGE)
        (claim,) = await late.claims.claim(["telegram"], 10)
        assert (claim.reply_id, claim.is_taken_over) == ("77", True)

    async def test_a_claim_of_which_we_did_not_hear_is_made_good(self, join: Join) -> None:
        member = await join()
        await member.journal.record_message(MESSAGE)
        assert await member.claim() == ["1"]
        await member.journal.record_message(replace(MESSAGE, id="2"))
        member.begun.clear()
        assert await member.claim() == ["1", "2"], "in their order, as nothing of the first claim was begun"

    async def test_what_is_bound_belongs_to_its_receiver(self, join: Join) -> None:
        first = await join()
        second = await join()
        await first.journal.record_message(MESSAGE, is_bound=True)
        assert await second.claim() == []
        await first.journal.mark_answered(MESSAGE, Reply("So."))

    async def test_an_orderly_end_leaves_the_work_to_the_others_at_once(self, join: Join) -> None:
        first = await join()
        second = await join()
        await first.journal.record_message(MESSAGE)
        assert await first.claim() == ["1"]
        await first.claims.release_all()
        assert await second.claim() == ["1"]

    async def test_other_platforms_are_left_alone(self, join: Join) -> None:
        first = await join()
        await first.journal.record_message(replace(MESSAGE, key=replace(CHAT, platform="slack")))
        assert await first.claim() == []


async def test_limits_count_the_answers_of_all_daemons(join: Join) -> None:
    first = await join()
    second = await join()
    settings: Any = Settings.model_validate({"limits": {"daily_tokens_per_chat": 500}})
    await first.journal.record_message(MESSAGE)
    await first.claim()
    await first.journal.begin_answer(MESSAGE, None)
    question = Question("Why?", id="2", author_id="43", key=CHAT)
    limiter = QuotaLimiter(LiveSettings(settings), UsageRepository(second.database), TokenUsage(400, 100))
    with pytest.raises(QuotaExceeded):
        async with limiter.reserve(question):
            pytest.fail("the limit is used up by the answer in progress")
    async with limiter.reserve(replace(question, key=OTHER_CHAT)):
        pass
    await first.journal.mark_answered(MESSAGE, Reply("So."))
    async with limiter.reserve(question):
        pass
