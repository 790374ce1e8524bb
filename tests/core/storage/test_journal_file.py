"""What happens to the file of a journal while it is in use: deleted, put back, replaced, or closed to this account."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import JournalError, StoreError
from core.storage.engine import Database
from core.storage.journal_file import ACCESS_HINT, LIMIT_HINT, JournalFile
from core.storage.messages import Journal
from core.types import ConversationKey, Message

MESSAGE = Message("1", ConversationKey("test", "room"), "42", "Ann", "How?", datetime.now(UTC), addressed=True)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await Journal.open(tmp_path / "data" / "journal.db")
    await journal.record_message(MESSAGE)
    yield journal
    await journal.close()


async def test_a_deleted_journal_takes_no_message_until_it_is_put_back(journal: Journal, tmp_path: Path) -> None:
    """SQLite would write into the deleted file: the platform would be told that the message is safe."""
    shutil.move(tmp_path / "data", tmp_path / "away")
    with pytest.raises(JournalError, match=r"was deleted while it was in use. Put it back, or restart"):
        await journal.record_message(replace(MESSAGE, id="2"))
    with pytest.raises(JournalError, match="was deleted"):
        await journal.get_pending("test")
    assert not (tmp_path / "data").exists(), "and no empty one is made in its place"
    shutil.move(tmp_path / "away", tmp_path / "data")
    assert await journal.record_message(replace(MESSAGE, id="2"))
    assert [message.id for message, _ in await journal.get_pending("test")] == ["1", "2"]


async def test_another_file_in_its_place_is_used_from_then_on(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other_journal = await Journal.open(tmp_path / "other" / "journal.db")
    await other_journal.record_message(replace(MESSAGE, id="restored"))
    await other_journal.close()
    os.replace(tmp_path / "other" / "journal.db", tmp_path / "data" / "journal.db")
    for suffix in ("-wal", "-shm"):
        (tmp_path / "data" / f"journal.db{suffix}").unlink(missing_ok=True)
    assert await journal.record_message(replace(MESSAGE, id="2"))
    assert [message.id for message, _ in await journal.get_pending("test")] == ["restored", "2"]
    assert sum("journal.replaced" in text for text in caplog.messages) == 1


async def test_a_journal_that_cannot_be_opened_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.db").touch()
    for code, hint in ((errno.EACCES, ACCESS_HINT), (errno.EMFILE, LIMIT_HINT)):
        error = OSError(code, os.strerror(code))

        def refuse(*_: object, error: OSError = error) -> int:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            assert (
                JournalFile(tmp_path / "journal.db")
                .explain("unable to open database file")
                .endswith(f"{os.strerror(code)}. {hint}")
            )
    for cause in ("attempt to write a readonly database", "database or disk is full"):
        assert JournalFile(tmp_path / "journal.db").explain(cause).startswith(f"{cause}. ")


async def test_a_new_journal_in_a_folder_that_nobody_may_enter(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "journal.db")
    with pytest.raises(StoreError, match="Check that the account"):
        await Database.open(tmp_path / "link")
