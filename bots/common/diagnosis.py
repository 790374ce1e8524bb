"""What is known of a bot before it runs: who it is, how it is invited, and what keeps it from hearing or speaking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a bot is to be: chats by their id on the platform; `reads_all` where it answers without being addressed."""

    chats: tuple[str, ...] = ()
    reads_all: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, with the way out. An error keeps the bot from answering; otherwise it hears or shows less."""

    text: str
    is_error: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Who a token belongs to, how people bring the bot into a chat, and what is wrong."""

    identity: str
    invitation: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundChat:
    """A group: its id on the platform, its name, and who wrote or acted there, as far as that is known."""

    id: str
    title: str
    author_id: str = ""
    author: str = ""
