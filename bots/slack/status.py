"""How Slack shows that the bot is at work on a question, and what this workspace turned out to lack."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bots.common.connection import NotAllowed
from bots.slack.connection import MethodUnavailable
from core.errors import MessageDeleted, PlatformError
from core.observability.logs import get_logger
from core.types import Message

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

STATUS = "is looking it up…"
REACTION = "eyes"
# A status that takes longer would only delay the answer.
TIMEOUT_S = 3.0


class MissingCapabilities:
    """The capabilities that this workspace lacks, separately for direct conversations and channels."""

    def __init__(self) -> None:
        self._missing: set[tuple[str, bool]] = set()

    def mark_missing(self, capability: str, private: bool, error: PlatformError) -> None:
        """Note that a capability is missing, until the next start."""
        self._missing.add((capability, private))
        _log.info("slack.capability_missing", what=capability, private=private, error=str(error))

    def is_available(self, capability: str, private: bool) -> bool:
        """Return whether a capability may be tried."""
        return (capability, private) not in self._missing


class StatusIndicator:
    """The status of one question."""

    def __init__(self, client: SlackClient, missing_capabilities: MissingCapabilities, message: Message) -> None:
        self._client = client
        self._missing_capabilities = missing_capabilities
        self._private = message.private
        self._channel = str(message.reference["channel"])
        self._ts = str(message.reference["ts"])
        self._thread_ts: str | None = message.reference.get("thread_ts")
        self._has_status = False
        self._has_reaction = False

    async def show(self) -> bool:
        """Show a status and return whether that worked. Raises `MessageDeleted` and `NotAllowed`."""
        # Recorded first: a call that is cancelled half-way may have shown it.
        self._has_status = self._thread_ts is not None
        self._has_status = self._has_status and await self._try_show("status")
        if not self._has_status:
            self._has_reaction = True
            self._has_reaction = await self._try_show("reaction")
        return self._has_status or self._has_reaction

    async def clear(self, *, posted: bool) -> None:
        """Remove the status; Slack removes it itself when something was posted."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self._has_reaction:
                    await self._client.remove_reaction(self._channel, self._ts, REACTION)
                if self._has_status and not posted and self._thread_ts is not None:
                    await self._client.set_status(self._channel, self._thread_ts, "")
        except (PlatformError, TimeoutError) as error:
            _log.debug("slack.status_not_cleared", error=str(error))

    async def _try_show(self, capability: str) -> bool:
        if not self._missing_capabilities.is_available(capability, self._private):
            return False
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if capability == "status" and self._thread_ts is not None:
                    await self._client.set_status(self._channel, self._thread_ts, STATUS)
                else:
                    await self._client.add_reaction(self._channel, self._ts, REACTION)
        except TimeoutError:
            _log.debug("slack.status_not_shown", what=capability, error=f"took longer than {TIMEOUT_S:g} s")
        except MethodUnavailable as error:
            self._missing_capabilities.mark_missing(capability, self._private, error)
        except (MessageDeleted, NotAllowed):
            raise
        except PlatformError as error:
            _log.debug("slack.status_not_shown", what=capability, error=str(error))
        else:
            return True
        return False
