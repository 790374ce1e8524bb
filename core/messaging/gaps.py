"""What the knowledge lacks: questions without a good answer, grouped by meaning, and whether they stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core.catalogue import Messages
from core.errors import KimasError
from core.formatting import format_code, format_link
from core.language.keywords import content_words
from core.language.questions import is_error_report, is_personal, is_question, is_resolution, unanswerable_reason
from core.language.secrets import mask_secrets
from core.observability.logs import get_logger
from core.ports import Library
from core.storage.details import WEAK_ANSWERS
from core.storage.reports import ListedQuestion, QuestionFilter, ReportRepository
from core.types import Passage

_log = get_logger(__name__)

# The newest of each kind are looked at: so many that count, among so many messages.
MAX_QUESTIONS = 500
MAX_PARTS = 4
MAX_QUESTION_CHARS = 160
# Whoever calls the bot by its name means something from so many words on.
MIN_WORDS = 2
# So many gaps get their nearest page.
MAX_PAGES = 20

# So many judgements are kept.
MAX_JUDGED = 8192

MayShow = Callable[[ListedQuestion], bool]


@dataclass(frozen=True, slots=True)
class Gap:
    """Questions of one meaning without a good answer.

    `typical` stands for them, `questions` came in the period, `earlier_count` in the one before. `last_at` is when the
    last one came, `answered_count` how many of this meaning got a good answer after it. `page` is the nearest passage.
    """

    typical: ListedQuestion
    questions: Sequence[ListedQuestion]
    earlier_count: int
    last_at: datetime
    answered_count: int
    page: Passage | None = None

    @property
    def is_open(self) -> bool:
        """Return whether such questions still come, and the last one had no good answer."""
        return bool(self.questions) and not self.answered_count


@dataclass(frozen=True, slots=True)
class GapReport:
    """The gaps of a period: open ones first, the largest first. `is_cut`: only the newest questions were looked at."""

    gaps: Sequence[Gap]
    is_cut: bool

    @property
    def open_gaps(self) -> Sequence[Gap]:
        """The gaps that are still there."""
        return [gap for gap in self.gaps if gap.is_open]


class QuestionJudge:
    """Judges each question once by `is_asking`, for whoever looks often. It keeps numbers, and no texts."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def __call__(self, question: ListedQuestion) -> bool:
        """Return whether a question asks for something."""
        # A message may be edited.
        key = (question.number, hash((question.text, question.is_addressed)))
        if key not in self._known:
            if len(self._known) >= MAX_JUDGED:
                self._known.clear()
            self._known[key] = is_asking(question)
        return self._known[key]


async def find_gaps(
    reports: ReportRepository,
    library: Library | None,
    question_filter: QuestionFilter,
    period: timedelta,
    may_show: MayShow = lambda _question: True,
    *,
    judge: Callable[[ListedQuestion], bool] | None = None,
) -> GapReport:
    """Find the gaps since the time of a filter, compared with as long a period before.

    Only questions that `may_show` allows count, and of them those that ask for something (`is_asking`, or a `judge` in
    its place). Without a `library`, each question is a gap of its own. Raises `StoreError` of the journal.
    """
    judge = judge or is_asking
    both_periods = replace(question_filter, since=question_filter.since - period)
    unanswered, is_cut = await _list_asking(reports, replace(both_periods, outcome="unanswered"), may_show, judge)
    answered, _ = await _list_asking(reports, replace(both_periods, outcome="answered"), may_show, judge)
    numbers = {item.number for item in unanswered}
    # What was found bad, or lacks something, counts as answered, too.
    good = [item for item in answered if item.number not in numbers and item.detail not in WEAK_ANSWERS]
    # An embedding endpoint may be elsewhere: what is secret says nothing of the meaning.
    texts = await asyncio.to_thread(lambda: [mask_secrets(item.text) for item in (*unanswered, *good)])
    groups = await library.group(texts) if library else [[place] for place in range(len(texts))]
    gaps = []
    for places in groups:
        lacking = [unanswered[place] for place in places if place < len(unanswered)]
        answers = [good[place - len(unanswered)] for place in places if place >= len(unanswered)]
        if lacking:
            gaps.append(_to_gap(lacking, answers, question_filter.since))
    gaps.sort(key=lambda gap: (not gap.is_open, -len(gap.questions), -gap.earlier_count, -gap.last_at.timestamp()))
    pages = await asyncio.gather(*(_find_page(gap.typical.text, library) for gap in gaps[:MAX_PAGES]))
    with_pages = [replace(gap, page=page) for gap, page in zip(gaps, pages, strict=False)]
    # All of this takes a while: nobody is quoted who was forgotten in it, nor what is not told any more.
    told_numbers = await reports.find_told(numbers, reader=question_filter.reader, is_public=question_filter.is_public)
    left_gaps = (_keep_told(gap, told_numbers) for gap in (*with_pages, *gaps[MAX_PAGES:]))
    return GapReport([gap for gap in left_gaps if gap], is_cut)


