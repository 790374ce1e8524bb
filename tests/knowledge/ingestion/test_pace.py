from __future__ import annotations

from knowledge.ingestion.pace import Pace
from knowledge.ingestion.sync import SyncProgress


def test_the_time_left_follows_from_the_pace_of_a_stage() -> None:
    now = 100.0
    pace = Pace(lambda: now)
    assert (pace.documents, pace.seconds_left) == ((0, 0), None)
    pace.note(SyncProgress("docs", "listing", 0, 0, 0))
    now = 200.0
    pace.note(SyncProgress("docs", "reading", 0, 50, 0))
    assert (pace.documents, pace.seconds_left) == ((0, 50), None)
    now = 201.0
    pace.note(SyncProgress("docs", "reading", 1, 50, 9))
    assert pace.seconds_left is None, "too early to say"
    now = 210.0
    pace.note(SyncProgress("docs", "reading", 10, 50, 90))
    assert (pace.documents, pace.seconds_left) == ((10, 50), 40.0)
    # Of the vectors there were 300 before.
    pace.note(SyncProgress("docs", "embedding", 0, 0, 1000, 300))
    assert (pace.documents, pace.seconds_left) == ((0, 0), None)
    now = 220.0
    pace.note(SyncProgress("docs", "embedding", 0, 0, 1000, 400))
    assert pace.seconds_left == 60.0


def test_what_begins_again_has_a_new_pace() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    pace.note(SyncProgress("docs", "reading", 0, 10, 0))
    now = 10.0
    pace.note(SyncProgress("docs", "reading", 5, 10, 0))
    assert pace.seconds_left == 10.0
    pace.note(SyncProgress("docs", "reading", 1, 10, 0))
    assert pace.seconds_left is None
