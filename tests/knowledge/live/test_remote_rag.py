"""A remote retrieval service as a source, against one that has several bases, older calls and other shapes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from bots.cli.check import check
from core.errors import SourceError
from core.evidence.ranking import fuse
from core.settings import Settings, SourceSettings
from knowledge.live import is_live, open_live_source
from knowledge.live.remote_rag import RemoteRag
from knowledge.live.search import LiveSources
from tests.support.peers.web import KEY, WebPeer


class RagPeer(WebPeer):
    """`bases` are what each base answers, by its id; those in `older` know the standard call alone, those in `failing`
    answer with a status. `together` makes it answer only when as many requests have come as there are bases.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bases: dict[str, Any] = {}
        self.older: set[str] = set()
        self.failing: dict[str, int] = {}
        self.waits_for_all = False
        self._all = asyncio.Event()

    def calls(self) -> list[str]:
        return [request.path.removeprefix("/v1/bases/") for request in self.requests]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.json())
        if self.failure_mode:
            return await self._misbehave(request)
        if request.headers.get("Authorization") != f"Bearer {KEY}" or request.method != "POST":
            return web.Response(status=401)
        if self.waits_for_all:
            if len(self.requests) >= len(self.bases):
                self._all.set()
            await self._all.wait()
        base, call = (unquote(part) for part in request.raw_path.removeprefix("/v1/bases/").split("/"))
        flags = {"use_rerank", "use_compression"} if call == "retrieve" else set()
        if base not in self.bases or call not in ("retrieve", "search") or (flags and base in self.older):
            return web.Response(status=404, text="no such thing")
        if not {"query", "limit", *flags} <= set(self.bodies[-1]) <= {"query", "limit", "tenant", *flags}:
            return web.Response(status=422)
        if base in self.failing:
            return web.Response(status=self.failing[base])
        return web.Response(text=json.dumps(self.bases[base]), content_type="application/json")


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RagPeer]:
    monkeypatch.setenv("RAG_KEY", KEY)
    async with RagPeer() as peer:
        peer.bases = {
            "manual": {"results": [hit("Install with the setup tool.", 0.8), hit("Start it by hand.", 0.6)]},
            "forum": {"results": [hit("It worked for me.", 0.9)]},
        }
        yield peer


def hit(text: str, score: float, **extra_fields: Any) -> dict[str, Any]:
    return {"content": text, "score": score, **extra_fields}


def parsed(service: RagPeer, bases: Mapping[str, float] | None = None, **changes: Any) -> SourceSettings:
    values = {
        "kind": "remote_rag",
        "base_url": service.url("/v1/"),
        "bases": bases or {"manual": 1.0, "forum": 1.0},
        "api_key": {"env": "RAG_KEY"},
        "allow_private": ["127.0.0.1"],
        **changes,
    }
    return TypeAdapter[SourceSettings](SourceSettings).validate_python(values)


def rag(service: RagPeer, bases: Mapping[str, float] | None = None, **changes: Any) -> RemoteRag:
    live_source = open_live_source("elsewhere", parsed(service, bases, **changes))
    assert isinstance(live_source, RemoteRag)
    return live_source


async def texts(source: RemoteRag, query: str = "how?") -> list[str]:
    results = [passage.text for passage in await source.search(query)]
    await source.close()
    return results


async def test_all_bases_are_asked_at_once(service: RagPeer) -> None:
    service.waits_for_all = True
    source = rag(service, body={"use_compression": True})
    passages = await source.search("how?")
    await source.close()
    assert [passage.text for passage in passages] == [
        "It worked for me.",
        "Install with the setup tool.",
        "Start it by hand.",
    ]
    assert [passage.score for passage in passages] == [0.9, 0.8, 0.6]
    assert {passage.source for passage in passages} == {"elsewhere"}
    assert len({passage.id for passage in passages}) == 3
    assert sorted(service.calls()) == ["forum/retrieve", "manual/retrieve"]
    assert service.bodies[0] == {"query": "how?", "limit": 8, "use_rerank": True, "use_compression": True}


