"""A large folder is found by its first files while the others are listed, and holds the same in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.settings import FilesSource
from knowledge.ingestion.sync import SyncOptions, SyncReport, refresh
from knowledge.ports import Store
from knowledge.sources import files
from knowledge.sources.files import FilesFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02}.md").write_text(f"# Page {number}\n\nAbout fruit {number}.\n", "utf-8")
    # It shows the title of a page behind the beginning, which shows a file.
    (folder / "00.md").write_text("# First\n\nSee [](19.md) and `x`.\n", "utf-8")
    (folder / "_shown.md").write_text("Shown text.\n", "utf-8")
    (folder / "19.md").write_text('# Last\n\n--8<-- "_shown.md"\n', "utf-8")
    return folder


async def read(name: str, folder: Path, store: Store, events: list[str]) -> SyncReport:
    source = FilesFolder(name, FilesSource.model_validate({"kind": "files", "path": folder}), folder.parent)

    async def first_batch() -> None:
        events.append(f"found {len(await store.manifest(name))}")

    options = SyncOptions(
        200, on_progress=lambda progress: events.append(progress.stage), on_first_batch=first_batch, batch_passages=3
    )
    return await refresh(source, store, options)


async def test_a_large_folder_is_found_before_all_of_it_is_listed(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    plain = await read("plain", folder, store, events)
    assert events[0] == "listing", "a small folder is listed at once"
    monkeypatch.setattr(files, "BEGINNING_FILES", 6)
    events.clear()
    report = await read("docs", folder, store, events)
    found, listed, *rest = events
    assert (found[:5], listed) == ("found", "listing")
    assert not any(event.startswith("found") for event in rest)
    assert (report.added, report.updated, report.deleted, report.unchanged) == (20, 0, 0, 0)
    assert (report.passages, report.skipped, report.languages) == (plain.passages, plain.skipped, plain.languages)
    manifest = await store.manifest("plain")
    assert await store.manifest("docs") == manifest
    rows = [sorted(row.passage.text for row in await store.rows(name, manifest)) for name in ("docs", "plain")]
    assert rows[0] == rows[1]
    again = await read("docs", folder, store, events)
    assert (again.added, again.unchanged) == (0, 20)
