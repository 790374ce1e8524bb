"""The settings of a chat as a menu on Telegram and Discord: what is chosen is what the command would have done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bots.common.settings_menu import build_menu
from bots.discord.adapter import DiscordAdapter
from bots.discord.application_commands import MANAGE_GUILD
from bots.discord.convert import Identity
from bots.discord.settings_menu import FIELDS_ID, VALUES_ID, from_menu_choice
from bots.telegram.adapter import TelegramAdapter
from core.catalogue import ENGLISH
from core.messaging.commands.dispatcher import CommandDispatcher
from core.ports import Adapter
from core.storage.messages import Journal
from core.types import Message
from core.types.forms import FormField, SettingsForm
from tests.conformance.bot import Script
from tests.support import discord_helpers
from tests.support.fixtures import settings
from tests.support.peers import discord, telegram
from tests.support.telegram_helpers import SINK_PACE, Offsets, settings as telegram_settings
from tests.support.wiring import listen

SOURCES = {name: {"kind": "faq", "path": f"{name}.yaml"} for name in ("docs", "code")}
MODE = "mode {}"
THRESHOLD = "threshold {}"
USED = "sources {} docs"
WEIGHT = "sources scale docs {}"
OWNER = 9001
ADMIN = 9002
STRANGER = 9003


class Client(ABC):
    """The app of one platform, in the hands of people with these numbers."""

    chat = ""
    owner = ""
    longest = 0

    @abstractmethod
    async def open(self, stack: AsyncExitStack, folder: Path) -> Adapter:
        """Start the server and return the bot."""

    @abstractmethod
    async def ready(self) -> None:
        """Wait until the bot listens."""

    @abstractmethod
    async def menu(self, person: int) -> Any:
        """Give the command and return the message of the menu."""

    @abstractmethod
    async def choose(self, menu: Any, data: str, person: int, *, old: bool = False) -> str:
        """Choose an entry and return the notice, or the text of the menu."""

    @abstractmethod
    def entries(self, menu: Any) -> dict[str, str]:
        """Return what stands behind the entries, with their labels; a chosen one has a mark."""


class TelegramClient(Client):
    chat = "telegram:-100"
    owner = f"telegram:{OWNER}"

    async def open(self, stack: AsyncExitStack, folder: Path) -> Adapter:
        self.peer = await stack.enter_async_context(telegram.TelegramPeer())
        self.peer.press_s = 60
        self.peer.chat(-100).administrators = [self.author(ADMIN)]
        return TelegramAdapter(telegram_settings(self.peer, folder), Offsets(), SINK_PACE)

    def author(self, person: int) -> telegram.Author:
        return telegram.Author(person, f"Person {person}", f"person_{person}")

    async def ready(self) -> None:
        return None

    async def menu(self, person: int) -> telegram.PostedMessage:
        count = len(self.peer.messages(-100))
        self.peer.say(-100, "/settings@kimas_bot", author=self.author(person))
        await self.peer.wait_until(lambda: len(self.peer.messages(-100)) > count, 30)
        return self.peer.messages(-100)[-1]

    async def choose(self, menu: telegram.PostedMessage, data: str, person: int, *, old: bool = False) -> str:
        press = self.peer.press(-100, menu.id, data, author=self.author(person), old=old)
        await self.peer.wait_until(lambda: press in self.peer.notices, 30)
        return self.peer.notices[press] or menu.text

    def entries(self, menu: telegram.PostedMessage) -> dict[str, str]:
        return {button["callback_data"]: button["text"] for row in menu.buttons for button in row}


class DiscordClient(Client):
    async def open(self, stack: AsyncExitStack, folder: Path) -> Adapter:
        self.peer = await stack.enter_async_context(discord.DiscordPeer())
        self.channel_id = self.peer.channel("general")
        self.chat = f"discord:{self.channel_id}"
        self.owner = f"discord:{OWNER}"
        return DiscordAdapter(discord_helpers.settings(self.peer, folder), discord_helpers.Positions(),
                                 discord_helpers.PACE)  # fmt: skip

    def author(self, person: int) -> discord.Author:
        return discord.Author(str(person), f"person_{person}")

    def rights(self, person: int) -> int:
        return MANAGE_GUILD if person == ADMIN else 0

    async def ready(self) -> None:
        await self.peer.wait_until(lambda: bool(self.peer.gateway.live), 30)

    async def menu(self, person: int) -> discord.PostedMessage:
        interaction = await self.peer.command(
            self.channel_id, "settings", self.author(person), permissions=self.rights(person)
        )
        await self.peer.wait_until(
            lambda: interaction.response_message is not None and bool(interaction.response_message.content), 30
        )
        assert interaction.response_message is not None
        assert interaction.hidden
        return interaction.response_message

    async def choose(self, menu: discord.PostedMessage, data: str, person: int, *, old: bool = False) -> str:
        name = FIELDS_ID if data.startswith("field:") else VALUES_ID
        rights = self.rights(person)
        interaction = await self.peer.press(menu, name, self.author(person), value=data, permissions=rights)
        await self.peer.wait_until(lambda: interaction.response_message is not None, 30)
        assert interaction.response_message is not None
        return interaction.response_message.content

    def entries(self, menu: discord.PostedMessage) -> dict[str, str]:
        options = [option for row in menu.components for select in row["components"] for option in select["options"]]
        return {option["value"]: ("✓ " if option.get("default") else "") + option["label"] for option in options}


@dataclass
class Bot:
    client: Client
    dispatcher: CommandDispatcher

    async def written(self) -> list[tuple[str, str, str, str]]:
        """Return the audit, oldest first: outcome, command, before and after."""
        entries = await self.dispatcher.context.audit.get_newest(100, chat=None)
        return [(entry.outcome, entry.command, entry.before, entry.after) for entry in reversed(entries)]


Start = Callable[[], Awaitable[Bot]]


@pytest.fixture(params=[TelegramClient, DiscordClient], ids=["telegram", "discord"])
async def bot(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bot]:
    async with AsyncExitStack() as stack:
        client: Client = request.param()
        adapter = await client.open(stack, tmp_path)
        journal = await Journal.open(tmp_path / "journal.db")
        stack.push_async_callback(journal.close)
        administration = {"owners": [client.owner], "platform_admins": True}
        configuration = settings(administration=administration, sources=SOURCES)
        dispatcher = await listen(stack, adapter, configuration, journal, Script())
        await client.ready()
        yield Bot(client, dispatcher)


async def test_what_is_chosen_is_what_the_command_would_have_done(bot: Bot) -> None:
    client = bot.client
    menu = await client.menu(OWNER)
    fields = client.entries(menu)
    assert set(fields) == {f"field:{name}" for name in (
        MODE, THRESHOLD, USED, WEIGHT, "sources {} code", "sources scale code {}")}  # fmt: skip
    assert fields[f"field:{MODE}"] == "When I speak in this chat: As configured (mention)"
    for field, value, label in (
        (MODE, "auto", "Also unprompted"),
        (THRESHOLD, "0.65", "0.65"),
        (USED, "off", "Off"),
        (WEIGHT, "2", "2"),
    ):
        await client.choose(menu, f"field:{field}", OWNER)
        data = f"set:{field.replace('{}', value)}"
        assert client.entries(menu)[data] == label
        assert await client.choose(menu, data, OWNER)
    overrides = bot.dispatcher.context.overrides
    assert (overrides.mode(client.chat), overrides.threshold(client.chat)) == ("auto", 0.65)
    assert (overrides.is_off("docs"), overrides.scale("docs"), overrides.is_off("code")) == (True, 2, False)
    assert await bot.written() == [
        ("changed", "mode auto", "mention", "auto"),
        ("changed", "threshold 0.65", "0.5", "0.65"),
        ("changed", "sources off docs", "on", "off"),
        ("changed", "sources scale docs 2", "1", "2"),
    ]
    text = await client.choose(menu, f"field:{WEIGHT}", OWNER)
    assert "docs: weight of its passages: 2" in text
    assert client.entries(menu)["set:sources scale docs 2"] == "✓ 2"
    await client.choose(menu, "field:", OWNER)
    assert client.entries(menu)[f"field:{MODE}"] == "When I speak in this chat: Also unprompted"


async def test_an_admin_changes_the_chat_and_only_sees_the_sources(bot: Bot) -> None:
    client = bot.client
    menu = await client.menu(ADMIN)
    assert set(client.entries(menu)) == {f"field:{MODE}", f"field:{THRESHOLD}"}
    await client.choose(menu, f"field:{MODE}", ADMIN)
    await client.choose(menu, "set:mode auto", ADMIN)
    assert bot.dispatcher.context.overrides.mode(client.chat) == "auto"
    # What a changed app may send is checked like the command.
    assert ENGLISH.only_owners in await client.choose(menu, "set:sources off docs", ADMIN)
    assert [entry[:2] for entry in await bot.written()] == [("changed", "mode auto"), ("refused", "sources")]


async def test_who_may_not_is_told_so_at_every_press(bot: Bot) -> None:
    client = bot.client
    menu = await client.menu(OWNER)
    entries_before = client.entries(menu)
    for data in ("set:mode off", f"field:{MODE}"):
        assert ENGLISH.only_admins in await client.choose(menu, data, STRANGER)
    assert client.entries(menu) == entries_before
    assert bot.dispatcher.context.overrides.mode(client.chat) is None
    assert [entry[0] for entry in await bot.written()] == ["refused", "refused"]


async def test_a_value_that_makes_no_sense_changes_nothing(bot: Bot) -> None:
    client = bot.client
    menu = await client.menu(OWNER)
    notice = await client.choose(menu, "set:threshold 7", OWNER)
    assert "value must be a number from 0 to 1" in notice.replace("`", "")
    assert await bot.written() == []


async def test_a_forged_press_gives_no_other_command(bot: Bot) -> None:
    client = bot.client
    menu = await client.menu(OWNER)
    for data in ("set:reload", "set:admins add 9003", "set:ask what?", "set:mode", "set:", "mode off", " "):
        if isinstance(client, TelegramClient):
            client.peer.press(-100, menu.id, data, author=client.author(OWNER))
        elif isinstance(client, DiscordClient):
            await client.peer.press(menu, VALUES_ID, client.author(OWNER), value=data)
    # Telegram shows a bot old messages without their buttons.
    assert await client.choose(menu, "set:mode auto", OWNER, old=True)
    assert client.entries(menu)
    assert [entry[1] for entry in await bot.written()] == ["mode auto"]


def test_what_does_not_fit_is_left_out_and_said() -> None:
    long_field = FormField(f"sources scale {'x' * 60} {{}}", "long", "1", suggestions=(("1", "1"),))
    short_fields = [FormField(f"sources {{}} s{n}", f"s{n}", "on", (("on", "On"), ("off", "Off"))) for n in range(5)]
    menu = build_menu(SettingsForm((long_field, *short_fields), ("a note",)), "", 64, 3)
    assert [label for label, _, _ in menu.fields] == ["s0: On", "s1: On", "s2: On"]
    assert menu.lines == (ENGLISH.form_title, "a note", ENGLISH.form_too_many_fields)
    empty_menu = build_menu(SettingsForm(tuple(short_fields)), "sources {} gone", 64, 9)
    assert not empty_menu.values
    current = build_menu(SettingsForm((FormField("threshold {}", "T", "0.42", suggestions=(("0.5", "0.5"),)),)),
                         "threshold {}", 64, 9)  # fmt: skip
    assert current.values == (("0.42", "set:threshold 0.42", True), ("0.5", "set:threshold 0.5", False))


@pytest.mark.parametrize(("values", "command"), [(["set:mode auto"], "mode"), (["mode auto"], ""), ([], "")])
def test_only_an_entry_of_a_list_is_a_choice(values: list[str], command: str) -> None:
    event = {"id": "1", "token": "t", "channel_id": "5", "user": {"id": "9", "username": "ann"}}
    choice = from_menu_choice(
        {**event, "data": {"custom_id": VALUES_ID, "values": values}}, Identity("7", "kimas", "8")
    )
    assert (choice.command if isinstance(choice, Message) else "") == command
