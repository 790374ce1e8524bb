"""Outages of Discord, and what becomes of what was missed."""

from __future__ import annotations

from bots.discord.pace import Pace
from bots.posting.line import Line
from bots.posting.outage import Outage
from core.errors import PlatformError

# No event of Discord's: a connection ended, and another one is being made.
INTERRUPTED = "interrupted"


def outage_of(what: str, pace: Pace, line: Line | None = None) -> Outage:
    """Return a row of failures of this kind, to be waited out."""
    return Outage("discord", what, pace, _hint, line)


def _hint(failure: Exception) -> str:
    if isinstance(failure, PlatformError):
        return "retrying; what was missed is read afterwards"
    return "a message could not be made safe"
