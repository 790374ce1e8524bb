"""Sources that are asked at question time, against a server that speaks their shapes and misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from core.errors import SourceError, UsageError
from core.evidence.rendering import render_passages
from core.runtime.leaving import judge_requests_by, require_leave
from core.settings import Settings, SourceSettings
from core.types import Passage
from knowledge.ingestion.sync import SyncOptions
from knowledge.live import open_live_source
from knowledge.live.http_api import HttpApi
from knowledge.live.retriever import LiveResult, ResultCache
from knowledge.live.search import LiveSources
from knowledge.ports import Store
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill
from tests.support.peers.web import KEY, Hit, Page, WebPeer

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


def service(web: WebPeer, provider: str, **extra_fields: Any) -> SourceSettings:
    engine = {"engine": "cx1"} if provider == "google" else {}
    base = {"base_url": web.url(f"/{provider}"), "api_key": {"env": "SEARCH_KEY"}}
    return parsed(kind="search_api", provider=provider, **base, **engine, **extra_fields)


def api(web: WebPeer, **extra_fields: Any) -> HttpApi:
    return open_live_source(
        "api", parsed(**{"kind": "http_api", "url": web.url("/searxng/search"), "text": "content", **extra_fields})
    )


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_search_service_finds(web: WebPeer, provider: str) -> None:
    source = open_live_source("news", service(web, provider))
    passages = await source.search("rocket release")
    await source.close()
    assert [passage.title for passage in passages] == ["Rocket 2 released", "Rocket & Docker", "Odd"]
    assert passages[0].text.startswith("Rocket 2 has a new router.")
    assert passages[1].text.startswith("Run Rocket in a container.")
    assert [passage.url for passage in passages] == [HITS[0].url, HITS[1].url, ""]
    assert {passage.source for passage in passages} == {"news"}
    assert len({passage.id for passage in passages}) == 3


# What each service is told of the age of results: never a longer one than was asked for.
AGES = {
    "tavily": ("time_range", ["day", "week", "month", "year"]),
    "brave": ("freshness", ["pd", "pw", "pm", "py"]),
    "searxng": ("time_range", ["day", "week", "month", "year"]),
    "google": ("dateRestrict", ["d1", "w1", "m1", "y1"]),
    "bing": ("freshness", ["Day", "Week", "Month", "Month"]),
}
LANGUAGES = {
    "brave": {"search_lang": "en"},
    "searxng": {"language": "en-US"},
    "google": {"lr": "lang_en"},
    "bing": {"mkt": "en-US", "setLang": "en"},
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("number", range(4))
async def test_results_can_be_restricted(web: WebPeer, provider: str, number: int) -> None:
    fresh = ("day", "week", "month", "year")[number]
    language = "" if provider == "tavily" else "en-US"
    wishes = {"fresh": fresh, "sites": ["a.org", "b.org"], "limit": 5, "language": language}
    source = open_live_source("news", service(web, provider, **wishes))
    assert await source.search("rocket")
    await source.close()
    parameters = {**web.requests[-1].query, **(web.bodies[-1] or {})}
    assert "a.org" in str(parameters)
    assert "b.org" in str(parameters)
    key, ages = AGES[provider]
    assert parameters[key] == ages[number]
    assert LANGUAGES.get(provider, {}).items() <= parameters.items()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_without_a_wish_nothing_is_sent_of_it(web: WebPeer, provider: str) -> None:
    source = open_live_source("news", service(web, provider))
    assert await source.search("rocket")
    await source.close()
    parameters = {**web.requests[-1].query, **(web.bodies[-1] or {})}
    assert {AGES[provider][0], *LANGUAGES.get(provider, {})} & parameters.keys() == set()


@pytest.mark.parametrize("provider", [provider for provider in PROVIDERS if provider != "google"])
async def test_the_news_alone_can_be_searched(web: WebPeer, provider: str) -> None:
    source = open_live_source("news", service(web, provider, topic="news"))
    assert [passage.title for passage in await source.search("rocket")] == [
        "Rocket 2 released",
        "Rocket & Docker",
        "Odd",
    ]
    await source.close()
    request = f"{web.requests[-1].path} {dict(web.requests[-1].query)} {web.bodies[-1]}"
    assert "news" in request


async def test_a_search_can_be_deeper(web: WebPeer) -> None:
    source = open_live_source("news", service(web, "tavily", depth="advanced"))
    assert await source.search("rocket")
    await source.close()
    assert (web.bodies[-1] or {})["search_depth"] == "advanced"


@pytest.mark.parametrize(
    ("provider", "wish", "complaint"),
    [
        ("brave", {"depth": "advanced"}, "source news: provider brave has no depth of search"),
        ("google", {"topic": "news"}, "source news: provider google cannot search the news alone"),
    ],
)
def test_what_a_service_does_not_have_is_a_fault(
    web: WebPeer, provider: str, wish: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SourceError, match=complaint):
        open_live_source("news", service(web, provider, **wish))


def test_a_language_that_a_service_cannot_be_told_is_a_fault(web: WebPeer) -> None:
    with pytest.raises(SourceError, match="source news: provider tavily cannot be told a language"):
        open_live_source("news", service(web, "tavily", language="en"))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_nothing_found_is_nothing(web: WebPeer, provider: str) -> None:
    web.hits = []
    source = open_live_source("news", service(web, provider))
    assert await source.search("rocket") == []
    await source.close()


@pytest.mark.parametrize("provider", ["tavily", "brave", "google", "bing"])
async def test_a_wrong_key_is_said_and_never_shown(
    web: WebPeer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "wrong-secret")
    source = open_live_source("news", service(web, provider))
    with pytest.raises(SourceError, match=r"source news: .* answered with status 4\d\d") as error_info:
        await source.search("rocket")
    assert "wrong-secret" not in str(error_info.value)
    await source.close()


@pytest.mark.parametrize(
    ("failure_mode", "message"),
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
async def test_a_service_that_misbehaves_is_named(web: WebPeer, failure_mode: str, message: str) -> None:
    web.failure_mode = failure_mode
    source = api(web, timeout_s=0.4 if failure_mode == "slow" else 20)
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
    hostile_query = "x&format=html {api_key} {{limit}}\r\nX-Evil: 1/../admin?\u2603"
    source = api(
        web,
        url=web.url("/searxng/search"),
        params={"q": "{query}", "format": "json"},
        headers={"X-Query": "{query}"},
        api_key={"env": "SEARCH_KEY"},
    )
    await source.search(hostile_query.replace("\u2603", ""))
    await source.close()
    request = web.requests[-1]
    assert request.query["q"] == hostile_query.replace("\u2603", "")
    assert request.query.getall("format") == ["json"]
    assert "X-Evil" not in request.headers
    assert KEY not in request.path_qs + str(dict(request.headers))
    in_path = open_live_source("api", parsed(kind="http_api", url=web.url("/find/{query}"), cache_s=0))
    with pytest.raises(SourceError, match="status 404"):
        await in_path.search("../admin?a=b#c")
    await in_path.close()
    assert web.requests[-1].raw_path == "/find/..%2Fadmin%3Fa=b%23c"


@pytest.mark.parametrize("query", ["..", ".", "..."])
async def test_a_query_of_dots_climbs_to_no_other_resource(web: WebPeer, query: str) -> None:
    source = open_live_source("api", parsed(kind="http_api", url=web.url("/find/{query}/of"), cache_s=0))
    with pytest.raises(SourceError, match="status 404"):
        await source.search(query)
    await source.close()
    assert web.requests[-1].raw_path == "/find//of"


async def test_a_mapping_reads_what_is_deep(web: WebPeer) -> None:
    reply = {"data": {"items": [{"n": {"t": "Title"}, "parts": ["one", None, "two <script>evil()</script>"], "u": 7}]}}
    web.pages["/deep"] = Page(json.dumps(reply), headers={"Content-Type": "application/json"})
    source = open_live_source(
        "api",
        parsed(
            kind="http_api", url=web.url("/deep"), results="data.items", title="n.t", text="parts", link="u", date="@.x"
        ),
    )
    (passage,) = await source.search("x")
    await source.close()
    assert (passage.title, passage.text, passage.url) == ("Title", "one\ntwo", "")


async def test_a_catalogue_keeps_its_order_and_what_people_choose_by(web: WebPeer) -> None:
    facets = [{"task": "chat", "licence": "MIT", "size": 7}, {"task": "chat", "licence": None}, {"task": "speech"}]
    models = [
        {"name": f"lab/m{n}", "description": "A model.", **values}  # What most people use comes first.
        for n, values in enumerate(facets)
    ]
    web.pages["/models"] = Page(json.dumps(models), headers={"Content-Type": "application/json"})
    described = "task && join(' ', ['Task:', task]), licence && join(' ', ['Licence:', licence])"
    text = f"[description, {described}, size && join('', [to_string(size), 'B'])]"
    catalogue = parsed(kind="http_api", url=web.url("/models"), results="@", title="name", text=text)
    sources = LiveSources({"models": catalogue}, _same)
    passages = await sources.search(["models"], "chat model")
    await sources.close()
    assert [passage.text for passage in passages] == [
        "A model.\nTask: chat\nLicence: MIT\n7B",
        "A model.\nTask: chat",
        "A model.\nTask: speech",
    ]
    assert [passage.similarity for passage in passages] == sorted((p.similarity for p in passages), reverse=True)
    assert 'standing="1 of 3">' in render_passages(passages, 100)


async def _same(query: str, texts: Sequence[str]) -> Sequence[float]:
    return [0.5 for _ in texts]


async def test_pages_are_asked_at_once(web: WebPeer) -> None:
    source = api(web, params={"q": "{query}", "format": "json", "pageno": "{page}"}, pages=3, first_page=2)
    passages = await source.search("rocket")
    await source.close()
    assert sorted(request.query["pageno"] for request in web.requests) == ["2", "3", "4"]
    assert len(passages) == 3  # the same results on every page


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
        open_live_source("api", parsed(kind="http_api", url="http://127.0.0.1/", **values))


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

    broken_source = parsed(kind="http_api", url=web.url("/nowhere"))
    sources = {"news": service(web, "brave"), "broken": broken_source, "docs": parsed_files()}
    live_sources = LiveSources(sources, no_vectors)
    passages = await live_sources.search(("docs", "news", "broken"), "rocket router")
    assert {passage.source for passage in passages} == {"news"}
    assert passages[0].lexical > passages[2].lexical
    assert passages[0].similarity == 0.5
    assert await live_sources.search(("docs",), "rocket") == []
    with pytest.raises(SourceError, match="status 404"):
        await live_sources.search(("broken",), "rocket")
    await live_sources.close()


def parsed_files() -> SourceSettings:
    return TypeAdapter[SourceSettings](SourceSettings).validate_python({"kind": "files", "path": "."})


def deployment(web: WebPeer, **agents: Any) -> Settings:
    sources = {"fruit": {"kind": "files", "path": "/nowhere"}, "news": service(web, "brave").model_dump()}
    return Settings.model_validate({"sources": sources, "agents": agents})


@pytest.fixture
async def filled_store(store: Store, embedder: WordEmbedder) -> Store:
    texts = {f"{name}.md": f"The {name} is a sweet fruit." for name in ("apple", "pear", "plum")}
    await read_and_fill(DictSource("fruit", texts), store, embedder, SyncOptions(200))
    return store


async def test_live_and_stored_passages_are_ranked_together(
    web: WebPeer, filled_store: Store, embedder: WordEmbedder
) -> None:
    web.hits.append(Hit("Fruit news", "https://news.example.org/fruit", "The pear is this year's best fruit."))
    library = KnowledgeLibrary(deployment(web, all={"sources": ["fruit", "news"]}), filled_store, embedder)
    await library.load()
    passages = await library.search("all", "is the pear a fruit?", 10)
    assert {passage.source for passage in passages} == {"fruit", "news"}
    assert {passages[0].source, passages[1].source} == {"fruit", "news"}
    assert passages[0].score >= passages[-1].score
    assert "pear" in passages[0].text
    assert "pear" in passages[1].text
    web.failure_mode = "drop"
    second_passages = await library.search("all", "is the plum a fruit?", 10)
    assert {passage.source for passage in second_passages} == {"fruit"}
    await library.close()


async def test_an_agent_of_live_sources_is_asked_when_nothing_is_said_about_it(
    web: WebPeer, filled_store: Store, embedder: WordEmbedder
) -> None:
    agents = {"cook": {"sources": ["fruit"]}, "reporter": {"sources": ["news"]}}
    library = KnowledgeLibrary(deployment(web, **agents), filled_store, embedder)
    await library.load()
    for query, names in (("a sweet pear", {"cook", "reporter"}), ("完全未知", {"reporter"})):
        assert {agent.name for agent in await library.route(query)} == names
    web.failure_mode = "drop"
    with pytest.raises(SourceError, match="source news"):
        await library.search("reporter", "a sweet pear", 5)
    await library.close()
    data = agents | {"reporter": {"sources": ["news"], "description": "weather tomorrow"}}
    chooses = deployment(web, **data).model_dump() | {"knowledge": {"routing": {"agents": 1}}}
    library = KnowledgeLibrary(Settings.model_validate(chooses), filled_store, embedder)
    await library.load()
    assert [agent.name for agent in await library.route("a sweet pear")] == ["cook"]
    assert [agent.name for agent in await library.route("weather tomorrow")] == ["reporter"]
    await library.close()


async def test_where_words_decide_live_agents_are_compared_by_their_mix_in(
    web: WebPeer, filled_store: Store, embedder: WordEmbedder
) -> None:
    """Each of their searches may cost money, and no passage tells which is wanted."""
    names = {"models": "推荐一个适合的模型", "datasets": "有哪些公开的数据集", "other": ""}
    sources: dict[str, object] = dict.fromkeys(names, service(web, "brave").model_dump())
    sources["fruit"] = {"kind": "files", "path": "/nowhere"}
    agents = {name: {"sources": [name], "description": text} for name, text in names.items()}
    agents["cook"] = {"sources": ["fruit"]}
    settings = Settings.model_validate({"sources": sources, "agents": agents})
    library = KnowledgeLibrary(settings, filled_store, embedder)
    await library.load()
    for query, asked in (
        ("推荐一个中文的模型", {"models"}),
        ("公开的医疗数据集", {"datasets"}),
        ("完全未知", {"models", "datasets"}),
    ):
        assert {agent.name for agent in await library.route(query)} == {"other", *asked}
    await library.close()


async def test_text_that_is_no_text_stops_nothing(web: WebPeer) -> None:
    web.pages["/odd"] = Page('{"results": [{"title": "\\ud800", "text": "Half a pair: \\udfff."}, {"title": "Good"}]}')
    source = open_live_source("api", parsed(kind="http_api", url=web.url("/odd")))
    assert [passage.title for passage in await source.search("x")][-1] == "Good"
    await source.close()


@pytest.mark.parametrize("kind", ["http_api", "remote_rag"])
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("[" * 90_000, "JSON that is nested too deeply"),
        ('{"results": [' + "[]," * 600_000 + "[]]}", "more than 100000 values"),
        ('{"results": [' + "{}," * 30_000 + "1" * 5000 + "]}", "instead of JSON"),
    ],
    ids=["deep", "values", "number"],
)
async def test_json_that_was_made_to_hurt_is_refused(web: WebPeer, kind: str, reply: str, reason: str) -> None:
    web.pages["/odd"] = web.pages["/odd/bases/a/search"] = Page(reply)
    fields: dict[str, Any] = {"base_url": web.url("/odd"), "bases": {"a": 1}}
    source = open_live_source("api", parsed(kind=kind, **({"url": web.url("/odd")} if kind == "http_api" else fields)))
    with pytest.raises(SourceError, match=f"source api: http://.* answered with .*{reason}"):
        await source.search("y")
    await source.close()


@pytest.mark.parametrize("depth", [300, 500, 700, 900, 1100])
async def test_a_result_that_is_deep_is_none_or_refused(web: WebPeer, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    web.pages["/odd"] = Page(f'{{"results": [{{"text": {deep}, "pad": "{"x" * 9000}"}}]}}')
    source = open_live_source("api", parsed(kind="http_api", url=web.url("/odd")))
    with suppress(SourceError):
        assert await source.search("y") == []
    await source.close()


@pytest.mark.parametrize("kind", ["env", "file"])
async def test_a_key_that_went_away_is_a_failure_of_the_source(
    web: WebPeer,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    filled_store: Store,
    embedder: WordEmbedder,
) -> None:
    """The stored passages still answer, and the key is back as soon as it is there again."""
    file = tmp_path / "key"
    file.write_text(KEY)
    key = {"env": "SEARCH_KEY"} if kind == "env" else {"file": str(file)}
    news = service(web, "brave").model_dump() | {"api_key": key, "cache_s": 0}
    sources = {"fruit": {"kind": "files", "path": "/nowhere"}, "news": news}
    agents = {"all": {"sources": ["fruit", "news"]}}
    library = KnowledgeLibrary(Settings.model_validate({"sources": sources, "agents": agents}), filled_store, embedder)
    await library.load()
    monkeypatch.delenv("SEARCH_KEY")
    file.unlink()
    assert {passage.source for passage in await library.search("all", "a sweet pear", 10)} == {"fruit"}
    lonely = open_live_source("news", parsed(**news))
    with pytest.raises(
        SourceError, match=r"source news: api_key: (environment variable SEARCH_KEY|file .* cannot be read)"
    ):
        await lonely.search("pear")
    monkeypatch.setenv("SEARCH_KEY", "")
    file.write_text(" ")
    with pytest.raises(SourceError, match="source news: api_key: "):
        await lonely.search("pear")
    assert web.requests == []
    monkeypatch.setenv("SEARCH_KEY", KEY)
    file.write_text(KEY)
    assert await lonely.search("pear")
    await lonely.close()
    await library.close()


async def test_the_same_query_at_the_same_time_is_asked_once(web: WebPeer, tmp_path: Path) -> None:
    limited = {"kind": "http_api", "url": web.url("/searxng/search"), "params": {"q": "{query}", "format": "json"}}
    source = open_live_source("api", parsed(**limited, text="content", requests_per_day=2), tmp_path)
    passages = await asyncio.gather(*(source.search("rocket") for _ in range(5)), source.search("other"))
    assert len(web.requests) == 2
    assert all(passage == passages[0] for passage in passages[:5])
    await source.close()
    fresh = api(web, params={"q": "{query}", "format": "json"}, cache_s=0)
    await asyncio.gather(*(fresh.search("rocket") for _ in range(3)))
    await fresh.close()
    assert len(web.requests) == 5


async def test_a_failure_is_shared_and_not_kept(web: WebPeer) -> None:
    source = api(web, params={"q": "{query}", "format": "json"})
    web.failure_mode = "html"
    errors = await asyncio.gather(*(source.search("rocket") for _ in range(3)), return_exceptions=True)
    assert [type(item) for item in errors] == [SourceError] * 3
    assert len(web.requests) == 1
    web.failure_mode = ""
    assert await source.search("rocket")
    await source.close()


async def test_who_gives_up_leaves_the_others_their_answer() -> None:
    go = asyncio.Event()
    started_count = 0
    ended_count = 0

    async def ask(query: str) -> LiveResult:
        nonlocal started_count, ended_count
        started_count += 1
        try:
            await go.wait()
        finally:
            ended_count += 1
        return LiveResult([])

    result_cache = ResultCache(60)
    first, second = (asyncio.create_task(result_cache.get_or_fetch("x", ask)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert (started_count, ended_count) == (1, 0)
    go.set()
    assert await second == []
    go.clear()
    last = [asyncio.create_task(result_cache.get_or_fetch("y", ask)) for _ in range(2)]
    await asyncio.sleep(0)
    for task in last:
        task.cancel()
    await asyncio.wait(last)
    assert (started_count, ended_count) == (2, 2)  # nobody waited any more: it is gone, too
    go.set()
    assert await result_cache.get_or_fetch("y", ask) == []
    assert started_count == 3


@pytest.mark.parametrize("is_open_for", [[False, True], [True, False], [False, False]])
async def test_a_shared_request_leaves_for_those_whose_words_may(is_open_for: list[bool]) -> None:
    cache = ResultCache(60)
    waiting = asyncio.Event()

    async def fetch(_: str) -> LiveResult:
        await waiting.wait()
        await require_leave()
        return LiveResult(())

    async def ask(*, is_open: bool) -> Sequence[Passage]:
        async def require_open() -> None:
            if not is_open:
                raise UsageError("closed")

        judge_requests_by(require_open)
        return await cache.get_or_fetch("port", fetch)

    tasks = [asyncio.create_task(ask(is_open=is_open)) for is_open in is_open_for]
    await asyncio.sleep(0)
    waiting.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, UsageError) for result in results] == 2 * [not any(is_open_for)]
