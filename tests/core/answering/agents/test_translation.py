"""A question in another language than the sources': translated once, and both are searched."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from core.answering.pipeline import answer
from core.errors import StoreError
from core.language.glossary import translate_terms
from core.ports import WordMatch
from core.runtime.budget import Budget
from core.types import AgentScore, Passage, Question, Reply, Turn
from tests.support.fixtures import INSTALL, InMemoryLibrary, MemorySink, OrderKeeper, parts, passage, settings
from tests.support.scripted import ScriptedPeer, models

pytestmark = pytest.mark.usefixtures("time_lapse")

OTHER = passage("other", "The package needs a compiler to install from source.")
TRANSLATED = '{"query": "How do I install the package?"}'


@dataclass
class ForeignLibrary(InMemoryLibrary):
    """A library whose sources are in these languages."""

    codes: tuple[str, ...] = ("en",)

    def languages(self) -> Mapping[str, Sequence[str]]:
        return {passage.source: self.codes for passage in self.passages if self.codes}


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with ScriptedPeer(rewrite_translation=TRANSLATED) as model_peer:
        yield model_peer


async def ask(
    peer: ScriptedPeer,
    library: InMemoryLibrary,
    text: str = "怎么安装？",
    *,
    history: tuple[Turn, ...] = (),
    reranker: OrderKeeper | None = None,
    **changes: object,
) -> Reply:
    chat_model = models(peer)
    await chat_model.warm_up()
    configuration = settings(**changes)
    try:
        return await answer(Question(text, history), MemorySink(), parts(library, chat_model, configuration, reranker))
    finally:
        await chat_model.close()


async def test_the_translation_is_searched_beside_the_question(peer: ScriptedPeer) -> None:
    library = ForeignLibrary()
    reply = await ask(peer, library)
    assert peer.agents == ["rewrite_translation", "write"]
    assert library.queries == ["怎么安装？", "How do I install the package?"]
    assert [passage.id for passage in reply.passages] == ["install"]
    assert "translate" in reply.trace.timings_ms
    assert reply.trace.query == "怎么安装？"
    assert reply.trace.tokens["translate.prompt"] > 0, "the call is in the usage"
    assert "English" in peer.sent("rewrite_translation")[0]["messages"][0]["content"]


class QueryKeeper(OrderKeeper):
    """A reranker that remembers what it was asked."""

    queries: tuple[str, ...] = ()

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        self.queries = (*self.queries, query)
        return await super().rerank(query, passages)


async def test_rerankers_read_the_question_and_its_translation(peer: ScriptedPeer) -> None:
    library = QueryKeeper()
    await ask(peer, ForeignLibrary(), reranker=library)
    assert library.queries == ("怎么安装？\nHow do I install the package?",)
    await ask(peer, ForeignLibrary(), "How do I install the package?", reranker=library)
    assert library.queries[1:] == ("How do I install the package?",)
    peer.replies["rerank"] = '{"order": ["p1"]}'
    await ask(peer, ForeignLibrary((INSTALL, OTHER)), knowledge={"search": {"rerank": "model"}})
    question = peer.sent("rerank")[0]["messages"][-1]["content"]
    assert question.endswith("<question>\n怎么安装？\nHow do I install the package?\n</question>")


@pytest.mark.parametrize(
    ("text", "languages", "changes"),
    [
        ("怎么安装？", ("zh", "en"), {}),
        ("怎么安装？", (), {}),
        ("How do I install the package?", ("en",), {}),
        ("pip install", ("zh",), {}),
        ("怎么安装？", ("en",), {"context": {"translate": False}}),
        ("怎么安装？", ("en",), {"strategies": {"allowed": ["simple"]}}),
    ],
)
async def test_what_needs_no_translation_costs_no_call(
    peer: ScriptedPeer, text: str, languages: tuple[str, ...], changes: dict[str, object]
) -> None:
    await ask(peer, ForeignLibrary(codes=languages), text, **changes)
    assert "rewrite_translation" not in peer.agents


FOREIGN_QUESTIONS = [
    "Wie installiere ich das Paket?",
    "Welchen Befehl benutzt man zum Installieren?",
    "¿Cómo instalo el paquete con pip?",
    "パッケージをインストールするには？",
    "Как установить пакет?",
]


@pytest.mark.parametrize("text", FOREIGN_QUESTIONS)
async def test_questions_in_other_languages_find_english_documents(peer: ScriptedPeer, text: str) -> None:
    peer.replies["write"] = "pip install kimas [p1]"
    library = ForeignLibrary()
    reply = await ask(peer, library, text)
    assert library.queries == [text, "How do I install the package?"]
    assert [citation.path for citation in reply.citations] == ["install.md"]


@pytest.mark.parametrize("text", [*FOREIGN_QUESTIONS, "天气怎么样？"])
async def test_without_a_model_the_bot_says_which_language_it_needs(text: str) -> None:
    reply = await answer(Question(text), MemorySink(), parts(ForeignLibrary((OTHER,))))
    assert "English" in reply.text
    assert "model" in reply.text or "模型" in reply.text
    assert reply.shortfall == "nothing_found"
    both = await answer(Question("天气怎么样？"), MemorySink(), parts(ForeignLibrary((OTHER,), codes=("en", "zh"))))
    assert "English" not in both.text, "some sources are in the asker's language"


@pytest.mark.parametrize(
    ("question", "translation"),
    [
        ("不想把所有表都暴露出去", "I do not want to expose all tables"),
        ("摄像头是h265的，浏览器里看不了", "The camera is H.265 and cannot be viewed in the browser"),
    ],
)
async def test_a_wish_is_no_refusal_and_names_may_be_spelled_otherwise(
    peer: ScriptedPeer, question: str, translation: str
) -> None:
    peer.replies["rewrite_translation"] = json.dumps({"query": translation})
    library = ForeignLibrary()
    await ask(peer, library, question)
    assert library.queries[:2] == [question, translation]


@pytest.mark.parametrize("refusal", ["I do not know what you mean, sorry.", "I would need more details to translate."])
async def test_a_refusal_is_not_searched(peer: ScriptedPeer, refusal: str) -> None:
    peer.replies["rewrite_translation"] = json.dumps({"query": refusal})
    library = ForeignLibrary()
    await ask(peer, library, "怎么安装？")
    assert refusal not in library.queries


async def test_a_source_in_two_languages_is_searched_in_both(peer: ScriptedPeer) -> None:
    library = ForeignLibrary(codes=("en", "zh"))
    reply = await ask(peer, library)
    assert library.queries == ["怎么安装？", "How do I install the package?"]
    assert [passage.id for passage in reply.passages] == ["install"]


async def test_the_trace_names_the_agents_that_answered_by_the_translation(peer: ScriptedPeer) -> None:
    @dataclass
    class Picky(ForeignLibrary):
        async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
            return [AgentScore("docs", 1.0)] if query.isascii() else [AgentScore("other", 1.0)]

    sources = {name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "other")}
    library = Picky((INSTALL, replace(OTHER, source="other")))
    reply = await ask(peer, library, sources=sources)
    assert [passage.source for passage in reply.passages] == ["docs"]
    assert reply.trace.agents == ("other", "docs")


async def test_a_question_in_latin_script_is_translated_too(peer: ScriptedPeer) -> None:
    peer.replies["rewrite_translation"] = '{"query": "如何安装这个包？"}'
    library = ForeignLibrary(codes=("zh",))
    await ask(peer, library, "How do I install the package?")
    assert library.queries[-1] == "如何安装这个包？"


async def test_two_agents_and_sub_questions_cost_one_call(peer: ScriptedPeer) -> None:
    peer.replies["split"] = '{"questions": ["怎么安装软件包？", "记忆模块做什么？"]}'
    sources = {name: {"kind": "faq", "path": "faq.yaml"} for name in ("docs", "more")}
    extra_sources = [replace(passage, id=f"more-{passage.id}", source="more") for passage in ForeignLibrary().passages]
    library = ForeignLibrary((*ForeignLibrary().passages, *extra_sources))
    await ask(peer, library, "怎么安装软件包，记忆模块做什么？", sources=sources, strategies={"allowed": ["parallel"]})
    assert peer.agents.count("rewrite_translation") == 1
    assert library.queries.count("How do I install the package?") == 2, "once at each agent"


async def test_the_completed_question_is_translated(peer: ScriptedPeer) -> None:
    peer.replies |= {"rewrite": "怎么安装记忆模块？", "context": "1\n怎么安装"}
    history = (Turn("user", "记忆模块是什么？"), Turn("assistant", "它保存消息 [1]。"))
    await ask(peer, ForeignLibrary(), "怎么安装它？", history=history)
    [request] = peer.sent("rewrite_translation")
    assert "怎么安装记忆模块？" in request["messages"][-1]["content"]


@pytest.mark.parametrize(
    "reply",
    ["Sorry, I cannot translate that.", '{"query": "怎么安装？"}', '{"query": ""}', "{", '{"query": "Install Rocket"}'],
)
async def test_a_bad_translation_is_not_searched(peer: ScriptedPeer, reply: str) -> None:
    peer.replies |= {"rewrite_translation": reply, "repair": reply}
    library = ForeignLibrary()
    await ask(peer, library, "RocketX 怎么安装？")
    assert library.queries[-1] == "RocketX install", "its terms are"
    assert "Install Rocket" not in library.queries


async def test_a_translation_without_a_word_of_the_question_is_not_searched(peer: ScriptedPeer) -> None:
    peer.replies |= {"rewrite_translation": '{"query": "Which language to answer in"}'}
    library = ForeignLibrary()
    await ask(peer, library, "怎么备份数据？")
    assert set(library.queries) == {"怎么备份数据？", "backup data"}


async def test_where_a_translation_fails_or_is_late_known_terms_are_searched(peer: ScriptedPeer) -> None:
    peer.failing = {"rewrite_translation"}
    library = ForeignLibrary()
    reply = await ask(peer, library)
    assert library.queries[-1] == "install"
    assert reply.trace.degrade_reasons["translate"] == "failed"
    peer.failing = set()
    peer.hanging = {"rewrite_translation"}
    reply = await ask(peer, library)
    assert reply.trace.degrade_reasons["translate"] == "late"


async def ask_without_model(library: InMemoryLibrary, text: str) -> Reply:
    return await answer(Question(text), MemorySink(), parts(library, None, settings()))


async def test_without_a_model_known_terms_are_searched_and_quoted() -> None:
    library = ForeignLibrary()
    reply = await ask_without_model(library, "怎么安装这个软件包？")
    assert library.queries[-1] == "install software package"
    assert [citation.passage_id for citation in reply.citations] == ["install"]
    assert "pip install" in reply.text


async def test_terms_are_not_searched_in_a_language_that_they_are_not_in() -> None:
    library = ForeignLibrary(codes=("de",))
    reply = await ask_without_model(library, "怎么安装这个软件包？")
    assert library.queries == ["怎么安装这个软件包？"]
    assert not reply.citations


async def test_terms_are_not_searched_where_the_question_finds_its_own_language() -> None:
    own_passage = replace(passage("own", "用 pip 安装这个软件包。"), lexical_share=0.5)
    library = ForeignLibrary((own_passage, INSTALL))
    reply = await ask_without_model(library, "怎么安装这个软件包？")
    assert library.queries == ["怎么安装这个软件包？"]
    assert [citation.passage_id for citation in reply.citations] == ["own"]


async def test_a_chinese_passage_that_only_its_vector_finds_stops_no_search_of_terms() -> None:
    @dataclass
    class ByVectors(ForeignLibrary):
        async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
            self.queries.append(query)
            return [INSTALL if query.isascii() else replace(passage("far", "猫在睡觉。"), similarity=0.1)]

    library = ByVectors()
    await ask_without_model(library, "怎么安装这个软件包？")
    assert library.queries[-1] == "install software package"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Read it in [简体中文](README_zh.md), or install the package with pip.", "markdown"),
        ("安装 = 软件包", "python"),
    ],
)
async def test_chinese_words_in_english_sources_stop_no_search_of_terms(text: str, kind: str) -> None:
    library = ForeignLibrary((passage("words", text, kind=kind), INSTALL))
    await ask_without_model(library, "简体中文怎么安装这个软件包？")
    assert "install software package" in library.queries[-1]


@pytest.mark.parametrize("text", ["怎么安装犁具？", "魔搭怎么安装？"])
async def test_a_question_of_which_a_part_is_unknown_is_searched_but_not_quoted(text: str) -> None:
    library = ForeignLibrary()
    reply = await ask_without_model(library, text)
    assert "install" in library.queries[-1]
    assert not reply.citations


async def test_the_documents_decide_what_an_ambiguous_term_means() -> None:
    proxy = passage("proxy", "Set the port of the proxy.")
    library = ForeignLibrary((proxy, passage("surrogate", "A surrogate is an agent."), INSTALL))
    await ask_without_model(library, "代理的端口怎么设置？")
    assert library.queries[-1] == "proxy port set up"


async def test_where_words_cannot_be_matched_the_usual_meanings_are_searched() -> None:
    @dataclass
    class Broken(ForeignLibrary):
        async def match_words(self, query: str, limit: int) -> WordMatch:
            raise StoreError("the store is down")

    library = Broken()
    await ask_without_model(library, "怎么安装？")
    assert library.queries[-1] == "install erect"


@pytest.mark.parametrize(
    ("text", "terms", "coverage"),
    [
        ("scrapy 怎么设置代理？", "scrapy set up install surrogate proxy", 1.0),
        ("怎么自定义 scrapy 的中间件", "custom user-defined scrapy middleware", 0.86),
        ("哪些專輯缺了曲目", "album record repertoire program", 0.67),
        ("魔搭怎么安装", "install erect", 0.5),
        ("怎么办", "", 0.0),
        ("how do I install it", "", 0.0),
    ],
)
def test_the_dictionary_has_the_terms_of_a_chinese_text(text: str, terms: str, coverage: float) -> None:
    translation = translate_terms(text)
    assert (translation.text, round(translation.coverage, 2)) == (terms, coverage)


def test_a_name_is_claimed_once() -> None:
    budget = Budget(settings().budget)
    assert [budget.claim("a"), budget.claim("a"), budget.claim("b")] == [True, False, True]


GERMAN = "Wie ist der Befehl pip install kimas zu verstehen, und was ist das virtual environment?"


@pytest.mark.parametrize(
    ("text", "codes", "provider", "is_told"),
    [
        (GERMAN, ("en",), "local", True),
        (GERMAN, ("en", "de"), "local", False),
        (GERMAN, (), "local", False),
        (GERMAN, ("en",), "multilingual", False),
        ("How do I install the package with pip in a virtual environment?", ("en",), "local", False),
        ("How do I install the package with pip in a virtual environment?", ("de",), "local", True),
        ("Does pip honour the proxy of the mirror?", ("de",), "local", True),
    ],
)
async def test_without_a_model_it_is_told_that_the_sources_are_in_another_language(
    text: str, codes: tuple[str, ...], provider: str, is_told: bool
) -> None:
    """Quotes and pages may miss the point then; who asks nothing gets none of them."""
    configuration = settings(knowledge={"embedding": {"provider": provider}})
    for is_unprompted in (False, True):
        question = Question(text, is_unprompted=is_unprompted)
        reply = await answer(question, MemorySink(), parts(ForeignLibrary(codes=codes), configuration=configuration))
        if is_told and is_unprompted:
            assert (reply.citations, reply.nearest_pages, reply.shortfall) == ((), (), "nothing_found")
        else:
            assert reply.citations or reply.nearest_pages or is_unprompted
            assert ("could translate your question: this may" in reply.text) == is_told
