"""Many conversations at once: every asker gets the answer to their own question, in every update."""

from __future__ import annotations

import asyncio
import re

import pytest

from core.answering.pipeline import answer
from core.types import Question
from tests.support.fixtures import MemorySink, parts
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body, models

pytestmark = pytest.mark.slow

SIZE = 200


def echo(body: Body) -> str:
    number = re.findall(r"number (\d+)", body["messages"][-1]["content"])[-1]
    return f"<{number}> " * 15 + "[p1]."


async def test_two_hundred_answers_at_once_do_not_mix() -> None:
    async def ask(number: int) -> MemorySink:
        sink = MemorySink()
        await answer(Question(f"How do I install the package, asks number {number}?"), sink, deps)
        return sink

    async with LanguageModelPeer(reply=echo, ttft_s=0.1, tokens_per_s=100) as peer:
        model = models(peer)
        deps = parts(model=model)
        sinks = await asyncio.gather(*map(ask, range(SIZE)))
        await model.close()
    for number, sink in enumerate(sinks):
        assert sink.failures == []
        assert sink.replies[0].text.startswith(f"<{number}> " * 15)
        assert {results for text in sink.updates for results in re.findall(r"<(\d+)>", text)} <= {str(number)}
        assert any(sink.updates)
