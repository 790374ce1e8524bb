"""How fast things go: the intervals of polling, streaming and retrying."""

from __future__ import annotations

from dataclasses import dataclass

from bots.posting.pace import BasicPace


@dataclass(frozen=True, slots=True)
class Pace(BasicPace):
    """All intervals in seconds. The defaults keep within the limits of Telegram's own servers.

    A group takes about 20 messages and edits a minute from one bot, which is what `edit_s` is made for; drafts in
    private chats are cheaper. The typing notice fades after 5 s.
    """

    poll_s: int = 25
    edit_s: float = 3.0
    draft_s: float = 1.0
    typing_s: float = 4.5
