"""The attempts of the injection corpus in the prompts beside the answer: each stays inside its fence.

The gate's second opinion, every query rewrite, and the judge of evaluations are real callers of a model over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.evaluation.answer_judging import judge_answers
from bots.evaluation.judge import Judge
from core.answering.agents.search import search
from core.answering.quota import QuotaLimiter
from core.llm.prompts import Prompts
from core.llm.role_models import RoleChatModel
from core.messaging.gate.second_opinion import SecondOpinion
from core.runtime.budget import Budget
from core.settings import ModelSettings
from core.settings.answering import BUILT_IN_REWRITES
from core.storage.chat_history import HistoryMessage
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.usage import TokenUsage, UsageRepository
from core.types import Citation, ConversationKey, Message, Question, Reply
from tests.support.fixtures import INSTALL, InMemoryLibrary, parts, passage, settings
from tests.support.injections import ATTEMPTS, CANARY, QUESTION, unfenced
from tests.support.scripted import ScriptedPeer, get_agent, models

TEXTS = [attempt["text"] for attempt in ATTEMPTS]
CHAT = ConversationKey("test", "room")
SILENT = '{"reason": "small talk", "action": "silent"}'
Caller = Callable[[RoleChatModel, str, Path], Awaitable[None]]


async def ask_second_opinion(model: RoleChatModel, text: str, folder: Path) -> None:
    """Show the gate's model an attempt as the message, as an earlier one, as its author's name, and as a passage."""
    journal = await Journal.open(folder / "journal.db")
    live_settings = LiveSettings(settings(), RuntimeOverrides(journal.database))
    usage = UsageRepository(journal.database)
    opinion = SecondOpinion(
        live_settings, parts(model=model), QuotaLimiter(live_settings, usage, TokenUsage(100, 100)), usage
    )
    message = Message("1", CHAT, "ann", text[:40], f"{QUESTION} {text}", datetime.now(UTC))
    earlier_message = HistoryMessage("0", "", "bob", text, text, "", False, False, 1.0)
    decision = await opinion.ask(message, [passage("flux", text)], [earlier_message])
    await journal.close()
    assert decision is not None
    assert not decision.should_speak, "only the model decides, and it declined"


async def ask_rewrites(model: RoleChatModel, text: str, folder: Path) -> None:
    agent = {"sources": ["docs"], "rewrites": [name for name in BUILT_IN_REWRITES if name != "rule"], "language": "de"}
    configuration = settings(agents={"docs": agent}, budget={"deadline_s": 600, "step": 0.9})
    library = InMemoryLibrary((INSTALL,))
    await search(f"{QUESTION} {text}", parts(library, model, configuration), Budget(configuration.budget))


async def ask_judge(model: RoleChatModel, text: str, folder: Path) -> None:
    """Show the judge an attempt as the question, the reference, the answer and its evidence."""
    judge_settings = ModelSettings(base_url="http://127.0.0.1", model="judge")
    judge = Judge(model, judge_settings, settings().budget, Prompts.read())
    passages = (passage("p1", text),)
    reply = Reply(f"It is blue [1]. {text}", (Citation(1, "p1", "docs", text, "a.md", ""),), passages=passages)
    verdicts = await judge_answers(judge, [(Question(f"{QUESTION} {text}"), text, reply)])
    assert verdicts.unreadable == 1, "what the answer itself says is no verdict"


CALLERS: dict[str, Caller] = {"second opinion": ask_second_opinion, "rewrites": ask_rewrites, "judge": ask_judge}


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer(second_opinion=SILENT) as silent_peer:
        yield silent_peer


@pytest.mark.parametrize("caller", CALLERS)
async def test_an_attempt_stays_inside_its_fence(caller: str, peer: ScriptedPeer, tmp_path: Path) -> None:
    judge_settings = ModelSettings(base_url=peer.base_url, model="judge")
    model = RoleChatModel.open_judge(judge_settings) if caller == "judge" else models(peer)
    for number, text in enumerate(TEXTS):
        peer.requests.clear()
        folder = tmp_path / str(number)
        folder.mkdir()
        await CALLERS[caller](model, text, folder)
        assert peer.requests
        for body in peer.requests:
            assert CANARY not in unfenced(body), f"{get_agent(body)}: {unfenced(body)}"
        assert CANARY in str([body["messages"] for body in peer.requests]), "it was there to be read"
    await model.close()
