from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from core.errors import StoreError, StoreLocked
from core.language.tokens import query_tokens
from core.runtime.locks import DAEMON_LOCK, REFRESH_LOCK, daemon_lock, refresh_lock
from knowledge.ingestion.sync import SyncOptions, SyncProgress, SyncReport, make_passage_id, refresh
from knowledge.ports import Document, Listing, PassageRow, Store
from tests.support import forked
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill

Markdown = Callable[..., str]


@dataclass
class PrintedSource(DictSource):
    """Yields documents that have pages."""

    url: str = ""
    pages: tuple[int, ...] = ()

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        async for document in super().documents(listing, paths):
            yield replace(document, url=self.url, pages=self.pages)


def counts(report: SyncReport) -> tuple[int, int, int, int]:
    return report.added, report.updated, report.deleted, report.unchanged


async def run(source: DictSource, store: Store, embedder: WordEmbedder, tokens: int = 200) -> SyncReport:
    embedder.embedded.clear()
    source.read.clear()
    return await read_and_fill(source, store, embedder, SyncOptions(tokens))


async def texts_in(store: Store, source: str, word: str) -> list[str]:
    return [passage.text for passage in await store.search(query_tokens(word), None, [source], 100)]


async def test_only_what_changed_is_read_and_embedded(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Markdown
) -> None:
    source.texts = {"a.md": markdown("apple", "pear"), "b.md": markdown("banana"), "c.md": markdown("cherry")}
    report = await run(source, store, embedder)
    assert counts(report) == (3, 0, 0, 0)
    assert report.passages == len(embedder.embedded) == len(await store.vectors("docs"))
    assert (report.name, report.skipped, report.stale) == ("docs", {"binary": 2}, "")
    assert report.seconds > 0
    all_passages = report.passages

    report = await run(source, store, embedder)
    assert counts(report) == (0, 0, 0, 3)
    assert (report.passages, embedder.embedded, source.read) == (all_passages, [], [])

    source.texts |= {"b.md": markdown("blueberry"), "d.md": markdown("date")}
    del source.texts["c.md"]
    report = await run(source, store, embedder)
    assert counts(report) == (1, 1, 1, 1)
    assert sorted(source.read) == ["b.md", "d.md"]
    assert len(embedder.embedded) == 2
    assert report.passages == len(await store.vectors("docs"))
    assert await texts_in(store, "docs", "banana") == await texts_in(store, "docs", "cherry") == []
    assert len(await texts_in(store, "docs", "blueberry")) == len(await texts_in(store, "docs", "date")) == 1


async def test_a_document_that_got_shorter_loses_its_last_passages(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Markdown
) -> None:
    source.texts = {"a.md": markdown("apple", "pear", "plum")}
    assert (await run(source, store, embedder, 50)).passages > (
        await run(DictSource("docs", {"a.md": markdown("apple")}), store, embedder, 50)
    ).passages
    assert await texts_in(store, "docs", "plum") == []


async def test_another_chunk_size_cuts_everything_again(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Markdown
) -> None:
    source.texts = {"a.md": markdown("apple"), "b.md": markdown("banana")}
    coarse = await run(source, store, embedder, 400)
    fine = await run(source, store, embedder, 50)
    assert counts(fine) == (0, 2, 0, 0)
    assert fine.passages > coarse.passages
    assert len(await store.vectors("docs")) == fine.passages


async def test_passages_know_their_place(source: DictSource, store: Store, embedder: WordEmbedder) -> None:
    source.texts = {"guide/set_up.md": "# Install\n\nRun the installer.\n"}
    await run(source, store, embedder)
    (passage,) = await store.search(query_tokens("installer"), None, ["docs"], 5)
    assert passage.id == make_passage_id("docs", "guide/set_up.md", 0)
    assert (passage.source, passage.path, passage.kind) == ("docs", "guide/set_up.md", "markdown")
    assert "Install" in passage.title
    assert passage.url == f"https://x.org/guide/set_up.md#L{passage.start_line}-L{passage.end_line}"
    # Words of the path are found too, and the embedder sees the title.
    assert len(await store.search(query_tokens("guide"), None, ["docs"], 5)) == 1
    assert embedder.embedded == [f"{passage.title}\n{passage.text}"]


