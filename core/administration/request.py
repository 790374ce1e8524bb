"""One command as its handler gets it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from core.administration.steering import chat_of
from core.commands import Command, Who
from core.types import Message


@dataclass(frozen=True, slots=True)
class Request:
    """A command that its author may give: the message, the arguments by name, and the author's standing.

    `adapter` is what the message came through; None in the terminal.
    """

    message: Message
    command: Command
    given: Mapping[str, str]
    who: Who
    adapter: object = None

    @property
    def chat(self) -> str:
        """The chat's name in the configuration: `platform:chat`."""
        return chat_of(self.message)

    @property
    def sees_all(self) -> bool:
        """Whether the answer may tell of other chats: an owner asks where nobody else reads it."""
        return self.who == "owner" and self.message.private


# Returns what the bot says, as Markdown. Raises `UsageError` for arguments that make no sense.
Handler = Callable[[Request], Awaitable[str]]
