"""Many sources: each failure is its own, and questions see what is done while the rest is still read."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import StoreError
from core.settings import FilesSource, GitSource, SourceSettings
from knowledge.library import KnowledgeLibrary
from knowledge.locks import make_data_dir, refresh_lock
from knowledge.ports import Store
from knowledge.refresh import Refreshed, refresh_sources
from knowledge.sync import refresh
from tests.knowledge.conftest import DictSource, WordEmbedder
from tests.knowledge.test_library import settings


def folder(path: Path, *texts: str, **more: object) -> FilesSource:
    path.mkdir()
    for number, text in enumerate(texts):
        (path / f"{number}.md").write_text(text, "utf-8")
    return FilesSource.model_validate({"kind": "files", "path": path, **more})


async def test_a_source_that_cannot_even_be_opened_does_not_stop_the_others(
    tmp_path: Path, store: Store, embedder: WordEmbedder
) -> None:
    sources: dict[str, SourceSettings] = {
        "glob": folder(tmp_path / "a", "apple", exclude=["!"]),
        "branch": GitSource(kind="git", url="https://example.org/x.git", branch="-x"),
        "good": folder(tmp_path / "b", "banana"),
    }
    done = await refresh_sources(sources, (), store, embedder, tmp_path, chunk_tokens=200)
    assert [report.name for report in done.reports] == ["good"]
    assert "glob" in done.failures["glob"]
    assert "'-x'" in done.failures["branch"]


async def test_news_come_with_every_change_and_at_the_end(tmp_path: Path, store: Store, embedder: WordEmbedder) -> None:
    sources = {"fruit": folder(tmp_path / "a", "apple"), "tools": folder(tmp_path / "b", "hammer")}
    held: list[list[int]] = []

    async def news() -> None:
        held.append([len(await store.vectors(name)) for name in sources])

    async def run() -> Refreshed:
        held.clear()
        return await refresh_sources(sources, (), store, embedder, tmp_path, chunk_tokens=200, news=news)

    await run()
    assert [1, 0] in held, "the first source could be asked before the second was read"
    assert held[-1] == [1, 1]
    await run()
    assert held == [[1, 1]]
    (tmp_path / "a" / "new.md").write_text("pear", "utf-8")
    await run()
    assert held == [[2, 1], [2, 1]]


async def test_questions_find_the_first_batch_of_a_source_that_is_still_read(
    store: Store, embedder: WordEmbedder
) -> None:
    library = KnowledgeLibrary(settings(), store, embedder)
    await library.load()
    seen: list[tuple[int, list[str]]] = []

    async def first_batch() -> None:
        await library.reload()
        seen.append((len(await store.manifest("fruit")), [agent.name for agent in await library.route("apple")]))

    fruit = DictSource("fruit", {f"{number}.md": f"An apple, number {number}." for number in range(600)})
    for _ in range(2):
        await refresh(fruit, store, embedder, chunk_tokens=200, first_batch=first_batch, batch_passages=200)
        fruit.texts["0.md"] += " It is red."
    assert len(seen) == 1, "once, and only for a source that held nothing"
    documents, agents = seen[0]
    assert 0 < documents < 600
    assert agents == ["cook"]


@pytest.mark.parametrize("below", ["", "data"])
def test_a_data_directory_that_is_a_file_or_below_one_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"data_dir .*file.* cannot be used: .*choose a folder"):
        make_data_dir(tmp_path / "file" / below)
    with pytest.raises(StoreError, match="data_dir"), refresh_lock(tmp_path / "file" / below):
        pytest.fail("locked nothing")
