"""`kimas backup` and `kimas restore`: what cannot be made again, in one file."""

from __future__ import annotations

import asyncio
import os
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bots.common.terminal import make_console, print_json
from core.errors import StoreError, UsageError
from core.observability.logs import make_redactor
from core.runtime.data_dir import make_data_dir, require_access
from core.runtime.left_over import (
    RESTORING_PREFIX,
    SAVING_PREFIX,
    is_left_over,
    remove_left_backups,
    remove_left_restores,
)
from core.runtime.locks import SOURCE_LOCKS, daemon_lock, refresh_lock
from core.settings.loader import get_secret_values
from core.settings.yaml_file import YamlFileError, format_yaml, parse_yaml
from knowledge.sources.common.file_facts import FILE_FACTS

if TYPE_CHECKING:
    from core.settings import Settings

# Of the data directory: clones, models and what was learned of files are made again, locks belong to processes,
# sessions are secrets, the rest is SQLite's.
SKIPPED_FOLDERS = frozenset({"git", FILE_FACTS, "models", SOURCE_LOCKS})
SKIPPED_ENDINGS = (".lock", "-wal", "-shm", "-journal", ".session", ".new")
SKIPPED_FILES = frozenset({"dry-run.db"})
DATA = "data/"
CONFIGURATION = "configuration.yaml"
SERVER_HINT = (
    "the journal is on PostgreSQL, and not in this file: save it with `pg_dump --format=custom`, "
    "as docs/operate.md says"
)


async def backup(settings: Settings, target: Path | None, *, as_json: bool) -> int:
    """Save the data directory and the configuration without secrets in one file, also while the daemon runs.

    Raises `UsageError` when there is nothing to save, and for a place that the next backup would save, and
    `StoreError`.
    """
    path = (target or Path(f"kimas-{datetime.now():%Y-%m-%d-%H%M%S}.zip")).resolve()
    if path.is_relative_to(settings.data_dir.resolve()):
        raise UsageError(f"{path} is in data_dir, so the next backup would hold it: name a file in another folder")
    files = await asyncio.to_thread(_list_files, settings.data_dir)
    if not files:
        raise UsageError(f"there is nothing to save: {settings.data_dir} is empty")
    try:
        await asyncio.to_thread(_write_archive, settings, path, files)
    except OSError as error:
        raise StoreError(f"{settings.data_dir} cannot be saved as {path}: {error.strerror or error}") from error
    size = path.stat().st_size
    if as_json:
        print_json({"file": str(path), "bytes": size, "has_journal": not settings.journal.url})
        return 0
    out = make_console()
    out.print(f"saved: {path} ({size / 1e6:,.1f} MB)", markup=False, soft_wrap=True)
    if settings.journal.url:
        out.print(SERVER_HINT, style="yellow", markup=False, soft_wrap=True)
    return 0


async def restore(settings: Settings, source: Path, *, as_json: bool) -> int:
    """Put what a backup holds into the data directory, which must not have a journal or passages yet.

    Raises `UsageError` for a directory in use and for a file that is no backup, `StoreLocked` beside a daemon, and
    `StoreError`.
    """
    if not await asyncio.to_thread(source.is_file):
        raise UsageError(f"there is no file {source}")
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    from core.storage.opening import JOURNAL_NAME

    with daemon_lock(settings.data_dir), refresh_lock(settings.data_dir):
        await asyncio.to_thread(remove_left_restores, settings.data_dir)
        try:
            gone = await asyncio.to_thread(_list_sources, source) - settings.sources.keys()
            names = await asyncio.to_thread(_read_archive, source, settings.data_dir)
        except OSError as error:
            raise StoreError(f"{source} cannot be restored to {settings.data_dir}: {error}") from error
        if gone and JOURNAL_NAME in names:
            await _note_removed(settings, gone)
    if as_json:
        print_json({"file": str(source), "restored": names, "has_journal": not settings.journal.url})
        return 0
    out = make_console()
    out.print(f"restored to {settings.data_dir}: {', '.join(names)}", markup=False, soft_wrap=True)
    if settings.journal.url:
        out.print("the journal is on PostgreSQL: restore it with pg_restore", style="yellow", markup=False)
    return 0


