"""The pages that only read: questions, one question, topics without an answer, sources, feedback, usage."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from bots.operator_page.context import (
    CHAT_TITLES,
    PageContext,
    clean_input,
    get_context,
    get_days,
    get_number,
    name_chat,
    show,
)
from bots.operator_page.gap_patch import make_patch
from bots.operator_page.waterfall import get_total_ms, to_rows
from core.formatting import today
from core.messaging.gaps import MAX_QUESTIONS, GapReport, find_gaps
from core.settings import LiveSource
from core.storage.details import WEAK_ANSWERS
from core.storage.reports import (
    OUTCOMES,
    ListedQuestion,
    QuestionFilter,
    QuestionReport,
    RatingFilter,
    to_outcome,
)
from core.storage.usage import NO_ANSWERS, TokenUsage, UsageShare, add_up, first_day, group_by_agent, total_usage
from core.types import DOWN, UP, Citation
from core.types.replies import MAX_EXCERPT_CHARS, Trace

PAGE_SIZE = 50
MAX_RATINGS = 100
MAX_CHATS = 20
MAX_FILTER_CHARS = 200
DAY_CHOICES = (1, 7, 30, 90)
DEFAULT_GAP_DAYS = 30
PLATFORMS = ("telegram", "discord", "slack", "mastodon", "bluesky", "github", "gitlab", "http", "api", "terminal")


async def show_questions(request: web.Request) -> web.StreamResponse:
    """List questions, newest first, with filters in the address."""
    reports = get_context(request).reports
    query = request.query
    days = get_days(request, 7)
    now = datetime.now(UTC)
    texts = {name: clean_input(query.get(name, "")[:MAX_FILTER_CHARS]) for name in ("platform", "chat", "text")}
    since = now - timedelta(days=days)
    chats = _find_chats(request, texts["platform"], texts["chat"])
    outcome = to_outcome(query.get("outcome", ""))
    question_filter = QuestionFilter(since, None, outcome, texts["platform"], chats, texts["text"])
    before_number = int(query["before"]) if re.fullmatch("[0-9]{1,9}", query.get("before", "")) else None
    rows, counts = await asyncio.gather(
        reports.list_questions(question_filter, PAGE_SIZE + 1, before_number),
        reports.count_states(now - timedelta(days=1)),
    )
    filters = {"outcome": question_filter.outcome, "days": days, **{name: text for name, text in texts.items() if text}}
    older_query = urlencode({**filters, "before": rows[PAGE_SIZE - 1].number}) if len(rows) > PAGE_SIZE else ""
    values = {
        "rows": rows[:PAGE_SIZE],
        "counts": counts,
        "filter": question_filter,
        "chat": texts["chat"],
        "days": days,
        "day_choices": DAY_CHOICES,
        "outcomes": OUTCOMES,
        "platforms": PLATFORMS,
        "older": older_query,
        "is_first": before_number is None,
        "newest": urlencode(filters),
    }
    return show(request, "questions.html", values)


def _find_chats(request: web.Request, platform: str, text: str) -> Sequence[str]:
    """Return the ids of the chats of the platform, or of any, that are called so; else the text, which may be an id."""
    if not text:
        return ()
    titles = request.get(CHAT_TITLES, {}).items()
    name = _to_chat_name(text)
    places = [place for place, title in titles if _to_chat_name(title) == name and platform in ("", place[0])]
    return [chat for _, chat in places] or [text]


def _to_chat_name(title: str) -> str:
    return title.removeprefix("#").casefold()


async def show_question(request: web.Request) -> web.StreamResponse:
    """Show one question with its answer, and how that was made, or why there is none."""
    context = get_context(request)
    report = await context.reports.get_question(get_number(request))
    if report is None:
        raise web.HTTPNotFound(text="The journal has no such question.")
    # A trace of an earlier version lacks keys, and a silence has values of its own instead.
    trace = {**Trace("", "", (), {}).to_json(), **report.trace}
    passages = trace["passages"]
    citations = _to_citations(report, passages)
    answer = await asyncio.to_thread(context.renderer.render_answer, report.reply, citations)
    tokens = trace["tokens"]
    cost = trace["cost"]
    values = {
        "report": report,
        "message": report.message,
        "answer": answer,
        "citations": citations,
        "trace": trace,
        "passages": passages,
        "max_excerpt_chars": MAX_EXCERPT_CHARS,
        "cited": {item.passage_id: item.n for item in citations},
        "waterfall": to_rows(trace),
        "total_ms": get_total_ms(trace),
        "up": UP,
        "down": DOWN,
        "calls": [(agent, trace["models"].get(agent, ""), usage) for agent, usage in _usage(tokens, cost)],
        "total": total_usage(tokens, cost),
        "skip_values": trace.get("values") or {},
        "has_trace": "query" in report.trace,
    }
    return show(request, "question.html", values)


def _usage(tokens: Mapping[str, int], cost: Mapping[str, float]) -> Sequence[tuple[str, TokenUsage]]:
    return sorted(group_by_agent(tokens, cost).items(), key=lambda entry: -entry[1].total_tokens)


def _to_citations(report: QuestionReport, passages: Sequence[Mapping[str, Any]]) -> Sequence[Citation]:
    """Return the citations with the places that the trace has of their passages."""
    by_id = {passage["id"]: passage for passage in passages}
    return [
        Citation(
            int(item["n"]),
            str(item["passage_id"]),
            str(item["source"]),
            *(str(by_id.get(item["passage_id"], {}).get(name, "")) for name in ("title", "path", "url")),
        )
        for item in report.citations
    ]


async def show_unanswered(request: web.Request) -> web.StreamResponse:
    """Show the questions without a good answer by meaning, the most frequent first, then those that stopped."""
    days = get_days(request, DEFAULT_GAP_DAYS)
    report = await find_context_gaps(get_context(request), days)
    open_gaps = report.open_gaps
    values = {
        "gaps": [(gap, Counter(_to_reason(question) for question in gap.questions)) for gap in open_gaps],
        "stopped": [gap for gap in report.gaps if not gap.is_open],
        "question_count": sum(len(gap.questions) for gap in open_gaps),
        "days": days,
        "day_choices": DAY_CHOICES,
        "is_cut": report.is_cut,
        "max_questions": MAX_QUESTIONS,
    }
    return show(request, "unanswered.html", values)


async def download_patch(request: web.Request) -> web.StreamResponse:
    """Send a patch of the FAQ file, or a Markdown file, with a place for the answer to each of these questions."""
    context = get_context(request)
    days = get_days(request, DEFAULT_GAP_DAYS)
    report = await find_context_gaps(context, days)
    name, text = await asyncio.to_thread(make_patch, report.open_gaps, context.settings, days, context.renderer.clean)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(text=text, content_type="text/plain", headers=headers)


async def find_context_gaps(context: PageContext, days: int = DEFAULT_GAP_DAYS) -> GapReport:
    """Return the gaps of so many days. What is judged and embedded for it is not judged and embedded again."""
    period = timedelta(days=days)
    question_filter = QuestionFilter(datetime.now(UTC) - period, None)
    return await find_gaps(context.reports, context.library, question_filter, period, judge=context.judge)


def _to_reason(question: ListedQuestion) -> str:
    """Return why a question counts as unanswered: an answer that lacks nothing was found bad by somebody."""
    is_disliked = question.state == "answered" and question.detail not in WEAK_ANSWERS
    return "thumbs down" if is_disliked else question.detail or question.state


async def show_sources(request: web.Request) -> web.StreamResponse:
    """Show every source with its state."""
    context = get_context(request)
    settings = context.settings
    live = [(name, source.kind) for name, source in settings.sources.items() if isinstance(source, LiveSource)]
    states = await context.source_refresher.states()
    return show(request, "sources.html", {"states": states, "live": live, "describe": settings.describe_source})


async def show_feedback(request: web.Request) -> web.StreamResponse:
    """List what people said of answers, newest first."""
    days = get_days(request, 30)
    verdict_text = request.query.get("verdict", "")
    verdict: RatingFilter = "up" if verdict_text == UP else "down" if verdict_text == DOWN else ""
    since = datetime.now(UTC) - timedelta(days=days)
    reports = get_context(request).reports
    ratings, counts = await asyncio.gather(
        reports.list_ratings(since, MAX_RATINGS, verdict), reports.count_ratings(since)
    )
    reasons = Counter({reason: count for (_, reason), count in counts.items() if reason})
    verdicts: Counter[str] = Counter()
    for (name, _), count in counts.items():
        verdicts[name] += count
    values = {
        "ratings": ratings,
        "verdicts": verdicts,
        "reasons": reasons.most_common(),
        "verdict": verdict,
        "days": days,
        "day_choices": DAY_CHOICES,
        "up": UP,
        "down": DOWN,
        "is_cut": len(ratings) == MAX_RATINGS,
    }
    return show(request, "feedback.html", values)


async def show_usage(request: web.Request) -> web.StreamResponse:
    """Show what answers consumed, by day, model, agent and chat."""
    days = get_days(request, 30)
    usage = get_context(request).usage
    since = first_day(days, today())
    usage_shares, model_shares = await asyncio.gather(usage.get_usage_by_chat(since), usage.get_usage_by_model(since))
    outcomes = _count_outcomes(usage_shares)
    # Their tokens count, but nobody was answered.
    by_chat = [replace(share, answers=0) if share.values[3] in NO_ANSWERS else share for share in usage_shares]
    by_day = _add_up(by_chat, lambda share: (share.values[0],))
    chats = sorted(_add_up(by_chat, lambda share: share.values[1:3]), key=lambda share: -share.answers)
    named_chats = [
        replace(share, values=(share.values[0], name_chat(request, *share.values))) for share in chats[:MAX_CHATS]
    ]
    values = {
        "by_day": sorted(by_day, key=lambda share: share.values, reverse=True),
        "chats": named_chats,
        "outcomes": outcomes,
        "no_answers": sum(outcomes[name] for name in NO_ANSWERS),
        "chat_count": len(chats),
        "total": UsageShare((), *_sum(by_chat)),
        "models": _sort(_add_up(model_shares, lambda share: share.values[2:])),
        "days": days,
        "agents": _sort(_add_up(model_shares, lambda share: share.values[1:2])),
        "day_choices": DAY_CHOICES,
        "most": max((share.usage.total_tokens for share in by_day), default=0),
    }
    return show(request, "usage.html", values)


def _add_up(shares: Sequence[UsageShare], get_key: Callable[[UsageShare], tuple[str, ...]]) -> Sequence[UsageShare]:
    """Return the sums of the shares with one key."""
    groups: dict[tuple[str, ...], list[UsageShare]] = {}
    for share in shares:
        groups.setdefault(get_key(share), []).append(share)
    return [UsageShare(key, *_sum(group)) for key, group in groups.items()]


def _sum(shares: Sequence[UsageShare]) -> tuple[int, TokenUsage]:
    return sum(share.answers for share in shares), add_up([share.usage for share in shares])


def _sort(shares: Sequence[UsageShare]) -> Sequence[UsageShare]:
    return sorted(shares, key=lambda share: (-share.usage.total_tokens, share.values))


def _count_outcomes(shares: Sequence[UsageShare]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for share in shares:
        counts[share.values[3]] += share.answers
    return counts
