"""What an answer keeps to is judged again when it is shown: who reads its chat, and which words may not leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bots.api.clients import ClientAnswers
from bots.api.mcp.knowledge import Knowledge
from bots.api.mcp.server import RUN_TOOLS, _judge_response, _run_tool
from bots.api.running import RunningAnswers
from core.answering import service
from core.answering.pipeline import answer
from core.errors import KimasError, UsageError
from core.settings import OutgoingSettings, Settings
from core.types import ConversationKey, Message, Question, Reply
from tests.support.recording_bot import Bot, Sender, open_bot, repeat
from tests.support.scripted import ScriptedPeer

QUESTION = "When is the release date of the launcher?"
CLOSED_WORD = "numbat"
ALONE = Sender("talk", "1", "http", is_private=True)
ROOM = Sender("room", "42", "http")
TEAM = Sender("team", "1", "http")


@dataclass
class Held:
    """Answers wait here before anything is searched."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    held = Held()

    async def wait_and_answer(*arguments: Any) -> Reply:
        held.begun.set()
        await held.goes_on.wait()
        return await answer(*arguments)

    monkeypatch.setattr(service, "answer", wait_and_answer)
    yield held
    held.goes_on.set()


@asynccontextmanager
async def opened(folder: Path, audience: str, **changes: Any) -> AsyncIterator[Bot]:
    for name, text in (("docs", "It is announced on the site."), ("team", f"It is the first of May, {CLOSED_WORD}.")):
        (folder / name).mkdir()
        (folder / name / "launcher.md").write_text(f"# Launcher\n\nThe release date of the launcher. {text}\n", "utf-8")
    values = {
        "data_dir": str(folder / "data"),
        "sources": {
            "docs": {"kind": "files", "path": str(folder / "docs")},
            "quokka": {"kind": "files", "path": str(folder / "team"), "audience": [audience]},
        },
        "agents": {"manual": {"sources": ["docs"]}, "quoll": {"sources": ["quokka"]}},
        "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
        "http": {"secret": {"env": "HTTP"}, "callback_url": "http://127.0.0.1:9/"},
        "api": {"clients": {"webui": {"token": {"env": "TOKEN"}}}},
        "administration": {"owners": ["http:1"]},
    }
    async with open_bot(Settings.model_validate({**values, **changes}), is_read=True) as bot:
        bot.dispatcher.context.take_up = bot.take_up
        yield bot


async def write(bot: Bot, sender: Sender, text: str, **changes: Any) -> None:
    """Let somebody write who does not mean the bot, while it is busy."""
    key = ConversationKey(sender.platform, sender.chat)
    message = Message(f"from {sender.author}", key, sender.author, "Eve", text, datetime.now(UTC))
    message = replace(message, private=sender.is_private, **changes)
    await bot.processor.handler_for(bot.adapter(sender.platform))(message)


async def withhold(bot: Bot, *words: str) -> None:
    """Let words never leave from now on, as `/reload` does."""
    settings = bot.live.settings.model_copy(update={"outgoing": OutgoingSettings(words=words)})
    assert (await bot.dispatcher.context.reload(settings)).live == ["outgoing"]


async def ask_meanwhile(
    bot: Bot, held: Held, sender: Sender, happening: Callable[[], Awaitable[None]], text: str = QUESTION
) -> str:
    """Let somebody ask, and something happen before anything is searched; return what was shown."""
    asking = asyncio.create_task(bot.deliver(sender, text))
    await held.begun.wait()
    await happening()
    held.goes_on.set()
    await asking
    return bot.output()


@pytest.mark.parametrize(
    ("writer", "is_shown"),
    [
        (ROOM, True),
        (ALONE, True),
        (replace(ALONE, author="77", is_private=False), False),
        # Alone with the bot, as the asker was.
        (replace(ALONE, author="77"), False),
    ],
    ids=["elsewhere", "asker", "in public", "alone"],
)
async def test_a_private_answer_is_not_shown_where_others_have_come(
    tmp_path: Path, held: Held, writer: Sender, *, is_shown: bool
) -> None:
    async with opened(tmp_path, "owners") as bot:
        hello = {"text": "Hello, who is here?", "command": "help"}
        shown = await ask_meanwhile(bot, held, ALONE, lambda: write(bot, writer, **hello))
        assert (CLOSED_WORD in shown) is is_shown


@pytest.mark.parametrize("minutes", [-2, 2])
async def test_a_private_question_that_its_network_is_late_with_counts_as_late(tmp_path: Path, minutes: int) -> None:
    """Others may have come after it was asked."""
    async with opened(tmp_path, "owners") as bot:
        await bot.deliver(Sender("talk", "77", "http"), "Hello, who is here?", addressed=False)
        await bot.deliver(ALONE, QUESTION, sent_at=datetime.now(UTC) + timedelta(minutes=minutes))
        assert (CLOSED_WORD in bot.output()) == (minutes > 0)


