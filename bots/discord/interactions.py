"""Slash commands, and the commands in the menu of a message.

They are acknowledged at once: after three seconds without that, Discord reports a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bots.common.asker_only import for_asker
from bots.common.connection import TokenRefused
from bots.common.events import IgnoredEvent
from bots.discord.application_commands import MESSAGE_COMMAND, has_ephemeral_reply, suggest_sources
from bots.discord.connection import DiscordIntervals, make_retry_loop
from bots.discord.convert import Identity, to_command, to_interaction, to_location, to_message
from bots.discord.feedback import acknowledge
from bots.discord.forwards import ForwardReader
from bots.discord.history import deliver
from bots.discord.visible_text import Reader
from core.errors import PlatformError, StoreError
from core.messaging.feedback.handoff import ASK_ABOUT_THIS, LEARN_FROM_THIS
from core.messaging.policy.command_table import is_ask_command
from core.observability.logs import get_logger
from core.ports import MessageHandler
from core.runtime.tasks import task_group, wait_for
from core.types import Message

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

_log = get_logger(__name__)

FORWARDED = 1
AUTOCOMPLETE = 4


def is_message_command(event: Mapping[str, Any]) -> bool:
    """Return whether an interaction comes from the menu of a message."""
    data = event.get("data")
    return isinstance(data, Mapping) and data.get("type") == MESSAGE_COMMAND


def from_message_command(event: Mapping[str, Any], me: Identity) -> Message | IgnoredEvent:
    """Convert a message command, or return why it is ignored; `reference` as that of a slash command.

    The event contains the text of the message, so that it need not have been seen before. Raises `KeyError` and the
    like for a malformed event.
    """
    data = event["data"]
    name = {LEARN_FROM_THIS: "learn", ASK_ABOUT_THIS: "ask"}.get(data["name"])
    if name is None:
        return IgnoredEvent("an entry in the menu of a message that is not ours", is_expected=False)
    command = to_command({**event, "data": {"name": name, "type": 1}}, me)
    if isinstance(command, IgnoredEvent):
        return command
    target_message = data["resolved"]["messages"][data["target_id"]]
    channel = event.get("channel") or {"id": event["channel_id"]}
    location = to_location({"guild_id": event.get("guild_id"), **channel})
    # The journal has the bot's own answers as they were before rendering.
    quoted_message = to_message(target_message, me, location, include_bots=True)
    if isinstance(quoted_message, IgnoredEvent):
        quoted_text = ""
    else:
        # What was forwarded teaches nothing.
        quoted_text = quoted_message.text if name == "learn" else Reader(me.id).get_visible_text(target_message)
    quoted_author = str(target_message["author"]["id"])
    return replace(
        command,
        reply_to=str(data["target_id"]),
        quoted=quoted_text,
        quoted_authors=() if quoted_author == command.author_id else (quoted_author,),
        parent_id=_get_replied_id(target_message),
    )


def _get_replied_id(message: Mapping[str, Any]) -> str:
    message_reference = message.get("message_reference") or {}
    return "" if message_reference.get("type") == FORWARDED else str(message_reference.get("message_id") or "")


@dataclass(slots=True)
class _PendingInteraction:
    """A slash command that is being handled: whether Discord took the acknowledgement, and whether it is answered."""

    acknowledged: asyncio.Future[bool]
    answer_started: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class InteractionHandler:
    """Handles slash commands: each is acknowledged and saved; the response to an unanswered one is removed."""

    client: DiscordClient
    me: Identity
    intervals: DiscordIntervals
    get_sources: Callable[[Message], Awaitable[Sequence[str]]]
    is_for_asker: Callable[[str], bool]
    _pending: dict[str, _PendingInteraction] = field(default_factory=dict, init=False)
    _forwards: ForwardReader = field(init=False)

    def __post_init__(self) -> None:
        self._forwards = ForwardReader(self.client)

    async def handle(self, event: Mapping[str, Any], receive: MessageHandler) -> None:
        """Handle one interaction until its answer has begun or is given up."""
        if event.get("type") == AUTOCOMPLETE:
            await self._autocomplete(event)
            return
        try:
            message = (from_message_command if is_message_command(event) else to_command)(event, self.me)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning("discord.command_malformed", error=repr(error)[:300])
            return
        if isinstance(message, IgnoredEvent):
            _log.warning("discord.command_skipped", reason=message.reason)
            return
        if message.id in self._pending:
            return
        if is_ask_command(message.command) and not message.private and self.is_for_asker(message.key.chat):
            message = for_asker(message)
        pending_interaction = _PendingInteraction(asyncio.get_running_loop().create_future())
        self._pending[message.id] = pending_interaction
        try:
            async with task_group() as tasks:
                tasks.create_task(self._acknowledge(message, pending_interaction.acknowledged))
                await deliver(receive, await self._with_origin(message, event), self.intervals)
            # The gate may have decided not to answer: then no message may be left that says "thinking".
            if not await wait_for(pending_interaction.answer_started, self.intervals.unanswered_timeout_s):
                await self._delete_response(message)
        finally:
            del self._pending[message.id]
            if not pending_interaction.acknowledged.done():
                pending_interaction.acknowledged.set_result(False)

    async def _with_origin(self, message: Message, event: Mapping[str, Any]) -> Message:
        """Return a message that names whose words the message in whose menu a command was chosen forwards."""
        if not is_message_command(event):
            return message
        target_message = event["data"]["resolved"]["messages"][event["data"]["target_id"]]
        try:
            return await make_retry_loop("reading", self.intervals).retry_until_ok(
                lambda: self._forwards.with_origins(message, target_message)
            )
        except TokenRefused as error:
            # Nor is anything answered with it; the gateway's session finds out.
            _log.warning("discord.forward_not_read", error=str(error))
            return message

    def mark_answered(self, message: Message) -> asyncio.Future[bool] | None:
        """Note that a command is being answered; return whether it is acknowledged, None when that is not known."""
        pending_interaction = self._pending.get(message.id)
        if pending_interaction is None:
            return None
        pending_interaction.answer_started.set()
        return pending_interaction.acknowledged

    async def _autocomplete(self, event: Mapping[str, Any]) -> None:
        """Complete the name of a source, one that may be told of there, while it is typed."""
        try:
            sources = await self.get_sources(to_interaction(event, self.me))
            options = event["data"].get("options") or ()
            typed_text = next((str(option.get("value", "")) for option in options if option.get("focused")), "")
            await self.client.respond_autocomplete(
                str(event["id"]), str(event["token"]), suggest_sources(typed_text, sources)
            )
        except (KeyError, TypeError, AttributeError) as error:
            _log.warning("discord.command_malformed", error=repr(error)[:300])
        except (PlatformError, StoreError) as error:
            _log.debug("discord.suggestions_not_sent", error=str(error))

    async def _acknowledge(self, message: Message, acknowledged: asyncio.Future[bool]) -> None:
        interaction = message.reference["interaction"]
        token = message.reference["token"]
        is_ephemeral = has_ephemeral_reply(message)
        is_done = False
        try:
            await acknowledge(lambda: self.client.defer(interaction, token, is_ephemeral=is_ephemeral), self.intervals)
            is_done = True
        except (PlatformError, TimeoutError) as error:
            _log.warning("discord.command_not_acknowledged", error=str(error) or "it took too long")
        acknowledged.set_result(is_done)

    async def _delete_response(self, message: Message) -> None:
        try:
            await self.client.delete_original_response(self.me.application_id, message.reference["token"])
        except PlatformError as error:
            _log.debug("discord.command_not_withdrawn", error=str(error))
