"""How often each source was cited, in /status and /digest."""

from __future__ import annotations

from datetime import date

from core.messaging.commands.context import CommandContext, CommandRequest
from core.storage.usage import StatisticsRepository


async def format_source_hits(context: CommandContext, request: CommandRequest, since: date) -> list[str]:
    """Return a line with how often each source that may be named here was cited of the answers that it was shown to."""
    hits = await StatisticsRepository(context.journal.database).count_source_hits(since, request.chat_filter)
    visible_sources = context.visible_settings(request).sources
    shares = [f"{name} {hits[name].cited}/{hits[name].shown}" for name in hits if name in visible_sources]
    return [request.texts.source_hits.format(day=since, sources=", ".join(shares))] if shares else []
