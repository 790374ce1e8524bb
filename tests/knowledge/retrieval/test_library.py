from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest

from core.answering.context import AnswerDependencies
from core.answering.pipeline import answer
from core.answering.rewriting.rewrites import REWRITES
from core.errors import UsageError
from core.language.languages import get_main_languages
from core.language.tokens import cut_into_pairs, lexical_tokens, simplify
from core.llm.prompts import Prompts
from core.quoting.extractive import extract
from core.types import Passage, Question
from knowledge.ingestion.sync import SyncOptions
from knowledge.ports import PassageRow, Store, Vectors
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.fixtures import MemorySink, OrderKeeper
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill, settings
from tests.support.waiting import until

FRUIT = {f"fruit{n}.md": f"The apple and the pear are sweet fruit, number {n}." for n in range(12)}
TOOLS = {f"tool{n}.md": f"A hammer or a saw is a sharp tool, number {n}." for n in range(12)}
CHINESE = {"guide.md": "安装 方法：运行安装程序。", "other.md": "关于 记忆 的 说明。"}


@pytest.fixture
async def filled_store(store: Store, embedder: WordEmbedder) -> Store:
    for name, texts in (("fruit", FRUIT), ("tools", TOOLS), ("chinese", CHINESE)):
        await read_and_fill(DictSource(name, dict(texts)), store, embedder, SyncOptions(200))
    embedder.embedded.clear()
    return store


@pytest.fixture
async def library(filled_store: Store, embedder: WordEmbedder) -> KnowledgeLibrary:
    library = KnowledgeLibrary(settings(), filled_store, embedder)
    await library.load()
    return library


async def names(library: KnowledgeLibrary, query: str) -> list[str]:
    return [agent.name for agent in await library.route(query)]


async def test_questions_find_their_agents(library: KnowledgeLibrary) -> None:
    assert (await names(library, "is a pear sweet fruit?"))[0] == "cook"
    assert (await names(library, "a saw or a hammer?"))[0] == "smith"
    scores = [agent.score for agent in await library.route("is a pear sweet fruit?")]
    assert scores == sorted(scores, reverse=True)


async def test_an_agent_whose_passages_are_far_from_the_best_is_not_asked(
    filled_store: Store, embedder: WordEmbedder
) -> None:
    agents = {
        "cook": {"sources": ["fruit"]},
        # Its description fits the question, its passages do not.
        "smith": {"sources": ["tools"], "description": "is a pear sweet fruit?"},
        "mute": {"sources": ["nothing"], "description": "is a pear sweet fruit?"},
    }
    for threshold, expected in ((0.2, {"cook", "mute"}), (-1, {"cook", "smith", "mute"})):
        configuration = settings(agents=agents, knowledge={"routing": {"threshold": threshold}})
        library = KnowledgeLibrary(configuration, filled_store, embedder)
        await library.load()
        assert set(await names(library, "is a pear sweet fruit?")) == expected


async def test_agents_know_the_languages_of_their_sources(filled_store: Store, embedder: WordEmbedder) -> None:
    agents = {
        "cook": {"sources": ["fruit"]},
        "chinese": {"sources": ["chinese"]},
        "told": {"sources": ["tools"], "language": "German"},
        "empty": {"sources": ["nothing"]},
    }
    knowledge_library = KnowledgeLibrary(settings(agents=agents), filled_store, embedder)
    assert knowledge_library.languages() == {}
    await knowledge_library.load()
    assert knowledge_library.languages() == {"cook": ("en",), "chinese": ("zh",), "told": ("de",)}


async def test_agents_know_what_their_documents_are_called(store: Store, embedder: WordEmbedder) -> None:
    pages = {f"page{number}.md": f"# Cooking\n\n## Pear {number}\n\nA pear is sweet." for number in range(9)}
    pages["long.md"] = f"# {'Sweet fruit ' * 30}\n\nA pear and an apple."
    await read_and_fill(DictSource("fruit", pages), store, embedder, SyncOptions(200))
    await read_and_fill(
        DictSource("tools", {"saw.py": "def cut() -> None: ..."}, kind="python"), store, embedder, SyncOptions(200)
    )
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    assert library.titles()["cook"][0] == "Cooking", "the title of most pages comes first"
    assert all(len(title) <= 60 for title in library.titles()["cook"])
    assert library.titles()["smith"] == ("saw.py",)
    assert "cook" not in library.restricted_to(["tools"]).titles()


