"""`/why`: what the journal knows about an answer, or about a silence. No prompts.

What a model thought of the evidence, and what an answer cost, is for those who look after the bot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from core.messaging.commands.context import CommandContext
from core.messaging.commands.form import CommandRequest
from core.storage.message_lookup import MessageLookup, MessageOutcome
from core.storage.usage import total_usage
from core.text.formatting import format_code, format_cost

NOTHING = "I have answered nothing here that I remember."
UNKNOWN = "I know nothing of that message: it never reached me, or it is forgotten."
CUT_REASONS = {"late": "too late", "failed": "it failed", "unreadable": "its reply made no sense"}
STATE_TEXTS = {
    "received": "That message waits for its answer.",
    "answering": "That message is being answered.",
    "sending": "The answer to that message is being posted.",
}


async def explain_command(context: CommandContext, request: CommandRequest) -> str:
    """Explain the last answer in the chat or thread, or what became of the message that is meant."""
    message, lookup = request.message, MessageLookup(context.journal.database)
    message_id = request.arguments.get("message", "").rstrip("/").rpartition("/")[2] or message.reply_to
    # On Slack a message in a thread replies to the thread's first message, which is not what is meant by that.
    if message_id and (message_id != message.key.thread or "message" in request.arguments):
        outcome, fallback = await lookup.get_outcome(message, message_id), UNKNOWN
    else:
        outcome, fallback = await lookup.get_last_outcome(message), NOTHING
    return format_explanation(outcome, is_admin=request.role != "everyone") if outcome else fallback


def format_explanation(outcome: MessageOutcome, *, is_admin: bool = False) -> str:
    """Return the explanation; `inside` is for those only who look after the bot: faults, judgements, cost."""
    if outcome.state == "silent":
        return f"I was silent because: {outcome.reason or 'no reason is recorded'}."
    if outcome.state == "failed":
        reason = format_code(outcome.reason) if is_admin else "the log says why, to whoever runs me"
        return f"The answer to that message failed: {reason}."
    if outcome.state != "answered":
        return STATE_TEXTS.get(outcome.state, UNKNOWN)
    if not outcome.reply:
        return "That was answered, and the answer is forgotten."
    return "\n".join(_format_lines(outcome, is_admin))


def _format_lines(outcome: MessageOutcome, is_admin: bool) -> list[str]:
    trace = outcome.trace
    if not trace.get("query"):
        return ["That took no search: I said it of my own knowledge of myself."]
    timings_ms: Mapping[str, float] = trace.get("timings_ms") or {}
    citation_counts = Counter(str(citation.get("source", "")) for citation in outcome.citations)
    sources = ", ".join(f"{format_code(name)} ({count})" for name, count in citation_counts.most_common())
    dropped_count = int(trace.get("dropped_citations") or 0)
    stages = ", ".join(
        f"{name} {_format_seconds(spent_ms)}" for name, spent_ms in timings_ms.items() if name != "total"
    )
    total_text = f"{_format_seconds(timings_ms['total'])}: " if "total" in timings_ms else ""
    lines = [
        f"- How I searched: {format_code(str(trace.get('strategy') or 'none'))}",
        f"- Asked: {', '.join(map(format_code, trace.get('agents') or ())) or 'no agent'}",
        f"- With the query: {format_code(str(trace['query']))}",
        f"- Cited: {sources or 'nothing'}",
        f"- Time: {total_text}{stages or 'not recorded'}",
    ]
    if is_admin:
        lines += [f"- Searched: {line}" for line in map(_format_round, trace.get("rounds") or ()) if line]
    if trace.get("cut"):
        cut_reasons: Mapping[str, str] = trace.get("why_cut") or {}
        stages = ", ".join(
            f"{format_code(stage)}{_format_cut_reason(cut_reasons.get(stage, ''))}" for stage in trace["cut"]
        )
        lines.append(f"- Cut short, for lack of time or of a service: {stages}")
    if is_admin and (usage := _format_usage(trace)):
        lines.append(f"- Consumed: {usage}")
    if dropped_count:
        lines.append(f"- Citations taken away, for their passage did not say so: {dropped_count}")
    if trace.get("cached"):
        lines.append("- An earlier answer to the same question was given again")
    return lines


def _format_cut_reason(reason: str) -> str:
    return f" ({CUT_REASONS[reason]})" if reason in CUT_REASONS else ""


def _format_round(search_round: Any) -> str:
    """Return what a strategy thought of one round of its searches; empty where it did not judge.

    A trace of the journal has plain JSON for it, one of this process the value itself.
    """
    value = search_round if isinstance(search_round, Mapping) else asdict(search_round)
    if not value.get("quality"):
        return ""
    queries = ", ".join(map(format_code, value.get("queries") or ()))
    reason = f", for: {format_code(str(value['reason']))}" if value.get("reason") else ""
    return f"{queries}; the evidence was {value['quality']}{reason}"


def _format_usage(trace: Mapping[str, Any]) -> str:
    usage = total_usage(trace.get("tokens") or {}, trace.get("cost") or {})
    cost = f", cost {format_cost(usage.cost)}" if usage.cost else ""
    return (
        f"{usage.prompt_tokens} tokens read, {usage.completion_tokens} written{cost}"
        if usage.total_tokens or usage.cost
        else ""
    )


def _format_seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"
