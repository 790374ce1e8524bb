"""What has not changed is not read again: what a change is, and what makes everything be read."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.settings import FilesSource
from core.version import get_version
from knowledge.ports import Document, Listing
from knowledge.sources.common import facts, file_facts
from knowledge.sources.common.file_facts import FileState, delete_file_facts
from knowledge.sources.files import FilesFolder

LONG_AGO = 1_000_000_000


class Folder:
    """A folder with pages, whose listings are those of processes that begin anew."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.path = root / "docs"
        self.read_paths: list[str] = []
        self.path.mkdir()

    def open(self, **settings: object) -> FilesFolder:
        return FilesFolder(
            "docs", FilesSource.model_validate({"kind": "files", "path": self.path, **settings}), self.data
        )

    async def list(self, **settings: object) -> Listing:
        self.read_paths.clear()
        return await self.open(**settings).listing()

    def write(self, name: str, text: str, *, at: int | None = LONG_AGO) -> Path:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        if at is not None:
            os.utime(file, (at, at))
        return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder whose listings say what they read, and take no wait to be sure of what was just written."""
    folder = Folder(tmp_path)
    read_bytes = FilesFolder._read_bytes

    def read(self: FilesFolder, path: str) -> bytes:
        folder.read_paths.append(path)
        return read_bytes(self, path)

    monkeypatch.setattr(FilesFolder, "_read_bytes", read)
    monkeypatch.setattr(file_facts, "_MAX_TICK_NS", 0)
    mount(tmp_path, monkeypatch, {"/": "ext4"})
    return folder


def mount(root: Path, monkeypatch: pytest.MonkeyPatch, systems: dict[str, str]) -> None:
    """Let the system have just these file systems, by where they are mounted."""
    lines = [f"22 27 0:21 / {point} rw,relatime shared:1 - {system} none rw" for point, system in systems.items()]
    (root / "mounts").write_text("\n".join(lines), "utf-8")
    monkeypatch.setattr(file_facts, "_MOUNTS", root / "mounts")


async def get_documents(source: FilesFolder) -> dict[str, Document]:
    listing = await source.listing()
    return {document.path: document async for document in source.documents(listing, listing.fingerprints)}


async def test_what_has_not_changed_is_not_read_again(folder: Folder) -> None:
    for name in ("a.md", "b.md", "sub/c.md"):
        folder.write(name, f"# {name}\n")
    folder.write("picture.md", "\0")
    (folder.path / "link.md").symlink_to("..data/config.md")
    folder.write("..data/config.md", "linked\n")
    first = await folder.list()
    assert sorted(folder.read_paths) == ["a.md", "b.md", "link.md", "picture.md", "sub/c.md"]
    assert await folder.list() == first
    assert folder.read_paths == []
    folder.write("b.md", "# B2\n")
    folder.write("d.md", "# d\n")
    (folder.path / "a.md").unlink()
    changed = await folder.list()
    assert (sorted(folder.read_paths), changed.skipped) == (["b.md", "d.md"], first.skipped)
    assert changed.fingerprints.keys() == {"b.md", "d.md", "link.md", "sub/c.md"}
    assert changed.fingerprints["b.md"] != first.fingerprints["b.md"]


def replace_with_old_times(file: Path) -> None:
    new = file.with_name("new")
    new.write_text("new", "utf-8")
    os.utime(new, (LONG_AGO, LONG_AGO))
    new.replace(file)


def rewrite_with_old_times(file: Path) -> None:
    file.write_text("new", "utf-8")
    os.utime(file, (LONG_AGO, LONG_AGO))


@pytest.mark.parametrize("change", [replace_with_old_times, rewrite_with_old_times])
async def test_a_time_that_was_set_back_hides_no_change(folder: Folder, change: Callable[[Path], None]) -> None:
    file = folder.write("a.md", "old")
    first = await folder.list()
    change(file)
    assert (file.stat().st_size, file.stat().st_mtime) == (3, LONG_AGO)
    assert (await folder.list()).fingerprints != first.fingerprints


async def test_a_file_that_was_just_written_is_read_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_facts, "_MAX_TICK_NS", 3 * 10**9)
    folder.write("a.md", "old")
    now = time.time_ns()
    await folder.list()
    await folder.list()
    assert folder.read_paths == ["a.md"]
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**10)
    await folder.list()
    await folder.list()
    assert folder.read_paths == []
    # The clock is set back: what is newer than now is not known to be old.
    monkeypatch.setattr(time, "time_ns", lambda: now - 10**10)
    await folder.list()
    assert folder.read_paths == ["a.md"]


@pytest.mark.parametrize(
    ("systems", "is_relied_on"),
    [
        ({}, True),
        ({"ROOT": "ext4", "ROOT/docs": "vfat"}, False),
        ({"ROOT": "vfat", "ROOT/docs": "btrfs"}, True),
        ({"ROOT/docs/sub": "nfs4"}, False),
        ({"ROOT/docs/with\\040blank": "fuse.sshfs"}, False),
        ({"ROOT/docs2": "cifs"}, True),
    ],
)
async def test_only_file_systems_that_note_each_change_are_relied_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, systems: dict[str, str], is_relied_on: bool
) -> None:
    """Elsewhere another text of the same length may come with the same times."""
    points = {point.replace("ROOT", str(tmp_path.resolve())): system for point, system in systems.items()}
    mount(tmp_path, monkeypatch, {"/": "ext4", **points})
    file = folder.write("a.md", "old")
    first = await folder.list()
    state = FileState.from_stat(file.stat())
    file.write_text("new", "utf-8")
    monkeypatch.setattr(FileState, "from_stat", classmethod(lambda *_: state))
    assert ((await folder.list()).fingerprints == first.fingerprints) == is_relied_on


async def test_a_time_in_the_future_is_never_relied_on(folder: Folder) -> None:
    folder.write("a.md", "old", at=10**10)
    await folder.list()
    await folder.list()
    assert folder.read_paths == ["a.md"]


async def test_a_page_changes_with_what_it_includes(folder: Folder) -> None:
    folder.write("page.md", '--8<-- "part.txt"\n--8<-- "later.txt"\n')
    folder.write("part.txt", "one\n")
    folder.write("other.md", "# Other\n")
    listings = [await folder.list()]
    assert await folder.list() == listings[0]
    assert folder.read_paths == []
    for name, text in (("part.txt", "two\n"), ("later.txt", "here\n")):
        folder.write(name, text)
        listings.append(await folder.list())
        assert "other.md" not in folder.read_paths
        assert listings[-1].fingerprints["page.md"] != listings[-2].fingerprints["page.md"]
    (folder.path / "later.txt").unlink()
    assert (await folder.list()).fingerprints["page.md"] == listings[1].fingerprints["page.md"]
    (folder.path / "part.txt").chmod(0o600)
    await folder.list()
    assert {"page.md", "part.txt"} <= set(folder.read_paths)


async def test_an_included_file_that_moved_outside_is_not_kept(folder: Folder, tmp_path: Path) -> None:
    folder.write("page.md", '--8<-- "shown/part.md"\n')
    folder.write("shown/part.md", "secret\n")
    first = await folder.list()
    (folder.path / "shown").rename(tmp_path / "outside")
    (folder.path / "shown").symlink_to(tmp_path / "outside")
    assert (await folder.list()).fingerprints["page.md"] != first.fingerprints["page.md"]


async def test_titles_of_pages_that_are_not_read_are_known(folder: Folder) -> None:
    folder.write("page.md", "{doc}`one`, [](two.md#part) and {ref}`here`\n")
    folder.write("one.md", "# Plan\n")
    folder.write("labels.rst", ".. _here:\n\nThe place\n=========\n")
    first = await get_documents(folder.open())
    again = await get_documents(folder.open())
    assert again == first
    assert first["page.md"].names == {"one": "Plan", "here": "The place"}
    listing = await folder.list()
    folder.write("one.md", "# Draft\n")
    changed = await folder.list()
    assert folder.read_paths == ["one.md"]
    assert changed.fingerprints["page.md"] != listing.fingerprints["page.md"]


@contextmanager
def other_version() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "get_version", lambda: f"{get_version()}.1")
        yield


async def test_other_settings_and_versions_read_everything(folder: Folder) -> None:
    folder.write("a.md", "a")
    folder.write("b.md", "b")
    await folder.list()
    assert set((await folder.list(exclude=["b.md"])).fingerprints) == {"a.md"}
    assert folder.read_paths == ["a.md"]
    await folder.list(exclude=["b.md"], link="https://x.example.org/{path}", refresh={"minutes": 5})
    assert folder.read_paths == []
    with other_version():
        await folder.list(exclude=["b.md"])
    assert folder.read_paths == ["a.md"]


@pytest.mark.parametrize("content", ["", "{}", "RULES\n{", 'RULES\n["a.md", 1]', "RULES\n\0", "\0"])
async def test_a_damaged_file_of_facts_reads_everything(
    folder: Folder, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("a.md", "a")
    first = await folder.list()
    (facts_file,) = folder.data.rglob("docs.json")
    facts_file.write_text(content.replace("RULES", facts_file.read_text("utf-8").split("\n")[0]), "utf-8")
    with caplog.at_level("DEBUG"):
        assert await folder.list() == first
    assert folder.read_paths == ["a.md"]
    assert "source.all_files_are_read" in caplog.text
    await folder.list()
    assert folder.read_paths == []


@pytest.mark.parametrize("seed", range(20))
async def test_facts_with_any_damage_read_everything(folder: Folder, seed: int) -> None:
    for name in ("a.md", "b.md", "c.rst"):
        folder.write(name, f"# {name}\n\n.. include:: x.txt\n")
    folder.write("x.txt", "included")
    first = await folder.list()
    everything = sorted(folder.read_paths)
    (facts_file,) = folder.data.rglob("docs.json")
    data = bytearray(facts_file.read_bytes())
    chance = random.Random(seed)
    place = chance.randrange(len(data))
    match seed % 4:
        case 0:
            # As a disk does it: other digits and names are still JSON.
            data[place] ^= 1 << chance.randrange(8)
        case 1:
            del data[place:]
        case 2:
            lines = bytes(data).split(b"\n")
            lines[chance.randrange(1, len(lines))] = chance.choice(
                [b"null", b"7", b"[]", b'["a.md", null]', b"[" * 99999]
            )
            data = bytearray(b"\n".join(lines))
        case _:
            data = bytearray(bytes(data).replace(b"a.md", b"b.md"))
    facts_file.write_bytes(data)
    assert await folder.list() == first
    assert sorted(folder.read_paths) == everything


async def test_facts_that_cannot_be_saved_stop_nothing(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.write("a.md", "a")
    folder.data.write_text("no folder", "utf-8")
    assert set((await folder.list()).fingerprints) == {"a.md"}
    assert "source.checks_not_saved" in caplog.text


async def test_facts_of_removed_sources_are_deleted(folder: Folder) -> None:
    folder.write("a.md", "a")
    await folder.list()
    delete_file_facts(folder.data, ["docs"])
    assert list(folder.data.rglob("*.json"))
    delete_file_facts(folder.data, [])
    assert not list(folder.data.rglob("*.json"))


async def test_a_source_that_is_stored_nowhere_is_read_whole(folder: Folder) -> None:
    folder.write("a.md", "a")
    await folder.list()
    await folder.open().beginning()
    await folder.list()
    assert folder.read_paths == ["a.md"]


async def test_a_listing_ends_with_its_caller(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        folder.write(f"{number}.md", "text")
    reads, has_read, may_go_on = FilesFolder._read_bytes, threading.Event(), threading.Event()

    def read(self: FilesFolder, path: str) -> bytes:
        has_read.set()
        may_go_on.wait(30)
        return reads(self, path)

    monkeypatch.setattr(FilesFolder, "_read_bytes", read)
    task = asyncio.create_task(folder.list())
    await asyncio.to_thread(has_read.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert len(folder.read_paths) == 1
