"""Retention: removes old texts and names from the journal, from usage and feedback, and old cached replies."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, or_, select, update

from core.errors import StoreError
from core.observability.logs import get_logger
from core.settings import Settings
from core.storage.copies import CONVERSATION_TIME
from core.storage.tables import messages
from core.types import FORGES, PAGE_PURPOSES, RATING_COMMAND

if TYPE_CHECKING:
    from core.storage.engine import Database
    from core.storage.messages import Journal

_log = get_logger(__name__)


# How many rows one transaction deletes.
BATCH_SIZE = 200
# A century: a larger number means for ever, and dates do not reach back that far.
MAX_DAYS = 36_500
EVENT_DAYS = 7
# Where the position is the time of the last look at what is due, in seconds since 1970.
CLOCK_CURSOR = "retention"
# A look comes once a day. A clock that is further ahead of the last one may be wrong, until it has kept time so long.
MAX_GAP_S = 2 * 86_400.0
CONFIRMATION_S = 1800.0
# The clock may be corrected a little in that time.
MAX_DRIFT_S = 60.0


async def erase_expired(settings: Settings, journal: Journal) -> None:
    """Remove data older than the configured retention. An error of the database is only logged.

    While the clock may be ahead, nothing is removed: it waits.
    """
    from core.storage.answer_cache import delete_replies
    from core.storage.feedback import FeedbackRepository
    from core.storage.lessons import TaughtAnswerRepository
    from core.storage.usage import UsageRepository

    journal_settings = settings.journal
    try:
        now = await _wait_for_plausible_time(journal)
        settled_before, unanswered_before = (
            None if days is None else now - timedelta(days=min(days, MAX_DAYS))
            for days in (journal_settings.keep_days, journal_settings.keep_unanswered_days)
        )
        message_count = await journal.erase_expired(settled_before, unanswered_before)
        if unanswered_before:
            await erase_opinions(journal.database, unanswered_before + CONVERSATION_TIME)
        event_count = await delete_events(journal.database, now - timedelta(days=EVENT_DAYS))
        reply_count = await delete_replies(journal.database, now.timestamp() - settings.cache.hours * 3600)
        answer_count = 0
        if journal_settings.keep_days is not None:
            days = min(journal_settings.keep_days, MAX_DAYS)
            answer_count = await UsageRepository(journal.database).anonymize(now.astimezone().date(), days)
            await FeedbackRepository(journal.database).erase_before(now - timedelta(days=days))
            await TaughtAnswerRepository(journal.database).erase_before(now - timedelta(days=days))
        # Also where nothing was due: a reader may have held up an earlier wipe, or the process was killed before it.
        await journal.database.wipe()
    except StoreError as error:
        _log.error("journal.prune_failed", error=str(error))
        return
    if message_count or event_count or reply_count or answer_count:
        counts = {"messages": message_count, "replies": reply_count, "answers": answer_count, "events": event_count}
        _log.info("journal.pruned", **counts)


async def _wait_for_plausible_time(journal: Journal) -> datetime:
    """Return the time, once the clock is not far ahead of the last look, or has kept time for `CONFIRMATION_S`.

    What is erased does not come back, and a machine may start with a clock that is ahead until the network corrects it.
    """
    while True:
        seen_at = time.time()
        started_at = time.monotonic()
        last_at = await _find_last_time(journal)
        if last_at is None or seen_at - last_at <= MAX_GAP_S:
            break
        _log.warning(
            "journal.prune_postponed",
            days_ahead=round((seen_at - last_at) / 86_400, 1),
            wait_s=CONFIRMATION_S,
            hint="the clock is far ahead of when the bot last ran: nothing is removed until it has proved right",
        )
        await asyncio.sleep(CONFIRMATION_S)
        elapsed_s = time.monotonic() - started_at
        if abs(time.time() - seen_at - elapsed_s) <= MAX_DRIFT_S:
            break
    now = datetime.now(UTC)
    await journal.set_cursor(CLOCK_CURSOR, int(now.timestamp()))
    return now


async def _find_last_time(journal: Journal) -> float | None:
    """Return when the last look was or, before the first one, when the newest message came; None without any."""
    position = await journal.get_cursor(CLOCK_CURSOR)
    if position is not None:
        return position
    # The newest by its number: a clock that was ahead before may have dated an older one later.
    query = select(messages.c.received_at).order_by(messages.c.number.desc()).limit(1)
    received_at: datetime | None = await journal.database.fetch_value(query)
    return received_at.timestamp() if received_at else None


async def erase_opinions(database: Database, before: datetime) -> None:
    """Erase what models wrote of conversations, so that they gave answers unasked, from the traces of those.

    It may have what others said there, which the bot left unanswered: once that is gone, nobody would find it.
    """
    columns = messages.c
    has_opinion = columns.trace["opinion"].as_string() != ""
    expired = select(columns.number, columns.trace).where(columns.settled_at < before, has_opinion).limit(BATCH_SIZE)
    while rows := await database.fetch_all(expired):
        async with database.transaction() as connection:
            for row in rows:
                without_opinion = (
                    update(messages).filter_by(number=row.number).values(trace=row.trace | {"opinion": ""})
                )
                # Not where it was erased meanwhile.
                await connection.execute(without_opinion.where(has_opinion))


async def delete_events(database: Database, before: datetime) -> int:
    """Delete presses of buttons, reactions, and what the bot was asked by the opening of a page; return how many.

    No platform but forges delivers one again after so long, and what they changed is stored elsewhere. That of a forge
    stays: it would count again, also for somebody who was forgotten.
    """
    columns = messages.c
    is_press = and_(columns.command == RATING_COMMAND, columns.platform.not_in(FORGES))
    is_event = or_(is_press, columns.purpose.in_(PAGE_PURPOSES))
    is_settled = columns.state.in_(("answered", "failed", "silent"))
    expired = select(columns.number).where(is_event, is_settled, columns.settled_at < before).limit(BATCH_SIZE)
    event_count = 0
    # In small steps: new messages wait while a transaction writes.
    while batch_count := await database.write(delete(messages).where(columns.number.in_(expired))):
        event_count += batch_count
    return event_count