async def test_weights_multiply_scores(service: RagPeer) -> None:
    source = rag(service, {"manual": 1.0, "forum": 0.5})
    passages = await source.search("how?")
    assert [round(passage.score, 3) for passage in passages] == [0.8, 0.6, 0.45]
    assert [passage.standing for passage in passages] == ["", "", "secondary"]
    await source.close()
    assert await texts(rag(service, {"manual": 3.0, "forum": 1.0}, limit=2)) == [
        "Install with the setup tool.",
        "Start it by hand.",
    ]
    source = rag(service, {"manual": 2.0, "forum": 1.0})
    assert [round(passage.score, 3) for passage in await source.search("how?")] == [0.8, 0.6, 0.45]
    await source.close()


async def test_a_base_without_the_enhanced_call_is_remembered(service: RagPeer) -> None:
    service.older = {"forum"}
    source = rag(service, cache_s=0)
    assert len(await source.search("one")) == 3
    assert sorted(service.calls()) == ["forum/retrieve", "forum/search", "manual/retrieve"]
    service.requests.clear()
    assert len(await source.search("two")) == 3
    assert sorted(service.calls()) == ["forum/search", "manual/retrieve"]
    await source.close()


async def test_a_base_that_is_not_there_is_not_remembered_as_older(service: RagPeer) -> None:
    source = rag(service, {"manual": 1.0, "later": 1.0}, cache_s=0)
    assert len(await source.search("one")) == 2
    service.bases["later"] = [hit("Here by now.", 1.0)]
    service.requests.clear()
    assert "Here by now." in await texts(source, "two")
    assert sorted(service.calls()) == ["later/retrieve", "manual/retrieve"]


async def test_the_standard_call_has_the_own_keys_without_the_flags(service: RagPeer) -> None:
    service.older = {"forum", "manual"}
    body = {"tenant": "docs", "query": "mine", "use_rerank": False}
    assert len(await texts(rag(service, body=body))) == 3
    assert service.bodies[0] == {
        "tenant": "docs",
        "query": "how?",
        "limit": 8,
        "use_rerank": False,
        "use_compression": False,
    }
    assert service.bodies[-1] == {"tenant": "docs", "query": "how?", "limit": 8}


@pytest.mark.parametrize(
    "reply",
    [
        [{"content": "Found."}],
        {"results": [{"text": "Found."}]},
        {"data": [{"chunk": "Found."}]},
        {"list": [{"content": None, "text": "", "chunk": " Found. "}]},
        {"records": [{"chunk": {"content": "Found."}, "similarity": 0.4}]},
        {"code": 0, "data": {"list": [{"content": "Found.", "score": "0.5"}]}},
        {"data": {"total": 1, "records": [{"document": {"text": "Found."}}, 7, None, {"content": 5}, {}]}},
        {"results": [{"content": "Found.", "score": True}, {"content": "", "score": 2}]},
    ],
)
async def test_replies_of_many_shapes_are_read(service: RagPeer, reply: Any) -> None:
    service.bases = {"manual": reply}
    source = rag(service, {"manual": 1.0})
    (passage,) = await source.search("how?")
    await source.close()
    assert passage.text == "Found."
    assert 0 <= passage.score <= 1


async def test_what_surrounds_a_result_is_read_with_care(service: RagPeer) -> None:
    extra_sources = {"metadata": {"title": "The\nmanual", "url": "https://docs.example.org/a"}}
    service.bases = {
        "manual": [
            hit("One \ud800 \0two", 12, **extra_sources),
            hit("Three", 6, url="javascript:alert(1)"),
            hit("Four<script>evil()</script>", float("inf")),
            hit("x" * 9000, -1),
        ]
    }
    source = rag(service, {"manual": 1.0})
    results = {passage.text[:4]: passage for passage in await source.search("how?")}
    await source.close()
    assert results["One "].text == "One ? two"
    assert (results["One "].title, results["One "].url) == ("The manual", "https://docs.example.org/a")
    assert results["One "].path == "manual/https://docs.example.org/a"
    assert (results["Thre"].title, results["Thre"].url) == ("manual", "")
    assert len(results["xxxx"].text) == 4000
    assert [results[text].score for text in ("One ", "Thre", "Four", "xxxx")] == [1.0, 0.5, 0.5, 0.0]


