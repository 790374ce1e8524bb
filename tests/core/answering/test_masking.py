"""Secrets and personal data in a question reach no model that is not on this machine; what answers it does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.answering.masking import mask_question
from core.answering.service import AnswerService
from core.settings import Settings
from core.types import Question, Turn
from tests.support.fixtures import MemorySink, parts, settings
from tests.support.scripted import ScriptedPeer, models

SECRETS = ("ann@example.org", "hunter22", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "9.22.22.222")
STAYS = ("kimas 0.3.0", "SyntaxError: Unexpected token: string", "10.0.0.5", "File app.py, line 3")
QUESTION = Question(
    f"How do I install the package? password=hunter22 for ann@example.org at 9.22.22.222. {'. '.join(STAYS)}",
    (
        Turn("user", f"I am ann@example.org, my key is {SECRETS[2]}", "Bob"),
        Turn("assistant", "Does bob@example.org have it, too?"),
    ),
)
REMOTE = "https://api.example.org/v1"
LOCAL = "http://127.0.0.1:11434/v1"
MODEL = {"base_url": LOCAL, "model": "m"}
LIVE = {"title": "t", "text": "t", "link": "l"}

CONFIGURATIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing leaves": ({"models": {"main": MODEL}}, False),
    "a name of this machine": ({"models": {"main": {**MODEL, "base_url": "http://localhost:1/v1"}}}, False),
    "the judge": ({"models": {"main": MODEL, "judge": {**MODEL, "base_url": REMOTE}}}, False),
    "a model": ({"models": {"main": {**MODEL, "base_url": REMOTE}}}, True),
    "another machine at home": ({"models": {"main": {**MODEL, "base_url": "http://10.0.0.5/v1"}}}, True),
    "a fallback": ({"models": {"main": {**MODEL, "fallbacks": {"b": {**MODEL, "base_url": REMOTE}}}}}, True),
    "vectors": (
        {"knowledge": {"embedding": {"provider": "openai", "base_url": REMOTE, "model": "m", "dimension": 3}}},
        True,
    ),
    "reranking": ({"knowledge": {"search": {"rerank": "api", "reranker": {"url": REMOTE}}}}, True),
    "a service": ({"sources": {"a": {"kind": "search_api", "provider": "tavily", "api_key": {"env": "A"}}}}, True),
    "an API": ({"sources": {"a": {"kind": "http_api", "url": REMOTE, **LIVE}}}, True),
    "an API here": ({"sources": {"a": {"kind": "http_api", "url": LOCAL, **LIVE}}}, False),
    "knowledge bases": ({"sources": {"a": {"kind": "remote_rag", "base_url": REMOTE, "bases": {"b": 1}}}}, True),
    "a tool": ({"sources": {"a": {"kind": "mcp", "url": REMOTE, "tool": "t"}}}, True),
    "a tool here": ({"sources": {"a": {"kind": "mcp", "url": LOCAL, "tool": "t"}}}, False),
    "a program": ({"sources": {"a": {"kind": "mcp", "command": ["x"], "tool": "t"}}}, True),
    "always": ({"models": {"main": MODEL}, "privacy": {"mask": "always"}}, True),
    "never": ({"models": {"main": {**MODEL, "base_url": REMOTE}}, "privacy": {"mask": "never"}}, False),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_question_is_masked_where_it_leaves_the_machine(name: str) -> None:
    configuration, is_masked = CONFIGURATIONS[name]
    question = mask_question(QUESTION, Settings.model_validate(configuration))
    assert (question != QUESTION) is is_masked
    assert ("ann@example.org" in question.text) is not is_masked


def test_one_value_has_one_mark_in_a_conversation() -> None:
    question = mask_question(QUESTION, settings(privacy={"mask": "always"}))
    assert "for [email 1] at [address 1]" in question.text
    assert question.history[0].text == "I am [email 1], my key is [key 1]"
    assert question.history[1].text == "Does [email 2] have it, too?"
    assert question.history[0].author == "Bob"


async def test_no_request_has_what_is_secret_and_the_answer_has_what_it_needs() -> None:
    async with ScriptedPeer() as peer:
        model = models(peer)
        service = AnswerService(parts(model=model, configuration=settings(privacy={"mask": "always"})))
        reply = await service.answer(QUESTION, MemorySink())
        await model.close()
    sent = json.dumps(peer.requests, ensure_ascii=False)
    assert reply.text
    assert peer.requests
    assert [secret for secret in SECRETS if secret in sent] == []
    assert [text for text in STAYS if text not in sent] == []