def test_texts_of_two_languages_have_both() -> None:
    assert get_main_languages(Counter(en=2, zh=1)) == ("en", "zh")
    assert get_main_languages(Counter(en=9, zh=1)) == ("en",)


async def test_the_limit_and_the_threshold_hold(filled_store: Store, embedder: WordEmbedder) -> None:
    knowledge_library = KnowledgeLibrary(
        settings(knowledge={"routing": {"agents": 1, "threshold": -1}}), filled_store, embedder
    )
    await knowledge_library.load()
    assert len(await knowledge_library.route("pear")) == len(await knowledge_library.route("安装")) == 1
    strict_library = KnowledgeLibrary(settings(knowledge={"routing": {"threshold": 0.99}}), filled_store, embedder)
    await strict_library.load()
    assert await strict_library.route("pear") == []
    assert [score.name for score in await strict_library.route("pear", at_least_one=True)] == ["cook"]


async def test_without_routing_every_question_goes_to_all_agents(filled_store: Store, embedder: WordEmbedder) -> None:
    configuration = settings(knowledge={"routing": {"enabled": False, "agents": 1, "threshold": 0.99}})
    library = KnowledgeLibrary(configuration, filled_store, embedder)
    await library.load()
    assert [agent.name for agent in await library.route("pear")] == list(configuration.retrieval_agents())


async def test_an_agent_without_knowledge_is_asked_only_for_its_mix_in(
    filled_store: Store, embedder: WordEmbedder
) -> None:
    agents = {"cook": {"sources": ["fruit"]}, "mute": {"sources": ["nothing"]}}
    library = KnowledgeLibrary(settings(agents=agents), filled_store, embedder)
    await library.load()
    assert await names(library, "weather tomorrow pear") == ["cook"]
    assert await names(library, "number 3") == ["cook"]
    described_agents = agents | {
        "mute": {"sources": ["nothing"], "description": "weather", "examples": ["rain tomorrow?"]}
    }
    library = KnowledgeLibrary(settings(agents=described_agents), filled_store, embedder)
    await library.load()
    assert (await names(library, "weather tomorrow"))[0] == "mute"
    assert list(await library.search("mute", "weather", 5)) == []


async def test_search_finds_in_the_agents_sources_only(library: KnowledgeLibrary) -> None:
    passages = await library.search("cook", "hammer saw tool number 3", 5)
    assert len(passages) == 5
    assert {passage.source for passage in passages} == {"fruit"}
    assert passages[0].path == "fruit3.md"
    assert [passage.score for passage in passages] == sorted((passage.score for passage in passages), reverse=True)
    assert all(0 <= passage.score <= 1 for passage in passages)
    assert passages[0].similarity > 0
    assert passages[0].lexical > 0


async def test_an_agent_with_several_sources(filled_store: Store, embedder: WordEmbedder) -> None:
    library = KnowledgeLibrary(settings(agents={"all": {"sources": ["fruit", "tools"]}}), filled_store, embedder)
    await library.load()
    passages = await library.search("all", "number 3", 2)
    assert {passage.path for passage in passages} == {"fruit3.md", "tool3.md"}


async def test_an_unknown_agent_is_named_with_the_known_ones(library: KnowledgeLibrary) -> None:
    with pytest.raises(UsageError, match=r"'baker'.*chinese, cook, smith"):
        await library.search("baker", "bread", 5)


async def test_without_agents_every_source_is_one(filled_store: Store, embedder: WordEmbedder) -> None:
    library = KnowledgeLibrary(settings(agents={}), filled_store, embedder)
    await library.load()
    assert (await names(library, "sweet fruit"))[0] == "fruit"
    assert "nothing" not in await names(library, "sweet fruit")


async def test_a_language_the_embedder_does_not_know_goes_by_words(
    library: KnowledgeLibrary, embedder: WordEmbedder
) -> None:
    assert (await names(library, "怎么安装？"))[0] == "chinese"
    passages = await library.search("chinese", "怎么安装？", 5)
    assert [passage.path for passage in passages] == ["guide.md"]
    assert passages[0].similarity == 0
    near_score, far_score = await library.similarity("安装程序", ["运行安装程序。", "记忆"])
    assert near_score > 0.9
    assert far_score == 0
    assert embedder.embedded == []
    assert await library.route("完全无关") == [], "no passage has a word of it"
    assert len(await library.route("完全无关", at_least_one=True)) == 1