async def test_nothing_found_is_nothing(service: RagPeer) -> None:
    service.bases = {"manual": {"results": []}, "forum": []}
    assert await texts(rag(service)) == []


async def test_what_two_bases_hold_comes_once(service: RagPeer) -> None:
    service.bases["forum"] = service.bases["manual"]
    source = rag(service, {"forum": 0.5, "manual": 1.0})
    assert [passage.score for passage in await source.search("how?")] == [0.8, 0.6]
    await source.close()


async def test_a_base_that_fails_leaves_the_others(service: RagPeer) -> None:
    service.failing = {"forum": 500}
    source = rag(service)
    assert len(await source.search("how?")) == 2
    service.failing = {}
    assert len(await source.search("how?")) == 3  # what is incomplete is not used again
    service.failing = {"forum": 500, "manual": 403}
    assert len(await source.search("how?")) == 3
    with pytest.raises(SourceError, match=r"source elsewhere: .*/v1/bases/manual/retrieve answered with status 403"):
        await source.search("another")
    await source.close()


@pytest.mark.parametrize(
    ("failure_mode", "message"),
    [
        ("slow", "did not answer within"),
        ("endless", "more than"),
        ("short", "connection failed"),
        ("drop", "connection failed"),
        ("html", "instead of JSON"),
        ("broken", "instead of JSON"),
    ],
)
async def test_a_service_that_misbehaves_is_named(service: RagPeer, failure_mode: str, message: str) -> None:
    service.failure_mode = failure_mode
    source = rag(service, timeout_s=0.3 if failure_mode == "slow" else 20)
    with pytest.raises(SourceError, match=f"source elsewhere: .*{message}"):
        await source.search("how?")
    await source.close()


@pytest.mark.parametrize("reply", [{}, 7, None, "text", {"results": {"a": 1}}, {"data": {"list": 3}}])
async def test_a_reply_without_results_is_said(service: RagPeer, reply: Any) -> None:
    service.bases = {"manual": reply}
    source = rag(service, {"manual": 1.0})
    with pytest.raises(SourceError, match="answered without a list under results, data, list, records"):
        await source.search("how?")
    await source.close()


