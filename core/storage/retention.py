"""Retention: removes old texts and names from the journal, from usage and feedback, and old cached replies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.errors import StoreError
from core.observability.logs import get_logger
from core.settings import Settings

if TYPE_CHECKING:
    from core.storage.messages import Journal


# A century: a larger number means for ever, and dates do not reach back that far.
MAX_DAYS = 36_500


async def erase_expired(settings: Settings, journal: Journal) -> None:
    """Remove data older than the configured retention. An error of the database is only logged."""
    from core.storage.answer_cache import delete_replies
    from core.storage.feedback import FeedbackRepository
    from core.storage.lessons import TaughtAnswerRepository
    from core.storage.usage import UsageRepository

    now, journal_settings = datetime.now(UTC), settings.journal
    settled_before, unanswered_before = (
        None if days is None else now - timedelta(days=min(days, MAX_DAYS))
        for days in (journal_settings.keep_days, journal_settings.keep_unanswered_days)
    )
    try:
        message_count = await journal.erase_expired(settled_before, unanswered_before)
        reply_count = await delete_replies(journal.database, now.timestamp() - settings.cache.hours * 3600)
        answer_count = 0
        if journal_settings.keep_days is not None:
            days = min(journal_settings.keep_days, MAX_DAYS)
            answer_count = await UsageRepository(journal.database).anonymize(now.astimezone().date(), days)
            await FeedbackRepository(journal.database).erase_before(now - timedelta(days=days))
            await TaughtAnswerRepository(journal.database).erase_before(now - timedelta(days=days))
    except StoreError as error:
        get_logger(__name__).error("journal.not_emptied", error=str(error))
        return
    if message_count or reply_count or answer_count:
        get_logger(__name__).info("journal.emptied", messages=message_count, replies=reply_count, answers=answer_count)
