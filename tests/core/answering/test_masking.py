"""Secrets and personal data in a question reach no model that is not on this machine; what answers it does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bots.common.open_storage import open_existing_database
from bots.daemon.bootstrap import open_app
from core.answering.masking import mask_question
from core.answering.service import AnswerService
from core.settings import Settings
from core.settings.base import API_PLATFORM
from core.settings.loader import load_settings
from core.storage.deployment import ensure_deployment_id
from core.types import ConversationKey, Question, Turn
from tests.support.deployment import Deployment
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
KEY = b"k"
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
    question = mask_question(QUESTION, Settings.model_validate(configuration), KEY)
    assert (question != QUESTION) is is_masked
    assert ("ann@example.org" in question.text) is not is_masked


def mask(question: Question, key: bytes = KEY) -> Question:
    return mask_question(question, settings(privacy={"mask": "always"}), key)


def test_one_value_has_one_mark_in_a_conversation() -> None:
    question = mask(QUESTION)
    marks = re.findall(r"\[[a-z]+ [0-9a-f]{5}\]", question.text)
    assert [mark.split()[0] for mark in marks] == ["[secret", "[email", "[address"]
    assert question.history[0].text.startswith(f"I am {marks[1]}, my key is [key ")
    assert question.history[1].text.startswith("Does [email ")
    assert marks[1] not in question.history[1].text
    assert question.history[0].author == "Bob"


GROUP = ConversationKey("telegram", "-1", "5")


@pytest.mark.parametrize("key", [GROUP, ConversationKey(API_PLATFORM, "ide"), None])
def test_a_mark_stays_when_the_conversation_has_grown(key: ConversationKey | None) -> None:
    earlier = replace(QUESTION, key=key)
    cut = 0 if key == GROUP else 1
    turns = (*QUESTION.history[:cut], *(Turn("user", f"bob{number}@example.org") for number in range(9)))
    later = replace(QUESTION, key=key, history=turns)
    assert mask(later).text == mask(earlier).text


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, key=replace(GROUP, thread="6")),
        replace(QUESTION, key=replace(GROUP, chat="-2")),
        replace(QUESTION, key=ConversationKey(API_PLATFORM, "ide")),
        replace(QUESTION, key=ConversationKey(API_PLATFORM, "ide"), history=(Turn("user", "Hello"),)),
        QUESTION,
    ],
)
def test_a_mark_means_nothing_in_another_conversation(other: Question) -> None:
    question = replace(QUESTION, key=GROUP)
    assert mask(other).text != mask(question).text
    assert mask(question, b"another").text != mask(question).text


async def test_marks_stay_over_a_restart(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        deployment = Deployment(tmp_path, {"models": {"main": MODEL}})
        async with open_app(load_settings([deployment.config], (), {}, require_sources=False)) as app:
            keys.append(app.deps.mask_key)
    assert keys[0] == keys[1]
    async with open_existing_database(app.settings) as database:
        assert database is not None
        # The server of the passages has it, and logs tell it.
        assert (await ensure_deployment_id(database)).encode() != keys[0]


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
