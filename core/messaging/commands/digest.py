"""The command /digest: what happened in some days, and what the knowledge lacks."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from core.formatting import format_cost, today
from core.messaging.commands.context import DEFAULT_DAYS, CommandContext, CommandRequest, format_source_hits
from core.messaging.gaps import find_gaps, format_gaps
from core.storage.reports import QuestionFilter, ReportRepository
from core.storage.usage import StatisticsRepository, first_day
from core.types import DOWN, UP

MAX_GAPS = 8


async def show_digest(context: CommandContext, request: CommandRequest) -> str:
    """Show questions, answers, ratings and cost of some days, and what the knowledge lacks."""
    texts = request.texts
    chat = request.chat_filter
    days = int(float(request.arguments.get("days", DEFAULT_DAYS)))
    since = first_day(days, today())
    start = datetime.combine(since, time()).astimezone(UTC)
    reports = ReportRepository(context.journal.database)
    statistics = (await StatisticsRepository(context.journal.database).get_daily_statistics(since, chat)).values()
    counts = {state: sum(day.states[state] for day in statistics) for state in ("answered", "silent", "failed")}
    ratings = await reports.count_ratings(start, chat)
    platform, chat_id = chat or ("", "")
    reader = request.message if chat else None
    question_filter = QuestionFilter(start, reader, "unanswered", platform, (chat_id,) if chat_id else ())
    visible_sources = context.permissions.visible_sources(request.message)
    library = context.library
    if library and visible_sources is not None:
        library = library.restricted_to(visible_sources)
    report = await find_gaps(reports, library, question_filter, timedelta(days=days))
    gaps = report.gaps[:MAX_GAPS]
    numbers = {gap.typical.number for gap in gaps}

    async def are_still_told() -> bool:
        return await reports.find_told(numbers, reader=reader) == numbers

    request.watch(are_still_told)
    question_count = sum(len(gap.questions) for gap in report.open_gaps)
    tokens = sum(day.tokens for day in statistics)
    cost = format_cost(sum(day.cost for day in statistics), texts)
    rating_counts = {
        verdict: sum(n for (rating, _), n in ratings.items() if rating == verdict) for verdict in (UP, DOWN)
    }
    shown_counts = {state: f"{count:,}" for state, count in counts.items()}
    lines = [
        texts.statistics_since.format(day=since, chat=request.scope_text),
        "",
        texts.digest_messages.format(messages=f"{sum(counts.values()):,}", **shown_counts),
        texts.digest_ratings.format(**rating_counts),
        texts.digest_cost.format(tokens=f"{tokens:,}", cost=cost),
        *await format_source_hits(context, request, since),
        "",
        texts.digest_unanswered.format(count=question_count) if question_count else texts.digest_all_answered,
        *format_gaps(gaps, texts),
    ]
    return "\n".join(lines)
