"""A channel where answers are for the asker alone: what Slack shows whom, and what is never shown to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from bots.daemon.adapters import make_adapters
from bots.daemon.bootstrap import make_dispatcher, make_inbox, make_live_settings
from bots.slack.adapter import SlackAdapter
from core.catalogue import ENGLISH
from core.messaging.feedback.rating_buttons import make_rating_buttons
from core.messaging.inbox import Inbox
from core.storage.messages import Journal
from core.storage.overrides import CACHE_TTL_S
from core.storage.tables import messages, overrides
from core.types import Message
from tests.conformance.bot import Gate, Script
from tests.support import slack_helpers
from tests.support.fixtures import settings
from tests.support.peers.slack import SlackPeer
from tests.support.waiting import until
from tests.support.wiring import make_processor, running

ANN = "U1ANN"
BEN = "U2BEN"
SECRET = "Where does the roadmap lead?"


class Bot:
    """A bot that listens to the peer; `seen` are the messages that it has safe."""

    def __init__(self, peer: SlackPeer, journal: Journal, processor: Inbox, script: Script) -> None:
        self.peer = peer
        self.journal = journal
        self.processor = processor
        self.script = script
        self.seen: list[str] = []

    async def ask(self, text: str, *, user: str = ANN, thread: str = "") -> str:
        """Mention the bot, and wait until it has done with it."""
        ts = self.peer.say("C1", f"<@{self.peer.bot}> {text}", user=user, thread=thread)
        await until(lambda: ts in self.seen)
        await self.processor.join()
        return ts


@asynccontextmanager
async def opened(folder: Path, **changes: Any) -> AsyncIterator[Bot]:
    configuration = settings(**{"chats": {"slack:C1": {"answers": "asker"}}, **changes})
    journal = await Journal.open(folder / "journal.db")
    async with SlackPeer() as peer:
        adapter = SlackAdapter(
            slack_helpers.settings(peer, folder),
            slack_helpers.Threads().answered_in,
            slack_helpers.PACE,
            is_for_asker=lambda channel: configuration.get_chat(f"slack:{channel}").answers == "asker",
        )
        script = Script()
        processor = make_processor(configuration, journal, script)
        bot = Bot(peer, journal, processor, script)
        handle = processor.handler_for(adapter)

        async def receive(message: Message) -> None:
            await handle(message)
            bot.seen.append(message.id)

        async with running(adapter, processor, receive):
            yield bot
    await journal.close()


async def test_a_mention_is_answered_for_the_askers_eyes_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        await bot.ask(SECRET)
        assert bot.peer.messages("C1") == []
        ((user, text),) = bot.peer.hidden
        assert user == ANN
        assert text
        # A thread that is not there yet would hide it from the asker as well.
        assert "thread_ts" not in bot.peer.hidden_parts[0]
        buttons = str(bot.peer.hidden_parts[0]["blocks"])
        assert "thumb:up:" in buttons
        await bot.ask("And then?", thread=bot.peer.write("C1", "root").ts)
        assert bot.peer.messages("C1") == []


async def test_in_a_thread_that_is_there_it_is_answered_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        root = bot.peer.say("C1", "Hello all")
        bot.peer.say("C1", "Hello Ann", user=BEN, thread=root)
        await bot.ask(SECRET, thread=root)
        assert [part["thread_ts"] for part in bot.peer.hidden_parts] == [root]


async def test_nobody_else_is_answered_from_what_one_asker_was_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        root = bot.peer.say("C1", "Hello all")
        ts = await bot.ask(SECRET, thread=root)
        await bot.ask("What was said before?", user=BEN, thread=root)
        # What everybody reads in the thread is no secret.
        assert "Answer to" not in str(bot.script.questions[-1].history)
        bot.peer.command(f"why https://x.slack.com/archives/C1/p{ts.replace('.', '')}", user=BEN, channel="C1")
        await until(lambda: bool(bot.peer.responses))
        assert "I know nothing about that message" in bot.peer.responses[-1]["text"]
        await bot.ask("And what else?", thread=root)
        assert "Answer to" in str(bot.script.questions[-1].history)


async def test_what_nobody_asked_the_bot_is_not_answered_and_the_journal_says_why(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        ts = bot.peer.say("C1", "How do I install the package with pip?")
        await until(lambda: ts in bot.seen)
        await bot.processor.join()
        assert bot.peer.hidden == []
        rows = await bot.journal.database.fetch_all(select(messages.c.reason))
        assert [row.reason for row in rows] == [
            "the bot was not addressed, and answers askers alone there (chats.slack:C1.answers)"
        ]


async def test_an_asker_who_left_is_a_failure_and_nobody_reads_the_answer(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        bot.peer.absent.add(ANN)
        await bot.ask(SECRET)
        assert (bot.peer.messages("C1"), bot.peer.hidden) == ([], [])


async def test_a_command_is_answered_for_the_askers_eyes_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        bot.peer.command(f"ask {SECRET}", user=ANN, channel="C1")
        await until(lambda: bool(bot.peer.responses))
        assert [response["response_type"] for response in bot.peer.responses] == ["ephemeral"]
        # Others did not see the question either: it is not repeated for them.
        assert bot.peer.responses[0]["text"].startswith("Answer to")


async def test_an_answer_of_which_slack_said_nothing_comes_again_and_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        bot.peer.fail("chat.postEphemeral", drop="after")
        await bot.ask(SECRET)
        first, second = (text for _, text in bot.peer.hidden)
        assert second == f"_{ENGLISH.posted_again}_\n{first}"


async def test_a_question_that_was_deleted_meanwhile_is_not_answered(tmp_path: Path) -> None:
    async with opened(tmp_path) as bot:
        bot.script.before = Gate()
        ts = bot.peer.say("C1", f"<@{bot.peer.bot}> {SECRET}")
        await bot.script.before.reached.wait()
        bot.peer.delete("C1", ts)
        # Events arrive in order: when the bot has this one, it knows of the deletion.
        later_ts = bot.peer.say("C1", "Never mind")
        await until(lambda: later_ts in bot.seen)
        bot.script.before.open.set()
        await bot.processor.join()
        assert bot.peer.hidden == []


async def test_people_are_called_only_by_the_asker_and_a_second_answer_is_not_offered(tmp_path: Path) -> None:
    handoff = {"people": [f"slack:{BEN}"], "when": ["nothing_found"]}
    async with opened(tmp_path, handoff=handoff) as bot:
        bot.script.found_nothing = True
        ts = await bot.ask(SECRET)
        assert bot.peer.messages("C1") == []
        (button,) = [item for item in make_rating_buttons(ts) if ":down:" in item.data]
        bot.peer.press("C1", button.data, user=ANN, ephemeral=True)
        await until(lambda: bool(bot.peer.responses))
        assert "thumb:wrong:" in str(bot.peer.responses)
        assert "thumb:again:" not in str(bot.peer.responses)
        bot.peer.command("escalate", user=ANN, channel="C1")
        await until(lambda: bool(bot.peer.messages("C1")))
        (call,) = bot.peer.messages("C1")
        assert f"<@{BEN}>" in call.text


@pytest.mark.parametrize("mode", ["auto", "draft"])
async def test_no_command_lets_the_bot_speak_unasked_there(tmp_path: Path, mode: str) -> None:
    changes = {"gate": {"drafts_to": "slack:C9"}, "administration": {"owners": [f"slack:{ANN}"]}}
    async with opened(tmp_path, **changes) as bot:
        bot.peer.command(f"mode {mode}", user=ANN, channel="C1")
        await until(lambda: bool(bot.peer.responses))
        assert bot.peer.responses[-1]["text"] == ENGLISH.mode_for_asker.replace("<", "&lt;").replace(">", "&gt;")
        # Given before answers were for the asker alone.
        given = insert(overrides).values(scope="slack:C1", name="mode", value=mode)
        await bot.journal.database.write(given)
        await asyncio.sleep(CACHE_TTL_S)
        await bot.ask(SECRET)
        assert [user for user, _ in bot.peer.hidden] == [ANN]


async def test_the_daemon_asks_the_settings_in_force(tmp_path: Path) -> None:
    """The setting needs no restart, and `/settings` shows it."""
    journal = await Journal.open(tmp_path / "journal.db")
    async with SlackPeer() as peer, AsyncExitStack() as stack:
        sections = {"slack": slack_helpers.settings(peer, tmp_path), "administration": {"owners": [f"slack:{ANN}"]}}
        live = make_live_settings(settings(**sections), journal.database)
        (adapter,) = make_adapters(live, journal)
        processor = make_inbox(journal, Script(), make_dispatcher(live, journal))
        await stack.enter_async_context(running(adapter, processor))
        reloaded = await live.reload(settings(**sections, chats={"slack:C1": {"answers": "asker"}}))
        assert reloaded.live == ["chats"]
        peer.say("C1", f"<@{peer.bot}> {SECRET}")
        await peer.wait_until(lambda: bool(peer.hidden), 30)
        assert peer.messages("C1") == []
        peer.command("settings", user=ANN)
        await peer.wait_until(lambda: bool(peer.views.all), 30)
        assert "answers in this chat are for the asker alone" in str(peer.views.all[-1])
    await journal.close()


@pytest.mark.parametrize(
    ("chat", "changes", "error"),
    [
        ("telegram:-1", {}, "only Slack and Discord can show an answer to the asker alone"),
        ("slack:C1", {"mode": "auto"}, r"set chats.slack:C1.mode to mention"),
        ("discord:1", {"mode": "draft"}, r"set chats.discord:1.mode to mention"),
    ],
)
def test_where_it_cannot_be_the_way_out_is_named(chat: str, changes: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        settings(chats={chat: {"answers": "asker", **changes}})
