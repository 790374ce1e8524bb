"""The command /digest: what happened in some days, and which topics found no answer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time

from core.formatting import format_code, format_cost, today
from core.language.topics import group_by_topic
from core.messaging.commands.context import DEFAULT_DAYS, CommandContext, CommandRequest
from core.messaging.commands.status_commands import format_source_hits
from core.storage.reports import QuestionFilter, ReportRepository
from core.storage.usage import StatisticsRepository, first_day
from core.types import DOWN, UP

MAX_QUESTIONS = 300
MAX_TOPICS = 8
MAX_CHARS = 160


async def show_digest(context: CommandContext, request: CommandRequest) -> str:
    """Show questions, answers, ratings and cost of some days, and the questions without an answer by topic."""
    texts = request.texts
    chat = request.chat_filter
    since = first_day(int(float(request.arguments.get("days", DEFAULT_DAYS))), today())
    start = datetime.combine(since, time()).astimezone(UTC)
    reports = ReportRepository(context.journal.database)
    statistics = (await StatisticsRepository(context.journal.database).get_daily_statistics(since, chat)).values()
    counts = {state: sum(day.states[state] for day in statistics) for state in ("answered", "silent", "failed")}
    ratings = await reports.count_ratings(start, chat)
    platform, chat_id = chat or ("", "")
    reader = request.message if chat else None
    question_filter = QuestionFilter(start, "unanswered", platform, (chat_id,) if chat_id else (), reader=reader)
    questions = [
        item.text for item in await reports.list_questions(question_filter, MAX_QUESTIONS) if item.text.strip()
    ]
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
        *(await asyncio.to_thread(_format_topics, questions, texts.digest_unanswered, texts.digest_all_answered)),
    ]
    return "\n".join(lines)


def _format_topics(questions: list[str], title: str, empty_text: str) -> list[str]:
    """Return the largest topics, each with its number of questions and a typical one."""
    topics = group_by_topic(questions)[:MAX_TOPICS]
    if not topics:
        return [empty_text]
    # Quoted as code: what members wrote is no mark-up of ours.
    rows = (f"- {len(topic.members)}× {format_code(questions[topic.typical], MAX_CHARS)}" for topic in topics)
    return [title.format(count=len(questions)), *rows]