async def _list_asking(
    reports: ReportRepository,
    question_filter: QuestionFilter,
    may_show: MayShow,
    judge: Callable[[ListedQuestion], bool],
) -> tuple[Sequence[ListedQuestion], bool]:
    """Return the newest questions of a filter that count, and whether there may be more. Raises `StoreError`.

    The journal is read in parts until there are enough: chatter, and what nobody here may see, takes no place.
    """
    asking: list[ListedQuestion] = []
    before = None
    for _ in range(MAX_PARTS):
        part = await reports.list_questions(question_filter, MAX_QUESTIONS, before)
        shown = [item for item in part if may_show(item)]
        asking += await asyncio.to_thread(lambda items: [item for item in items if judge(item)], shown)
        if len(part) < MAX_QUESTIONS or len(asking) >= MAX_QUESTIONS:
            return asking[:MAX_QUESTIONS], len(part) == MAX_QUESTIONS or len(asking) > MAX_QUESTIONS
        before = part[-1].number
    return asking, True


def is_asking(question: ListedQuestion) -> bool:
    """Return whether a message asks for something that knowledge could answer: chatter does not.

    What somebody asks the bot itself may be words alone, such as "proxy settings".
    """
    text = question.text
    if unanswerable_reason(text) or is_personal(text) or is_resolution(text):
        return False
    is_search = question.is_addressed and len(content_words(text)) >= MIN_WORDS
    return is_search or is_question(text) or is_error_report(text)


def format_gaps(gaps: Sequence[Gap], texts: Messages) -> list[str]:
    """Return a line of Markdown for each gap. What members wrote is shown as code: it is no mark-up of ours."""
    return [f"- {_format_gap(gap, texts)}" for gap in gaps]


def _format_gap(gap: Gap, texts: Messages) -> str:
    question = format_code(gap.typical.text, MAX_QUESTION_CHARS)
    if gap.answered_count:
        return texts.gap_answered.format(question=question, count=gap.answered_count)
    if not gap.questions:
        return texts.gap_quiet.format(question=question, day=f"{gap.last_at.astimezone():%Y-%m-%d}")
    page = gap.page
    place = "" if page is None else texts.gap_page.format(page=format_link(page.title or page.path, page.url))
    earlier_text = texts.gap_earlier.format(count=gap.earlier_count)
    return f"{len(gap.questions)}× ({earlier_text}) {question}{place}"


def _to_gap(lacking: Sequence[ListedQuestion], answers: Sequence[ListedQuestion], since: datetime) -> Gap:
    """Return the gap of a group, whose most typical question comes first."""
    last_at = max(item.received_at for item in lacking)
    questions = [item for item in lacking if item.received_at >= since]
    return Gap(
        typical=(questions or lacking)[0],
        questions=questions,
        earlier_count=len(lacking) - len(questions),
        last_at=last_at,
        answered_count=sum(item.received_at > last_at for item in answers),
    )


def _keep_told(gap: Gap, told_numbers: Container[int]) -> Gap | None:
    """Return a gap with those of its questions that are told, by their numbers; None if none is that stands for it."""
    questions = [item for item in gap.questions if item.number in told_numbers]
    typical = next((item for item in (gap.typical, *questions) if item.number in told_numbers), None)
    return replace(gap, typical=typical, questions=questions) if typical else None


async def _find_page(text: str, library: Library | None) -> Passage | None:
    """Return the passage that has most of a question's words, by weight. A store that fails leaves it out."""
    if library is None:
        return None
    try:
        match = await library.match_words(text, 1)
    except KimasError as error:
        _log.warning("gaps.without_page", error=str(error))
        return None
    return match.passages[0] if match.passages else None
