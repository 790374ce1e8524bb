"""Several bots of one platform in one daemon: which of them a message in the journal belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

from core.observability.logs import get_logger, log_context
from core.ports import Adapter
from core.storage.messages import Journal
from core.types import Message

BOT_REMOVED_REASON = "the bot that received it is no longer configured"


@runtime_checkable
class HasBotId(Protocol):
    """An adapter that knows, once it is open, which of its platform's bots it is."""

    @property
    def bot_id(self) -> str:
        """What its messages have as `bot`."""
        ...

    @property
    def can_take_over(self) -> bool:
        """Whether it may answer what another bot received that is no longer there."""
        ...


@runtime_checkable
class HasLabel(Protocol):
    """An adapter that was given a name of its own."""

    @property
    def label(self) -> str:
        """Its platform and its name, for example `telegram:support`."""
        ...


def get_label(adapter: Adapter) -> str:
    """Return what tells an adapter from all others of the daemon."""
    return adapter.label if isinstance(adapter, HasLabel) else adapter.name


def bot_log_context(adapter: Adapter) -> AbstractContextManager[None]:
    """Bind the name of an adapter that was given one to every event that is logged inside the `with` block."""
    name = get_label(adapter).partition(":")[2]
    return log_context(bot_name=name) if name else nullcontext()


def get_bot_id(adapter: Adapter) -> str:
    """Return which bot of its platform an adapter is, "" where it is the only one there can be."""
    return adapter.bot_id if isinstance(adapter, HasBotId) else ""


async def recover_pending(journal: Journal, adapters: Sequence[Adapter]) -> list[tuple[Adapter, Message, str]]:
    """Return what the last run left of one platform, oldest first: whose it is, the message, its reply's id or "".

    `bots` are all of the platform. What another bot received, which is no longer there, goes to the first of them.
    """
    platform = adapters[0].name
    uncertain_count = await journal.fail_uncertain(platform)
    pending_messages = await journal.get_pending(platform)
    if uncertain_count or pending_messages:
        get_logger(__name__).info(
            "intake.resumed", platform=platform, pending=len(pending_messages), doubtful=uncertain_count
        )
    adapters_by_bot_id = {get_bot_id(adapter): adapter for adapter in adapters}
    first_adapter = adapters[0]
    can_take_over = not isinstance(first_adapter, HasBotId) or first_adapter.can_take_over
    assignments: list[tuple[Adapter, Message, str]] = []
    for message, previous_reply_id in pending_messages:
        owner = adapters_by_bot_id.get(message.bot)
        if owner is None and not can_take_over:
            await journal.mark_failed(message, BOT_REMOVED_REASON)
        else:
            assignments.append((owner or first_adapter, message, previous_reply_id))
    return assignments
