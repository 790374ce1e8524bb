"""One reply on Discord: a message that replies to the question and grows by edits, or the response to a command."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bots.common.delivery_retry import Patience, announced
from bots.common.live_preview import Showing
from bots.discord.connection import Expired, NotAllowed, ReplyRefused, RetryLater, TokenRefused, Unreachable
from bots.discord.feedback import components
from bots.discord.render import EMPTY, render
from core.errors import MessageGone, PlatformError
from core.messaging.feedback.rating_buttons import thumbs
from core.observability.logs import logger
from core.types import Citation, Message, Reply

if TYPE_CHECKING:
    from bots.discord.client import Client
    from bots.discord.connection import Pace
    from core.ports import Delivery

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


class DiscordSink:
    """Writes one reply.

    While the answer is being written its newest state is shown; states that could not be shown in time are skipped.
    `otherwise` takes the reply when a slash command can no longer be answered.
    """

    def __init__(
        self,
        target: Target,
        message: Message,
        *,
        delivery: Delivery,
        previous: str,
        pace: Pace,
        otherwise: Target | None = None,
    ) -> None:
        self._target = target
        self._message = message
        self._otherwise = otherwise
        self._delivery = delivery
        self._pace = pace
        self._reply_id = previous
        self._shown = ""
        self._in_doubt = False
        self._showing = Showing("discord reply")
        self._patience = Patience("discord", pace, self._move)

    async def open(self) -> None:
        """Show that the bot is typing, and go on showing what `update` brings."""
        self._showing.begin(lambda: self._showing.each_state(self._show, self._typing, self._pace.typing_s))

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to show the states before."""
        self._showing.tell(text)

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its sources; what is too long for one message follows in more."""
        await self._conclude(reply.text, reply.citations, components(thumbs(self._message, reply)))

    async def fail(self, text: str) -> None:
        """Show the text in place of the reply."""
        await self._conclude(text, ())

    def question_deleted(self) -> None:
        """Note that the question was deleted: nothing is posted any more; a reply that is there is completed."""
        if not self._reply_id and self._showing.failure is None:
            self._showing.failure = MessageGone("the question was deleted")

    async def _typing(self) -> None:
        try:
            await self._target.typing()
        except (MessageGone, NotAllowed, TokenRefused):
            raise
        except RetryLater as failure:
            # Typing has a limit of its own, which holds for nothing else.
            logger(__name__).debug("discord.typing_skipped", wait_s=failure.seconds)
        except Expired as failure:
            self._move(failure)
        except PlatformError as failure:
            logger(__name__).debug("discord.typing_failed", error=str(failure))

    async def _show(self) -> float:
        """Show the newest state; return for how long not to show another one."""
        state = (await asyncio.to_thread(render, self._showing.text))[0]
        if state in (self._shown, EMPTY):
            return 0
        try:
            await self._put(state)
        except RetryLater as failure:
            self._patience.hold(failure)
            self._showing.news.set()
            return max(self._pace.edit_s, failure.seconds)
        except Expired as failure:
            self._move(failure)
        except Unreachable as failure:
            logger(__name__).debug("discord.state_skipped", error=str(failure))
        else:
            self._shown = state
        return self._pace.edit_s

    async def _conclude(self, text: str, citations: Sequence[Citation], below: Below = ()) -> None:
        await self._showing.ended()
        first, *others = await asyncio.to_thread(render, text, citations)
        below_first = () if others else below
        if first != self._shown or below_first:
            await self._patience.insist(lambda: self._put(first, below_first))
        for number, part in enumerate(others, 1):
            last = below if number == len(others) else ()
            await self._patience.insist(
                lambda part=part, number=number, last=last: self._target.add(part, number, last)  # type: ignore[misc]
            )

    async def _put(self, text: str, below: Below = ()) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""
        if self._reply_id:
            await self._target.edit(self._reply_id, text, below)
            return
        self._showing.check()
        # Where no answer comes, the post's nonce keeps a second try from doubling it.
        await self._patience.to_the_end(announced(self._delivery, lambda: self._post(text, below)))
        if self._in_doubt:
            # A try that seemed lost may have arrived: then the nonce gave that message back, with what it said.
            await self._target.edit(self._reply_id, text, below)

    async def _post(self, text: str, below: Below) -> str:
        try:
            self._reply_id = await self._target.post(text, below)
        except Unreachable:
            self._in_doubt = True
            raise
        return self._reply_id

    def _move(self, failure: PlatformError) -> None:
        """Go on in the channel, when the token of a slash command is of no more use. Raises when that is no way out."""
        if not isinstance(failure, Expired) or self._otherwise is None:
            raise failure
        logger(__name__).info("discord.command_expired", error=str(failure))
        self._target, self._otherwise = self._otherwise, None