@pytest.mark.parametrize("author", ["1", "77"])
async def test_who_is_alone_with_the_bot_later_is_told_nothing_of_before(tmp_path: Path, author: str) -> None:
    async with ScriptedPeer(write=repeat, talk=repeat) as model:
        models = {"main": {"base_url": model.base_url, "model": "peer"}}
        async with opened(tmp_path, "everyone", models=models) as bot:
            await bot.deliver(ALONE, f"{QUESTION} It is for my wombat.")
            bot.output(), model.requests.clear()
            for text, command in (("", "why"), ("and what about it?", "")):
                await bot.deliver(replace(ALONE, author=author), text, command)
                assert ("wombat" in bot.output()) == (author == "1")
            assert ("wombat" in str(model.requests)) == (author == "1")


async def test_a_chat_is_private_again_once_its_network_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, "owners") as bot:
        await bot.deliver(Sender("talk", "77", "http"), "Hello, who is here?", addressed=False)
        await bot.deliver(ALONE, QUESTION)
        assert CLOSED_WORD in bot.output()


@pytest.mark.parametrize("word", [CLOSED_WORD, "wombat"])
async def test_words_that_are_withheld_meanwhile_are_not_shown(tmp_path: Path, held: Held, word: str) -> None:
    """Which words an answer has nobody knows before it is whole: it is not shown, whatever the words are."""
    async with opened(tmp_path, "everyone") as bot:
        shown = await ask_meanwhile(bot, held, ROOM, lambda: withhold(bot, word))
        assert CLOSED_WORD not in shown
        assert "ask again" in shown
        await bot.deliver(ROOM, QUESTION)
        assert (CLOSED_WORD in bot.output()) is (word != CLOSED_WORD)


async def test_a_reload_that_withholds_no_other_words_disturbs_no_answer(tmp_path: Path, held: Held) -> None:
    async with opened(tmp_path, "everyone", outgoing={"words": ["wombat"]}) as bot:

        async def reload() -> None:
            await bot.dispatcher.context.reload(Settings.model_validate(bot.live.settings.model_dump()))

        assert CLOSED_WORD in await ask_meanwhile(bot, held, ROOM, reload)


async def test_a_program_is_told_no_words_that_are_withheld_meanwhile(tmp_path: Path, held: Held) -> None:
    async with opened(tmp_path, "everyone") as bot:
        answers = ClientAnswers(bot.live, RunningAnswers(bot.app.answer, 2))
        async with answers.join("webui", "key", Question(QUESTION)) as (running, task):
            await held.begun.wait()
            await withhold(bot, CLOSED_WORD)
            held.goes_on.set()
            with pytest.raises(KimasError, match="closed"):
                await task
            with pytest.raises(KimasError, match="closed"):
                await running.require_rights()
            async with answers.join("webui", "key", Question(QUESTION)) as (_, task_of_now):
                with pytest.raises(UsageError):
                    await task_of_now


async def test_a_search_over_mcp_returns_no_words_that_are_withheld_meanwhile(tmp_path: Path) -> None:
    async with opened(tmp_path, "everyone") as bot:
        answers = ClientAnswers(bot.live, RunningAnswers(bot.app.answer, 2))

        async def open_knowledge(_: str) -> Knowledge:
            async def ask(text: str) -> Reply:
                raise AssertionError(text)

            return Knowledge(await answers.restrict(bot.app.get_deps(), "webui"), ask)

        async def search(knowledge: Knowledge, arguments: Any) -> Any:
            result = await RUN_TOOLS["search"](knowledge, arguments)
            await withhold(bot, CLOSED_WORD)
            return result

        knowledge = await open_knowledge("")
        over_stdio: Any = SimpleNamespace(request=None)
        require_rights = _judge_response(over_stdio, knowledge, open_knowledge)
        with pytest.raises(UsageError, match="ask again"):
            await _run_tool(search, knowledge, require_rights, {"query": QUESTION})


async def test_a_note_to_a_team_has_no_words_that_are_withheld_meanwhile(tmp_path: Path) -> None:
    drafts = {"chats": {"http:room": {"mode": "draft", "drafts_to": "http:team"}}}
    async with opened(tmp_path, "everyone", **drafts) as bot:
        start_answer = bot.processor.drafts.start_answer
        waiting: list[Any] = []
        bot.processor.drafts.start_answer = lambda *arguments: waiting.append(arguments)
        await bot.deliver(ROOM, QUESTION)
        assert CLOSED_WORD not in bot.output()
        await withhold(bot, CLOSED_WORD)
        assert start_answer
        for arguments in waiting:
            start_answer(*arguments)
        await bot.processor.join()
        assert waiting
        assert CLOSED_WORD not in bot.output()
