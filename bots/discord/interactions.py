"""Slash commands, and those in the menu of a message.

They are acknowledged at once, because Discord waits three seconds for it and then says that we failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bots.common.connection import wait_for
from bots.discord.application_commands import ON_MESSAGES, is_hidden, suggestions
from bots.discord.connection import Acknowledged, Pace, Unreachable
from bots.discord.convert import Identity, Ignored, place_of, to_command, to_message
from bots.discord.history import deliver
from core.errors import PlatformError
from core.messaging.feedback.message_reference import BEFORE, LEARN_FROM_THIS
from core.observability.logs import logger
from core.runtime.tasks import task_group
from core.types import Message

if TYPE_CHECKING:
    from bots.discord.client import Client
    from core.ports import Receive

FORWARDED = 1


def is_chosen(event: Mapping[str, Any]) -> bool:
    """Say whether an interaction comes from the menu of a message."""
    data = event.get("data")
    return isinstance(data, Mapping) and data.get("type") == ON_MESSAGES


def to_lesson(event: Mapping[str, Any], me: Identity) -> Message | Ignored:
    """Convert the choice of a message, or say why it is none of ours; `reference` as that of a slash command.

    What the message says comes with it, so that it need not have been seen before. Raises `KeyError` and the like for a
    malformed event.
    """
    data = event["data"]
    if data["name"] != LEARN_FROM_THIS:
        return Ignored("an entry in the menu of a message that is not ours", expected=False)
    command = to_command({**event, "data": {"name": "learn", "type": 1}}, me)
    if isinstance(command, Ignored):
        return command
    chosen = data["resolved"]["messages"][data["target_id"]]
    place = place_of({"guild_id": event.get("guild_id"), **event["channel"]})
    # The bot's own answers are in the journal, as they were before they were made to fit a message.
    said = to_message(chosen, me, place, counted=True)
    return replace(
        command,
        reply_to=str(data["target_id"]),
        quoted="" if isinstance(said, Ignored) else said.text,
        reference={**command.reference, BEFORE: _replied_to(chosen)},
    )


def _replied_to(chosen: Mapping[str, Any]) -> str:
    replied = chosen.get("message_reference") or {}
    return "" if replied.get("type") == FORWARDED else str(replied.get("message_id") or "")


TYPING = 4


@dataclass(slots=True)
class _Asked:
    """A slash command on its way: whether Discord took its acknowledgement, and whether somebody answers it."""

    acknowledged: asyncio.Future[bool]
    taken: asyncio.Event = field(default_factory=asyncio.Event)


class Desk:
    """Takes slash commands. Each is journalled while it is acknowledged; one that nobody answers is cleared away."""

    def __init__(self, client: Client, me: Identity, pace: Pace, sources: Sequence[str] = ()) -> None:
        self._client = client
        self._me = me
        self._pace = pace
        self._sources = sources
        self._asked: dict[str, _Asked] = {}

    async def take(self, event: Mapping[str, Any], receive: Receive) -> None:
        """Handle one interaction, to the point where its answer is begun or given up."""
        if event.get("type") == TYPING:
            await self._suggest(event)
            return
        try:
            message = (to_lesson if is_chosen(event) else to_command)(event, self._me)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger(__name__).warning("discord.command_malformed", error=repr(error)[:300])
            return
        if isinstance(message, Ignored):
            logger(__name__).warning("discord.command_skipped", reason=message.reason)
            return
        if message.id in self._asked:
            return
        asked = _Asked(asyncio.get_running_loop().create_future())
        self._asked[message.id] = asked
        try:
            async with task_group() as tasks:
                tasks.create_task(self._acknowledge(message, asked.acknowledged))
                await deliver(receive, message, self._pace)
            # The gate may have decided for silence: then nothing must be left that says "thinking".
            if not await wait_for(asked.taken, self._pace.unanswered_s):
                await self._withdraw(message)
        finally:
            del self._asked[message.id]
            if not asked.acknowledged.done():
                asked.acknowledged.set_result(False)

    def answered(self, message: Message) -> asyncio.Future[bool] | None:
        """Note that a command is being answered; return whether it is acknowledged, None when that is not known."""
        asked = self._asked.get(message.id)
        if asked is None:
            return None
        asked.taken.set()
        return asked.acknowledged

    async def _suggest(self, event: Mapping[str, Any]) -> None:
        """Complete the name of a source while it is typed. What comes too late is of no use to anybody."""
        try:
            options = event["data"].get("options") or ()
            typed = next((str(one.get("value", "")) for one in options if one.get("focused")), "")
            await self._client.suggest(str(event["id"]), str(event["token"]), suggestions(typed, self._sources))
        except (KeyError, TypeError, AttributeError) as error:
            logger(__name__).warning("discord.command_malformed", error=repr(error)[:300])
        except PlatformError as failure:
            logger(__name__).debug("discord.not_suggested", error=str(failure))

    async def _acknowledge(self, message: Message, acknowledged: asyncio.Future[bool]) -> None:
        reference = message.reference
        done = False
        try:
            async with asyncio.timeout(self._pace.acknowledge_s):
                while not done:
                    done = await self._deferred(reference, hidden=is_hidden(message.command))
        except (PlatformError, TimeoutError) as failure:
            logger(__name__).warning("discord.command_not_acknowledged", error=str(failure) or "it took too long")
        acknowledged.set_result(done)

    async def _deferred(self, reference: Mapping[str, Any], *, hidden: bool) -> bool:
        try:
            await self._client.defer(reference["interaction"], reference["token"], hidden=hidden)
        except Acknowledged:
            return True
        except Unreachable as failure:
            logger(__name__).debug("discord.acknowledgement_lost", error=str(failure))
            await asyncio.sleep(self._pace.backoff(1) / 4)
            return False
        return True

    async def _withdraw(self, message: Message) -> None:
        try:
            await self._client.withdraw(self._me.application, message.reference["token"])
        except PlatformError as failure:
            logger(__name__).debug("discord.command_not_withdrawn", error=str(failure))
