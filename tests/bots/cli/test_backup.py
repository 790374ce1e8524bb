"""`kimas backup` and `kimas restore`: everything that cannot be made again, also while a daemon writes."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
import zipfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.runtime.locks import daemon_lock
from core.storage.messages import Journal
from core.types import ConversationKey, Message
from tests.support.deployment import Deployment
from tests.support.waiting import until

SECRET = "hunter2-hunter2"
KEY = ConversationKey("telegram", "-1")


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Rockets\n\nRocket 1 flies on Monday.\n", "utf-8")
    sources = {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}
    return Deployment(tmp_path, {"sources": sources})


async def write(folder: Path, first: int, last: int) -> None:
    journal = await Journal.open(folder / "journal.db")
    for number in range(first, last):
        await journal.record_message(Message(str(number), KEY, "7", "Ann", f"text {number}", datetime.now(UTC)))
    await journal.close()


def count(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        number: int = connection.execute("SELECT count(*) FROM messages").fetchone()[0]
        return number


def test_what_was_saved_while_a_daemon_wrote_is_there_again(deployment: Deployment) -> None:
    data = deployment.folder / "data"
    deployment.call("ingest")
    asyncio.run(write(data, 0, 50))
    (data / "git" / "docs").mkdir(parents=True)
    (data / "git" / "docs" / "HEAD").write_text("a clone")
    (data / "web").mkdir()
    (data / "web" / "pages.json").write_text("{}")
    archive = deployment.folder / "saved.zip"
    with daemon_lock(data):
        writer = threading.Thread(target=lambda: asyncio.run(write(data, 50, 400)))
        writer.start()
        result = deployment.call("backup", str(archive))
        writer.join()
        assert "saved:" in result.output
    assert archive.stat().st_mode & 0o077 == 0
    assert not [path for path in (*deployment.folder.glob(".*"), *data.glob(".*")) if path.suffix != ".lock"]
    with zipfile.ZipFile(archive) as saved:
        assert "configuration.yaml" in saved.namelist()
        assert not [name for name in saved.namelist() if "git/" in name or name.endswith((".lock", "-wal"))]

    data.rename(deployment.folder / "lost")
    assert deployment.json("restore", str(archive))["restored"] == ["journal.db", "passages", "web"]
    assert 50 <= count(data / "journal.db") <= 400
    assert (data / "web" / "pages.json").read_text() == "{}"
    assert deployment.json("search", "When does rocket 1 fly?")["passages"], "nothing has to be read again"


def test_nothing_is_overwritten_and_no_daemon_may_run(deployment: Deployment) -> None:
    data = deployment.folder / "data"
    asyncio.run(write(data, 0, 3))
    archive = deployment.folder / "saved.zip"
    deployment.call("backup", str(archive))
    result = deployment.call("restore", str(archive), code=2)
    assert "has journal.db already" in result.output
    with daemon_lock(data):
        result = deployment.call("restore", str(archive), code=1)
        assert "another `kimas run`" in result.output
    assert count(data / "journal.db") == 3


def test_a_backup_is_tried_in_another_folder_beside_the_daemon(deployment: Deployment) -> None:
    data = deployment.folder / "data"
    asyncio.run(write(data, 0, 3))
    archive = deployment.folder / "saved.zip"
    deployment.call("backup", str(archive))
    restored = deployment.folder / "restored"
    with daemon_lock(data):
        deployment.call("restore", str(archive), "--set", f"data_dir={restored}")
    assert count(restored / "journal.db") == 3


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("nowhere/saved.zip", 1, "nowhere/saved.zip: No such file or directory"),
        ("data/saved.zip", 2, "is in data_dir, so the next backup would hold it"),
    ],
)
def test_a_place_that_takes_no_backup_is_named(deployment: Deployment, target: str, code: int, words: str) -> None:
    asyncio.run(write(deployment.folder / "data", 0, 3))
    output = " ".join(deployment.call("backup", str(deployment.folder / target), code=code).output.split())
    assert words in output
    assert target in output


def test_a_backup_that_cannot_be_read_is_named(deployment: Deployment) -> None:
    archive = deployment.folder / "saved.zip"
    asyncio.run(write(deployment.folder / "data", 0, 3))
    deployment.call("backup", str(archive))
    (deployment.folder / "data").rename(deployment.folder / "lost")
    with zipfile.ZipFile(archive, "a") as saved:
        saved.writestr("data/journal.db/below", "a file cannot be a folder")
    output = " ".join(deployment.call("restore", str(archive), code=1).output.split())
    assert "saved.zip cannot be restored to" in output


def test_a_file_that_is_damaged_or_none_restores_nothing(deployment: Deployment) -> None:
    data = deployment.folder / "data"
    asyncio.run(write(data, 0, 3))
    archive = deployment.folder / "saved.zip"
    deployment.call("backup", str(archive))
    (data / "journal.db").unlink()
    content = archive.read_bytes()
    assert "there is no file" in deployment.call("restore", "nowhere.zip", code=2).output
    flipped = bytearray(content)
    start = content.index(b"data/journal.db") + len("data/journal.db")
    flipped[start : start + 200] = bytes(byte ^ 0xFF for byte in content[start : start + 200])
    encrypted = re.sub(rb"(PK\x01\x02.{4}).", b"\\1\x01", content, flags=re.DOTALL)
    damaged_journal = deployment.folder / "damaged.zip"
    with zipfile.ZipFile(damaged_journal, "w") as file:
        file.writestr("data/journal.db", b"SQLite format 3\0" + b"?" * 5000)
    for broken, code, words in (
        (content[: len(content) // 2], 2, "no backup, or not a whole one"),
        (b"text", 2, "no backup, or not a whole one"),
        (bytes(flipped), 2, "no backup, or not a whole one"),
        (encrypted, 2, "no backup, or not a whole one"),
        (damaged_journal.read_bytes(), 1, "journal.db is damaged"),
    ):
        archive.write_bytes(broken)
        result = deployment.call("restore", str(archive), code=code)
        assert words in result.output
        assert not (data / "journal.db").exists()
        assert not list(data.glob(".restoring*"))


@pytest.mark.parametrize("command", ["backup", "restore", "forget"])
def test_what_a_killed_command_left_is_neither_kept_nor_saved(deployment: Deployment, command: str) -> None:
    data = deployment.folder / "data"
    asyncio.run(write(data, 0, 3))
    archive = deployment.folder / "saved.zip"
    deployment.call("backup", str(archive))
    restored = data / ".restoring-1" / "data" / "journal.db"
    copied = data / ".saving-1" / "journal.db"
    part = deployment.folder / ".saving-earlier.zip.part"
    for left in (restored, copied, part):
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(b"what people wrote")
        for path in (left, left.parent):
            os.utime(path, (0, 0))
    running = data / ".saving-2"
    running.mkdir()
    if command == "forget":
        deployment.call("journal", "forget", "telegram:7", "--yes")
        assert not restored.exists()
        assert not copied.exists()
        return
    if command == "restore":
        (data / "journal.db").unlink()
        deployment.call("restore", str(archive))
        assert not restored.exists()
        assert count(data / "journal.db") == 3
        return
    deployment.call("backup", str(archive))
    assert not copied.exists()
    assert not part.exists()
    assert running.exists(), "another backup may be at it"
    assert restored.exists(), "a restore may be at it"
    with zipfile.ZipFile(archive) as saved:
        assert not [name for name in saved.namelist() if ".restoring" in name or ".saving" in name]


async def test_a_start_removes_what_a_killed_restore_left(deployment: Deployment) -> None:
    left = deployment.folder / "data" / ".restoring-1" / "data" / "journal.db"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"what people wrote")
    async with deployment.daemon():
        await until(lambda: not left.parent.parent.exists(), timeout_s=60)
    assert not list((deployment.folder / "data").glob(".restoring-*"))


def test_secrets_and_a_journal_on_a_server_are_not_in_it(tmp_path: Path) -> None:
    sources = {"docs": {"kind": "git", "url": f"https://ann:{SECRET}@example.org/docs.git"}}
    journal = {"url": "postgresql://kimas@localhost:1/kimas", "password": {"env": "PG_PASSWORD"}}
    deployment = Deployment(tmp_path, {"sources": sources, "journal": journal})
    (tmp_path / "data" / "web").mkdir(parents=True)
    (tmp_path / "data" / "web" / "pages.json").write_text("{}")
    archive = tmp_path / "saved.zip"
    deployment.environment["PG_PASSWORD"] = "another-secret"
    result = deployment.call("backup", str(archive))
    assert "pg_dump" in result.output
    with zipfile.ZipFile(archive) as saved:
        configuration = saved.read("configuration.yaml").decode()
    assert "PG_PASSWORD" in configuration
    assert SECRET not in configuration
    assert "another-secret" not in configuration
