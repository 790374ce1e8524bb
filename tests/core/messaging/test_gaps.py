"""What the knowledge lacks: which questions count, how often they come, and whether they stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from sqlalchemy import update

from core.catalogue import messages_for
from core.errors import StoreError
from core.messaging import gaps
from core.messaging.gaps import GapReport, QuestionJudge, find_gaps, format_gaps, is_asking
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.storage.reports import ListedQuestion, QuestionFilter, ReportRepository
from core.storage.tables import messages
from core.types import DOWN, Citation, ConversationKey, Message, Passage, Reply, SkipReason, skip
from core.types.replies import Trace
from tests.support.fixtures import InMemoryLibrary, passage

KEY = ConversationKey("telegram", "-1")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
NUMBERS = count(1)
NOTHING = Reply("Nothing found.", trace=Trace("q", "single", ("docs",), {}))
GOOD = Reply("Like this. [1]", (Citation(1, "p", "docs", "P", "p.md", ""),), trace=Trace("q", "single", ("docs",), {}))
PROXY = passage("proxy", "Behind a proxy, set the hosts that you trust.")


async def ask(
    journal: Journal, text: str, days_ago: float, reply: Reply | None = NOTHING, *, is_addressed: bool = True
) -> Message:
    """Let somebody have asked; without a reply the bot was not sure enough to help."""
    message = Message(str(next(NUMBERS)), KEY, "7", "Ann", text, NOW, addressed=is_addressed)
    await journal.record_message(message)
    if reply:
        await journal.begin_answer(message, None)
        await journal.mark_answered(message, reply)
    else:
        await journal.mark_skipped(message, skip(SkipReason.UNSURE, probability=0.3, threshold=0.5, explanation=""))
    query = update(messages).filter_by(id=message.id)
    await journal.database.write(query.values(received_at=NOW - timedelta(days=days_ago)))
    return message


async def find(journal: Journal, library: InMemoryLibrary | None = None, **conditions: object) -> GapReport:
    question_filter = replace(QuestionFilter(NOW - WEEK, None), **conditions)  # type: ignore[arg-type]
    library = library or InMemoryLibrary((PROXY,))
    return await find_gaps(ReportRepository(journal.database), library, question_filter, WEEK)


async def test_what_is_secret_in_a_question_is_not_compared(journal: Journal) -> None:
    compared: list[str] = []

    class Library(InMemoryLibrary):
        async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
            compared.extend(texts)
            return await super().group(texts)

    await ask(journal, "how do I set password=hunter22 for ann@example.org?", 1)
    await ask(journal, "how do I use the key of bob@example.org?", 1, GOOD)
    await find(journal, Library((PROXY,)))
    assert sorted(compared) == [
        "how do I set password=[secret 1] for [email 1]?",
        "how do I use the key of [email 1]?",
    ]


async def test_questions_are_counted_by_meaning_and_compared_with_the_period_before(journal: Journal) -> None:
    await ask(journal, "licence where do I get one?", 15)
    for days_ago in (13, 8, 6.9, 2, 1):
        await ask(journal, "proxy how do I set it up?", days_ago)
    await ask(journal, "windows does it run there?", 1, None, is_addressed=False)
    report = await find(journal)
    assert [(len(gap.questions), gap.earlier_count) for gap in report.gaps] == [(3, 2), (1, 0)]
    assert report.gaps[0].page is not None
    assert report.gaps[0].page.path == "proxy.md"
    assert report.gaps[1].page is None


@pytest.mark.parametrize(
    ("text", "is_addressed"),
    [
        ("lol same here, going for lunch", False),
        ("lol same here", True),
        ("same problem here", True),
        ("Hi all", False),
        ("thanks, it works now", True),
        ("How are you today?", True),
        ("Merged the pull request and deployed it to staging", False),
        ("我也是", False),
        ("", True),
    ],
)
async def test_chatter_is_no_gap(journal: Journal, text: str, is_addressed: bool) -> None:
    await ask(journal, text, 1, NOTHING if is_addressed else None, is_addressed=is_addressed)
    assert (await find(journal)).gaps == []


@pytest.mark.parametrize(
    ("text", "is_addressed"),
    [
        ("proxy settings", True),
        ("I get error 409 when starting", False),
        ("怎么配置代理", False),
        ("Is there a helm chart?", False),
    ],
)
async def test_what_asks_for_something_is_one(journal: Journal, text: str, is_addressed: bool) -> None:
    await ask(journal, text, 1, NOTHING if is_addressed else None, is_addressed=is_addressed)
    assert len((await find(journal)).open_gaps) == 1


async def test_an_answer_that_was_found_bad_is_none(journal: Journal) -> None:
    question = await ask(journal, "proxy how do I set it up?", 1, GOOD)
    assert (await find(journal)).gaps == []
    await FeedbackRepository(journal.database).rate(replace(question, id="press"), question.id, DOWN)
    [gap] = (await find(journal)).open_gaps
    assert (len(gap.questions), gap.answered_count) == (1, 0)


async def test_it_says_whether_the_questions_stopped(journal: Journal) -> None:
    # Written, and the next ones are answered.
    await ask(journal, "proxy how do I set it up?", 9)
    await ask(journal, "proxy where is it set?", 3)
    await ask(journal, "proxy which port has it?", 2, GOOD)
    await ask(journal, "proxy does it need a password?", 1, GOOD)
    # No longer asked.
    await ask(journal, "windows does it run there?", 9)
    # Answered once by luck, and lacking again.
    await ask(journal, "licence where do I get one?", 3, GOOD)
    await ask(journal, "licence how much is it?", 2)
    report = await find(journal)
    assert [gap.typical.text.split()[0] for gap in report.gaps] == ["licence", "proxy", "windows"]
    licence, proxy, windows = report.gaps
    assert (licence.is_open, licence.answered_count) == (True, 0)
    assert (proxy.is_open, proxy.answered_count) == (False, 2)
    assert (windows.is_open, windows.answered_count, len(windows.questions)) == (False, 0, 0)
    for language, words in (("en", "answered since, 2×"), ("zh", "2 次")):
        lines = format_gaps(report.gaps, messages_for(language))
        assert words in lines[1]
        assert "2026-11-11" in lines[2]


@pytest.mark.parametrize("forgotten", ["newest", "older", "both"])
async def test_no_question_of_a_gap_is_of_a_person_forgotten_meanwhile(journal: Journal, forgotten: str) -> None:
    """One of them stands for the gap; the others are told of, too."""
    await ask(journal, "proxy how do I set it up?", 2)
    await ask(journal, "proxy how do I use it?", 1)

    class Library(InMemoryLibrary):
        async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
            is_hers = {"newest": messages.c.text.contains("use"), "older": messages.c.text.contains("set")}
            conditions = [is_hers[forgotten]] if forgotten in is_hers else []
            await journal.database.write(update(messages).where(*conditions).values(text="", author_id=""))
            return [list(range(len(texts)))]

    report = await find(journal, Library((PROXY,)))
    told = [(gap.typical.text, [item.text for item in gap.questions]) for gap in report.gaps]
    left = {"newest": "proxy how do I set it up?", "older": "proxy how do I use it?"}.get(forgotten)
    assert told == ([(left, [left])] if left else [])


async def test_what_members_wrote_is_no_markup(journal: Journal) -> None:
    await ask(journal, "proxy `x` @everyone [a](http://evil.example)\n# how do I set it?", 1)
    [line] = format_gaps((await find(journal)).gaps, messages_for("en"))
    assert "\n" not in line
    assert "`proxy 'x' @everyone [a](http://evil.example) # how do I set it?`" in line


async def test_a_store_that_fails_costs_the_page_alone(journal: Journal) -> None:
    class Failing(InMemoryLibrary):
        async def match_words(self, query: str, limit: int) -> object:  # type: ignore[override]
            raise StoreError("the store is down")

    await ask(journal, "proxy how do I set it up?", 1)
    [gap] = (await find(journal, Failing())).gaps
    assert gap.page is None


async def test_private_chats_and_other_times_can_be_left_out(journal: Journal) -> None:
    await ask(journal, "proxy how do I set it up?", 1)
    private = await ask(journal, "windows does it run there?", 1)
    await journal.database.write(update(messages).filter_by(id=private.id).values(private=True))
    closed = await ask(journal, "licence where do I get one?", 1)
    await journal.database.write(update(messages).filter_by(id=closed.id).values(in_restricted_thread=True))
    assert len((await find(journal)).gaps) == 3
    assert [gap.typical.text[:5] for gap in (await find(journal, is_public=True)).gaps] == ["proxy"]
    assert (await find(journal, until=NOW - timedelta(days=2))).gaps == []


async def test_the_page_is_one_of_the_sources_that_may_be_named(journal: Journal) -> None:
    await ask(journal, "proxy how do I set it up?", 1)
    secret = Passage("s", "secret", "secret.md", "Secret proxy", "proxy proxy proxy set up", "", kind="markdown")
    library = InMemoryLibrary((secret, PROXY))
    [gap] = (await find(journal, library.restricted_to(["docs"]))).gaps
    assert gap.page is not None
    assert gap.page.source == "docs"


async def test_chatter_and_what_may_not_be_seen_take_no_place(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps, "MAX_QUESTIONS", 2)
    await ask(journal, "proxy how do I set it up?", 3)
    await ask(journal, "proxy where is it set?", 3)
    await ask(journal, "proxy which port has it?", 3)
    for text in ("lol same here", "secret which port?", "same problem here"):
        await ask(journal, text, 1)
    library = InMemoryLibrary((PROXY,))
    question_filter = QuestionFilter(NOW - WEEK, None)
    reports = ReportRepository(journal.database)
    report = await find_gaps(reports, library, question_filter, WEEK, lambda item: "secret" not in item.text)
    assert [len(gap.questions) for gap in report.gaps] == [2]
    assert report.is_cut
    monkeypatch.setattr(gaps, "MAX_PARTS", 1)
    report = await find_gaps(reports, library, question_filter, WEEK)
    assert [gap.typical.text[:6] for gap in report.gaps] == ["secret"]
    assert report.is_cut, "the rest was not looked at"


async def test_questions_beyond_the_limit_are_told_at_the_end_of_the_journal(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps, "MAX_QUESTIONS", 3)
    for text in ("proxy which port?", "proxy where is it set?", "lol same here"):
        await ask(journal, text, 1)
    assert not (await find(journal)).is_cut
    for text in ("proxy how do I set it?", "proxy what is it for?"):
        await ask(journal, text, 1)
    report = await find(journal)
    assert [len(gap.questions) for gap in report.gaps] == [3]
    assert report.is_cut


async def test_who_looks_often_judges_each_question_once(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def judge_once(question: ListedQuestion) -> bool:
        judged.append(question.text)
        return is_asking(question)

    monkeypatch.setattr(gaps, "is_asking", judge_once)
    proxy = await ask(journal, "proxy which port?", 1)
    await ask(journal, "lol same here", 1, None, is_addressed=False)
    judge = QuestionJudge()

    async def look() -> list[str]:
        judged.clear()
        reports = ReportRepository(journal.database)
        report = await find_gaps(reports, InMemoryLibrary(), QuestionFilter(NOW - WEEK, None), WEEK, judge=judge)
        assert len(report.gaps) == 1
        return sorted(judged)

    assert await look() == ["lol same here", "proxy which port?"]
    assert await look() == []
    monkeypatch.setattr(gaps, "MAX_JUDGED", 2)
    await journal.database.write(update(messages).filter_by(id=proxy.id).values(text="proxy which host?"))
    assert await look() == ["proxy which host?"], "what was edited is judged anew"
    assert len(judge._known) <= 2