async def test_a_wrong_key_is_said_and_never_shown(service: RagPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_KEY", "wrong-secret")
    source = rag(service)
    with pytest.raises(SourceError, match="status 401") as error_info:
        await source.search("how?")
    assert "wrong-secret" not in str(error_info.value)
    await source.close()


async def test_a_key_that_is_missing_is_said(service: RagPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_KEY")
    source = rag(service)
    with pytest.raises(SourceError, match="api_key: environment variable RAG_KEY is not set"):
        await source.search("how?")
    await source.close()


async def test_check_asks_once(service: RagPeer, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, sources={"elsewhere": parsed(service)})
    findings_by_subject = {finding.subject: finding for finding in await check(settings, live=False)}
    assert "/v1/: asked at question time" in findings_by_subject["sources.elsewhere"].text
    assert not service.requests
    loud = [finding for finding in await check(settings, live=True) if finding.subject == "sources.elsewhere"]
    assert loud[-1].level == "ok"
    assert "answers (3 results for 'test')" in loud[-1].text


async def test_a_name_stays_a_name_and_a_query_a_value(service: RagPeer) -> None:
    service.bases = {"../admin?x=1": [hit("Found.", 1)]}
    source = rag(service, {"../admin?x=1": 1.0})
    hostile_query = 'x", "limit": 99, {api_key}\r\n'
    assert await texts(source, hostile_query) == ["Found."]
    assert service.requests[-1].raw_path == "/v1/bases/..%2Fadmin%3Fx=1/retrieve"
    assert service.bodies[-1]["query"] == hostile_query


async def test_a_query_is_asked_once_within_its_time(service: RagPeer) -> None:
    source = rag(service)
    assert await source.search("how?") == await source.search("how?")
    await source.close()
    assert len(service.requests) == 2


async def test_a_private_address_is_refused(service: RagPeer) -> None:
    source = rag(service, allow_private=[])
    with pytest.raises(SourceError, match="private address"):
        await source.search("how?")
    assert not service.requests
    await source.close()


async def test_its_results_are_scored_like_those_of_other_live_sources(service: RagPeer) -> None:
    async def even(query: str, texts: object) -> list[float]:
        return [0.5] * len(list(texts))  # type: ignore[call-overload]

    settings = parsed(service)
    assert is_live(settings)
    live_sources = LiveSources({"elsewhere": settings}, even)
    passages = await live_sources.search(("elsewhere",), "setup tool")
    assert max(passages, key=lambda passage: passage.lexical).text == "Install with the setup tool."
    await live_sources.close()


async def _order_of(service: RagPeer, **changes: Any) -> list[tuple[str, float]]:
    """Return the order of results, with their scores, as a search of all knowledge gives it."""

    async def even(query: str, texts: object) -> list[float]:
        return [0.5] * len(list(texts))  # type: ignore[call-overload]

    live_sources = LiveSources({"elsewhere": parsed(service, **changes)}, even)
    passages = fuse(await live_sources.search(("elsewhere",), "AI trend 2025"), 0.6)
    await live_sources.close()
    return [(passage.text, round(passage.score, 3)) for passage in passages]


async def test_the_services_score_orders_texts_that_look_alike(service: RagPeer) -> None:
    service.bases = {
        "manual": [hit("AI trend: agents", 0.1), hit("AI trend: robots", 0.99), hit("AI trend: chips", 0.5)]
    }
    order = await _order_of(service, bases={"manual": 1.0})
    assert [text for text, _ in order] == ["AI trend: robots", "AI trend: chips", "AI trend: agents"]


async def test_a_text_that_fits_far_better_still_comes_first(service: RagPeer) -> None:
    service.bases = {"manual": [hit("Cooking with gas", 0.6), hit("The AI trend of 2025", 0.5)]}
    assert (await _order_of(service, bases={"manual": 1.0}))[0][0] == "The AI trend of 2025"


async def test_the_rank_counts_where_a_service_gives_no_score(service: RagPeer) -> None:
    service.bases = {"manual": [{"content": f"AI trend: {name}"} for name in ("third", "second", "first")]}
    order = await _order_of(service, bases={"manual": 1.0})
    assert [text for text, _ in order] == ["AI trend: third", "AI trend: second", "AI trend: first"]


async def test_the_factors_of_bases_decide_between_equal_results(service: RagPeer) -> None:
    service.bases = {"a": [hit("AI trend: agents", 0.8)], "b": [hit("AI trend: robots", 0.8)]}
    first_order = await _order_of(service, bases={"a": 10.0, "b": 0.1})
    second_order = await _order_of(service, bases={"a": 0.1, "b": 10.0})
    assert [text for text, _ in first_order] == ["AI trend: agents", "AI trend: robots"]
    assert [text for text, _ in second_order] == ["AI trend: robots", "AI trend: agents"]
    assert first_order[1][1] < 0.05 * first_order[0][1]
    milder_order = await _order_of(service, bases={"a": 0.8, "b": 1.2})
    assert milder_order[1][1] == pytest.approx(milder_order[0][1] * 0.8 / 1.2, rel=0.02)


@pytest.mark.parametrize("bases", [{}, {"a": 0}, {"a": -1}])
def test_bases_have_weights_above_nothing(bases: dict[str, float]) -> None:
    values = {"kind": "remote_rag", "base_url": "https://rag.example.org", "bases": bases}
    with pytest.raises(ValidationError, match="bases"):
        TypeAdapter[SourceSettings](SourceSettings).validate_python(values)


async def test_the_same_query_at_the_same_time_is_asked_once(service: RagPeer) -> None:
    source = rag(service)
    passages = await asyncio.gather(*(source.search("install") for _ in range(4)))
    await source.close()
    assert len(service.requests) == len(service.bases)
    assert all(passage == passages[0] for passage in passages)


async def test_a_key_that_went_away_is_a_failure_of_the_source(
    service: RagPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = rag(service)
    monkeypatch.delenv("RAG_KEY")
    with pytest.raises(SourceError, match="api_key: environment variable RAG_KEY is not set"):
        await source.search("install")
    assert service.requests == []
    monkeypatch.setenv("RAG_KEY", KEY)
    assert await source.search("install")
    await source.close()
