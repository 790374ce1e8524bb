"""Limits events that people make without a message: presses, reactions, opened pages, commands that ask nothing.

Each of these costs a row in the journal and often a call of the platform, and unlike messages, platforms hardly limit
them.
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


class EventLimit:
    """Admits events, for each person so many. `is_about_answer` says whether a reaction is below one of ours.

    `clock` returns seconds.
    """

    def __init__(
        self, is_about_answer: Callable[[Message], Awaitable[bool]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_about_answer = is_about_answer
        self._clock = clock
        # By person: how many events are left, and when that was so.
        self._remaining_events: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    async def admits(self, message: Message) -> bool:
        """Return whether a message is to be journalled: every one that is no event, and events within the limit.

        At the terminal there is no limit. A reaction to somebody else's message is no business of ours.
        """
        is_at_terminal = message.key.platform == OPERATOR_PLATFORM
        if is_at_terminal or not message.command or is_ask_command(message.command):
            return True
        if not self._take(message):
            return False
        return not read_reaction(message) or await self._is_about_answer(message)

    def _take(self, message: Message) -> bool:
        # Authors without an id share one limit per chat.
        person = (message.key.platform, message.author_id or message.key.chat)
        now = self._clock()
        remaining_events, counted_at = self._remaining_events.pop(person, (float(MAX_EVENTS), now))
        remaining_events = min(MAX_EVENTS, remaining_events + (now - counted_at) / 60 * EVENTS_PER_MINUTE)
        is_admitted = remaining_events >= 1
        self._remaining_events[person] = (remaining_events - 1 if is_admitted else remaining_events, now)
        if len(self._remaining_events) > MAX_PEOPLE:
            self._remaining_events.popitem(last=False)
        if not is_admitted:
            _log.debug("event.refused", author_id=message.author_id, max_events=MAX_EVENTS)
        elif remaining_events < 2:
            _log.warning("event.limit_reached", author_id=message.author_id, max_events=MAX_EVENTS)
        return is_admitted
