"""The poll loop against a strict server: nothing is confirmed before it is safe, and no outage ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiogram.methods import Response
from aiogram.types import User

from bots.common.diagnosis import Scope
from bots.telegram.adapter import TelegramAdapter
from bots.telegram.client import TelegramClient
from bots.telegram.diagnosis import diagnose
from core.catalogue import messages_for
from core.errors import PlatformError, StoreError
from core.settings import Secret, TelegramSettings
from core.types import Message
from tests.support.peers.telegram import TelegramPeer
from tests.support.telegram_helpers import PACE, Offsets, settings
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

GROUP = -100


class Silent:
    """A `Delivery` that nobody asks."""

    is_in_doubt = False
    parts: Mapping[int, str] = {}

    async def require_claim(self) -> None: ...

    async def require_rights(self) -> None: ...

    async def mark_part(self, number: int, part_id: str) -> None: ...

    async def mark_posting(self) -> None:
        return None

    async def mark_rejected(self) -> None:
        return None

    async def mark_posted(self, reply_id: str) -> None:
        return None


class Inbox:
    """Takes messages; `refusals` times it fails instead."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.refusals = 0
        self.arrived = asyncio.Event()

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def receive(self, message: Message) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the journal is locked")
        self.messages.append(message)
        self.arrived.set()

    async def until(self, count: int, timeout: float = 30) -> None:
        async with asyncio.timeout(timeout):
            while len(self.messages) < count:
                self.arrived.clear()
                await self.arrived.wait()


@pytest.fixture
def offsets() -> Offsets:
    return Offsets()


@pytest.fixture
def make(peer: TelegramPeer, offsets: Offsets, tmp_path: Path) -> Callable[[], TelegramAdapter]:
    return lambda: TelegramAdapter(settings(peer, tmp_path), offsets, PACE)


@asynccontextmanager
async def listen(adapter: TelegramAdapter, receive: Callable[[Message], Awaitable[None]]) -> AsyncIterator[None]:
    await adapter.open()
    task = asyncio.create_task(adapter.listen(receive))
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await adapter.close()


Make = Callable[[], TelegramAdapter]


async def test_open_sets_the_menu_and_close_is_idempotent(peer: TelegramPeer, make: Make) -> None:
    adapter = make()
    await adapter.open()
    await adapter.close()
    await adapter.close()
    scopes = ("default", "all_private_chats", "all_group_chats", "all_chat_administrators")
    assert set(peer.commands) == {*scopes, *(f"{scope}:zh" for scope in scopes)}
    [ask_entry] = [entry for entry in peer.commands["all_group_chats:zh"] if entry["command"] == "ask"]
    assert ask_entry["description"] == messages_for("zh").command_summaries["ask"]
    command_names = [command["command"] for command in peer.commands["all_group_chats"]]
    assert command_names == ["ask", "help", "sources", "why", "forget", "escalate", "start", "learn"]


async def test_identify_changes_nothing(peer: TelegramPeer, tmp_path: Path) -> None:
    assert (await diagnose(settings(peer, tmp_path), Scope())).identity == "@kimas_bot"
    assert [call.method for call in peer.calls] == ["getMe"]
    with pytest.raises(PlatformError, match=r"telegram\.token"):
        await diagnose(settings(peer, tmp_path, "43:wrong"), Scope())


@pytest.mark.parametrize("token", ["43:wrong", "no token at all", "42 :x"])
async def test_a_wrong_token_is_named_with_the_way_out(peer: TelegramPeer, tmp_path: Path, token: str) -> None:
    adapter = TelegramAdapter(settings(peer, tmp_path, token), Offsets(), PACE)
    with pytest.raises(PlatformError, match=r"telegram\.token.*@BotFather"):
        await adapter.open()
    await adapter.close()


async def test_a_missing_token_is_named(peer: TelegramPeer, tmp_path: Path) -> None:
    for secret in (Secret(env="NO_SUCH_VARIABLE_HERE"), Secret(file=tmp_path / "missing")):
        adapter = TelegramAdapter(TelegramSettings(token=secret, api_url=peer.api_url), Offsets(), PACE)
        with pytest.raises(PlatformError, match=r"telegram\.token"):
            await adapter.open()
    assert "NO_SUCH_VARIABLE_HERE" not in os.environ


