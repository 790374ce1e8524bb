"""Where a reply is written: into the channel, or as the response to a slash command."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bots.discord.failures import Expired, ReplyRefused
from core.errors import MessageGone
from core.logs import logger

if TYPE_CHECKING:
    from bots.discord.client import Client

Below = Sequence[Mapping[str, Any]]


class Target(Protocol):
    """One reply's way to Discord. `below` are a message's components. All raise a `PlatformError` of `failures`."""

    async def typing(self) -> None:
        """Show that the bot is at it."""
        ...

    async def post(self, text: str, below: Below = ()) -> str:
        """Post the first part and return its id."""
        ...

    async def edit(self, reply: str, text: str, below: Below = ()) -> None:
        """Replace the first part."""
        ...

    async def add(self, text: str, number: int, below: Below = ()) -> str:
        """Post a further part, counted from 1, and return its id."""
        ...


class InChannel:
    """A message in the channel, as a reply to the question where `question` names one.

    `nonce` is the same for every try at one reply, after a restart too: Discord takes a part once. `ring` are the
    people whom it calls.
    """

    def __init__(
        self, client: Client, channel: str, nonce: str, question: str = "", *, head: str = "", ring: Sequence[str] = ()
    ) -> None:
        self._client = client
        self._channel = channel
        self._nonce = nonce
        self._question = question
        self._head = head
        self._ring = ring
        self._calls = "".join(f"<@{one}> " for one in ring)

    async def typing(self) -> None:
        """Show for about 10 s that the bot is typing."""
        await self._client.typing(self._channel)

    async def post(self, text: str, below: Below = ()) -> str:
        """Post the first part; without a reply to the question where the channel allows none."""
        if self._question:
            try:
                return await self._send(text, below, reply_to=self._question)
            except ReplyRefused as failure:
                logger(__name__).warning("discord.reply_refused", channel=self._channel, error=str(failure))
                self._question = ""
        return await self._send(self._head + text, below)

    async def edit(self, reply: str, text: str, below: Below = ()) -> None:
        """Replace the first part."""
        await self._client.edit(self._channel, reply, self._calls + self._head + text, below=below)

    async def add(self, text: str, number: int, below: Below = ()) -> str:
        """Post a further part."""
        return await self._client.send(self._channel, text, f"{self._nonce}-{number}", below=below)

    async def _send(self, text: str, below: Below, reply_to: str = "") -> str:
        whole = self._calls + text
        return await self._client.send(
            self._channel, whole, self._nonce, reply_to=reply_to, below=below, ring=self._ring
        )


class ByCommand:
    """The response to a slash command, which its acknowledgement made; works for 15 minutes.

    `acknowledged` becomes true when Discord took the acknowledgement; None after a restart, when nobody knows. What is
    `hidden` only who asked sees.
    """

    def __init__(
        self,
        client: Client,
        application: str,
        token: str,
        acknowledged: asyncio.Future[bool] | None = None,
        *,
        hidden: bool = False,
    ) -> None:
        self._hidden = hidden
        self._client = client
        self._application = application
        self._token = token
        self._acknowledged = acknowledged

    async def typing(self) -> None:
        """Do nothing: Discord shows that the bot is thinking."""
        await self._ready()

    async def post(self, text: str, below: Below = ()) -> str:
        """Put the first part in the place of the acknowledgement."""
        await self._ready()
        try:
            return await self._client.respond(self._application, self._token, text, below=below)
        except MessageGone as failure:
            raise Expired("the response to the slash command was removed, or never acknowledged") from failure

    async def edit(self, reply: str, text: str, below: Below = ()) -> None:
        """Replace the first part."""
        await self._client.respond(self._application, self._token, text, below=below)

    async def add(self, text: str, number: int, below: Below = ()) -> str:
        """Post a further part."""
        return await self._client.add(self._application, self._token, text, below=below, hidden=self._hidden)

    async def _ready(self) -> None:
        if self._acknowledged is not None and not await asyncio.shield(self._acknowledged):
            raise Expired("the slash command was not acknowledged in time")
