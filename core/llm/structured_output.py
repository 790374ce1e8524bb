"""A small typed decision from a possibly weak model.

The endpoint gets the JSON Schema or a tool when it supports them. Replies are parsed tolerantly: damaged JSON, bracket
actions, `key: value` lines and words, in English or Chinese. The model repairs an unreadable reply once if
there is time; otherwise the caller's default is used. Nonsense never raises an exception.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from core.errors import ServiceError
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField, iter_parsed_replies
from core.llm.prompts import Prompts
from core.llm.reply_parsing import clean_line, strip_reasoning
from core.observability.logs import get_logger
from core.ports import ChatModel
from core.runtime.budget import Budget, DegradeReason
from core.types import ResponseSchema, Turn

_log = get_logger(__name__)

T = TypeVar("T")
MAX_REPAIR_CHARS = 2000


@dataclass(slots=True)
class CallBudget:
    """The number of model calls that a strategy may still make."""

    remaining: int

    def try_take(self) -> bool:
        """Take one call; false when none is left."""
        self.remaining -= 1
        return self.remaining >= 0


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request for one decision.

    `stage` is its name in the trace; `budget_share` names the share of the budget that it may take, repair included.
    `response_schema` goes to the endpoint; None means that of `schema`. `call_budget` counts the strategy's calls; None
    sets no limit.
    """

    stage: str
    budget_share: str
    schema: DecisionSchema
    system: str
    turns: Sequence[Turn]
    response_schema: ResponseSchema | None = None
    call_budget: CallBudget | None = None


class ModelDependencies(Protocol):
    """The part of an answer's dependencies that a decision needs: the model, if one is configured, and its prompts."""

    @property
    def model(self) -> ChatModel | None:
        """The language model, or None where none is configured."""
        ...

    @property
    def prompts(self) -> Prompts:
        """The prompt templates."""
        ...


def parse_structured_reply(reply: str, schema: DecisionSchema, accept: Callable[[ParsedReply], T | None]) -> T | None:
    """Return the first reading of a reply that `accept` accepts, or None. Never raises for any text."""
    results = (accept(parsed_reply) for parsed_reply in iter_parsed_replies(reply, schema))
    return next((result for result in results if result is not None), None)


async def decide(
    request: DecisionRequest,
    accept: Callable[[ParsedReply], T | None],
    default: T,
    deps: ModelDependencies,
    budget: Budget,
) -> T:
    """Return the light model's decision, or the default.

    `accept` turns a parsed reply into the result, or returns None when the reply makes no sense. The default is used
    when there is no model or no call left, and, with the stage degraded, when the model fails, overruns its share, or
    cannot be understood after the repair.
    """
    if deps.model is None or (request.call_budget and not request.call_budget.try_take()):
        return default
    degrade_reason: DegradeReason
    with budget.timed(request.stage):
        try:
            async with asyncio.timeout(budget.share(request.budget_share)):
                decision = await _request_decision(request, accept, deps.model, deps.prompts, budget)
            if decision is not None:
                return decision
            reason = "the reply cannot be read"
            degrade_reason = "unreadable"
        except TimeoutError:
            reason = "overran its share"
            degrade_reason = "late"
        except ServiceError as error:
            reason = str(error)
            degrade_reason = "failed"
    budget.degrade(request.stage, degrade_reason)
    _log.warning("decision.default", stage=request.stage, why=degrade_reason, reason=reason)
    return default


async def _request_decision(
    request: DecisionRequest,
    accept: Callable[[ParsedReply], T | None],
    model: ChatModel,
    prompts: Prompts,
    budget: Budget,
) -> T | None:
    response_schema = request.response_schema or request.schema.to_response_schema()
    allowed_s = budget.share(request.budget_share)
    started_at = time.monotonic()
    reply = await model.complete(
        request.system, request.turns, role="light", budget=budget, response_schema=response_schema, agent=request.stage
    )
    decision = parse_structured_reply(reply, request.schema, accept)
    spent_s = time.monotonic() - started_at
    # A repair takes about as long as the first call: without time for it, use the default at once.
    if decision is not None or 2 * spent_s > allowed_s or (request.call_budget and not request.call_budget.try_take()):
        return decision
    _log.info("decision.repair", stage=request.stage, characters=len(reply))
    repair_turns = [
        Turn("assistant", reply[:MAX_REPAIR_CHARS].strip() or "..."),
        Turn("user", _make_repair_request(reply, request.schema, prompts)),
    ]
    all_turns = [*request.turns, *repair_turns]
    repaired_reply = await model.complete(
        request.system,
        all_turns,
        role="light",
        budget=budget,
        response_schema=request.schema.to_response_schema(),
        agent=request.stage,
    )
    return parse_structured_reply(repaired_reply, request.schema, accept)


def _make_repair_request(reply: str, schema: DecisionSchema, prompts: Prompts) -> str:
    """Ask for the decision again: where the reply could be read but names what is not allowed, with the choices."""
    field_list = "\n".join(f'- "{schema_field.name}": {schema_field.description}' for schema_field in schema.fields)
    choices = "\n".join(
        f'- "{schema_field.name}": {", ".join(schema_field.choices)}'
        for schema_field in schema.fields
        if schema_field.choices and _names_disallowed_value(reply, schema, schema_field)
    )
    if choices:
        return prompts.fill("repair_choice", keys=field_list, choices=choices)
    return prompts.fill("repair", keys=field_list)


def _names_disallowed_value(reply: str, schema: DecisionSchema, schema_field: SchemaField) -> bool:
    """Return whether a reply gives a field a value under its key that is not allowed."""
    parsed_reply = next(iter_parsed_replies(reply, schema), None)
    value = parsed_reply.get_text(schema_field.name) if parsed_reply else ""
    has_key = parsed_reply is not None and len(value) < len(clean_line(strip_reasoning(reply)))
    return bool(value) and has_key and parsed_reply is not None and not parsed_reply.get_choice(schema_field.name)
