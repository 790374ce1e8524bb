"""Visitors rate answers: what is kept, for how long it can be changed, and that strangers can do no more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import select

from bots.api.page import ratings
from core.settings import Settings
from core.storage.erasure import erase_on_platform
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.storage.reports import QuestionFilter, ReportRepository
from core.storage.tables import feedback, messages
from tests.support.api_helpers import Api, served
from tests.support.fixtures import settings

QUESTION = "How do I install the package?"
SINCE = datetime.now(UTC) - timedelta(days=1)


def with_page(**changes: Any) -> Settings:
    page = {"enabled": True, **changes.pop("page", {})}
    return settings(api={"port": 0, "page": page}, **changes)


async def post(api: Api, path: str, body: object, **headers: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{api.url}{path}", json=body, headers={"Origin": api.url, **headers}) as response,
    ):
        assert "Set-Cookie" not in response.headers
        return response.status, await response.json()


async def ask(api: Api, text: str = QUESTION) -> dict[str, Any]:
    status, reply = await post(api, "/ask/answer", {"messages": [{"role": "user", "content": text}]})
    assert status == 200
    return dict(reply)


async def rate(api: Api, answer_id: object, verdict: object, **headers: str) -> int:
    return (await post(api, "/ask/rating", {"id": answer_id, "verdict": verdict}, **headers))[0]


async def read_ratings(journal: Journal) -> list[tuple[str, str, str]]:
    columns = (feedback.c.platform, feedback.c.chat, feedback.c.verdict)
    return [tuple(row) for row in await journal.database.fetch_all(select(*columns))]


async def test_what_nobody_rates_is_not_kept(journal: Journal) -> None:
    async with served(with_page(), journal=journal) as api:
        reply = await ask(api)
        assert reply["id"]
    assert await journal.database.fetch_all(select(messages)) == []
    assert await read_ratings(journal) == []


async def test_a_rating_is_stored_like_those_of_platforms(journal: Journal) -> None:
    async with served(with_page(), journal=journal) as api:
        first, second = [await ask(api) for _ in range(2)]
        assert await rate(api, first["id"], "up") == 200
        assert await rate(api, second["id"], "down") == 200
    reports = ReportRepository(journal.database)
    assert await reports.count_ratings(SINCE) == {("up", ""): 1, ("down", ""): 1}
    disliked, liked = await reports.list_ratings(SINCE, 9)
    assert (disliked.text, disliked.platform, disliked.chat, disliked.verdict) == (QUESTION, "api", "page", "down")
    assert disliked.question is not None
    question = await reports.get_question(disliked.question)
    assert question is not None
    assert (question.reply, question.state) == ("Install it with pip [1].", "answered")
    assert question.message.private, "nobody else has read it"
    [unanswered] = await reports.list_questions(QuestionFilter(SINCE, None, "unanswered"), 9)
    assert unanswered.number == disliked.question, "the gap report knows it"
    assert await reports.list_questions(QuestionFilter(SINCE, None, "unanswered", is_public=True), 9) == []
    labelled = await FeedbackRepository(journal.database).get_labelled_questions(None)
    assert sorted(item.is_good for item in labelled) == [False, True]
    assert liked.verdict == "up"


async def test_it_can_be_changed_and_taken_back_and_sent_twice(journal: Journal) -> None:
    async with served(with_page(), journal=journal) as api:
        answer_id = (await ask(api))["id"]
        assert await rate(api, answer_id, "") == 200, "nothing is taken back"
        assert await journal.database.fetch_all(select(messages)) == []
        for verdicts in (["up", "up"], ["down", "down"], ["", ""], ["up"]):
            statuses = await asyncio.gather(*(rate(api, answer_id, verdict) for verdict in verdicts))
            assert set(statuses) == {200}
            assert await read_ratings(journal) == [("api", "page", verdicts[0])]
            kept = await journal.database.fetch_all(select(messages))
            assert len(kept) == bool(verdicts[0]), "with the rating the question is taken back"


@pytest.mark.parametrize(
    ("answer_id", "verdict", "status"),
    [
        ("0" * 32, "up", 410),
        ("", "up", 410),
        (None, "up", 400),
        (["x"], "up", 400),
        ("x", "wrong", 400),
        ("x", None, 400),
        ("x", {"a": 1}, 400),
        ("x" * 2000, "up", 413),
    ],
)
async def test_what_is_no_rating_is_refused(journal: Journal, answer_id: object, verdict: object, status: int) -> None:
    async with served(with_page(), journal=journal) as api:
        await ask(api)
        assert await rate(api, answer_id, verdict) == status
    assert await read_ratings(journal) == []


async def test_only_the_last_answers_can_be_rated(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratings, "MAX_ANSWERS", 2)
    async with served(with_page(), journal=journal) as api:
        ids = [(await ask(api, f"How do I install package {number}?"))["id"] for number in range(3)]
        assert [await rate(api, answer_id, "up") for answer_id in ids] == [410, 200, 200]


async def test_other_sites_rate_nothing(journal: Journal) -> None:
    async with served(with_page(), journal=journal) as api:
        answer_id = (await ask(api))["id"]
        assert await rate(api, answer_id, "up", Origin="https://evil.example") == 403
        assert await rate(api, answer_id, "up", Origin="") == 403
    assert await read_ratings(journal) == []


async def test_rating_is_limited_and_takes_no_questions_away(journal: Journal) -> None:
    async with served(with_page(page={"per_minute": 1}), journal=journal) as api:
        answer_id = (await ask(api))["id"]
        statuses = [await rate(api, answer_id, verdict) for verdict in ("up", "down", "up")]
    assert statuses == [200, 429, 429]


@pytest.mark.parametrize("changes", [{"feedback": {"thumbs": False}}, {}])
async def test_without_thumbs_or_a_journal_nothing_is_offered(journal: Journal, changes: Any) -> None:
    async with served(with_page(**changes), journal=journal if changes else None) as api:
        assert "id" not in await ask(api)
        assert await rate(api, "x", "up") == 410


async def test_the_labels_of_closed_sources_are_kept_with_it(journal: Journal) -> None:
    sources = {
        "docs": {"kind": "faq", "path": "faq.yaml"},
        "internal": {"kind": "faq", "path": "internal.yaml", "audience": ["api:page"]},
    }
    async with served(with_page(sources=sources), journal=journal) as api:
        assert await rate(api, (await ask(api))["id"], "up") == 200
    row = await journal.database.fetch_first(select(messages.c.visible_sources))
    assert row is not None
    assert [label.partition("#")[0] for label in row.visible_sources] == ["docs", "internal"]


async def test_what_is_taken_back_is_in_no_byte(tmp_path: Path, journal: Journal) -> None:
    async with served(with_page(), journal=journal) as api:
        answer_id = (await ask(api, "How do I install a numbat?"))["id"]
        for verdict, is_kept in (("up", True), ("", False)):
            assert await rate(api, answer_id, verdict) == 200
            assert any(b"numbat" in path.read_bytes() for path in tmp_path.glob("journal*")) == is_kept


async def test_the_operator_can_erase_what_visitors_rated(journal: Journal) -> None:
    async with served(with_page(), journal=journal) as api:
        assert await rate(api, (await ask(api))["id"], "down") == 200
    records = await erase_on_platform(journal.database, "api", "page", datetime.now(UTC).date())
    assert records.finished_count == 1
    row = await journal.database.fetch_first(select(messages))
    assert row is not None
    assert (row.text, row.reply, row.trace) == ("", "", None)
    assert await read_ratings(journal) == []
