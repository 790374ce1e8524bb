"""Slash commands, and those in the menu of a message.

They are acknowledged at once, because Discord waits three seconds for it and then says that we failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bots.discord.chosen import is_chosen, to_lesson
from bots.discord.convert import Identity, Ignored, to_command
from bots.discord.failures import Acknowledged, Unreachable
from bots.discord.menu import is_hidden, suggestions
from bots.discord.pace import Pace
from bots.discord.reader import deliver
from bots.posting.pace import wait_for
from core.errors import PlatformError
from core.logs import logger
from core.tasks import task_group
from core.types import Message

if TYPE_CHECKING:
    from bots.discord.client import Client
    from core.ports import Receive

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