async def test_similarity_is_the_cosine(library: KnowledgeLibrary, embedder: WordEmbedder) -> None:
    near_score, far_score = await library.similarity("sweet pear", ["a sweet pear", "hammer"])
    expected = (await embedder.embed(["a sweet pear", "hammer"])) @ (await embedder.embed(["sweet pear"]))[0]
    np.testing.assert_allclose([near_score, far_score], expected, atol=1e-6)
    assert near_score > far_score
    assert list(await library.similarity("sweet pear", [])) == []


@pytest.mark.parametrize("query", ["", "   ", "?", "!" * 5000, "the of and"])
async def test_a_query_that_says_nothing_is_no_problem(library: KnowledgeLibrary, query: str) -> None:
    await library.route(query)
    assert len(await library.search("cook", query, 5)) <= 5
    assert len(await library.similarity(query, ["text"])) == 1


async def test_one_embedding_per_query(library: KnowledgeLibrary, embedder: WordEmbedder) -> None:
    embedder.delay = 0.02
    await asyncio.gather(library.route("pear"), library.search("cook", "pear", 5), library.search("smith", "pear", 5))
    await library.search("cook", "pear", 5)
    assert embedder.embedded == ["pear"]
    await library.route("apple")
    assert embedder.embedded == ["pear", "apple"]


async def test_the_memory_of_queries_is_bounded(library: KnowledgeLibrary, embedder: WordEmbedder) -> None:
    for number in range(300):
        await library.route(f"query {number}")
    embedder.embedded.clear()
    await library.route("query 299")
    assert embedder.embedded == []
    await library.route("query 0")
    assert embedder.embedded == ["query 0"]


async def test_a_failed_embedding_leads_to_words_and_is_not_remembered(
    filled_store: Store, embedder: WordEmbedder
) -> None:
    library = KnowledgeLibrary(settings(), filled_store, embedder, embedder_cooldown_s=0)
    await library.load()
    embedder.broken = True
    embedder.delay = 0.01
    agents, passages = await asyncio.gather(library.route("pear"), library.search("cook", "pear", 5))
    assert agents
    assert passages
    assert all(passage.similarity == 0 for passage in passages)
    assert await library.similarity("ripe pear", ["a pear", "a stone"]) == [0.5, 0.0]
    embedder.broken = False
    assert any(result.similarity for result in await library.search("cook", "pear", 5))


async def test_who_comes_after_a_failure_does_not_wait_for_the_embedder_again(
    library: KnowledgeLibrary, embedder: WordEmbedder
) -> None:
    embedder.broken = True
    await library.search("cook", "pear", 5)
    embedder.broken = False
    embedder.delay = 30
    async with asyncio.timeout(20):
        assert await library.search("cook", "pear", 5)


async def test_a_cancelled_asker_does_not_take_the_others_with_it(
    library: KnowledgeLibrary, embedder: WordEmbedder
) -> None:
    embedder.delay = 1
    first = asyncio.create_task(library.route("pear"))
    second = asyncio.create_task(library.search("cook", "pear", 5))
    await asyncio.sleep(0.01)
    first.cancel()
    assert len(await second) == 5
    with pytest.raises(asyncio.CancelledError):
        await first
    assert embedder.embedded == ["pear"]


async def test_closing_gives_up_what_nobody_waits_for(library: KnowledgeLibrary, embedder: WordEmbedder) -> None:
    embedder.delay = 60
    asker = asyncio.create_task(library.route("pear"))
    await asyncio.sleep(0.01)
    asker.cancel()
    await library.close()
    await library.close()
    assert embedder.embedded == []
    assert len(asyncio.all_tasks()) <= 2


async def test_new_knowledge_is_seen_after_a_reload(
    store: Store, embedder: WordEmbedder, markdown: Callable[..., str]
) -> None:
    library = KnowledgeLibrary(settings(), store, embedder)
    assert library.is_empty
    await library.load()
    assert library.is_empty
    assert {"fruit", "tools"} <= set(library.empty_sources())
    assert await names(library, "sweet fruit") == await names(library, "安装") == []
    await read_and_fill(DictSource("fruit", dict(FRUIT)), store, embedder, SyncOptions(200))
    await library.reload()
    assert not library.is_empty
    assert "fruit" not in library.empty_sources()
    assert set(library.restricted_to(["tools"]).empty_sources()) == {"tools"}
    assert await names(library, "sweet fruit") == ["cook"]
    await read_and_fill(DictSource("fruit", {}), store, embedder, SyncOptions(200))
    await library.reload()
    assert library.is_empty
    assert await names(library, "sweet fruit") == []


