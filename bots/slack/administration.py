"""Who administers the workspace, as Slack has it, and what a slash command's words mean."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from core.commands import find, may_be
from core.types import Message

if TYPE_CHECKING:
    from bots.slack.client import Client

# So long somebody who was made an administrator, or is none any more, may have to wait.
REMEMBERED_S = 30.0
PEOPLE = 1000
# In a link to a message its timestamp stands without the dot.
_LINK = re.compile(r"https://\S+/p(\d{10})(\d{6})\b\S*")


class Administrators:
    """The administrators and owners of a workspace, each answer of Slack's remembered for a moment."""

    def __init__(self, remembered_s: float = REMEMBERED_S) -> None:
        self._remembered_s = remembered_s
        self._known: dict[str, tuple[float, bool]] = {}

    async def include(self, client: Client, message: Message) -> bool:
        """Say whether the author is one of them. Raises a `PlatformError` when Slack cannot be asked."""
        user = message.author_id
        at, known = self._known.get(user, (-float("inf"), False))
        if time.monotonic() - at < self._remembered_s:
            return known
        found = await client.is_administrator(user)
        if len(self._known) >= PEOPLE:
            self._known.clear()
        self._known[user] = (time.monotonic(), found)
        return found


def sub_command(words: str) -> tuple[str, str]:
    """Return the command that the words behind `/kimas` name, and what is given to it.

    Words that name none are a question, and so is one that merely begins with a command's name: `why does it fail?`.
    """
    if not words.strip():
        return "help", ""
    first, *others = words.split(maxsplit=1)
    rest = "".join(others)
    command = find(first.lower().removeprefix("/"))
    if command is None or not (first.startswith("/") or may_be(command, rest)):
        return "ask", words
    if command.name == "learn":
        return command.name, _LINK.sub(r"\1.\2", rest.strip(), count=1).removeprefix("<")
    found = _LINK.search(rest) if command.name == "why" else None
    return command.name, f"{found[1]}.{found[2]}" if found else rest.strip()
