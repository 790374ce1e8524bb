"""Sources that are asked at question time, against a server that speaks their shapes and misbehaves."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from core.errors import SourceError
from core.settings import Settings, SourceSettings
from knowledge.library import KnowledgeLibrary
from knowledge.live import open_live
from knowledge.live.asking import LiveSources
from knowledge.live.http_api import HttpApi
from knowledge.ports import Store
from knowledge.sync import refresh
from tests.knowledge.conftest import DictSource, WordEmbedder
from tests.peers.web import KEY, Hit, Page, WebPeer

HITS = [
    Hit("Rocket 2 released", "https://rocket.example.org/2", "Rocket 2 has a new router.", "2026-11-20"),
    Hit("Rocket &amp; Docker", "https://blog.example.org/docker", "Run <b>Rocket</b> in a container."),
    Hit("Odd", "javascript:alert(1)", "A link that is none."),
]
PROVIDERS = ["tavily", "brave", "searxng", "google", "bing"]


@pytest.fixture
async def web(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WebPeer]:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    async with WebPeer() as peer:
        peer.hits = list(HITS)
        yield peer


def parsed(**values: Any) -> SourceSettings:
    return TypeAdapter[SourceSettings](SourceSettings).validate_python({"allow_private": ["127.0.0.1"], **values})


def service(web: WebPeer, provider: str, **more: Any) -> SourceSettings:
    engine = {"engine": "cx1"} if provider == "google" else {}
    base = {"base_url": web.url(f"/{provider}"), "api_key": {"env": "SEARCH_KEY"}}
    return parsed(kind="search_api", provider=provider, **base, **engine, **more)


def api(web: WebPeer, **more: Any) -> HttpApi:
    return open_live(
        "api", parsed(**{"kind": "http_api", "url": web.url("/searxng/search"), "text": "content", **more})
    )


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_search_service_finds(web: WebPeer, provider: str) -> None:
    source = open_live("news", service(web, provider))
    found = await source.search("rocket release")
    await source.close()
    assert [passage.title for passage in found] == ["Rocket 2 released", "Rocket & Docker", "Odd"]
    assert found[0].text.startswith("Rocket 2 has a new router.")
    assert found[1].text.startswith("Run Rocket in a container.")
    assert [passage.url for passage in found] == [HITS[0].url, HITS[1].url, ""]
    assert {passage.source for passage in found} == {"news"}
    assert len({passage.id for passage in found}) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fresh", ["day", "week", "month", "year"])
async def test_results_can_be_restricted(web: WebPeer, provider: str, fresh: str) -> None:
    source = open_live("news", service(web, provider, fresh=fresh, sites=["a.org", "b.org"], limit=5, language="en-US"))
    assert await source.search("rocket")
    await source.close()
    sent = f"{web.requests[-1].query} {json.dumps(web.bodies[-1])}"
    assert "a.org" in sent
    assert "b.org" in sent


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_nothing_found_is_nothing(web: WebPeer, provider: str) -> None:
    web.hits = []
    source = open_live("news", service(web, provider))
    assert await source.search("rocket") == []
    await source.close()


@pytest.mark.parametrize("provider", ["tavily", "brave", "google", "bing"])
async def test_a_wrong_key_is_said_and_never_shown(
    web: WebPeer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "wrong-secret")
    source = open_live("news", service(web, provider))
    with pytest.raises(SourceError, match=r"source news: .* answered with status 4\d\d") as failed:
        await source.search("rocket")
    assert "wrong-secret" not in str(failed.value)
    await source.close()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("slow", "did not answer within"),
        ("endless", "more than"),
        ("short", "connection failed"),
        ("bomb", "more than"),
        ("drop", "connection failed"),
        ("html", "answered with text/html instead of JSON"),
        ("broken", "instead of JSON"),
    ],
)
async def test_a_service_that_misbehaves_is_named(web: WebPeer, fault: str, message: str) -> None:
    web.fault = fault
    source = api(web, timeout_s=0.4 if fault == "slow" else 20)
    with pytest.raises(SourceError, match=message):
        await source.search("rocket")
    await source.close()


async def test_a_query_is_asked_once_within_its_time(web: WebPeer) -> None:
    source = api(web, params={"q": "{query}", "format": "json"})
    assert await source.search("rocket") == await source.search("rocket")
    await source.search("another")
    await source.close()
    assert len(web.requests) == 2
    fresh = api(web, params={"q": "{query}", "format": "json"}, cache_s=0)
    await fresh.search("rocket")
    await fresh.search("rocket")
    await fresh.close()
    assert len(web.requests) == 4


async def test_a_query_stays_a_value(web: WebPeer) -> None:
    """What the asker wrote can neither add a parameter, a header or a path, nor reach the key."""
    nasty = "x&format=html {api_key} {{limit}}\r\nX-Evil: 1/../admin?\u2603"
    source = api(
        web,
        url=web.url("/searxng/search"),
        params={"q": "{query}", "format": "json"},
        headers={"X-Query": "{query}"},
        api_key={"env": "SEARCH_KEY"},
    )
    await source.search(nasty.replace("\u2603", ""))
    await source.close()
    sent = web.requests[-1]
    assert sent.query["q"] == nasty.replace("\u2603", "")
    assert sent.query.getall("format") == ["json"]
    assert "X-Evil" not in sent.headers
    assert KEY not in sent.path_qs + str(dict(sent.headers))
    in_path = open_live("api", parsed(kind="http_api", url=web.url("/find/{query}"), cache_s=0))
    with pytest.raises(SourceError, match="status 404"):
        await in_path.search("../admin?a=b#c")
    await in_path.close()
    assert web.requests[-1].raw_path == "/find/..%2Fadmin%3Fa=b%23c"


async def test_a_mapping_reads_what_is_deep(web: WebPeer) -> None:
    reply = {"data": {"items": [{"n": {"t": "Title"}, "parts": ["one", None, "two <script>evil()</script>"], "u": 7}]}}
    web.pages["/deep"] = Page(json.dumps(reply), headers={"Content-Type": "application/json"})
    source = open_live(
        "api",
        parsed(
            kind="http_api", url=web.url("/deep"), results="data.items", title="n.t", text="parts", link="u", date="@.x"
        ),
    )
    (passage,) = await source.search("x")
    await source.close()
    assert (passage.title, passage.text, passage.url) == ("Title", "one\ntwo", "")


async def test_pages_are_asked_at_once(web: WebPeer) -> None:
    source = api(web, params={"q": "{query}", "format": "json", "pageno": "{page}"}, pages=3, first_page=2)
    found = await source.search("rocket")
    await source.close()
    assert sorted(request.query["pageno"] for request in web.requests) == ["2", "3", "4"]
    assert len(found) == 3  # the same results on every page


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"results": "a.["}, "results is no JMESPath"),
        ({"text": "a..b"}, "text is no JMESPath"),
        ({"params": {"q": "{quary}"}}, r"\{quary\} is no placeholder"),
        ({"body": {"a": [{"b": "{secret}"}]}, "method": "POST"}, r"\{secret\} is no placeholder"),
    ],
)
def test_a_template_or_mapping_that_is_none_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError, match=f"source api: {message}"):
        open_live("api", parsed(kind="http_api", url="http://127.0.0.1/", **values))


async def test_results_that_are_no_list_are_named(web: WebPeer) -> None:
    source = api(web, params={"q": "{query}", "format": "json"}, results="query")
    with pytest.raises(SourceError, match="is no list"):
        await source.search("rocket")
    await source.close()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"provider": "searxng"}, "needs base_url"),
        ({"provider": "google", "api_key": {"env": "K"}}, "needs engine"),
        ({"provider": "brave"}, "needs api_key"),
    ],
)
def test_a_service_that_lacks_something_says_so(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parsed(kind="search_api", **values)


async def test_of_several_sources_those_that_answer_count(web: WebPeer) -> None:
    async def no_vectors(query: str, texts: object) -> list[float]:
        return [0.5] * len(list(texts))  # type: ignore[call-overload]

    broken = parsed(kind="http_api", url=web.url("/nowhere"))
    sources = {"news": service(web, "brave"), "broken": broken, "docs": parsed_files()}
    live = LiveSources(sources, no_vectors)
    found = await live.search(("docs", "news", "broken"), "rocket router")
    assert {passage.source for passage in found} == {"news"}
    assert found[0].lexical > found[2].lexical
    assert found[0].similarity == 0.5
    assert await live.search(("docs",), "rocket") == []
    with pytest.raises(SourceError, match="status 404"):
        await live.search(("broken",), "rocket")
    await live.close()


def parsed_files() -> SourceSettings:
    return TypeAdapter[SourceSettings](SourceSettings).validate_python({"kind": "files", "path": "."})


def deployment(web: WebPeer, **agents: Any) -> Settings:
    sources = {"fruit": {"kind": "files", "path": "/nowhere"}, "news": service(web, "brave").model_dump()}
    return Settings.model_validate({"sources": sources, "agents": agents})


@pytest.fixture
async def filled(store: Store, embedder: WordEmbedder) -> Store:
    texts = {f"{name}.md": f"The {name} is a sweet fruit." for name in ("apple", "pear", "plum")}
    await refresh(DictSource("fruit", texts), store, embedder, chunk_tokens=200)
    return store


async def test_live_and_stored_passages_are_ranked_together(
    web: WebPeer, filled: Store, embedder: WordEmbedder
) -> None:
    web.hits.append(Hit("Fruit news", "https://news.example.org/fruit", "The pear is this year's best fruit."))
    library = KnowledgeLibrary(deployment(web, all={"sources": ["fruit", "news"]}), filled, embedder)
    await library.load()
    found = await library.search("all", "is the pear a fruit?", 10)
    assert {passage.source for passage in found} == {"fruit", "news"}
    assert {found[0].source, found[1].source} == {"fruit", "news"}
    assert found[0].score >= found[-1].score
    assert "pear" in found[0].text
    assert "pear" in found[1].text
    web.fault = "drop"
    again = await library.search("all", "is the plum a fruit?", 10)
    assert {passage.source for passage in again} == {"fruit"}
    await library.close()


async def test_an_agent_of_live_sources_is_asked_when_nothing_is_said_about_it(
    web: WebPeer, filled: Store, embedder: WordEmbedder
) -> None:
    silent = {"cook": {"sources": ["fruit"]}, "reporter": {"sources": ["news"]}}
    library = KnowledgeLibrary(deployment(web, **silent), filled, embedder)
    await library.load()
    assert not library.empty
    for query in ("a sweet pear", "完全未知"):
        assert {agent.name for agent in await library.route(query)} == {"cook", "reporter"}
    web.fault = "drop"
    with pytest.raises(SourceError, match="source news"):
        await library.search("reporter", "a sweet pear", 5)
    await library.close()
    told = silent | {"reporter": {"sources": ["news"], "description": "weather tomorrow"}}
    chooses = deployment(web, **told).model_dump() | {"knowledge": {"routing": {"agents": 1}}}
    library = KnowledgeLibrary(Settings.model_validate(chooses), filled, embedder)
    await library.load()
    assert [agent.name for agent in await library.route("a sweet pear")] == ["cook"]
    assert [agent.name for agent in await library.route("weather tomorrow")] == ["reporter"]
    await library.close()


async def test_text_that_is_no_text_stops_nothing(web: WebPeer) -> None:
    web.pages["/odd"] = Page('{"results": [{"title": "\\ud800", "text": "Half a pair: \\udfff."}, {"title": "Good"}]}')
    source = open_live("api", parsed(kind="http_api", url=web.url("/odd")))
    assert [passage.title for passage in await source.search("x")][-1] == "Good"
    web.pages["/odd"] = Page("[" * 100_000)
    with pytest.raises(SourceError, match="instead of JSON"):
        await source.search("y")
    await source.close()
