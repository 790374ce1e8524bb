"""Limits events that people make without a message: presses, reactions, opened pages, commands that ask nothing.

Each of these costs a row in the journal and often a call of the platform, and unlike messages, platforms hardly limit
them. What somebody wants to be forgotten is never lost by that.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from core.messaging.feedback.rating_buttons import read_reaction
from core.messaging.policy.command_table import is_ask_command
from core.observability.logs import get_logger
from core.settings.base import OPERATOR_PLATFORM
from core.types import Message

_log = get_logger(__name__)

# So many at once, and then so many a minute.
MAX_EVENTS = 60
EVENTS_PER_MINUTE = 6
# People who are remembered: who was quiet for longest is forgotten.
MAX_PEOPLE = 10_000


class Allowance:
    """Lets each person do something so many times at once, and then so many times a minute. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By person: how often each may still, and when that was so.
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, person: tuple[str, str], at_once: float, per_minute: float) -> float:
        """Return how often a person could before this time; below 1 they may not now, and nothing is taken."""
        now = self._clock()
        left, counted_at = self._left.pop(person, (float(at_once), now))
        left = min(at_once, left + (now - counted_at) / 60 * per_minute)
        self._left[person] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MAX_PEOPLE:
            self._left.popitem(last=False)
        return left


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
