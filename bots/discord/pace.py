"""How fast things go on Discord: the intervals of streaming, retrying and reconnecting."""

from __future__ import annotations

from dataclasses import dataclass

from bots.posting.pace import BasicPace


@dataclass(frozen=True, slots=True)
class Pace(BasicPace):
    """All intervals in seconds. The defaults keep within the limits of Discord's own servers.

    A channel takes about five messages or edits in five seconds from one bot; a typing notice fades after ten, and so
    long, `typed_s`, somebody else's counts.
    `identify_s` is the pause before a session is begun anew, `steady_s` how long a connection must have lasted so that
    the next one is opened without a pause, `acknowledge_s` how long a slash command waits for its acknowledgement to
    succeed, `unanswered_s` after which one that nobody answers is cleared away.
    """

    edit_s: float = 1.3
    typing_s: float = 8.0
    typed_s: float = 10.0
    longest_retry_s: float = 30.0
    identify_s: float = 5.0
    steady_s: float = 10.0
    acknowledge_s: float = 2.5
    unanswered_s: float = 840.0
