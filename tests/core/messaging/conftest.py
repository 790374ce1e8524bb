from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.storage.messages import Journal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """An empty journal."""
    journal = await Journal.open(tmp_path / "journal.db")
    yield journal
    await journal.close()
