"""Several bots of one platform in one daemon: which of them a message in the journal belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from core.observability.logs import get_logger, log_context
from core.ports import Adapter
from core.storage.messages import Journal
from core.types import Message

BOT_REMOVED_REASON = "the bot that received it is no longer configured"


def bot_log_context(adapter: Adapter) -> AbstractContextManager[None]:
    """Bind the name of an adapter that was given one to every event that is logged inside the `with` block."""
    name = adapter.label.partition(":")[2]
    return log_context(bot_name=name) if name else nullcontext()


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
    adapters_by_bot_id = {adapter.bot_id: adapter for adapter in adapters}
    first_adapter = adapters[0]
    assignments: list[tuple[Adapter, Message, str]] = []
    for message, previous_reply_id in pending_messages:
        owner = adapters_by_bot_id.get(message.bot)
        if owner is None and not first_adapter.can_take_over:
            await journal.mark_failed(message, BOT_REMOVED_REASON)
        else:
            assignments.append((owner or first_adapter, message, previous_reply_id))
    return assignments