async def test_open_waits_for_the_network_and_says_so_once(
    peer: TelegramPeer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    peer.fail("getMe", 502, body="<html>Bad Gateway</html>", times=6)
    peer.fail("getMe", drop="before", times=3)
    peer.fail("getWebhookInfo", 500)
    adapter = make()
    with caplog.at_level(logging.INFO):
        await adapter.open()
    await adapter.close()
    # Once for getMe, once for getWebhookInfo.
    assert caplog.text.count("opening_stopped") == caplog.text.count("opening_resumed") == 2


async def test_open_says_when_it_is_told_to_wait(
    peer: TelegramPeer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    peer.fail("getMe", 429, description="Too Many Requests: retry after 1", retry_after=1)
    adapter = make()
    with caplog.at_level(logging.INFO):
        await adapter.open()
    await adapter.close()
    assert "asks to wait 1 s" in caplog.text


async def test_another_bots_reply_is_not_edited(peer: TelegramPeer, make: Make) -> None:
    inbox = Inbox()
    adapter = make()
    peer.say(GROUP, "@kimas_bot hello")
    async with listen(adapter, inbox.receive):
        await inbox.until(1)
        (message,) = inbox.messages
        assert message.bot == peer.token.split(":")[0]
        assert adapter.sink(message, Silent(), "5")._reply_id == 5
        assert adapter.sink(replace(message, bot="9"), Silent(), "5")._reply_id is None


async def test_no_error_and_no_log_line_holds_the_token(
    peer: TelegramPeer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    telegram_settings = settings(peer, tmp_path).model_copy(update={"api_url": "http://127.0.0.1:1"})
    with pytest.raises(PlatformError) as error_info:
        await diagnose(telegram_settings, Scope())
    opening = asyncio.create_task(TelegramAdapter(telegram_settings, Offsets(), PACE).open())
    await until(lambda: "telegram.opening_stopped" in caplog.text)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert peer.token not in f"{error_info.value} {error_info.value.__cause__} {caplog.text}"


async def test_a_webhook_is_removed_and_pending_updates_stay(peer: TelegramPeer, make: Make) -> None:
    peer.webhook = "https://example.org/hook"
    peer.say(GROUP, "@kimas_bot are you there?")
    inbox = Inbox()
    async with listen(make(), inbox.receive):
        await inbox.until(1)
    assert peer.webhook == ""
    assert inbox.texts == ["are you there?"]


async def test_an_update_is_confirmed_only_after_it_was_received(
    peer: TelegramPeer, make: Make, offsets: Offsets
) -> None:
    entered_event = asyncio.Event()
    leave = asyncio.Event()

    async def slow(message: Message) -> None:
        entered_event.set()
        await leave.wait()

    async with listen(make(), slow):
        peer.say(GROUP, "@kimas_bot hello")
        (number,) = peer.pending()
        await entered_event.wait()
        await asyncio.sleep(0.1)
        assert (peer.pending(), offsets.saved) == ([number], [])
        leave.set()
        await peer.wait_until(lambda: not peer.pending(), 30)
    assert offsets.saved == [number + 1]
    assert peer.confirmed == [number]
    assert peer.allowed_updates == [
        "message",
        "edited_message",
        "callback_query",
        "message_reaction",
        "stopped_message_generation",
    ]


async def test_killed_while_receiving_it_is_delivered_again(peer: TelegramPeer, make: Make) -> None:
    entered_event = asyncio.Event()

    async def hanging(message: Message) -> None:
        entered_event.set()
        await asyncio.Event().wait()

    peer.say(GROUP, "@kimas_bot hello")
    async with listen(make(), hanging):
        await entered_event.wait()
    inbox = Inbox()
    async with listen(make(), inbox.receive):
        await inbox.until(1)
    assert inbox.texts == ["hello"]


async def test_killed_before_the_confirmation_the_saved_offset_is_used(
    peer: TelegramPeer, make: Make, offsets: Offsets
) -> None:
    peer.say(GROUP, "@kimas_bot one")
    offsets.saved.append(peer.pending()[0] + 1)
    peer.say(GROUP, "@kimas_bot two")
    inbox = Inbox()
    async with listen(make(), inbox.receive):
        await inbox.until(1)
        await peer.wait_until(lambda: not peer.pending(), 30)
    assert inbox.texts == ["two"]


async def test_bad_updates_are_skipped_and_lose_no_others(peer: TelegramPeer, make: Make) -> None:
    peer.say(GROUP, "@kimas_bot one")
    peer.inject({"message": {"message_id": "many", "chat": 7}})
    peer.inject({"brand_new_kind": {"x": 1}})
    peer.inject({"message": []})
    peer.inject("no object at all", numbered=False)
    peer.inject({"message": None})
    peer.inject({"poll_answer": {"poll_id": "1", "option_ids": [], "option_persistent_ids": []}})
    peer.inject({"message": {**peer._service(peer.chat(GROUP)), "migrate_to_chat_id": -1009}})
    peer.say(GROUP, "@kimas_bot two")
    adapter = make()
    inbox = Inbox()
    async with listen(adapter, inbox.receive):
        await inbox.until(2)
        await peer.wait_until(lambda: not peer.pending(), 30)
    assert inbox.texts == ["one", "two"]
    assert adapter.skipped["malformed"] == 3
    assert sum(adapter.skipped.values()) == 7


@pytest.mark.parametrize("service", [{"migrate_to_chat_id": -1009}, {"migrate_from_chat_id": GROUP}])
async def test_a_group_that_was_upgraded_is_recorded_before_the_next_update(
    peer: TelegramPeer, tmp_path: Path, service: dict[str, int]
) -> None:
    moves = list[tuple[str, str]]()

    async def record(former: str, chat: str) -> None:
        moves.append((former, chat))
        if len(moves) == 1:
            raise StoreError("the disk is full")

    place = GROUP if "migrate_to_chat_id" in service else -1009
    peer.inject({"message": {**peer._service(peer.chat(place)), **service}})
    peer.say(GROUP, "@kimas_bot one")
    inbox = Inbox()
    adapter = TelegramAdapter(settings(peer, tmp_path), Offsets(), PACE, record_move=record)
    async with listen(adapter, inbox.receive):
        await inbox.until(1)
    assert moves == 2 * [(str(GROUP), "-1009")]


async def test_a_failing_receiver_holds_the_offset_and_nothing_is_lost(
    peer: TelegramPeer, make: Make, offsets: Offsets, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    peer.say(GROUP, "@kimas_bot one")
    first = peer.pending()[0]

    async def receive(message: Message) -> None:
        if message.text == "two" and inbox.refusals == 0 and "two" not in inbox.texts:
            inbox.refusals = 3
        if message.text == "two" and inbox.refusals > 1:
            inbox.refusals -= 1
            raise StoreError("the journal is locked")
        inbox.refusals = 0
        await inbox.receive(message)

    peer.say(GROUP, "@kimas_bot two")
    peer.say(GROUP, "@kimas_bot three")
    with caplog.at_level(logging.INFO):
        async with listen(make(), receive):
            await inbox.until(3)
            await peer.wait_until(lambda: not peer.pending(), 30)
    assert inbox.texts == ["one", "two", "three"]
    assert offsets.saved == [first + 1, first + 3]
    assert caplog.text.count("polling_stopped") == 1


async def test_an_offset_that_cannot_be_saved_is_not_used(peer: TelegramPeer, make: Make, offsets: Offsets) -> None:
    offsets.refusals = 2
    inbox = Inbox()
    peer.say(GROUP, "@kimas_bot one")
    async with listen(make(), inbox.receive):
        await peer.wait_until(lambda: not peer.pending(), 30)
    assert inbox.texts == ["one"] * 3
    assert len(offsets.saved) == 1


async def test_updates_that_begin_again_at_lower_numbers_are_taken(
    peer: TelegramPeer, make: Make, offsets: Offsets
) -> None:
    offsets.saved.append(400)
    inbox = Inbox()
    peer._next_update = 1000
    peer.say(GROUP, "@kimas_bot one")
    async with listen(make(), inbox.receive):
        await inbox.until(1)
    assert offsets.saved == [400, 1001]


async def test_two_pollers_are_told_and_the_loop_goes_on(
    peer: TelegramPeer, make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    with caplog.at_level(logging.INFO):
        async with listen(make(), inbox.receive):
            await peer.wait_until(lambda: bool(peer.offsets), 30)
            other = TelegramAdapter(settings(peer, tmp_path), Offsets(), PACE)
            await other.open()
            task = asyncio.create_task(other.listen(Inbox().receive))
            await until(lambda: "another program takes this bot's updates" in caplog.text)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await other.close()
            peer.say(GROUP, "@kimas_bot still there?")
            await inbox.until(1)
    assert any(call.status == 409 for call in peer.get_calls("getUpdates"))


async def test_outages_are_waited_out_and_logged_once(
    peer: TelegramPeer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    with caplog.at_level(logging.INFO):
        async with listen(make(), inbox.receive):
            peer.fail("getUpdates", 502, body="<html>Bad Gateway</html>", times=2)
            peer.fail("getUpdates", drop="before", times=2)
            peer.fail("getUpdates", 500, times=2)
            peer.fail("getUpdates", 200, body='{"ok": true, "result": "nonsense"}')
            peer.say(GROUP, "@kimas_bot hello")
            await inbox.until(1)
    assert inbox.texts == ["hello"]
    assert caplog.text.count("polling_stopped") == 1
    assert caplog.text.count("polling_resumed") == 1


async def test_it_waits_as_long_as_it_is_told(peer: TelegramPeer, make: Make) -> None:
    inbox = Inbox()
    peer.fail("getUpdates", 429, description="Too Many Requests: retry after 1", retry_after=1)
    peer.say(GROUP, "@kimas_bot hello")
    async with listen(make(), inbox.receive):
        await inbox.until(1)
    refused_calls, next_call = peer.get_calls("getUpdates")[:2]
    assert refused_calls.status == 429
    assert next_call.at - refused_calls.at >= 1


async def test_a_revoked_token_ends_it(peer: TelegramPeer, make: Make) -> None:
    adapter = make()
    await adapter.open()
    peer.token = "42:another"
    with pytest.raises(PlatformError, match=r"telegram\.token"):
        await adapter.listen(Inbox().receive)
    await adapter.close()


@pytest.mark.parametrize("status", [401, 404])
async def test_one_refusal_of_a_good_token_does_not_end_it(peer: TelegramPeer, make: Make, status: int) -> None:
    inbox = Inbox()
    peer.fail("getUpdates", status, description="Unauthorized")
    peer.say(GROUP, "@kimas_bot hello")
    async with listen(make(), inbox.receive):
        await inbox.until(1)
    assert inbox.texts == ["hello"]


async def test_no_task_is_left_behind(peer: TelegramPeer, make: Make) -> None:
    tasks_before = asyncio.all_tasks()

    def remaining_tasks() -> set[asyncio.Task[Any]]:
        return {task for task in asyncio.all_tasks() - tasks_before if "RequestHandler" not in repr(task)}

    async with listen(make(), Inbox().receive):
        await peer.wait_until(lambda: bool(peer.offsets), 30)
        assert remaining_tasks(), "it works in tasks of its own"
    await until(lambda: not remaining_tasks())
    assert remaining_tasks() == set()


async def test_an_idle_bot_polls_slowly(peer: TelegramPeer, make: Make) -> None:
    async with listen(make(), Inbox().receive):
        await peer.wait_until(lambda: len(peer.get_calls("getUpdates")) >= 3, 30)
    # The first one only asks whether Telegram is there.
    _, second, third = peer.get_calls("getUpdates")[:3]
    assert third.at - second.at > 0.9 * PACE.poll_s


async def test_the_models_of_responses_are_kept() -> None:
    async with TelegramPeer() as peer:
        client = TelegramClient.connect(peer.token, peer.api_url)
        try:
            await client.get_identity()
            model = id(Response[User])
            gc.collect()
            assert id(Response[User]) == model
        finally:
            await client.close()


async def test_updates_come_in_small_batches(peer: TelegramPeer, make: Make) -> None:
    """Each is parsed in one go, and members can write 400 kB of links into every message: all of it is read."""
    links = [
        {"type": "text_link", "offset": n, "length": 1, "url": f"https://a.example/{'a' * 1900}"} for n in range(99)
    ]
    received: list[str] = []

    async def receive(message: Message) -> None:
        received.append(message.id)

    for _ in range(60):
        peer.say(-100, "a" * 4096, entities=links)
    async with listen(make(), receive):
        await until(lambda: len(received) == 60)
    assert {call.parameters["limit"] for call in peer.calls if call.method == "getUpdates"} == {"25"}
