"""Limits events that people make without a message: presses, reactions, opened pages, commands that ask nothing.

Each of these costs a row in the journal and often a call of the platform, and unlike messages, platforms hardly limit
them. What somebody wants to be forgotten is never lost by that.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from core.messaging.feedback.rating_buttons import read_reaction
from core.messaging.policy.command_table import is_ask_command
from core.observability.logs import get_logger
from core.runtime.allowance import Allowance
from core.settings.base import OPERATOR_PLATFORM
from core.types import Message

_log = get_logger(__name__)

# So many at once, and then so many a minute.
MAX_EVENTS = 60
EVENTS_PER_MINUTE = 6


class EventLimit:
    """Admits events, for each person so many. `is_about_answer` says whether a reaction is below one of ours.

    `has_something_of` says whether a request to be forgotten finds anything: then it is admitted in any case. `clock`
    returns seconds.
    """

    def __init__(
        self,
        is_about_answer: Callable[[Message], Awaitable[bool]],
        has_something_of: Callable[[Message], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_about_answer = is_about_answer
        self._has_something_of = has_something_of
        self._allowance = Allowance(clock)

    async def admits(self, message: Message) -> bool:
        """Return whether a message is to be journalled: every one that is no event, and events within the limit.

        At the terminal there is no limit. A reaction to somebody else's message is no business of ours. Raises
        `StoreError`.
        """
        is_at_terminal = message.key.platform == OPERATOR_PLATFORM
        if is_at_terminal or not message.command or is_ask_command(message.command):
            return True
        if not self._take(message):
            return message.command == "forget" and await self._has_something_of(message)
        return not read_reaction(message) or await self._is_about_answer(message)

    def _take(self, message: Message) -> bool:
        # Authors without an id share one limit per chat.
        person = (message.key.platform, message.author_id or message.key.chat)
        remaining_events = self._allowance.take(person, MAX_EVENTS, EVENTS_PER_MINUTE)
        is_admitted = remaining_events >= 1
        if not is_admitted:
            _log.debug("event.refused", author_id=message.author_id, max_events=MAX_EVENTS)
        elif remaining_events < 2:
            _log.warning("event.limit_reached", author_id=message.author_id, max_events=MAX_EVENTS)
        return is_admitted
