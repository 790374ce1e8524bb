"""What the terminal says of a refresh in progress."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from bots.common.terminal import format_progress, ingest_progress
from knowledge.ingestion.sync import SyncProgress


def test_reading_and_filling_say_how_long_they_take() -> None:
    reading = SyncProgress("docs", "reading", 30, 1200, 400)
    assert format_progress(reading, 95.2) == "30 of 1,200 documents, 400 passages by words, 2 min left"
    assert format_progress(reading, None) == "30 of 1,200 documents, 400 passages by words"
    filling = SyncProgress("docs", "embedding", 1200, 1200, 400, filled=100)
    assert format_progress(filling, 6.5) == "400 passages by words, 100 by meaning, 7 s left"


@pytest.mark.parametrize("width", [40, 80])
def test_a_line_of_progress_has_room_for_what_ctrl_c_shows(width: int) -> None:
    """Where `^C` begins another line, all that is drawn after it is a line further down, and the rest stays there."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    with ingest_progress(console) as progress:
        for source in ("docs", "code"):
            progress(SyncProgress(source, "reading", 355, 1299, 1775))
    assert isinstance(console.file, io.StringIO)
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue()))
    assert any("docs" in line for line in lines)
    assert max(map(len, lines)) <= width - 4
