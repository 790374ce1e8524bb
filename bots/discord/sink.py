"""One reply on Discord: a message that replies to the question and grows by edits, or the response to a command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.discord.failures import Expired, NotAllowed, RetryLater, TokenRefused, Unreachable
from bots.discord.feedback import components
from bots.discord.markup import EMPTY, render
from bots.posting.delivery import announced
from bots.posting.patience import Patience
from bots.posting.showing import Showing
from core.errors import MessageGone, PlatformError
from core.feedback.thumbs import thumbs
from core.logs import logger
from core.types import Citation, Message, Reply

if TYPE_CHECKING:
    from bots.discord.pace import Pace
    from bots.discord.targets import Below, Target
    from core.ports import Delivery


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