@pytest.mark.parametrize("url", ["https://x.org/a.pdf", "https://x.org/a.pdf#L{start}-L{end}", ""])
async def test_a_printed_passage_is_found_by_its_page(url: str, store: Store, embedder: WordEmbedder) -> None:
    text = f"# Install\n\nRun the installer.\n\n# Back up\n\n{'Copy it. ' * 200}"
    source = PrintedSource("docs", {"a.pdf": text}, url=url, pages=(1, 1, 4, 4, 5, 5, 5))
    await run(source, store, embedder)
    found = await store.search(query_tokens("copy"), None, ["docs"], 9)
    assert {passage.url for passage in found} == {"https://x.org/a.pdf#page=5" if url else ""}
    assert all(("(PDF page 5)" in passage.title) != bool(url) for passage in found)


async def test_only_neighbours_touch(source: DictSource, store: Store, embedder: WordEmbedder) -> None:
    """The blank lines below a passage are its own; of a line that several share, none has the place."""
    source.kind = "text"
    long_line = " ".join(f"word{number}" for number in range(600))
    source.texts = {
        "a.txt": f"alpha first\n{'x ' * 300}\n\n\nalpha second\n{'y ' * 300}\nalpha {long_line}\nalpha last"
    }
    await run(source, store, embedder, tokens=60)
    found = await store.search(query_tokens("alpha"), None, ["docs"], 100)
    pieces = sorted({passage.start_line: passage for passage in found}.values(), key=lambda piece: piece.start_line)
    assert [(piece.start_line, piece.end_line) for piece in pieces] == [(0, 0), (1, 1), (5, 5), (8, 8)]


async def test_every_title_says_which_edition_it_is_of(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Markdown
) -> None:
    source.edition = "v1"
    source.texts = {"a.md": markdown("apple", "pear")}
    await run(source, store, embedder)
    titles = [passage.title for passage in await store.search(query_tokens("apple pear"), None, ["docs"], 9)]
    assert len(titles) > 1
    assert all(title.endswith(" (v1)") for title in titles)


async def test_empty_documents_are_read_once(source: DictSource, store: Store, embedder: WordEmbedder) -> None:
    source.texts = {"empty.md": "", "blank.md": "\n\n", "a.md": "apple"}
    assert counts(await run(source, store, embedder)) == (3, 0, 0, 0)
    report = await run(source, store, embedder)
    assert (counts(report), report.passages, source.read) == ((0, 0, 0, 3), 1, [])
    source.texts["empty.md"] = "filled"
    report = await run(source, store, embedder)
    assert (counts(report), report.passages) == ((0, 1, 0, 2), 2)
    source.texts = {"a.md": ""}
    report = await run(source, store, embedder)
    assert (counts(report), report.passages) == ((0, 1, 2, 0), 0)


async def test_only_deletions(source: DictSource, store: Store, embedder: WordEmbedder) -> None:
    source.texts = {"a.md": "apple", "b.md": "banana"}
    await run(source, store, embedder)
    source.texts = {}
    report = await run(source, store, embedder)
    assert (counts(report), report.passages, await store.manifest("docs")) == ((0, 0, 2, 0), 0, {})


async def test_a_vanished_document_keeps_what_was_known_until_it_is_unlisted(
    source: DictSource, store: Store, embedder: WordEmbedder
) -> None:
    source.texts = {"a.md": "apple", "b.md": "banana"}
    await run(source, store, embedder)
    source.texts = {"a.md": "apricot", "b.md": "banana", "c.md": "cherry"}
    source.vanished = ["a.md", "c.md"]
    report = await run(source, store, embedder)
    assert (counts(report), report.passages) == ((0, 0, 0, 1), 2)
    assert await texts_in(store, "docs", "apple") == ["apple"]


async def test_sources_do_not_touch_each_other(store: Store, embedder: WordEmbedder) -> None:
    await run(DictSource("one", {"a.md": "apple"}), store, embedder)
    await run(DictSource("two", {"a.md": "banana"}), store, embedder)
    await run(DictSource("one", {}), store, embedder)
    assert await texts_in(store, "two", "banana") == ["banana"]


async def test_staleness_is_passed_on(source: DictSource, store: Store, embedder: WordEmbedder) -> None:
    source.stale = "the remote cannot be reached"
    assert (await run(source, store, embedder)).stale == "the remote cannot be reached"


