"""The schema of version 0.2.0, with which the revisions begin."""

from __future__ import annotations

revision = "0008"
down_revision = None


def upgrade() -> None:
    """Do nothing: a new journal is made from `tables.py`, and one of before is refused."""
