"""One id in every log line of a message, and spans at a collector: real requests, decoded as OpenTelemetry says."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.observability.logs import configure_logs, get_logger
from core.observability.tracing import (
    annotate,
    end_span,
    make_trace_id,
    open_tracing,
    span,
    start_span,
    trace_context,
)
from core.runtime.budget import Budget
from core.settings import LogSettings, Settings
from core.storage.messages import Journal
from core.types import ConversationKey
from tests.support.collector import Collector, collecting
from tests.support.deployment import logging_as_it_was
from tests.support.ratings import rate
from tests.support.scripted import ScriptedPeer, models

SECRET_TEXT = "the swordfish question"


@asynccontextmanager
async def traced(collector: Collector) -> AsyncIterator[None]:
    """Trace the block. What is left is sent at its end, which waits for the collector of this event loop."""
    tracing = open_tracing(collector.endpoint, {"X-Token": "t"}, "tested")
    tracing.__enter__()
    try:
        yield
    finally:
        await asyncio.to_thread(tracing.__exit__, None, None, None)


def _attributes(item: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in item.attributes}


async def test_the_spans_of_an_answer_hang_below_its_message() -> None:
    trace_id = make_trace_id("telegram", "", "-1", "7")
    async with collecting() as collector, ScriptedPeer(write=SECRET_TEXT) as peer, traced(collector):
        chat_model = models(peer)
        with trace_context(trace_id, "message", platform="telegram"):
            budget = Budget(Settings().budget)
            with budget.timed("write"):
                chunks = [
                    chunk async for chunk in chat_model.stream("Answer", [], role="main", budget=budget, agent="write")
                ]
            annotate(outcome="answered")
        await chat_model.close()
    assert "".join(chunks) == SECRET_TEXT
    [message], [stage], [call] = (collector.get_spans(name) for name in ("message", "write", "model.call"))
    assert {item.trace_id.hex() for item in collector.spans} == {trace_id}
    assert (stage.parent_span_id, call.parent_span_id) == (message.span_id, stage.span_id)
    assert _attributes(message) == {"platform": "telegram", "outcome": "answered"}
    assert _attributes(call)["gen_ai.usage.output_tokens"] > 0
    assert _attributes(call)["gen_ai.request.model"] == "test-model"
    assert message.start_time_unix_nano <= stage.start_time_unix_nano <= call.end_time_unix_nano
    assert collector.headers[0] == "t"
    assert SECRET_TEXT.encode() not in collector.raw, "what is written stays here"


async def test_a_span_that_fails_names_the_kind_of_error_alone() -> None:
    async with collecting() as collector, traced(collector):
        with pytest.raises(ValueError, match="swordfish"), span("stage"):
            raise ValueError(SECRET_TEXT)
        with span("next"):
            pass
    [failed_span] = collector.get_spans("stage")
    [next_span] = collector.get_spans("next")
    assert _attributes(failed_span) == {"error": "ValueError"}
    assert next_span.parent_span_id == b""
    assert SECRET_TEXT.encode() not in collector.raw


async def test_a_collector_that_is_away_costs_no_answer() -> None:
    tracing = open_tracing("http://127.0.0.1:9/v1/traces", {}, "tested")
    with tracing, span("stage"):
        started_at = asyncio.get_running_loop().time()
        for _ in range(5000):
            with span("many"):
                pass
        assert asyncio.get_running_loop().time() - started_at < 5, "nothing waits for the collector"


async def test_every_line_of_a_message_has_one_id(tmp_path: Path) -> None:
    stream = io.StringIO()
    with logging_as_it_was():
        configure_logs(LogSettings(level="debug", format="json"), stream)
        journal = await Journal.open(tmp_path / "journal.db")
        await rate(journal, ConversationKey("telegram", "-1"), ["How?", "Why?"], "up")
        await journal.close()
        get_logger("core.test").info("elsewhere")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    answered_lines = [line for line in lines if line["event"] == "message.answered"]
    assert [line["trace"] for line in answered_lines] == [
        make_trace_id("telegram", "", "-1", line["message"]) for line in answered_lines
    ]
    assert len({line["trace"] for line in answered_lines}) == 2
    ids_by_message: dict[str, set[str]] = {}
    for line in lines:
        if "message" in line:
            ids_by_message.setdefault(line["message"], set()).add(line["trace"])
    assert all(len(ids) == 1 for ids in ids_by_message.values())
    assert "trace" not in lines[-1]


def test_without_tracing_a_span_is_nothing() -> None:
    with open_tracing(None, {}, "tested"), span("stage"):
        annotate(outcome="answered")
        assert start_span("inner") is None
    end_span(None, outcome="answered")
