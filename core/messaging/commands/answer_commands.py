"""The commands about answers: `/why` explains one, or a silence, and `/faq` reviews what people taught.

`/why` shows no prompts. How a model judged the evidence, and what an answer cost, only administrators see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from core.catalogue import ENGLISH, Messages
from core.errors import UsageError
from core.formatting import format_code, format_cost, format_until
from core.messaging.commands.context import CommandContext, CommandRequest
from core.ports.refresh import refresh_taught
from core.settings.audience import ALL_OPEN
from core.storage.lessons import ReviewState, TaughtAnswer, TaughtAnswerRepository
from core.storage.message_lookup import MessageLookup, MessageOutcome
from core.storage.overrides import new_entry
from core.storage.tables import DRAFTED, may_be_shown
from core.storage.usage import total_usage

# The values of a reason to be silent that are phrases in English.
_PHRASE_VALUES = frozenset(("attachment", "explanation"))

MAX_LISTED = 10
DECISIONS: dict[str, ReviewState] = {"approve": "approved", "reject": "rejected"}


async def explain_command(context: CommandContext, request: CommandRequest) -> str:
    """Explain the outcome of the message that the command names, or the last answer in the chat or thread."""
    explanation = await _explain(context, request)

    async def is_still_told() -> bool:
        return await _explain(context, request) == explanation

    request.watch(is_still_told)
    return explanation


async def _explain(context: CommandContext, request: CommandRequest) -> str:
    message = request.message
    texts = request.texts
    lookup = MessageLookup(context.journal.database)
    message_id = request.arguments.get("message", "").rstrip("/").rpartition("/")[2] or message.reply_to
    # On Slack every message in a thread replies to the thread's first message; that names no message.
    if message_id and (message_id != message.key.thread or "message" in request.arguments):
        outcome = await lookup.get_outcome(message, message_id)
        fallback = texts.message_unknown
    else:
        outcome = await lookup.get_last_outcome(message)
        fallback = texts.nothing_answered
    visible_labels = context.permissions.visible_labels(message)
    if outcome is None:
        return fallback
    # The explanation of an answer, of a model that judged a message, or of a fault may hold words of sources.
    values = outcome.trace.get("values", {})
    tells_of_knowledge = outcome.state != "silent" or not values.keys().isdisjoint(("opinion", "error"))
    if tells_of_knowledge and not may_be_shown(outcome.visible_sources, visible_labels):
        return fallback
    is_admin = request.role != "everyone"
    if outcome.state == "failed" and not message.private and visible_labels.isdisjoint((ALL_OPEN,)):
        # A fault may name anything that is configured.
        is_admin = False
    return format_explanation(outcome, texts, is_admin=is_admin)


def format_explanation(outcome: MessageOutcome, texts: Messages = ENGLISH, *, is_admin: bool = False) -> str:
    """Return the explanation. With `is_admin` it has what is only for those who look after the bot, such as errors."""
    if outcome.state == "silent":
        return texts.silent_because.format(reason=_format_skip(outcome, texts))
    if outcome.state == "failed":
        return texts.message_failed.format(reason=format_code(outcome.reason) if is_admin else texts.reason_in_log)
    if outcome.state != "answered":
        state_texts = {
            "received": texts.message_received,
            "answering": texts.message_answering,
            "sending": texts.message_sending,
            DRAFTED: texts.message_drafted,
        }
        return state_texts.get(outcome.state, texts.message_unknown)
    if not outcome.reply:
        return texts.answer_forgotten
    return "\n".join(_format_lines(outcome, texts, is_admin))


def _format_skip(outcome: MessageOutcome, texts: Messages) -> str:
    """Return why the bot was silent; in English for a journal that has only the text."""
    template = texts.skip_reasons.get(str(outcome.trace.get("skip")))
    if template is None:
        return outcome.reason or texts.no_reason
    values = dict(outcome.trace["values"])
    if "opinion" in values:
        # A model wrote it about a message of anybody.
        values["opinion"] = format_code(str(values["opinion"]))
    for name in _PHRASE_VALUES & values.keys():
        values[name] = _translate_phrases(str(values[name]), texts)
    if "moment" in values:
        values["until"] = format_until(values["moment"], texts)
    return template.format(**values)


def _translate_phrases(text: str, texts: Messages) -> str:
    """Return phrases with commas between them, perhaps with a sign before each, in the language of the texts."""
    signs_and_phrases = [(part[:2], part[2:]) if part[:2] in ("+ ", "- ") else ("", part) for part in text.split(", ")]
    return ", ".join(sign + texts.skip_phrases.get(phrase, phrase) for sign, phrase in signs_and_phrases)


def _format_lines(outcome: MessageOutcome, texts: Messages, is_admin: bool) -> list[str]:
    trace = outcome.trace
    if not trace.get("query"):
        return [texts.no_search]
    citation_counts = Counter(str(citation.get("source", "")) for citation in outcome.citations)
    sources = ", ".join(f"{format_code(name)} ({count})" for name, count in citation_counts.most_common())
    agents = ", ".join(map(format_code, trace.get("agents") or ()))
    saved_count = int(trace.get("saved_searches") or 0) if is_admin else 0
    saved_text = texts.trace_saved.format(count=saved_count) if saved_count else ""
    timings_ms = trace.get("timings_ms") or {}
    lines = [
        texts.trace_agents.format(agents=agents or texts.trace_no_agent) + saved_text,
        texts.trace_query.format(query=format_code(str(trace["query"]))),
        texts.trace_cited.format(sources=sources or texts.nothing),
        texts.trace_time.format(times=_format_times(timings_ms, texts, is_admin=is_admin)),
    ]
    if is_admin:
        lines.insert(0, texts.trace_strategy.format(strategy=format_code(str(trace.get("strategy") or "none"))))
        lines += [line for search_round in trace.get("rounds") or () if (line := _format_round(search_round, texts))]
    if trace.get("cut"):
        cut_reasons: Mapping[str, str] = trace.get("why_cut") or {}
        stages = (format_code(stage) + _format_cut_reason(cut_reasons.get(stage, ""), texts) for stage in trace["cut"])
        lines.append(texts.trace_cut.format(stages=", ".join(stages)))
    if is_admin:
        lines += _format_usage(trace, texts)
    if trace.get("dropped_citations"):
        lines.append(texts.trace_dropped.format(count=int(trace["dropped_citations"])))
    if trace.get("moved_citations"):
        lines.append(texts.trace_moved.format(count=int(trace["moved_citations"])))
    if trace.get("opinion"):
        lines.append(texts.trace_opinion.format(reason=format_code(str(trace["opinion"]))))
    if trace.get("cached"):
        lines.append(texts.trace_cached)
    return lines


def _format_times(timings_ms: Mapping[str, float], texts: Messages, *, is_admin: bool) -> str:
    """Return how long an answer took and, for those who look after the bot, each of its stages."""
    if not is_admin:
        return _format_seconds(timings_ms["total"]) if "total" in timings_ms else texts.trace_no_time
    stages = ", ".join(
        f"{name} {_format_seconds(spent_ms)}" for name, spent_ms in timings_ms.items() if name != "total"
    )
    total = texts.trace_total.format(total=_format_seconds(timings_ms["total"])) if "total" in timings_ms else ""
    return f"{total}{stages or texts.trace_no_time}"


def _format_cut_reason(reason: str, texts: Messages) -> str:
    reasons = {"late": texts.cut_late, "failed": texts.cut_failed, "unreadable": texts.cut_unreadable}
    return {**reasons, "stopped": texts.cut_stopped}.get(reason, "")


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


async def review_faq(context: CommandContext, request: CommandRequest) -> str:
    """List the answers that wait for a review, approve, reject or edit one.

    An approved answer is used in all chats. So only owners, and administrators whom an owner or the configuration
    names, may decide; the latter only about answers of their own chat. A group never sees another chat's answers, nor
    those of a closed thread, nor those that tell of what it may not see any more.
    """
    repository = TaughtAnswerRepository(context.journal.database)
    texts = request.texts
    action = request.arguments.get("action", "list")
    if action == "list" and "number" not in request.arguments:
        pending_answers = await _list_readable(context, request, "pending", can_see_all=request.can_see_all_chats)
        _watch_answers(context, request, pending_answers[:MAX_LISTED])
        return _format_list(pending_answers, texts)
    if action != "list":
        context.require_named(request)
    if "number" not in request.arguments:
        raise UsageError(texts.argument_missing.format(name="number", usage=request.spell(f"faq {action} NUMBER")))
    number = int(float(request.arguments["number"]))
    can_see_all = request.can_see_all_chats if action == "list" else request.role == "owner"
    readable_answers = await _list_readable(context, request, can_see_all=can_see_all)
    answers = [answer for answer in readable_answers if answer.number == number]
    if not answers:
        raise UsageError(texts.no_such_answer.format(number=number))
    if action == "list":
        _watch_answers(context, request, answers)
        return _format_answer(answers[0], texts)
    reply = await _apply_decision(context, repository, number, request)
    if context.refresher:
        await refresh_taught(context.refresher)
    # The audit outlives what people forget: it has no words of theirs.
    decision = replace(request.message, text=f"{action} {number}")
    await context.audit.record(new_entry(decision, "changed", f"faq {number}", "", action))
    learned_names = [name for name, source in context.settings.sources.items() if source.kind == "learned"]
    place = (answers[0].platform, answers[0].chat, answers[0].closed_sources)
    audiences = context.permissions.audiences
    if action == "approve" and not any(audiences.accepts_lesson(name, *place) for name in learned_names):
        reply += texts.no_learned_source
    return reply


async def _list_readable(
    context: CommandContext, request: CommandRequest, state: ReviewState | None = None, *, can_see_all: bool
) -> Sequence[TaughtAnswer]:
    """Return the answers that may be told of in the reply: those of its chat, whose readers see what they tell of."""
    repository = TaughtAnswerRepository(context.journal.database)
    if can_see_all:
        return await repository.list_answers(state, reader=None)
    answers = await repository.list_answers(state, reader=request.message)
    may_read = context.permissions.may_read_lesson
    return [answer for answer in answers if may_read(answer.closed_sources, request.message)]


def _watch_answers(context: CommandContext, request: CommandRequest, answers: Sequence[TaughtAnswer]) -> None:
    """Let answers not be shown once one of them is not there any more as it was, or not for who reads it."""

    async def are_still_told() -> bool:
        left_answers = await _list_readable(context, request, can_see_all=request.can_see_all_chats)
        return all(answer in left_answers for answer in answers)

    request.watch(are_still_told)


async def decide_draft(context: CommandContext, request: CommandRequest) -> str:
    """Post, replace or drop a draft."""
    return await context.drafts.decide(request.message, request.arguments, request.texts)


async def _apply_decision(
    context: CommandContext, repository: TaughtAnswerRepository, number: int, request: CommandRequest
) -> str:
    action = request.arguments["action"]
    texts = request.texts
    if action != "edit":
        reviewer = f"{request.message.key.platform}:{request.message.author_id}"
        await repository.decide(number, DECISIONS[action], reviewer, texts)
        return texts.answer_approved if action == "approve" else texts.answer_rejected
    closed_sources = context.permissions.closed_labels(request.message)
    await repository.edit(request.message, number, request.arguments.get("text", ""), closed_sources, texts)
    return texts.answer_edited


def _format_answer(answer: TaughtAnswer, texts: Messages) -> str:
    """Return an answer in full: nobody can decide about a text that is cut off."""
    text = answer.answer.replace("```", "'''")
    state = {"pending": texts.pending, "approved": texts.approved, "rejected": texts.rejected}[answer.state]
    return f"**{answer.number}** ({state}) {_format_teacher(answer, texts)}\n\n```\n{answer.question}\n\n{text}\n```"


def _format_teacher(answer: TaughtAnswer, texts: Messages) -> str:
    """Return who gave an answer; a network may say of a quotation whose it is, but not their name."""
    return format_code(answer.teacher) if answer.teacher else texts.somebody


def _format_list(answers: Sequence[TaughtAnswer], texts: Messages) -> str:
    if not answers:
        return texts.no_pending_answers
    lines = [
        texts.pending_answer.format(
            number=answer.number,
            question=format_code(answer.question),
            teacher=_format_teacher(answer, texts),
            answer=format_code(answer.answer),
        )
        for answer in answers[:MAX_LISTED]
    ]
    more_line = texts.more_answers.format(count=len(answers) - MAX_LISTED) if len(answers) > MAX_LISTED else ""
    return "\n".join([f"{texts.pending_answers}\n", *lines, f"\n{more_line}{texts.show_whole_answer}"])
