"""Small decisions out of weak models: whatever they write leads to a sane action."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from core.answering.agents import decision_maker, information_filter
from core.answering.agents.decision_maker import Decision
from core.answering.strategies import parallel, planning, router as strategy_router
from core.errors import ModelError
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import CallBudget, DecisionRequest, decide, parse_structured_reply
from core.runtime.budget import Budget
from core.settings import BudgetSettings
from core.types import Turn
from tests.support.fixtures import parts
from tests.support.scripted import ScriptedPeer, models

pytestmark = pytest.mark.usefixtures("time_lapse")

DATA = Path(__file__).parents[1] / "data/replies.jsonl"
REPLIES = [json.loads(line) for line in DATA.read_text("utf-8").splitlines() if line]
ROUTER = DecisionSchema(
    "strategy",
    "",
    (
        SchemaField(
            "strategy",
            "choice",
            "",
            strategy_router.STRATEGY_KEYS,
            {
                "none": strategy_router.STRATEGY_ALIASES["none"],
                "single": strategy_router.STRATEGY_ALIASES["single"],
                "planning": strategy_router.STRATEGY_ALIASES["planning"],
            },
        ),
    ),
)


def _filtered(record: ParsedReply) -> dict[str, Any] | None:
    positions = record.get_ids("keep", 4)
    return None if positions is None else {"keep": sorted(positions), "missing": record.get_text("missing")}


def outcome(shape: str, reply: str) -> Any:
    """Return what a reply leads to, with the documented default of its shape."""
    if shape == "decision":
        decision = (
            parse_structured_reply(reply, decision_maker.DECISION_SCHEMA, decision_maker.parse_decision) or Decision()
        )
        return {"action": decision.action, "query": decision.query}
    if shape == "filter":
        filtered = parse_structured_reply(reply, information_filter.SCHEMA, _filtered)
        return {"keep": [0, 1, 2, 3], "missing": ""} if filtered is None else filtered
    if shape == "strategy":
        return parse_structured_reply(reply, ROUTER, lambda record: record.get_choice("strategy") or None) or "single"
    return list(
        parse_structured_reply(reply, parallel.SCHEMA, lambda record: record.get_texts("questions") or None) or ()
    )


def test_there_are_enough_malformed_replies() -> None:
    assert len(REPLIES) >= 150
    assert len({(reply["shape"], reply["reply"]) for reply in REPLIES}) == len(REPLIES)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda entry: f"{entry['shape']}: {entry['kind']}")
def test_a_malformed_reply_leads_to_a_sane_action(reply: dict[str, Any]) -> None:
    assert outcome(reply["shape"], reply["reply"]) == reply["expected"]


@pytest.mark.parametrize("shape", ["decision", "filter", "strategy", "split"])
def test_damaged_replies_never_raise_and_are_read_quickly(shape: str) -> None:
    dice = random.Random(7)
    marks = [*"{}[]()\"'“”：:,，\\\n\u3000<>|#*/", "action", "search", "查询", "p1", "</think>", "<think>", "null"]
    slowest = 0.0
    for _ in range(300):
        text = list(dice.choice(REPLIES)["reply"])[:3000]
        for _ in range(dice.randint(1, 12)):
            at = dice.randint(0, len(text))
            text[at : at + dice.randint(0, 3)] = [dice.choice(marks)] * dice.randint(0, 3)
        started_at = time.thread_time()
        result = outcome(shape, "".join(text))
        slowest = max(slowest, time.thread_time() - started_at)
        if shape == "decision":
            assert (result["action"] == "search") == bool(result["query"])
    assert slowest < 0.5


@pytest.mark.parametrize(
    "text",
    [
        "{" * 20_000,
        "[search: " * 5_000,
        "<think>" * 9_000,
        '"a": ' * 9_000,
        "search " * 9_000,
        '{"a":' * 4_000,
        "(" * 20_000,
        "</think>" * 9_000,
        " " * 50_000,
        "\n" * 50_000,
        "p1 " * 20_000,
        "不" * 20_000,
        '{"' + '","' * 7_000,
        "* " * 20_000,
    ],
    ids=lambda text: text[:8].strip(),
)
def test_very_long_nonsense_is_read_quickly(text: str) -> None:
    started_at = time.thread_time()
    for shape in ("decision", "filter", "strategy", "split"):
        outcome(shape, text)
    assert time.thread_time() - started_at < 2.0


def make_request(**changes: Any) -> DecisionRequest:
    return DecisionRequest(
        "decide",
        "step",
        decision_maker.DECISION_SCHEMA,
        "You judge what a search found.",
        [Turn("user", "?")],
        **changes,
    )


async def decided(peer: ScriptedPeer, ask: DecisionRequest, budget: Budget, **model: object) -> Decision:
    chat_model = models(peer, **model)
    try:
        default = Decision(reason="default")
        return await decide(ask, decision_maker.parse_decision, default, parts(model=chat_model), budget)
    finally:
        await chat_model.close()


async def test_nonsense_is_repaired_once() -> None:
    async with ScriptedPeer(decide="Hmm, well.", repair="[search: memory module]") as peer:
        budget = Budget(BudgetSettings())
        decision = await decided(peer, make_request(), budget)
        assert (decision.action, decision.query) == ("search", "memory module")
        assert peer.agents == ["decide", "repair"]
        assert "Hmm, well." in str(peer.requests[1]["messages"])
        assert budget.degraded == []


async def test_nonsense_twice_is_the_default_and_the_stage_is_cut() -> None:
    async with ScriptedPeer(decide="Hmm, well.", repair="") as peer:
        budget = Budget(BudgetSettings())
        assert (await decided(peer, make_request(), budget)).reason == "default"
        assert len(peer.requests) == 2
        assert budget.degraded == ["decide"]


async def test_there_is_no_repair_without_calls_or_time() -> None:
    async with ScriptedPeer(decide="Hmm, well.", repair="[answer]") as peer:
        assert (
            await decided(peer, make_request(call_budget=CallBudget(1)), Budget(BudgetSettings()))
        ).reason == "default"
        peer.ttft_s = 0.5
        short_budget = Budget(BudgetSettings(deadline_s=8, step=0.1))
        assert (await decided(peer, make_request(), short_budget)).reason == "default"
        assert peer.agents == ["decide", "decide"]


@pytest.mark.parametrize("failure_mode", ["hanging", "failing"])
async def test_a_model_that_hangs_or_fails_means_the_default(failure_mode: str) -> None:
    async with ScriptedPeer() as peer:
        setattr(peer, failure_mode, {"decide"})
        budget = Budget(BudgetSettings(deadline_s=30, step=0.02))
        started_at = time.monotonic()
        assert (await decided(peer, make_request(), budget)).reason == "default"
        assert budget.degraded == ["decide"]
        assert time.monotonic() - started_at < 15


async def test_the_schema_is_sent_where_the_endpoint_has_it() -> None:
    async with ScriptedPeer(decide='{"action": "answer"}') as peer:
        await decided(peer, make_request(), Budget(BudgetSettings()), json_schema=True)
        await decided(peer, make_request(), Budget(BudgetSettings()))
        schema = peer.requests[0]["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["action"]["enum"] == ["answer", "search"]
        assert set(schema["required"]) == set(schema["properties"])
        assert "response_format" not in peer.requests[1]


async def test_a_refused_schema_is_left_out_from_then_on() -> None:
    async with ScriptedPeer(decide="[answer]") as peer:
        peer.refuses = {"response_format"}
        chat_model = models(peer, json_schema=True)
        for _ in range(2):
            await decide(
                make_request(),
                decision_maker.parse_decision,
                Decision(),
                parts(model=chat_model),
                Budget(BudgetSettings()),
            )
        await chat_model.close()
        assert ["response_format" in body for body in peer.requests] == [True, False, False]


async def test_a_request_that_is_refused_for_something_else_forgets_nothing() -> None:
    async with ScriptedPeer(decide="[answer]") as peer:
        peer.status = 400
        peer.failures = 2
        chat_model = models(peer, json_schema=True)
        budget = Budget(BudgetSettings())
        form = decision_maker.DECISION_SCHEMA.to_response_schema()
        with pytest.raises(ModelError, match="status 400"):
            await chat_model.complete("", [Turn("user", "?")], role="light", budget=budget, response_schema=form)
        await chat_model.complete("", [Turn("user", "?")], role="light", budget=budget, response_schema=form)
        await chat_model.close()
        assert ["response_format" in body for body in peer.requests] == [True, False, True]


def test_every_shape_has_a_schema() -> None:
    for shape in (decision_maker.DECISION_SCHEMA, information_filter.SCHEMA, parallel.SCHEMA, planning.SCHEMA, ROUTER):
        schema = shape.to_response_schema().schema
        assert schema["type"] == "object"
        assert schema["required"] == [slot.name for slot in shape.fields]


@pytest.mark.parametrize(
    ("reply", "is_choice"),
    [
        ('{"strategy": "planing ahead"}', True),
        ('{"strategy": "react"}', True),
        ("strategy: react", True),
        ("Bananas are yellow.", False),
        ("", False),
    ],
)
async def test_a_choice_that_is_not_allowed_is_repaired_by_naming_those_that_are(reply: str, is_choice: bool) -> None:
    async with ScriptedPeer(choose=reply, repair='{"strategy": "single"}') as peer:
        model = models(peer)
        deps = parts(model=model)
        request = DecisionRequest("choose", "choose", ROUTER, "You choose how to search", [Turn("user", "Which?")])
        choice = await decide(
            request, lambda parsed: parsed.get_choice("strategy") or None, "none", deps, Budget(BudgetSettings())
        )
        await model.close()
    repair_prompt = peer.sent("repair")[0]["messages"][-1]["content"]
    assert choice == "single"
    assert (
        "Choose only from the listed values" in repair_prompt,
        '- "strategy": none, single, planning' in repair_prompt,
    ) == (
        is_choice,
        is_choice,
    )


def test_a_decision_gives_its_reason_before_it_acts() -> None:
    schema = decision_maker.DECISION_SCHEMA.to_response_schema().schema
    assert list(schema["properties"]) == schema["required"] == ["quality", "reason", "action", "query"]
    assert list(information_filter.SCHEMA.to_response_schema().schema["properties"]) == ["keep", "missing"]