async def test_a_library_that_is_empty_asks_the_store_before_it_says_so(store: Store, embedder: WordEmbedder) -> None:
    """Another daemon fills the store, and this one was not told yet."""
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    assert await library.route("pear") == []
    await read_and_fill(DictSource("fruit", {"a.md": "A pear is sweet."}), store, embedder, SyncOptions(200))
    assert await names(library.restricted_to(["tools"]), "pear") == []
    assert await names(library.restricted_to(["fruit"]), "pear") == ["cook"]
    assert await names(library, "pear") == ["cook"]


async def test_questions_are_answered_during_a_reload(library: KnowledgeLibrary) -> None:
    reload = asyncio.create_task(library.reload())
    request_count = 0
    while not reload.done():
        assert (await names(library, "is a pear sweet fruit?"))[0] == "cook"
        request_count += 1
        await asyncio.sleep(0)
    await reload
    assert request_count > 0


def agent_settings(**of_mute: object) -> dict[str, object]:
    return {"cook": {"sources": ["fruit"]}, "mute": {"sources": ["nothing"], **of_mute}}


async def scores(filled_store: Store, embedder: WordEmbedder, query: str, **changes: object) -> dict[str, float]:
    library = KnowledgeLibrary(settings(**changes), filled_store, embedder)
    await library.load()
    return {agent.name: agent.score for agent in await library.route(query)}


async def test_each_kind_of_mix_in_has_its_weight(filled_store: Store, embedder: WordEmbedder) -> None:
    routing = {"routing": {"threshold": -1}}
    pair = {"question": "which umbrella?", "answer": "the large one"}
    texts: dict[str, object] = {"description": "weather reports", "examples": ["rain tomorrow?"], "pairs": [pair]}
    queries = {"description": "weather reports", "examples": "rain tomorrow?", "pairs": "which umbrella?"}
    for kind, query in queries.items():
        scores_without = await scores(filled_store, embedder, query, agents=agent_settings(**texts), knowledge=routing)
        assert scores_without["mute"] == pytest.approx(1, abs=1e-5)
        for weight in (0.5, 0.0):
            weighed = agent_settings(**texts, mix_in_weights={kind: weight})
            results = await scores(filled_store, embedder, query, agents=weighed, knowledge=routing)
            assert results["mute"] < 0.75, "what is left is another text, or this one for half"
        only = agent_settings(**{kind: texts[kind]}, mix_in_weights={kind: 0})
        assert "mute" not in await scores(filled_store, embedder, query, agents=only, knowledge=routing)
    pair_query = "which umbrella? the large one"
    pair_scores = await scores(
        filled_store, embedder, pair_query, agents=agent_settings(pairs=[pair]), knowledge=routing
    )
    assert pair_scores["mute"] == pytest.approx(1, abs=1e-5)


async def test_scales_are_by_agent_and_by_kind_of_source(filled_store: Store, embedder: WordEmbedder) -> None:
    kinds = {"fruit": "files", "tools": "git", "chinese": "files", "nothing": "faq"}
    sources = {
        name: {"kind": kind, **({"url": "/nowhere"} if kind == "git" else {"path": "/nowhere/a.csv"})}
        for name, kind in kinds.items()
    }
    agents = {
        "cook": {"sources": ["fruit"], "description": "pears"},
        "smith": {"sources": ["tools"]},
        "fruiterer": {"sources": ["fruit"]},
        "both": {"sources": ["fruit", "tools"]},
        "mute": {"sources": ["nothing"], "description": "pear tree"},
    }

    async def score_agents(scales: dict[str, float]) -> dict[str, float]:
        knowledge = {"routing": {"kind_scales": scales, "threshold": -1, "agents": 9}}
        return await scores(
            filled_store, embedder, "is a pear sweet?", sources=sources, agents=agents, knowledge=knowledge
        )

    default_scores = await score_agents({})
    scaled = await score_agents({"files": 0.5, "faq": 2})
    assert scaled["cook"] == pytest.approx(default_scores["cook"] / 2, rel=1e-4)
    assert scaled["smith"] == pytest.approx(default_scores["smith"], rel=1e-4)
    assert scaled["mute"] == pytest.approx(default_scores["mute"] * 2, rel=1e-4)
    # Each kind has its own centroids now: those of the fruit or those of the tools count half.
    for entry in (await score_agents({"files": 0.5}), await score_agents({"git": 0.5})):
        assert entry["both"] == pytest.approx(max(entry["fruiterer"], entry["smith"]), rel=1e-4)