async def test_progress_is_told(source: DictSource, store: Store, markdown: Markdown) -> None:
    source.texts = {f"{number}.md": markdown(*["apple"] * 8) for number in range(100)}
    progresses: list[SyncProgress] = []
    report = await refresh(source, store, SyncOptions(200, on_progress=progresses.append))
    assert [progresses[0].stage, progresses[-1].stage] == ["listing", "done"]
    assert len([progress for progress in progresses if progress.stage == "reading"]) > 3
    assert [progress.documents_done for progress in progresses] == sorted(
        progress.documents_done for progress in progresses
    )
    assert (progresses[-1].documents_done, progresses[-1].documents_total, progresses[-1].passages) == (
        100,
        100,
        report.passages,
    )


class Interrupted:
    """Hands everything on to a store, and does something before its n-th batch is written."""

    def __init__(self, store: Store, batch: int, action: Callable[[], None]) -> None:
        self._store = store
        self._remaining_calls = batch
        self._action = action
        self.manifest = store.manifest
        self.rows = store.rows
        self.search = store.search
        self.term_weights = store.term_weights
        self.vectors = store.vectors
        self.optimize = store.optimize
        self.close = store.close

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        self._remaining_calls -= 1
        if self._remaining_calls == 0:
            self._action()
        await asyncio.sleep(0)
        await self._store.replace(source, paths, rows, empty)


def full() -> None:
    raise StoreError("no space")


async def test_a_failed_write_keeps_the_batches_before_it(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Markdown
) -> None:
    source.texts = {f"{number}.md": markdown("apple", "pear") for number in range(300)}
    with pytest.raises(StoreError, match="no space"):
        await refresh(source, Interrupted(store, 3, full), SyncOptions(200, batch_passages=150))
    manifest = await store.manifest("docs")
    per_document = {stored_document.passage_count for stored_document in manifest.values()}
    assert 0 < len(manifest) < 300
    assert len(per_document) == 1
    report = await run(source, store, embedder)
    assert counts(report) == (300 - len(manifest), 0, 0, len(manifest))
    assert len(embedder.embedded) == 300 * per_document.pop(), "each passage once"
    assert report.passages == len(await store.vectors("docs"))


async def test_a_cancelled_refresh_leaves_whole_documents(
    source: DictSource, store: Store, embedder: WordEmbedder, markdown: Markdown
) -> None:
    source.texts = {f"{number}.md": markdown("apple", "pear") for number in range(300)}
    tasks: list[asyncio.Task[SyncReport]] = []
    interrupted = Interrupted(store, 2, lambda: tasks[0].cancel() and None)
    tasks.append(asyncio.create_task(refresh(source, interrupted, SyncOptions(200, batch_passages=150))))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    manifest = await store.manifest("docs")
    assert 0 < len(manifest) < 300
    assert len({stored_document.passage_count for stored_document in manifest.values()}) == 1
    report = await run(source, store, embedder)
    assert (report.added, report.passages) == (300 - len(manifest), len(await store.vectors("docs")))


def test_passage_ids_are_the_same_everywhere() -> None:
    assert make_passage_id("docs", "a.md", 0) == "da877f89e6844e4b"
    other_documents = {
        make_passage_id("docs", "a.md", 1),
        make_passage_id("docs", "b.md", 0),
        make_passage_id("code", "a.md", 0),
    }
    assert len(other_documents | {make_passage_id("docs", "a.md", 0)}) == 4


def test_the_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    directory = tmp_path / "not there yet"
    with refresh_lock(directory), pytest.raises(StoreLocked, match=REFRESH_LOCK), refresh_lock(directory):
        pytest.fail("two at a time")
    with refresh_lock(directory):
        assert (directory / REFRESH_LOCK).exists()


def test_a_daemon_and_a_refresh_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with daemon_lock(tmp_path), refresh_lock(tmp_path), pytest.raises(StoreLocked) as error_info, daemon_lock(tmp_path):
        pytest.fail("two daemons")
    assert str(tmp_path / DAEMON_LOCK) in str(error_info.value)
    assert "its own data_dir" in str(error_info.value)
    with daemon_lock(tmp_path):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from core.runtime.locks import refresh_lock
with refresh_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


async def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    holder = await forked.start_piped(HOLDER, str(tmp_path))
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    with pytest.raises(StoreLocked, match="another process is refreshing"), refresh_lock(tmp_path):
        pytest.fail("two at a time")
    os.kill(holder.pid, signal.SIGKILL)
    await holder.communicate()
    with refresh_lock(tmp_path):
        pass


def test_a_lock_file_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"), refresh_lock(tmp_path / "file"):
        pytest.fail("locked nothing")
