"""Sources of other packages: the documented one is installed and searched, broken ones are named and harm nobody."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import OwnSource
from core.settings.loader import load_settings
from knowledge.ingestion.sync import SyncOptions, SyncReport, refresh
from knowledge.ports import Source, Store
from knowledge.sources.factory import open_source
from knowledge.sources.plugin import find_plugin
from tests.support.plugins import install

Update = Callable[[OwnSource], Awaitable[SyncReport]]
PAGE = Path(__file__).parents[3] / "docs/sources.md"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def update(store: Store, tmp_path: Path) -> Update:
    async def run(settings: OwnSource) -> SyncReport:
        source = open_source("own", settings, tmp_path / "data")
        return await refresh(source, store, SyncOptions(200))

    return run


async def test_the_documented_example_is_installed_ingested_and_found(
    packages: Path, tmp_path: Path, store: Store
) -> None:
    page = PAGE.read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    match = re.search(r"\[project.entry-points.\"kimas.sources\"\]\n([\w-]+) = \"([\w.]+):(\w+)\"", page)
    configured = re.search(r"```yaml\n# own.yaml\n(.*?)```", page, re.DOTALL)
    assert code
    assert match
    assert configured
    assert len(code[1].strip().splitlines()) <= 20
    install(packages, match[2], code[1], **{match[1]: match[3]})
    terms = tmp_path / "glossary.json"
    terms.write_text(json.dumps({"centroid": "The middle of many vectors.", "passage": "A piece of a document."}))
    file = tmp_path / "kimas.yaml"
    file.write_text(configured[1].replace("/srv/kimas/glossary.json", str(terms)))
    settings = load_settings([file], (), {}).sources["terms"]

    async def update() -> SyncReport:
        return await refresh(open_source("terms", settings, tmp_path), store, SyncOptions(200))

    report = await update()
    assert (report.added, report.passages) == (2, 2)
    (passage,) = await store.search("centroid", None, ["terms"], 5)
    assert (passage.path, passage.title, passage.text) == ("centroid", "centroid", "The middle of many vectors.")
    terms.write_text(json.dumps({"centroid": "The middle of some vectors."}))
    report = await update()
    assert (report.updated, report.deleted) == (1, 1)
    assert (await update()).unchanged == 1


BROKEN = """
import asyncio
from knowledge.ports import Document, Listing
from core.errors import SourceError

class Good:
    def __init__(self, name, options, data_dir):
        assert data_dir.is_dir()
        (data_dir / "state").touch()
        self.name, self.options = name, options

    async def listing(self):
        return Listing({"a": "1", "b": "1"})

    async def documents(self, listing, paths):
        for path in paths:
            yield Document(path, f"good text {path}", "text")

class Starts(Good):
    def __init__(self, name, options, data_dir):
        raise RuntimeError("cannot start")

class Raises(Good):
    async def listing(self):
        raise RuntimeError("cannot list")

class Tells(Good):
    async def listing(self):
        raise SourceError("the wiki is away")

class Hangs(Good):
    async def listing(self):
        await asyncio.Event().wait()

class Talks(Good):
    async def listing(self):
        return ["a"]

class Numbers(Good):
    async def listing(self):
        return Listing({"a": 1})

class Surrogates(Good):
    async def listing(self):
        return Listing({"a\\ud800": "1"})

class Empty(Good):
    async def listing(self):
        return Listing({})

class Exits(Good):
    def __init__(self, name, options, data_dir):
        raise SystemExit("no licence")

class Leaves(Good):
    async def listing(self):
        raise SystemExit(3)

class Cancels(Good):
    async def listing(self):
        asking = asyncio.ensure_future(asyncio.sleep(9))
        asking.cancel()
        await asking

class Counts(Good):
    async def listing(self):
        return Listing({"a": "1"}, skipped={"too large": None})

class Dated(Good):
    async def listing(self):
        return Listing({"a": "1"}, stale=7)

class Changed(Good):
    async def listing(self):
        return Listing({"a": "2", "b": "2", "c": "2"})

class Breaks(Changed):
    async def documents(self, listing, paths):
        yield Document("a", "newer text", "text")
        raise ValueError("lost the rest")

class Stalls(Changed):
    async def documents(self, listing, paths):
        await asyncio.Event().wait()
        yield

class Gives_up(Changed):
    async def documents(self, listing, paths):
        raise asyncio.CancelledError
        yield

class Strange(Changed):
    async def documents(self, listing, paths):
        yield {"path": "a"}

class Untold(Changed):
    async def documents(self, listing, paths):
        yield Document("zzz", "x", "text")