async def _note_removed(settings: Settings, sources: Collection[str]) -> None:
    """Let the journal know that sources were removed since: it does not know whether they were closed before that."""
    from core.settings import JournalSettings
    from core.storage.opening import open_database
    from core.storage.overrides import RuntimeOverrides

    database = await open_database(JournalSettings(), settings.data_dir)
    try:
        await RuntimeOverrides(database).remember_removed(sources)
    finally:
        await database.close()


def _list_sources(source: Path) -> set[str]:
    """Return the names of the sources that a backup was made with."""
    with _opened(source) as archive:
        # Archives that somebody made by hand may have none.
        raw = archive.read(CONFIGURATION) if CONFIGURATION in archive.namelist() else b""
        values = parse_yaml(raw, Path(CONFIGURATION)).data or {}
        return set(values.get("sources") or ())


@contextmanager
def _opened(source: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive for the length of the block. Raises `UsageError` for a damaged one."""
    try:
        with zipfile.ZipFile(source) as archive:
            yield archive
    # `RuntimeError` stands for what is encrypted, or packed in a way that is not known.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, YamlFileError) as error:
        raise UsageError(f"{source} is no backup, or not a whole one: {error}") from error


def _list_files(data_dir: Path) -> list[Path]:
    """Return the files to save, the journal first: what it says of the passages is never newer than they are."""
    require_access(data_dir)
    return sorted(_walk(data_dir), key=lambda path: (path.parent != data_dir, path))


def _walk(data_dir: Path) -> Iterator[Path]:
    for folder, folder_names, file_names in os.walk(data_dir):
        if Path(folder) == data_dir:
            folder_names[:] = [name for name in folder_names if not (name in SKIPPED_FOLDERS or is_left_over(name))]
        for name in file_names:
            if name not in SKIPPED_FILES and not name.endswith(SKIPPED_ENDINGS):
                yield Path(folder, name)


def _write_archive(settings: Settings, target: Path, files: list[Path]) -> None:
    """Write the archive beside its place, and put it there when it is whole."""
    for place in (target.parent, settings.data_dir):
        remove_left_backups(place)
    part = target.with_name(f"{SAVING_PREFIX}{target.name}.part")
    try:
        with (
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive,
            # In the data directory: whoever deletes everything deletes it as well.
            tempfile.TemporaryDirectory(prefix=SAVING_PREFIX, dir=settings.data_dir) as folder,
        ):
            archive.writestr(CONFIGURATION, _describe_configuration(settings))
            for path in files:
                _add(archive, path, f"{DATA}{path.relative_to(settings.data_dir).as_posix()}", Path(folder))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, path: Path, name: str, folder: Path) -> None:
    from core.storage.snapshots import copy_sqlite

    try:
        if path.suffix != ".db":
            archive.write(path, name)
            return
        copy = folder / path.name
        copy_sqlite(path, copy)
        archive.write(copy, name)
        copy.unlink()
    except (FileNotFoundError, StoreError):
        # A refresh may have replaced it meanwhile: it fetches again what is missing.
        if path.exists():
            raise


def _describe_configuration(settings: Settings) -> str:
    """Return the configuration as one file: secrets are only named in it, and a password in an address is hidden."""
    values = settings.model_dump(mode="json", exclude_unset=True)
    return make_redactor(get_secret_values(settings))(format_yaml(values))


def _read_archive(source: Path, data_dir: Path) -> list[str]:
    """Unpack an archive beside its place, look at it, and put it there; return what has been put there."""
    from core.storage.snapshots import check_sqlite

    with tempfile.TemporaryDirectory(prefix=RESTORING_PREFIX, dir=data_dir) as name:
        folder = Path(name)
        with _opened(source) as archive:
            archive.extractall(folder, [member for member in archive.namelist() if member.startswith(DATA)])
        restored = sorted(folder.glob(f"{DATA}*"))
        if not restored:
            raise UsageError(f"{source} is no backup of `kimas backup`: it has no folder {DATA}")
        for path in folder.rglob("*.db"):
            check_sqlite(path)
        if existing := [path.name for path in restored if (data_dir / path.name).exists()]:
            raise UsageError(f"{data_dir} has {', '.join(existing)} already; move that away: nothing is overwritten")
        for path in restored:
            path.rename(data_dir / path.name)
    return [path.name for path in restored]
