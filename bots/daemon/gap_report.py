"""The weekly report: which questions had no good answer, to the chats that get the alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

from bots.daemon.alerts import AlertSender
from core.catalogue import messages_for
from core.errors import KimasError
from core.messaging.gaps import find_gaps, format_gaps
from core.observability.logs import get_logger, make_redactor
from core.ports import Library
from core.runtime.clock import ClockWatch
from core.runtime.timers import run_periodically
from core.settings.audience import OWNERS, Asker
from core.settings.loader import get_secret_values
from core.storage.reports import ListedQuestion, QuestionFilter, ReportRepository
from core.storage.tables import may_be_shown
from core.types import Origin

_log = get_logger(__name__)

CHECK_MINUTES = 10.0
WEEK = timedelta(days=7)
# On Mondays from this hour on, local time, the report of the week before is due. A Monday that the daemon missed has no
# report: the next one counts what came the week before.
DUE_AFTER = timedelta(hours=9)
DUE_BEFORE = timedelta(days=1)
MAX_GAPS = 10


@dataclass
class GapReporter:
    """Posts the report of each week once: the journal knows what was posted, also after a restart.

    While the time of day on `clock` has just jumped, it may not be Monday.
    """

    sender: AlertSender
    reports: ReportRepository
    library: Library
    clock: ClockWatch
    _told: set[tuple[str, datetime]] = field(default_factory=set)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Look every few minutes whether a report is due, while the block runs."""
        async with run_periodically(CHECK_MINUTES, self.check):
            yield

    async def check(self) -> None:
        """Post what is due now and not posted yet."""
        await self.post_due(datetime.now(UTC))

    async def post_due(self, now: datetime) -> None:
        """Post what is due at a moment and not posted yet."""
        monday = _get_monday(now)
        settings = self.sender.live.settings.alerts
        is_due = monday + DUE_AFTER <= now.astimezone() < monday + DUE_BEFORE
        if not settings.gap_report or not is_due or self.clock.recent_jump:
            return
        for chat in settings.chats:
            if (chat, monday) in self._told:
                continue
            try:
                asker = await self.sender.make_asker(chat)
                labels, text, questions = await self._write(asker, monday)
            except KimasError as error:
                _log.error("gap_report.not_made", error=str(error))
                continue
            reason = f"gaps {monday.astimezone():%Y-%m-%d}"
            # An owner's has words of private chats, and is judged by that until it is posted.
            origin = Origin("report", OWNERS if asker.role == "owner" else "")
            if not text or await self.sender.post(
                [chat], reason, text, now, origin, labels=labels, questions=questions
            ):
                self._told.add((chat, monday))

    async def _write(self, asker: Asker, until: datetime) -> tuple[frozenset[str], str, Collection[int]]:
        """Return the report of the week before a moment, as readers may see it; "" if nothing is open.

        Before it, the labels of the sources that it may tell of; after it, the numbers of the questions that it quotes.
        Raises `StoreError`.
        """
        live = self.sender.live
        await live.load()
        labels = live.audiences.visible_labels(asker)
        texts = messages_for(live.settings.alerts.language)
        is_owner = asker.is_private and asker.role == "owner"
        question_filter = QuestionFilter(until - WEEK, None, until=until, is_public=not is_owner)
        library = self.library
        if live.audiences.has_closed_sources:
            library = library.restricted_to(live.audiences.visible_sources(asker))
        report = await find_gaps(
            self.reports, library, question_filter, WEEK, lambda question: is_owner or self._may_show(question, asker)
        )
        if not report.open_gaps:
            return labels, "", ()
        title = texts.gap_report.format(
            since=_format_day(until - WEEK),
            until=_format_day(until - timedelta(hours=1)),
            count=sum(len(gap.questions) for gap in report.open_gaps),
            earlier=sum(gap.earlier_count for gap in report.gaps),
        )
        gaps = report.gaps[:MAX_GAPS]
        text = make_redactor(get_secret_values(live.settings))("\n".join((title, *format_gaps(gaps, texts))))
        return labels, text, [gap.typical.number for gap in gaps]

    def _may_show(self, question: ListedQuestion, reader: Asker) -> bool:
        """Return whether a reader sees all that those see who read the question, and what its answer was made from."""
        audiences = self.sender.live.audiences
        asker = audiences.make_asker(question.platform, question.chat)
        sees_all = audiences.visible_sources(asker) <= audiences.visible_sources(reader)
        labels = question.visible_sources
        return sees_all and (labels is None or may_be_shown(labels, audiences.visible_labels(reader)))


def _get_monday(now: datetime) -> datetime:
    """Return the beginning of the week, in local time."""
    today = now.astimezone().date()
    return datetime.combine(today - timedelta(days=today.weekday()), time()).astimezone()


def _format_day(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d}"
