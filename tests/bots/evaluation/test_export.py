"""`kimas eval export`: lines to train a router with, from a real journal, real ratings and a real comparison."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from bots.common.open_storage import open_journal
from bots.daemon.bootstrap import open_app
from core.settings.audience import Audiences
from core.settings.loader import load_settings
from core.storage.tables import messages
from core.types import ConversationKey
from tests.support.deployment import README, Deployment
from tests.support.ratings import rate
from tests.support.scripted import Body, ScriptedPeer

KEY = ConversationKey("telegram", "-1007")
PROMPT = "You choose how to search. Reply as you were trained."
QUESTION_BACK = "Do you mean the cookies or the key?"
SECRET = "sk-0123456789abcdef0123456789"


def _deploy(folder: Path, peer: ScriptedPeer, **settings: Any) -> Deployment:
    (folder / "docs").mkdir()
    (folder / "docs/rocket.md").write_text(README, "utf-8")
    (folder / "tuned.md").write_text(PROMPT, "utf-8")
    models = {
        "main": {"base_url": peer.base_url, "model": "large"},
        "light": {"base_url": peer.base_url, "model": "three-agents-7b-tuned"},
    }
    sources = {"docs": {"kind": "files", "path": "docs"}}
    strategies = {"allowed": ["none", "single", "planning", "clarify"], "default": "single"}
    common = {"sources": sources, "models": models, "strategies": strategies, "prompts": {"strategy": "tuned.md"}}
    return Deployment(folder, {**common, **settings})


def _choose_as_trained(body: Body) -> str:
    """As the article on three light agents prints it."""
    request = body["messages"][-1]["content"]
    if "rotate" in request:
        return "Thought: what is a key, and how does it rotate? Action: [Planning]"
    if "reset" in request:
        return f'{{"strategy": "clarify", "query": "{QUESTION_BACK}"}}'
    return "Thought: knowledge is needed. Action: [Retrieval]<install Rocket>"


async def _export(deployment: Deployment, *arguments: str) -> list[Any]:
    result = await asyncio.to_thread(deployment.call, "eval", "export", *arguments)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


async def test_what_people_liked_and_disliked_becomes_training_lines(tmp_path: Path) -> None:
    long_text = f"Hello everybody, my boss says that my token {SECRET} must go, and how do I install Rocket, please?"
    async with ScriptedPeer(choose=_choose_as_trained) as peer:
        deployment = _deploy(tmp_path, peer)
        await asyncio.to_thread(deployment.call, "ingest")
        settings = load_settings([deployment.config], (), {})
        journal = await open_journal(settings)
        async with open_app(settings) as app:
            await rate(journal, KEY, [long_text], "up", app.answer)
            await rate(journal, KEY, ["How do I rotate keys?"], "down", app.answer)
            await rate(journal, KEY, ["How do I reset it?"], "up", app.answer)
            # A pleasantry needs no model, so there is nothing to learn from it.
            await rate(journal, KEY, ["thanks"], "up", app.answer)
        await journal.close()
        tuned = {body["model"] for body in peer.sent("choose")}
        count = len(peer.requests)
        liked, disliked, asked_back = await _export(deployment)
        assert len(peer.requests) == count, "it calls no model"
        assert await _export(deployment, "--chat", "telegram:-1") == []
    assert tuned == {"three-agents-7b-tuned"}
    assert (liked["choice"], liked["preferred"], liked["by"], liked["label"]) == ("single", "single", "thumb", True)
    assert (disliked["choice"], disliked["preferred"], disliked["label"]) == ("planning", None, False)
    system, request, reply = liked["messages"]
    assert (system["role"], system["content"], request["role"]) == ("system", PROMPT, "user")
    assert json.loads(reply["content"]) == {"strategy": "single", "query": "install Rocket"}
    assert json.loads(disliked["messages"][-1]["content"]) == {"strategy": "planning", "query": ""}
    assert json.loads(asked_back["messages"][-1]["content"]) == {"strategy": "clarify", "query": QUESTION_BACK}
    assert [turn["role"] for turn in disliked["history"]] == ["user", "assistant"]
    everything = json.dumps([liked, disliked])
    assert SECRET not in everything
    assert not re.search(r"\b9\d{3}\b", everything), "nobody's name"


async def test_a_question_back_is_taught_with_its_words_and_to_nobody_who_did_not_ask(tmp_path: Path) -> None:
    strategies = {"allowed": ["none", "single", "clarify"], "default": "single"}
    question_back = "Which of the two rockets do you mean?"
    reply = json.dumps({"strategy": "clarify", "query": question_back})
    async with ScriptedPeer(choose=reply) as peer:
        deployment = _deploy(tmp_path, peer, strategies=strategies, prompts={})
        await asyncio.to_thread(deployment.call, "ingest")
        settings = load_settings([deployment.config], (), {})
        journal = await open_journal(settings)
        async with open_app(settings) as app:
            await rate(journal, KEY, ["How do I install Rocket?"], "up", app.answer)
        [asked] = await _export(deployment)
        await journal.database.write(update(messages).values(addressed=False))
        [unasked] = await _export(deployment)
        await journal.close()
    assert json.loads(asked["messages"][-1]["content"]) == {"strategy": "clarify", "query": question_back}
    assert ["clarify" in line["messages"][0]["content"] for line in (asked, unasked)] == [True, False]


async def test_a_line_describes_no_source_that_its_asker_could_not_see(tmp_path: Path) -> None:
    async with ScriptedPeer(choose=json.dumps({"strategy": "single", "query": ""})) as peer:
        deployment = _deploy(tmp_path, peer, prompts={})
        plans = {"kind": "files", "path": "docs", "audience": ["owners"]}
        deployment.settings["sources"] = {**deployment.settings["sources"], "plans": plans}
        deployment.settings["agents"] = {
            "manual": {"sources": ["docs"], "description": "The manual"},
            "secret": {"sources": ["plans"], "description": "The plans for the numbat"},
        }
        await asyncio.to_thread(deployment.call, "ingest")
        settings = load_settings([deployment.config], (), {})
        journal = await open_journal(settings)
        async with open_app(settings) as app:
            await rate(journal, KEY, ["How do I install Rocket?"], "up", app.answer)
        labels = Audiences.from_settings(settings).labels
        lines = []
        for visible in ("docs",), ("docs", "plans"):
            values = {"visible_sources": [labels[name] for name in visible]}
            await journal.database.write(update(messages).values(values))
            lines += await _export(deployment)
        await journal.close()
    assert ["numbat" in json.dumps(line) for line in lines] == [False, True]


async def test_what_the_judge_preferred_becomes_training_lines(tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    data.write_text(json.dumps({"id": "q1", "question": "How do I rotate keys?"}), "utf-8")
    result = tmp_path / "compared.json"
    answers = [
        {"id": "q1", "system": "router", "strategy": "single"},
        {"id": "q1", "system": "planning", "strategy": "planning"},
        {"id": "q1", "system": "react", "strategy": "react"},
    ]
    scores = {"router": {"completeness": 3}, "planning": {"completeness": 4}, "react": {"completeness": 5}}
    async with ScriptedPeer() as peer:
        deployment = _deploy(tmp_path, peer)
        await asyncio.to_thread(deployment.call, "ingest")
        result.write_text(json.dumps({"answers": answers, "judgements": [{"id": "q1", "scores": scores}]}), "utf-8")
        [line] = await _export(deployment, "--judged", str(result), str(data))
        scores["router"] = {"completeness": 4}
        result.write_text(json.dumps({"answers": answers, "judgements": [{"id": "q1", "scores": scores}]}), "utf-8")
        assert await _export(deployment, "--judged", str(result), str(data)) == [], "a draw prefers nothing"
    # ReAct is none of the router's choices here.
    assert (line["choice"], line["preferred"], line["by"]) == ("single", "planning", "judge")
    assert json.loads(line["messages"][-1]["content"])["strategy"] == "planning"
    assert json.loads(line["rejected_response"])["strategy"] == "single"


@pytest.mark.parametrize("text", ["{", "[]", '{"answers": [{}], "judgements": []}', '{"answers": 5}'])
async def test_another_file_than_a_comparison_is_refused(text: str, tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    data.write_text(json.dumps({"id": "q1", "question": "How do I rotate keys?"}), "utf-8")
    result = tmp_path / "compared.json"
    result.write_text(text, "utf-8")
    async with ScriptedPeer() as peer:
        deployment = _deploy(tmp_path, peer)
        arguments = ("eval", "export", "--judged", str(result), str(data))
        outcome = await asyncio.to_thread(deployment.call, *arguments, code=2)
        assert "compared.json is not what `kimas eval compare --json` prints" in outcome.output
        deployment.settings["strategies"] = {"allowed": ["single"]}
        outcome = await asyncio.to_thread(deployment.call, "eval", "export", code=2)
        assert "the router has no choice to learn" in outcome.output
