"""The first sign of life: a status in the thread where there can be one, else a reaction on the question."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bots.slack.errors import NotAllowed, Unavailable
from core.errors import MessageGone, PlatformError
from core.observability.logs import logger

if TYPE_CHECKING:
    from bots.slack.client import Client
    from core.types import Message

STATUS = "is looking it up…"
REACTION = "eyes"
# A sign that takes longer would only hold up the answer.
LONGEST_S = 3.0


class Lacking:
    """What this workspace turned out not to have, apart for direct conversations and channels."""

    def __init__(self) -> None:
        self._lacking: set[tuple[str, bool]] = set()

    def note(self, what: str, private: bool, failure: PlatformError) -> None:
        """Do without something from now on, until the next start."""
        self._lacking.add((what, private))
        logger(__name__).info("slack.does_without", what=what, private=private, error=str(failure))

    def has(self, what: str, private: bool) -> bool:
        """Say whether something may be tried."""
        return (what, private) not in self._lacking


class Sign:
    """The sign for one question."""

    def __init__(self, client: Client, lacking: Lacking, message: Message) -> None:
        self._client = client
        self._lacking = lacking
        self._private = message.private
        self._channel, self._ts = str(message.reference["channel"]), str(message.reference["ts"])
        self._thread_ts: str | None = message.reference.get("thread_ts")
        self._status = self._reacted = False

    async def show(self) -> bool:
        """Show a sign, or say that none can be shown. Raises `MessageGone` and `NotAllowed`."""
        if self._thread_ts is not None and await self._try("status"):
            self._status = True
        elif await self._try("reaction"):
            self._reacted = True
        return self._status or self._reacted

    async def clear(self, *, posted: bool) -> None:
        """Take the sign away; a status goes by itself when something was posted."""
        try:
            if self._reacted:
                await self._client.unreact(self._channel, self._ts, REACTION)
            if self._status and not posted and self._thread_ts is not None:
                await self._client.set_status(self._channel, self._thread_ts, "")
        except PlatformError as failure:
            logger(__name__).debug("slack.sign_stays", error=str(failure))

    async def _try(self, what: str) -> bool:
        if not self._lacking.has(what, self._private):
            return False
        try:
            async with asyncio.timeout(LONGEST_S):
                if what == "status" and self._thread_ts is not None:
                    await self._client.set_status(self._channel, self._thread_ts, STATUS)
                else:
                    await self._client.react(self._channel, self._ts, REACTION)
        except TimeoutError:
            logger(__name__).debug("slack.no_sign", what=what, error=f"took longer than {LONGEST_S:g} s")
        except Unavailable as failure:
            self._lacking.note(what, self._private, failure)
        except (MessageGone, NotAllowed):
            raise
        except PlatformError as failure:
            logger(__name__).debug("slack.no_sign", what=what, error=str(failure))
        else:
            return True
        return False
