"""Retention: removes old texts and names from the journal, from usage and feedback, and old cached replies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, or_, select

from core.errors import StoreError
from core.observability.logs import get_logger
from core.settings import Settings
from core.storage.tables import messages
from core.types import PAGE_PURPOSES, RATING_COMMAND

if TYPE_CHECKING:
    from core.storage.engine import Database
    from core.storage.messages import Journal

_log = get_logger(__name__)


# How many rows one transaction deletes.
BATCH_SIZE = 200
# A century: a larger number means for ever, and dates do not reach back that far.
MAX_DAYS = 36_500
EVENT_DAYS = 7


async def erase_expired(settings: Settings, journal: Journal) -> None:
    """Remove data older than the configured retention. An error of the database is only logged."""
    from core.storage.answer_cache import delete_replies
    from core.storage.feedback import FeedbackRepository
    from core.storage.lessons import TaughtAnswerRepository
    from core.storage.usage import UsageRepository

    now = datetime.now(UTC)
    journal_settings = settings.journal
    settled_before, unanswered_before = (
        None if days is None else now - timedelta(days=min(days, MAX_DAYS))
        for days in (journal_settings.keep_days, journal_settings.keep_unanswered_days)
    )
    try:
        message_count = await journal.erase_expired(settled_before, unanswered_before)
        event_count = await delete_events(journal.database, now - timedelta(days=EVENT_DAYS))
        reply_count = await delete_replies(journal.database, now.timestamp() - settings.cache.hours * 3600)
        answer_count = 0
        if journal_settings.keep_days is not None:
            days = min(journal_settings.keep_days, MAX_DAYS)
            answer_count = await UsageRepository(journal.database).anonymize(now.astimezone().date(), days)
            await FeedbackRepository(journal.database).erase_before(now - timedelta(days=days))
            await TaughtAnswerRepository(journal.database).erase_before(now - timedelta(days=days))
    except StoreError as error:
        _log.error("journal.prune_failed", error=str(error))
        return
    if message_count or event_count or reply_count or answer_count:
        counts = {"messages": message_count, "replies": reply_count, "answers": answer_count, "events": event_count}
        _log.info("journal.pruned", **counts)


async def delete_events(database: Database, before: datetime) -> int:
    """Delete presses of buttons, reactions, and what the bot was asked by the opening of a page; return how many.

    No platform delivers one again after so long, and what they changed is stored elsewhere.
    """
    columns = messages.c
    is_event = or_(columns.command == RATING_COMMAND, columns.purpose.in_(PAGE_PURPOSES))
    is_settled = columns.state.in_(("answered", "failed", "silent"))
    expired = select(columns.number).where(is_event, is_settled, columns.settled_at < before).limit(BATCH_SIZE)
    event_count = 0
    # In small steps: new messages wait while a transaction writes.
    while batch_count := await database.write(delete(messages).where(columns.number.in_(expired))):
        event_count += batch_count
    return event_count
