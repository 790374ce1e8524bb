"""`/why`: what the journal knows about an answer, or about a silence. No prompts.

What a model thought of the evidence, and what an answer cost, is for those who look after the bot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from core.messaging.commands.context import CommandContext, CommandRequest
from core.storage.message_lookup import MessageLookup, MessageOutcome
from core.storage.usage import total_usage
from core.text.catalogue import ENGLISH, Messages
from core.text.formatting import format_code, format_cost


async def explain_command(context: CommandContext, request: CommandRequest) -> str:
    """Explain the last answer in the chat or thread, or what became of the message that is meant."""
    message, texts = request.message, request.texts
    lookup = MessageLookup(context.journal.database)
    message_id = request.arguments.get("message", "").rstrip("/").rpartition("/")[2] or message.reply_to
    # On Slack a message in a thread replies to the thread's first message, which is not what is meant by that.
    if message_id and (message_id != message.key.thread or "message" in request.arguments):
        outcome, fallback = await lookup.get_outcome(message, message_id), texts.message_unknown
    else:
        outcome, fallback = await lookup.get_last_outcome(message), texts.nothing_answered
    return format_explanation(outcome, texts, is_admin=request.role != "everyone") if outcome else fallback


def format_explanation(outcome: MessageOutcome, texts: Messages = ENGLISH, *, is_admin: bool = False) -> str:
    """Return the explanation. With `is_admin` it has what is only for those who look after the bot: errors and cost."""
    if outcome.state == "silent":
        return texts.silent_because.format(reason=outcome.reason or texts.no_reason)
    if outcome.state == "failed":
        return texts.message_failed.format(reason=format_code(outcome.reason) if is_admin else texts.reason_in_log)
    if outcome.state != "answered":
        state_texts = {
            "received": texts.message_received,
            "answering": texts.message_answering,
            "sending": texts.message_sending,
        }
        return state_texts.get(outcome.state, texts.message_unknown)
    if not outcome.reply:
        return texts.answer_forgotten
    return "\n".join(_format_lines(outcome, texts, is_admin))


def _format_lines(outcome: MessageOutcome, texts: Messages, is_admin: bool) -> list[str]:
    trace = outcome.trace
    if not trace.get("query"):
        return [texts.no_search]
    citation_counts = Counter(str(citation.get("source", "")) for citation in outcome.citations)
    sources = ", ".join(f"{format_code(name)} ({count})" for name, count in citation_counts.most_common())
    agents = ", ".join(map(format_code, trace.get("agents") or ()))
    lines = [
        texts.trace_strategy.format(strategy=format_code(str(trace.get("strategy") or "none"))),
        texts.trace_agents.format(agents=agents or texts.trace_no_agent),
        texts.trace_query.format(query=format_code(str(trace["query"]))),
        texts.trace_cited.format(sources=sources or texts.nothing),
        texts.trace_time.format(times=_format_times(trace.get("timings_ms") or {}, texts)),
    ]
    if is_admin:
        lines += [line for search_round in trace.get("rounds") or () if (line := _format_round(search_round, texts))]
    if trace.get("cut"):
        cut_reasons: Mapping[str, str] = trace.get("why_cut") or {}
        stages = (format_code(stage) + _format_cut_reason(cut_reasons.get(stage, ""), texts) for stage in trace["cut"])
        lines.append(texts.trace_cut.format(stages=", ".join(stages)))
    if is_admin:
        lines += _format_usage(trace, texts)
    if trace.get("dropped_citations"):
        lines.append(texts.trace_dropped.format(count=int(trace["dropped_citations"])))
    if trace.get("cached"):
        lines.append(texts.trace_cached)
    return lines


def _format_times(timings_ms: Mapping[str, float], texts: Messages) -> str:
    stages = ", ".join(
        f"{name} {_format_seconds(spent_ms)}" for name, spent_ms in timings_ms.items() if name != "total"
    )
    total = texts.trace_total.format(total=_format_seconds(timings_ms["total"])) if "total" in timings_ms else ""
    return f"{total}{stages or texts.trace_no_time}"


def _format_cut_reason(reason: str, texts: Messages) -> str:
    return {"late": texts.cut_late, "failed": texts.cut_failed, "unreadable": texts.cut_unreadable}.get(reason, "")


def _format_round(search_round: Any, texts: Messages) -> str:
    """Return what a strategy thought of one round of its searches; empty where it did not judge.

    A trace of the journal has plain JSON for it, one of this process the value itself.
    """
    value = search_round if isinstance(search_round, Mapping) else asdict(search_round)
    if not value.get("quality"):
        return ""
    return texts.trace_searched.format(
        queries=", ".join(map(format_code, value.get("queries") or ())),
        quality=value["quality"],
        reason=texts.trace_reason.format(reason=format_code(str(value["reason"]))) if value.get("reason") else "",
    )


def _format_usage(trace: Mapping[str, Any], texts: Messages) -> list[str]:
    usage = total_usage(trace.get("tokens") or {}, trace.get("cost") or {})
    if not (usage.total_tokens or usage.cost):
        return []
    cost = texts.trace_cost.format(cost=format_cost(usage.cost)) if usage.cost else ""
    return [texts.trace_usage.format(read=usage.prompt_tokens, written=usage.completion_tokens, cost=cost)]


def _format_seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"