class Twice(Changed):
    async def documents(self, listing, paths):
        yield Document("a", "x", "text")
        yield Document("a", "x", "text")

class Bytes(Changed):
    async def documents(self, listing, paths):
        yield Document("a", b"x", "text")

class Plain(Changed):
    def documents(self, listing, paths):
        return [Document("a", "x", "text")]

class Iterator(Good):
    def documents(self, listing, paths):
        return Walk(paths)

class Walk:
    def __init__(self, paths):
        self.left = list(paths)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.left:
            raise StopAsyncIteration
        return Document(self.left.pop(), "walked text", "text")
"""
LISTS = {
    "Starts": "RuntimeError: cannot start",
    "Raises": "RuntimeError: cannot list",
    "Tells": "the wiki is away",
    "Hangs": "no answer within 1 s",
    "Talks": "TypeError: it returned a list in place of a Listing",
    "Numbers": "TypeError: it listed a path or a fingerprint that is no text",
    "Surrogates": "UnicodeEncodeError",
    "Empty": "ValueError: it lists nothing",
    "Missing": "AttributeError",
    "Exits": "SystemExit: no licence",
    "Leaves": "SystemExit: 3",
    "Cancels": "CancelledError",
    "Counts": "TypeError: it listed something as skipped that is no number by its reason",
    "Dated": "TypeError: its listing says as stale or revision what is no text",
}
READS = {
    "Breaks": "ValueError: lost the rest",
    "Stalls": "no answer within 1 s",
    "Gives_up": "CancelledError",
    "Strange": "TypeError: it returned a dict in place of a Document",
    "Untold": "ValueError: it returned 'zzz', which was not asked for or came twice",
    "Twice": "which was not asked for or came twice",
    "Bytes": "TypeError: it returned a document whose text is a bytes",
    "Plain": "TypeError",
}


@pytest.fixture
def broken_plugin(packages: Path) -> Path:
    names = ("Good", "Iterator", "Changed", *LISTS, *READS)
    install(packages, "broken_sources", BROKEN, **{name.lower(): name for name in names})
    return packages


def own(plugin: str) -> OwnSource:
    return OwnSource(kind="own", plugin=plugin.lower(), timeout_s=1 if plugin in ("Hangs", "Stalls") else 60)


@pytest.mark.parametrize(("plugin", "words"), (LISTS | READS).items())
async def test_one_that_breaks_is_named_and_loses_nothing(
    plugin: str, words: str, broken_plugin: Path, update: Update, store: Store
) -> None:
    await update(own("Good"))
    started_at = time.monotonic()
    step = "listing" if plugin in LISTS else "reading"
    with pytest.raises(SourceError) as error_info:
        await update(own(plugin))
    assert time.monotonic() - started_at < 30
    assert str(error_info.value).startswith(f"source own: its plug-in '{plugin.lower()}' failed in {step}: ")
    assert words in str(error_info.value)
    passages = await store.search("good", None, ["own"], 9)
    assert {passage.path for passage in passages} == {"a", "b"}
    report = await update(own("Good"))
    assert report.unchanged == 2


async def test_a_refresh_that_is_stopped_is_no_fault_of_the_plug_in(broken_plugin: Path, update: Update) -> None:
    refresh_task = asyncio.create_task(update(own("Hangs").model_copy(update={"timeout_s": 30})))
    await asyncio.sleep(0.1)
    refresh_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await refresh_task


@pytest.mark.parametrize("plugin", ["Good", "Iterator"])
async def test_one_that_works_has_a_folder_of_its_own(plugin: str, broken_plugin: Path, tmp_path: Path) -> None:
    source: Source = open_source("own", own(plugin), tmp_path / "data")
    assert not (tmp_path / "data").exists()
    listing = await source.listing()
    assert [document.path async for document in source.documents(listing, ["b"])] == ["b"]
    assert (tmp_path / "data/own/own/state").exists()


async def test_a_name_that_nobody_offers_is_told_with_the_known(broken_plugin: Path, tmp_path: Path) -> None:
    file = broken_plugin / "kimas.yaml"
    file.write_text("sources:\n  terms: {kind: own, plugin: wiki}\n")
    settings = load_settings([file], (), {}).sources["terms"]
    source = open_source("terms", settings, tmp_path)
    with pytest.raises(
        SourceError, match=r"'wiki' failed in listing: no installed package offers 'wiki' .*good"
    ) as error_info:
        await source.listing()
    assert "under kimas.sources" in str(error_info.value)
    assert find_plugin("good").name == "good"
