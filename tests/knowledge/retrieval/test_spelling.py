"""A mistyped question is searched with the words of the passages that its asker may read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from core.answering.agents.search import search
from core.answering.agents.spelling import correct_spelling
from core.answering.context import AnswerDependencies
from core.answering.rewriting.rewrites import REWRITES
from core.errors import StoreError
from core.language.spelling import prepare_english_words
from core.llm.prompts import Prompts
from core.runtime.budget import Budget
from core.settings import BudgetSettings
from knowledge.ingestion.sync import SyncOptions
from knowledge.ports import Store
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.fixtures import OrderKeeper
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill, settings

PAGES = {
    "markdown.md": "Write your pages in markdown, with metadata above the text.",
    "pages.md": "Pagination shows ten articles on each page of an index.",
    "feeds.md": "Pagination of feeds: the paginator counts articles. Their markdown is rendered.",
    "theme.md": "A theme has templates. Themes are installed as folders.",
}
SECRET = {"plan.md": "The salaries are in the vault."}


@pytest.fixture(autouse=True)
async def english_words() -> None:
    await prepare_english_words()


@pytest.fixture
async def library(store: Store, embedder: WordEmbedder) -> KnowledgeLibrary:
    await read_and_fill(DictSource("fruit", dict(PAGES)), store, embedder, SyncOptions(200))
    await read_and_fill(DictSource("tools", dict(SECRET)), store, embedder, SyncOptions(200))
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    return library


async def correct(text: str, library: KnowledgeLibrary) -> str:
    return await correct_spelling(text, library, Budget(BudgetSettings()))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("How do I use markdwon?", "How do I use markdown?"),
        ("Pagniation of articels", "pagination of articles"),
        ("which tempaltes?", "which templates?"),
        # The first two letters, too.
        ("amrkdown", "markdown"),
    ],
)
async def test_a_word_that_no_passage_has_is_read_as_its_neighbour(
    typed: str, meant: str, library: KnowledgeLibrary
) -> None:
    assert await correct(typed, library) == meant


@pytest.mark.parametrize(
    "text",
    ["How do I use markdown for pages?", "Where is the `markdwon` option?", "Is there a zeppelin?", "怎么安装？", ""],
)
async def test_what_is_known_code_or_far_from_every_word_stays(text: str, library: KnowledgeLibrary) -> None:
    assert await correct(text, library) == text


@pytest.mark.parametrize(
    "text",
    [
        "Wie stelle ich eine Datei wieder her?",
        "Wie schließe ich Ordner aus?",
        "Ordner ausschließen",
        "Server startet nicht",
        "Installation unter Windows starten",
        "Comment exclure des dossiers ?",
        "¿Cómo restauro los archivos?",
        "Jak obnovím soubor server ze zálohy?",
        "Как восстановить server из архива?",
    ],
)
async def test_words_of_other_languages_are_no_typing_errors(text: str, store: Store, embedder: WordEmbedder) -> None:
    pages = {f"{number}.md": "The date, the order, a soubot; exclude, started, restaura." for number in range(3)}
    await read_and_fill(DictSource("fruit", pages), store, embedder, SyncOptions(200))
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    assert await correct("ordre of the soubto", library) == "order of the soubot"
    assert await correct(text, library) == text


async def test_the_most_frequent_neighbour_is_meant_and_no_typing_error_of_a_page(
    store: Store, embedder: WordEmbedder
) -> None:
    pages = {
        "1.md": "The plugin reads feeds.",
        "2.md": "Every plugin has a name.",
        "3.md": "Another plugins folder; the plugim is off. Forms and a farm.",
        "4.md": "The forms of a page.",
    }
    await read_and_fill(DictSource("fruit", pages), store, embedder, SyncOptions(200))
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    assert await correct("plugiin", library) == "plugin"
    assert await correct("plugimm", library) == "plugimm", "one passage alone has it, and no dictionary"
    assert await correct("frams", library) == "frams"
    assert await correct("fomrs", library) == "forms"


@pytest.mark.parametrize("name", ["samba", "theme"])
async def test_an_english_word_is_no_typing_error(name: str, store: Store, embedder: WordEmbedder) -> None:
    await read_and_fill(
        DictSource("fruit", {"1.md": "mamba there", "2.md": "mamba there"}), store, embedder, SyncOptions(200)
    )
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    assert await correct(f"does it work with {name}?", library) == f"does it work with {name}?"


async def test_words_of_sources_that_the_asker_may_not_read_are_unknown(library: KnowledgeLibrary) -> None:
    assert await correct("salareis", library) == "salaries"
    assert await correct("salareis", library.restricted_to(["fruit"])) == "salareis"


async def test_the_search_is_for_the_corrected_words(library: KnowledgeLibrary) -> None:
    configuration = settings()
    deps = AnswerDependencies(configuration, library, OrderKeeper(), None, Prompts.read(), REWRITES)
    result = await search("markdwon metadtaa", deps, Budget(configuration.budget))
    assert result.query == "markdown metadata"
    assert result.passages[0].path == "markdown.md"


async def test_a_store_that_fails_leaves_the_question_as_it_is(
    library: KnowledgeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(words: Collection[str]) -> Mapping[str, float]:
        raise StoreError("the store is gone")

    monkeypatch.setattr(library, "count_words", fail)
    budget = Budget(BudgetSettings())
    assert await correct_spelling("markdwon", library, budget) == "markdwon"
    assert budget.degraded == ["spelling"]
