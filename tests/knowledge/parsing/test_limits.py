"""Documents that were made to stop a daemon: each is bounded, named, and stops no others."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import openpyxl
import psutil
import pytest

from core.errors import SourceError
from core.settings import FaqSource, FilesSource, GitSource, ParsingSettings
from knowledge.chunking import chunk_and_tokenize
from knowledge.formats import read_document
from knowledge.formats.html import read_page
from knowledge.formats.question_pairs import read_entries
from knowledge.ingestion.sync import SyncOptions, refresh
from knowledge.parsing.limits import FormatError
from knowledge.parsing.pool import WorkerPool
from knowledge.ports import Document, Store
from knowledge.sources.factory import open_source
from knowledge.sources.feed.parsing import parse_entries, parse_new_entries
from knowledge.sources.website.sitemaps import parse_sitemap
from tests.support.bombs import author_feed, make_docx, rewrite, wide_docx
from tests.support.deployment import commit, make_repository

pytestmark = pytest.mark.slow

MAX_LOOP_S = 1.0
MAX_MEMORY_BYTES = 300 << 20
# Low, so that the tests are quick: what needs more than a document of its size should is refused.
LIMITS = ParsingSettings(workers=1, cpu_s=1, wall_s=60)
# A worker ends within a second more than it may take: here after one second in all, which each bomb costs.
LOWEST_LIMITS = LIMITS.model_copy(update={"cpu_s": 0})


def long_docx() -> bytes:
    return rewrite(
        make_docx(), "word/document.xml", lambda text: text.replace("<w:p>", "<w:p/>" * 1_600_000 + "<w:p>", 1)
    )


def wide_xlsx() -> bytes:
    workbook = openpyxl.Workbook()
    buffer = io.BytesIO()
    workbook.active["A1"] = "first"
    workbook.active["XFD1048576"] = "last"
    workbook.save(buffer)
    return buffer.getvalue()


def markdown(text: str) -> tuple[Any, ...]:
    return chunk_and_tokenize, Document("a.md", text, "markdown"), 200, 10_000


# A function among the arguments makes what is passed: when tests are collected that would take each worker its time.
BOMBS: dict[str, tuple[Any, ...]] = {
    "docx with a wide cell": (read_document, "a.docx", "docx", wide_docx),
    "docx of empty paragraphs": (read_document, "a.docx", "docx", long_docx),
    "xlsx with a far cell": (read_document, "a.xlsx", "xlsx", wide_xlsx),
    "AsciiDoc of backticks": (read_document, "a.adoc", "asciidoc", b"a```\n``" * 12_000),
    "AsciiDoc of fences": (read_document, "a.adoc", "asciidoc", b"```\n" * 20_000 + b"```x"),
    "HTML of line breaks": (read_document, "a.html", "html", b"<br>y" * 800_000),
    "HTML page of line breaks": (read_page, b"<br>y" * 800_000, "https://example.org/"),
    "HTML of cells": (read_page, b"<table><tr>" + b"<td>x" * 100_000, "https://example.org/"),
    "feed of newlines": (parse_entries, author_feed("\n" * 50_000), 100),
    "feed of newlines before anything": (parse_new_entries, b"\n" * 50_000 + author_feed("a"), "u", ["x"]),
    "feed with a long author": (parse_new_entries, author_feed("a" * 50_000), "u", ["x"]),
    "feed with an author of brackets": (parse_entries, author_feed("(" * 50_000), 100),
    "sitemap that unpacks": (
        parse_sitemap,
        lambda: gzip.compress(b"<urlset>" + b"<a/>" * (50 << 18)),
        "https://example.org/",
        1000,
    ),
    "Markdown heading of backticks": markdown("# " + "`" * 60_000),
    "Markdown heading of brackets": markdown("# " + "[" * 60_000),
    "Markdown heading of blanks": markdown("# " + "\t" * 60_000 + "x"),
    "FAQ of lists": (read_entries, "a.json", b"[" + b"[]," * 1_000_000 + b"[]]"),
    "FAQ that is deep": (read_entries, "a.json", b"[" * 1_000_000),
    "notebook that is deep": (read_document, "a.ipynb", "notebook", b"[" * 1_000_000),
}


@asynccontextmanager
async def watched() -> AsyncIterator[dict[str, float]]:
    """Measure the processor time of this process in all, and how much memory it and its children take at most."""
    figures = {"cpu": 0.0, "memory": 0.0}
    watching_s = 0.0

    async def watch() -> None:
        nonlocal watching_s
        while True:
            await asyncio.sleep(0.05)
            # Looking for the children costs more than what is measured.
            looked_at = time.process_time()
            figures["memory"] = max(figures["memory"], get_memory() - before)
            watching_s += time.process_time() - looked_at

    def get_memory() -> float:
        process = psutil.Process()
        total = 0.0
        for each in (process, *process.children()):
            try:
                total += each.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total

    before = get_memory()
    started_at = time.process_time()
    task = asyncio.create_task(watch())
    try:
        yield figures
    finally:
        task.cancel()
        figures["cpu"] = time.process_time() - started_at - watching_s


@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb_is_bounded(name: str) -> None:
    function, *arguments = BOMBS[name]
    arguments = [argument() if callable(argument) else argument for argument in arguments]
    async with WorkerPool(LOWEST_LIMITS) as pool, watched() as figures:
        with suppress(FormatError):
            await pool.run(function, *arguments)
        # On a busy machine a worker needs all of that second to load what it reads a document with.
        pool._settings = LIMITS
        pool._stop_idle()
        assert await pool.run(read_document, "good.md", "markdown", b"Good.") == ("Good.", "markdown")
    assert figures["cpu"] < MAX_LOOP_S
    assert figures["memory"] < MAX_MEMORY_BYTES


def get_worked_s() -> float:
    """Return the processor time of the workers of this process that are alive, and of all that have ended."""
    ended = os.times()
    worked_s = ended.children_user + ended.children_system
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            worked_s += times.user + times.system
    return worked_s


async def test_one_bomb_among_documents_is_named_until_it_changes(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "bomb.docx").write_bytes(long_docx())
    (folder / "good.md").write_text("# Good\n\nText.")
    settings = FilesSource(kind="files", path=folder)
    async with WorkerPool(LIMITS) as pool:
        source = open_source("docs", settings, tmp_path, parser=pool)
        report = await refresh(source, store, SyncOptions(200, parser=pool))
        assert report.added == 2
        assert report.passages == 1
        assert list(report.unreadable) == ["bomb.docx"]
        reason = report.unreadable["bomb.docx"]
        # Nothing changed: it is not tried again, and still named.
        worked_s = get_worked_s()
        report = await refresh(source, store, SyncOptions(200, parser=pool, known_unreadable=report.unreadable))
        assert get_worked_s() - worked_s < LIMITS.cpu_s
        assert report.unreadable == {"bomb.docx": reason}
        (folder / "bomb.docx").write_bytes(make_docx())
        report = await refresh(source, store, SyncOptions(200, parser=pool, known_unreadable=report.unreadable))
        assert report.unreadable == {}
        assert report.passages == 2


async def test_a_faq_beyond_a_limit_is_named_and_stops_nothing(tmp_path: Path) -> None:
    file = tmp_path / "faq.yaml"
    file.write_bytes(b"- {q: a, a: b}\n" * 300_000)
    async with WorkerPool(ParsingSettings(workers=1, cpu_s=1)) as pool, watched() as figures:
        source = open_source("faq", FaqSource(kind="faq", path=file), tmp_path, parser=pool)
        with pytest.raises(SourceError, match=r"source faq: .*faq\.yaml: it takes more than 1 s of processor time"):
            await source.listing()
        file.write_bytes(b"- {q: How?, a: So.}")
        assert len((await source.listing()).fingerprints) == 1
    assert figures["cpu"] < MAX_LOOP_S


def make_tree_bomb(folder: Path, depth: int) -> None:
    """Commit a tree whose folders are the same one ten times, `depth` times over: ten to its power paths."""

    def git(*arguments: str, text: str = "") -> str:
        return subprocess.run(
            ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    git("init", "--quiet")
    blob = git("hash-object", "-w", "--stdin", text="text")
    tree = git("mktree", text="".join(f"100644 blob {blob}\t{number}.md\n" for number in range(10)))
    for _ in range(depth - 1):
        tree = git("mktree", text="".join(f"040000 tree {tree}\t{number}\n" for number in range(10)))
    commit = git("commit-tree", tree, "-m", "bomb")
    git("update-ref", "HEAD", commit)


async def test_a_repository_that_unpacks_into_millions_of_paths_is_refused(tmp_path: Path) -> None:
    make_tree_bomb(tmp_path, 9)
    source = open_source("repo", GitSource(kind="git", url=str(tmp_path), max_documents=1000), tmp_path / "data")
    async with watched() as figures:
        with pytest.raises(SourceError, match=r"lists more than 16 MB of paths.* raise max_documents"):
            await source.listing()
    assert figures["cpu"] < MAX_LOOP_S
    assert figures["memory"] < MAX_MEMORY_BYTES


async def test_a_file_of_zeros_passes_through_git_in_pieces(tmp_path: Path) -> None:
    """It takes no room in the repository; git would unpack it in memory as a whole."""
    repository = tmp_path / "repository"
    largest_bytes = 0
    make_repository(repository)
    with (repository / "zeros.md").open("wb") as file:
        file.truncate(180 << 20)
    commit(repository, {})
    source = open_source("repo", GitSource(kind="git", url=f"file://{repository}"), tmp_path / "data")
    listing = asyncio.create_task(source.listing())
    while not listing.done():
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                # Not the other side of the connection, which is here as well.
                if {"unpack-objects", "index-pack"} & set(child.cmdline()):
                    largest_bytes = max(largest_bytes, child.memory_info().rss)
        await asyncio.sleep(0.01)
    assert listing.result().skipped == {"larger than max_file_kb": 1}
    assert 0 < largest_bytes < MAX_MEMORY_BYTES // 2


async def test_files_beyond_the_limits_of_a_source_are_counted(tmp_path: Path) -> None:
    make_tree_bomb(tmp_path, 2)
    source = open_source("repo", GitSource(kind="git", url=str(tmp_path), max_documents=30), tmp_path / "data")
    listing = await source.listing()
    assert (len(listing.fingerprints), listing.skipped) == (30, {"beyond max_documents": 70})
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.md").write_text("x" * 600_000)
    files = open_source("files", FilesSource(kind="files", path=folder, max_total_mb=2), tmp_path)
    listing = await files.listing()
    assert (len(listing.fingerprints), listing.skipped) == (3, {"beyond max_total_mb": 1})
