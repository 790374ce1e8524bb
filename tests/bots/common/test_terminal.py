"""What the terminal says of a refresh in progress."""

from __future__ import annotations

from bots.common.terminal import format_progress
from knowledge.ingestion.sync import SyncProgress


def test_reading_and_filling_say_how_long_they_take() -> None:
    reading = SyncProgress("docs", "reading", 30, 1200, 400)
    assert format_progress(reading, 95.2) == "30 of 1,200 documents, 400 passages by words, 2 min left"
    assert format_progress(reading, None) == "30 of 1,200 documents, 400 passages by words"
    filling = SyncProgress("docs", "embedding", 1200, 1200, 400, filled=100)
    assert format_progress(filling, 6.5) == "400 passages by words, 100 by meaning, 7 s left"
