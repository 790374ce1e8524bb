"""Where the labelled data of the tests is."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "core" / "data"
DATA = FOLDER / "gate.jsonl"
CORPUS = FOLDER / "gate_corpus.jsonl"
# As version 0.2.0 wrote it, in the form of `sqlite3 journal.db .dump`.
OLD_JOURNAL = FOLDER / "journal_0_2_0.sql"
