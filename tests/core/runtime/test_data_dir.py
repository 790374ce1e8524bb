"""A data directory of another account, as when somebody runs a command beside the service."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bots.cli.check import check
from core.errors import StoreError, UsageError
from core.runtime.data_dir import make_data_dir, require_access
from core.settings.messaging import JournalSettings
from core.storage.opening import has_database
from knowledge.embedding.local import _copy_model, _load_or_remove
from knowledge.stores import open_store, require_ingested
from tests.support.deployment import Deployment
from tests.support.fixtures import settings

OWNER_ID = 54321


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that nobody but its owner may enter; also where the tests run as root."""
    folder = tmp_path / "closed"
    folder.mkdir()
    stat = os.stat
    access = os.access

    def refuse(path: object, *arguments: object, **options: object) -> os.stat_result:
        if folder in Path(os.fspath(path)).parents:  # type: ignore[call-overload]
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *arguments, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode, **_: path != folder and access(path, mode))
    return folder


async def test_the_account_that_it_belongs_to_is_named(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "owner", lambda _: "kimas")
    hint = r"closed cannot be used: it belongs to kimas, .* \(sudo -u kimas \.\.\.\), or choose another data_dir"
    with pytest.raises(StoreError, match=hint):
        await has_database(JournalSettings(), closed)
    with pytest.raises(StoreError, match=hint):
        make_data_dir(closed)


def test_an_account_without_a_name_and_a_closed_folder_above(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> str:
        raise KeyError(OWNER_ID)

    monkeypatch.setattr(Path, "owner", fail)
    with pytest.raises(StoreError, match=rf"belongs to #{closed.stat().st_uid}, "):
        require_access(closed)
    with pytest.raises(StoreError, match=r"closed/data cannot be used: Permission denied; run the command as"):
        require_access(closed / "data")


async def test_closed_folders_of_passages_and_of_the_model_are_named(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (closed / "passages").mkdir()
    # As if only the folder of the passages were closed.
    monkeypatch.setattr("knowledge.stores.require_access", lambda _: None)
    await require_ingested(settings(data_dir=closed))
    with pytest.raises(StoreError, match="check the folder and its permissions"):
        await open_store(settings().knowledge.store, closed, "model", 4)
    assert _load_or_remove(closed / "model", lambda: pytest.fail("loaded nothing")) is None


def test_a_cache_of_models_that_is_closed_holds_none(closed: Path) -> None:
    assert not _copy_model(closed / "model", closed / "copy")


@pytest.mark.parametrize("path", [None, "model"])
async def test_a_check_of_a_model_in_a_closed_folder_ends_with_its_findings(
    tmp_path: Path, closed: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed))
    monkeypatch.setattr("bots.cli.check.find_package_dir", lambda: None)
    configuration = settings(
        data_dir=tmp_path / "data", knowledge={"embedding": {"path": closed / path if path else None}}
    )
    findings = {finding.subject: finding for finding in await check(configuration, live=False)}
    finding = findings["knowledge.embedding"]
    if path:
        assert (finding.level, "holds no model.safetensors" in finding.text) == ("error", True)
    else:
        assert (finding.level, "fetched on first use" in finding.text) == ("ok", True)


async def test_what_is_required_to_be_ingested_is_looked_for_and_nothing_is_made(
    tmp_path: Path, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="nothing has been ingested"):
        await require_ingested(settings(data_dir=tmp_path / "data"))
    assert not (tmp_path / "data").exists()
    # Nothing else takes `~` for the home.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passages").mkdir()
    (tmp_path / "passages" / "passages.db").touch()
    with pytest.raises(UsageError, match="nothing has been ingested"):
        await require_ingested(settings(data_dir="~"))
    monkeypatch.setattr(Path, "owner", lambda _: "kimas")
    with pytest.raises(StoreError, match="belongs to kimas"):
        await require_ingested(settings(data_dir=closed))


def test_every_command_says_it_in_one_line(tmp_path: Path, closed: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n", "utf-8")
    sources = {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}
    deployment = Deployment(tmp_path, {"data_dir": str(closed), "sources": sources})
    for command in (["sources"], ["usage"], ["audit"], ["ask", "How?"], ["search", "How?"], ["ingest"]):
        [line] = deployment.call(*command, code=1).stderr.splitlines()
        assert line.startswith("kimas: data_dir")
