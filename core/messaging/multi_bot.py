"""Several bots of one platform in one daemon: which of them a message in the journal belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

from core.observability.logs import context, logger
from core.ports import Adapter
from core.storage.messages import Journal
from core.types import Message

NO_HEIR = "the bot that received it is no longer configured"


@runtime_checkable
class Identified(Protocol):
    """An adapter that knows, once it is open, which of its platform's bots it is."""

    @property
    def bot(self) -> str:
        """What its messages have as `bot`."""
        ...

    @property
    def inherits(self) -> bool:
        """Whether it may answer what another bot received that is no longer there."""
        ...


@runtime_checkable
class Labelled(Protocol):
    """An adapter that was given a name of its own."""

    @property
    def label(self) -> str:
        """Its platform and its name, for example `telegram:support`."""
        ...


def label_of(adapter: Adapter) -> str:
    """Return what tells an adapter from all others of the daemon."""
    return adapter.label if isinstance(adapter, Labelled) else adapter.name


def named(adapter: Adapter) -> AbstractContextManager[None]:
    """Bind the name of an adapter that was given one to every event that is logged inside the `with` block."""
    name = label_of(adapter).partition(":")[2]
    return context(bot_name=name) if name else nullcontext()


def bot_of(adapter: Adapter) -> str:
    """Return which bot of its platform an adapter is, "" where it is the only one there can be."""
    return adapter.bot if isinstance(adapter, Identified) else ""


async def unfinished(journal: Journal, bots: Sequence[Adapter]) -> list[tuple[Adapter, Message, str]]:
    """Return what the last run left of one platform, oldest first: whose it is, the message, its reply's id or "".

    `bots` are all of the platform. What another bot received, which is no longer there, goes to the first of them.
    """
    platform = bots[0].name
    doubtful = await journal.uncertain(platform)
    pending = await journal.pending(platform)
    if doubtful or pending:
        logger(__name__).info("intake.resumed", platform=platform, pending=len(pending), doubtful=doubtful)
    mine = {bot_of(bot): bot for bot in bots}
    first = bots[0]
    inherits = not isinstance(first, Identified) or first.inherits
    found: list[tuple[Adapter, Message, str]] = []
    for message, previous in pending:
        owner = mine.get(message.bot)
        if owner is None and not inherits:
            await journal.failed(message, NO_HEIR)
        else:
            found.append((owner or first, message, previous))
    return found