class Watched:
    """A store that tells whose vectors are read, and waits before it gives the first ones away."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.read = list[str]()
        self.ready = asyncio.Event()
        self.searches = 0
        self.ready.set()

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    async def vectors(self, source: str) -> object:
        self.read.append(source)
        array = await self.store.vectors(source)
        if len(self.read) == 1:
            await self.ready.wait()
        return array

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        self.searches += 1
        return await self.store.search(tokens, vector, sources, limit)


async def test_only_the_agents_of_refreshed_sources_are_reloaded(filled_store: Store, embedder: WordEmbedder) -> None:
    watched_library = Watched(filled_store)
    library = KnowledgeLibrary(settings(), watched_library, embedder)  # type: ignore[arg-type]
    await library.load()
    assert sorted(watched_library.read) == ["chinese", "fruit", "tools"]
    watched_library.read.clear()
    await read_and_fill(
        DictSource("fruit", {"new.md": "The plum is purple."}), filled_store, embedder, SyncOptions(200)
    )
    await library.reload(["fruit", "nothing"])
    assert watched_library.read == ["fruit"]
    assert (await names(library, "purple plum"))[0] == "cook"
    assert (await names(library, "a saw or a hammer?"))[0] == "smith"


async def test_of_reloads_at_once_the_newest_counts(filled_store: Store, embedder: WordEmbedder) -> None:
    watched_library = Watched(filled_store)
    watched_library.ready.clear()
    library = KnowledgeLibrary(settings(agents={"cook": {"sources": ["fruit"]}}), watched_library, embedder)  # type: ignore[arg-type]
    old_load = asyncio.create_task(library.load())
    await until(lambda: watched_library.read)
    await read_and_fill(DictSource("fruit", {}), filled_store, embedder, SyncOptions(200))
    new = asyncio.create_task(library.reload())
    await asyncio.sleep(0.01)
    watched_library.ready.set()
    await asyncio.gather(old_load, new)
    assert library.is_empty


async def test_a_question_for_nobody_is_not_searched_and_the_answer_says_so(
    filled_store: Store, embedder: WordEmbedder
) -> None:
    configuration = settings(knowledge={"routing": {"threshold": 0.4}})
    watched_library = Watched(filled_store)
    library = KnowledgeLibrary(configuration, watched_library, embedder)  # type: ignore[arg-type]
    await library.load()
    parts = AnswerDependencies(configuration, library, OrderKeeper(), None, Prompts.read(), REWRITES)
    for question, searches in (("Is the apple or the pear sweet fruit?", 2), ("Who won the cup yesterday?", 1)):
        watched_library.searches = 0
        sink = MemorySink()
        reply = await answer(Question(question, is_unprompted=True), sink, parts)
        assert bool(reply.trace.agents) == bool(reply.passages) == (searches == 2)
        assert watched_library.searches == searches, "the one over all, and that of the agent with a passage near"
        assert ("I found nothing about this" in reply.text) == (searches == 1)
    reply = await answer(Question("Who won the cup yesterday?"), MemorySink(), parts)
    assert len(reply.trace.agents) == 1, "the bot itself was asked: the best agent is searched"
    assert reply.passages


async def test_a_score_is_the_same_for_every_limit_and_query_length(library: KnowledgeLibrary) -> None:
    first_result, results = [await library.search("cook", "pear number 3", limit) for limit in (1, 12)]
    assert first_result[0] == results[0]
    assert first_result[0].lexical_share == pytest.approx(
        first_result[0].lexical / await max_score(library, "pear number 3")
    )
    # All that a short query asks for counts as much as all that a long one does.
    short_result = (await library.search("cook", "number 3", 1))[0]
    assert short_result.lexical_share == pytest.approx(first_result[0].lexical_share, abs=0.15)
    assert short_result.lexical < first_result[0].lexical * 0.9


async def max_score(library: KnowledgeLibrary, query: str) -> float:
    return 2.2 * sum((await library.term_weights(query)).values())


async def test_words_that_no_passage_has_count_half(library: KnowledgeLibrary) -> None:
    known_share = (await library.search("cook", "pear", 1))[0].lexical_share
    unknown_weight = (await library.match_words("zeppelin", 1)).unknown_weight
    pear_weight = (await library.term_weights("pear"))["pear"]
    lexical_share = (await library.search("cook", "pear zeppelin", 1))[0].lexical_share
    assert lexical_share == pytest.approx(known_share * pear_weight / (pear_weight + unknown_weight / 2))


async def test_traditional_chinese_finds_a_passage_as_surely_as_simplified(
    store: Store, embedder: WordEmbedder
) -> None:
    """Also where an earlier version has stored the passages, whose words are as they are written."""
    pages = [f"{subject}設定：管理員可以在後臺設定。" for subject in ("權限", "備份", "日誌", "語言", "時區", "郵件")]
    question = "請問權限怎麼設定？"

    async def measure(query: str, pages: Sequence[str], tokenize: Callable[[str], str]) -> tuple[str, float]:
        vector = np.eye(embedder.dimension, dtype=np.float32)[0]
        paths = [f"{number}.md" for number in range(len(pages))]
        rows = [
            PassageRow(Passage(path, "fruit", path, "", page), "1", tokenize(page), vector)
            for path, page in zip(paths, pages, strict=True)
        ]
        await store.replace("fruit", paths, rows)
        library = KnowledgeLibrary(settings(), store, embedder)
        await library.load()
        passages = await library.search("cook", query, 6)
        best = max(passages, key=lambda passage: passage.lexical_share)
        return best.path, best.lexical_share

    def tokenize_as_written(text: str) -> str:
        return " ".join(pair for run in text[:-1].split("：") for pair in cut_into_pairs(run))

    expected: object = ("0.md", pytest.approx((await measure(simplify(question), pages, lexical_tokens))[1]))
    assert await measure(question, pages, lexical_tokens) == expected
    assert await measure(question, list(map(simplify, pages)), lexical_tokens) == expected
    assert await measure(question, pages, tokenize_as_written) == expected


async def test_without_vectors_texts_in_both_scripts_are_as_similar(
    store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "vocabulary_coverage", lambda text: 0.0)
    library = KnowledgeLibrary(settings(), store, embedder)
    assert await library.similarity("權限設定", ["權限設定", "权限设定", "日誌"]) == [1.0, 1.0, 0.0]


async def test_a_store_that_cannot_count_words_gives_shares_too(filled_store: Store, embedder: WordEmbedder) -> None:
    class Uncounted(Watched):
        async def term_weights(self, tokens: str, sources: object = None) -> dict[str, float]:
            return {}

    library = KnowledgeLibrary(settings(), Uncounted(filled_store), embedder)  # type: ignore[arg-type]
    await library.load()
    passages = await library.search("cook", "pear number 3", 12)
    assert passages[0].path == "fruit3.md"
    assert all(0 < passage.lexical_share <= 1 for passage in passages if passage.lexical)


async def test_a_near_passage_is_found_though_no_centroid_is_near(filled_store: Store, embedder: WordEmbedder) -> None:
    library = KnowledgeLibrary(
        settings(knowledge={"routing": {"centroids": 1, "threshold": 0.4}}), filled_store, embedder
    )
    await library.load()
    assert await names(library, "zeppelin balloon") == []
    await read_and_fill(
        DictSource("fruit", FRUIT | {"odd.md": "A zeppelin balloon."}), filled_store, embedder, SyncOptions(200)
    )
    await library.reload()
    assert await names(library, "zeppelin balloon") == ["cook"]


async def test_a_short_list_of_questions_does_not_hide_the_manual(filled_store: Store, embedder: WordEmbedder) -> None:
    """Its one passage is its centroid, and near more questions than the averages of the manual are."""
    texts = {
        "manual": TOOLS | {"pi.md": "The raspberry has a sharp tool."},
        "faq": {"f.md": "Is a raspberry supported?"},
    }
    for name, documents in texts.items():
        await read_and_fill(DictSource(name, documents), filled_store, embedder, SyncOptions(200))
    sources = {name: {"kind": "files", "path": "."} for name in texts}
    routing = {"centroids": 1, "threshold": 0.5}
    library = KnowledgeLibrary(
        settings(sources=sources, agents={}, knowledge={"routing": routing}), filled_store, embedder
    )
    await library.load()
    for question, expected in (("raspberry", {"faq", "manual"}), ("raspberry supported?", {"faq"})):
        assert set(await names(library, question)) == expected


async def test_words_that_only_ask_send_no_chinese_question_anywhere(store: Store, embedder: WordEmbedder) -> None:
    await read_and_fill(
        DictSource("chinese", {"a.md": "怎么安装？什么都可以安装。"}), store, embedder, SyncOptions(200)
    )
    assert await scores(store, embedder, "怎么减肥？什么都可以吃吗？", knowledge={"routing": {"threshold": 0.2}}) == {}
    assert list(await scores(store, embedder, "怎么安装？", knowledge={"routing": {"threshold": 0.2}})) == ["chinese"]


async def test_by_words_a_threshold_leaves_out_those_without_any(filled_store: Store, embedder: WordEmbedder) -> None:
    strict_settings = {"routing": {"threshold": 0.2}}
    assert list(await scores(filled_store, embedder, "安装", knowledge=strict_settings)) == ["chinese"]
    assert len(await scores(filled_store, embedder, "安装", knowledge={"routing": {"threshold": 0}})) == 3
    assert await scores(filled_store, embedder, "完全无关", knowledge=strict_settings) == {}


async def test_by_words_an_agent_with_far_fewer_of_them_is_not_asked(store: Store, embedder: WordEmbedder) -> None:
    texts = {"chinese": "语音识别可以用容器部署。", "fruit": "语音识别可以部署。", "tools": "容器里有锤子。"}
    for name, text in texts.items():
        await read_and_fill(DictSource(name, {"a.md": text}), store, embedder, SyncOptions(200))
    strict_settings = {"routing": {"threshold": 0.2}}
    asked = await scores(store, embedder, "语音识别可以部署在容器吗？", knowledge=strict_settings)
    assert set(asked) == {"chinese", "cook"}
    assert "smith" in await scores(store, embedder, "容器", knowledge=strict_settings)


async def test_a_query_without_a_usable_vector_goes_by_words(filled_store: Store, embedder: WordEmbedder) -> None:
    library = KnowledgeLibrary(settings(), filled_store, embedder)
    await library.load()
    embedder.directions["pear"] = np.full(32, np.nan, np.float32)
    passages = await library.search("cook", "pear", 5)
    assert passages
    assert all(passage.similarity == 0 for passage in passages)
    assert await names(library, "pear")


async def test_a_word_that_no_passage_has_weighs_nothing(store: Store, embedder: WordEmbedder) -> None:
    pages = {
        "install.md": "Install the server with the package manager.",
        "start.md": "Start the server with the command serve.",
        "stop.md": "Stop the server with a signal.",
    }
    await read_and_fill(DictSource("fruit", pages), store, embedder, SyncOptions(200))
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    question = "How do I start the servr with serve?"
    weights = await library.term_weights(question)
    assert weights["servr"] == 0
    assert weights["serv"] == pytest.approx((await library.match_words(question, 1)).weights["serv"])
    passages = await library.search("cook", question, 3)
    assert "the command serve" in (await extract([question], passages, library, 0.5)).text
    assert (await extract(["Where do I buy a servr?"], passages, library, 0.5)).text == ""


async def test_a_page_is_read_in_order_and_only_of_sources_that_may_be_asked(
    filled_store: Store, embedder: WordEmbedder
) -> None:
    texts = {"guide.md": "# Pears\n\n" + "\n\n".join(f"Pear number {n} is sweet. " * 20 for n in range(5))}
    await read_and_fill(DictSource("fruit", texts), filled_store, embedder, SyncOptions(50))
    library = KnowledgeLibrary(settings(), filled_store, embedder)
    await library.load()
    page = await library.read_page("fruit", "guide.md")
    assert len(page) > 4
    assert [passage.start_line for passage in page] == sorted(passage.start_line for passage in page)
    assert not await library.restricted_to(["tools"]).read_page("fruit", "guide.md")
    assert not await library.read_page("fruit", "missing.md")
    assert not await library.read_page("nothing", "guide.md")
