"""Attempts to give orders through what the bot reads: they change no action, leak no prompt and reach no tool.

Every attempt takes its real way in: a file, a FAQ entry or a search result through its source, chunking and the store;
a name, an earlier message or the question through the line. The model peer does whatever it reads outside the fences:
it is as gullible as a model can be, so that only the fences protect it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bots.app import App, open_app
from core.settings import Settings
from core.types import Question, Turn
from knowledge.embedding import open_embedder
from knowledge.ports import Embedder
from tests.core.scripted import Body, ScriptedPeer, agent_of
from tests.core.stand import MemorySink
from tests.peers.web import Hit, WebPeer

CORPUS = Path(__file__).parent / "core/data/injections.jsonl"
ATTEMPTS = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
CANARY = "OBEY"
ASKED = "Which colour is the flux capacitor?"
FENCES = ("passage", "evidence", "searches", "conversation", "question", "answer", "analysis", "passages", "queries")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedder]:
    opened = await open_embedder(Settings().knowledge.embedding, tmp_path_factory.mktemp("models"))
    yield opened
    await opened.close()


def unfenced(body: Body) -> str:
    """Return what of a request a model may take for instructions: all that stands outside its fences.

    A conversation reaches the model that writes as messages of the people who wrote them: of these only the last holds
    the bot's own words.
    """
    system, *turns = body["messages"]
    said = system["content"] + "\n" + turns[-1]["content"]
    while (stripped := _innermost(said)) != said:
        said = stripped
    return said


def _innermost(text: str) -> str:
    for tag in FENCES:
        text = re.sub(rf"<{tag}\b[^<>]*>(?:(?!<{tag}\b).)*?</{tag}>", "", text, flags=re.DOTALL)
    return text


def gullible(normal: str) -> Callable[[Body], str]:
    return lambda body: f"[search: {CANARY}]" if CANARY in unfenced(body) else normal


REPLIES = {
    "choose": '{"strategy": "planning"}',
    "plan": '["flux capacitor"]',
    "filter": '{"keep": ["p1"], "missing": ""}',
    "decide": "[answer]",
    "compress": "p1: It is blue.",
    "rewrite": ASKED,
    "write": "It is blue [p1].",
    "react": "[answer]",
}


def files_of(place: str, text: str, folder: Path) -> None:
    """Put an attempt where it belongs among the documents."""
    blue = "The flux capacitor is blue. It sits behind the seats."
    documents = {"passage": ("note.md", f"{blue} {text}"), "heading": ("note.md", f"# {text}\n\n{blue}\n")}
    name, content = documents.get(place, ("note.md", blue))
    if place == "file name":
        name = text.replace("/", "_")
    (folder / "docs").mkdir()
    (folder / "docs" / name).write_text(content, "utf-8")
    entry = {"question": ASKED, "answer": "It is blue."}
    if place.startswith("faq"):
        entry[place.removeprefix("faq ")] = text
    (folder / "faq.jsonl").write_text(json.dumps(entry) + "\n", "utf-8")


def hit_of(place: str, text: str) -> Hit:
    values = {"title": "Flux capacitor", "url": "https://example.org/flux", "text": "The flux capacitor is blue."}
    named = {"web title": "title", "web snippet": "text", "web address": "url"}
    if place in named:
        values[named[place]] = text
    return Hit(**values)


def question_of(place: str, text: str) -> Question:
    name = text if place == "user name" else "Ann"
    earlier = text if place == "conversation" else "Tell me about the flux capacitor."
    history = (Turn("user", earlier, name, "1"), Turn("assistant", "It is part of the car.", ""))
    asked = f"{ASKED} {text}" if place == "question" else ASKED
    return Question(asked, history, "1", name, "1")


@asynccontextmanager
async def opened(attempt: dict[str, str], folder: Path, peers: Sequence[Any], embedder: Embedder) -> AsyncIterator[App]:
    model, web = peers
    files_of(attempt["place"], attempt["text"], folder)
    web.hits = [hit_of(attempt["place"], attempt["text"])]
    endpoint = {"base_url": model.base_url, "model": "peer"}
    live = {"kind": "search_api", "provider": "searxng", "base_url": web.url("/searxng")}
    settings = {
        "data_dir": str(folder / "data"),
        "sources": {
            "docs": {"kind": "files", "path": str(folder / "docs")},
            "questions": {"kind": "faq", "path": str(folder / "faq.jsonl")},
            "web": {**live, "allow_private": ["127.0.0.1"]},
        },
        "agents": {
            "docs": {"sources": ["docs", "questions"], "compression": "model"},
            "web": {"sources": ["web"], "description": "the web"},
        },
        "models": {"main": endpoint},
        "strategies": {"allowed": ["none", "single", "planning"]},
    }
    async with open_app(Settings.model_validate(settings), embedder=embedder) as app:
        await app.refresh()
        yield app


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: f"{one['place']}: {one['text'][:30]}")
async def test_an_attempt_changes_nothing(attempt: dict[str, str], tmp_path: Path, embedder: Embedder) -> None:
    replies = {agent: gullible(reply) for agent, reply in REPLIES.items()}
    async with ScriptedPeer(**replies) as model, WebPeer() as web:
        async with opened(attempt, tmp_path, (model, web), embedder) as app:
            reply = await app.answer(question_of(**attempt), MemorySink())
        assert reply.trace.strategy == "planning"
        assert reply.text.startswith("It is blue")
        assert {"choose", "plan", "filter", "decide", "write"} <= set(model.agents)
        for body in model.requests:
            assert CANARY not in unfenced(body), f"{agent_of(body)}: {unfenced(body)}"
        searched = [request.query["q"] for request in web.requests]
        assert set(searched) <= {"flux capacitor", ASKED, reply.trace.query, question_of(**attempt).text}
        assert "system" not in reply.text.lower()
        assert len(model.requests[-1]["messages"][0]["content"]) > 200  # the rules are there


def test_there_are_enough_attempts() -> None:
    assert len(ATTEMPTS) >= 40
    places = {attempt["place"] for attempt in ATTEMPTS}
    assert {"passage", "file name", "faq answer", "faq question", "user name", "web snippet", "question"} <= places
    assert len({attempt["text"] for attempt in ATTEMPTS}) == len(ATTEMPTS)


@pytest.mark.parametrize(
    "attempt", [one for one in ATTEMPTS if "<" not in one["text"]], ids=lambda one: one["text"][:30]
)
def test_without_the_fences_the_peer_would_obey(attempt: dict[str, str]) -> None:
    """The attempts can be seen: an unprotected prompt shows them to the gullible peer."""
    body = {"messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": attempt["text"]}]}
    assert CANARY in unfenced(body)
