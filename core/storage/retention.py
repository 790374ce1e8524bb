"""What is forgotten in time: people's words and names in the journal, who used what, and old replies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.errors import StoreError
from core.observability.logs import logger
from core.settings import Settings

if TYPE_CHECKING:
    from core.storage.messages import Journal


# A century: who writes a larger number means for good, and no calendar goes back that far.
LONGEST_DAYS = 36_500


async def forget(settings: Settings, journal: Journal) -> None:
    """Remove what is older than the configuration keeps it. A database that refuses is one line of the log."""
    from core.storage.answer_cache import forget_replies
    from core.storage.feedback import Opinions
    from core.storage.lessons import Lessons
    from core.storage.usage import Ledger

    now, keep = datetime.now(UTC), settings.journal
    settled, unanswered = (
        None if days is None else now - timedelta(days=min(days, LONGEST_DAYS))
        for days in (keep.keep_days, keep.keep_unanswered_days)
    )
    try:
        messages = await journal.forget(settled, unanswered)
        replies = await forget_replies(journal.database, now.timestamp() - settings.cache.hours * 3600)
        answers = 0
        if keep.keep_days is not None:
            days = min(keep.keep_days, LONGEST_DAYS)
            answers = await Ledger(journal.database).forget(now.astimezone().date(), days)
            await Opinions(journal.database).forget(now - timedelta(days=days))
            await Lessons(journal.database).forget(now - timedelta(days=days))
    except StoreError as fault:
        logger(__name__).error("journal.not_emptied", error=str(fault))
        return
    if messages or replies or answers:
        logger(__name__).info("journal.emptied", messages=messages, replies=replies, answers=answers)
