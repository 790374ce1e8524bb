"""Threads that a part of a chat reads, or that are closed to the others later, such as a confidential issue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from bots.common.asker_only import for_asker
from core.messaging.feedback import rating_buttons
from core.types import DOWN, RATING_COMMAND, ConversationKey, Message, ThreadState
from tests.security.audience_rules.steps import IN_ASKING, IN_DRAFTED, LATER, PLANS
from tests.support.audience_changes import Deployment, Plan
from tests.support.audience_world import IN_PRIVATE, OWNER, PLACES, QUESTION, TEAM, format_said
from tests.support.interleaving import POINTS
from tests.support.recording_bot import Sender

THREADED = (*IN_ASKING, IN_DRAFTED, *(place for place in PLACES if place.platform in ("discord", "github", "gitlab")))
# Where an asker alone may be answered.
HIDING = ("slack", "discord")
# What may tell of it elsewhere.
TELLING = ("", "", "", "why", "digest", "faq", "stats", "escalate", "sources", "learn", "learn")


class ThreadRules(Deployment):
    """What is said in a thread, and told elsewhere in its chat, and to its team."""

    said: Message

    @rule(
        place=st.sampled_from(THREADED),
        reader=st.sampled_from((None, None, None, TEAM)),
        is_closed=st.booleans(),
        command=st.sampled_from(TELLING),
        plan=PLANS,
    )
    def tell_of_a_closed_thread(
        self, place: Sender, reader: str | None, is_closed: bool, command: str, plan: Plan | None
    ) -> None:
        """Say something in a thread that is closed from the beginning, or now; nothing elsewhere has it."""
        self.run(self._say_in_a_thread(place, is_closed=is_closed))
        self.run(self._change(Plan("", 0, "close thread", 0)))
        self._tell(place, reader, command, plan)
        # Those who read it there go on.
        self.run(self._deliver(place, "And what else is known about it?", **self._within()))

    @rule(
        place=st.sampled_from(THREADED),
        reader=st.sampled_from((None, None, None, TEAM)),
        command=st.sampled_from(TELLING),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 15),
        is_early=st.booleans(),
    )
    def close_a_thread_meanwhile(
        self, place: Sender, reader: str | None, command: str, point: str, count: int, is_early: bool
    ) -> None:
        """A thread is closed while something elsewhere is made of it."""
        plan = Plan(point, count, "close thread", 0)
        self.run(self._say_in_a_thread(place, is_closed=False), plan if is_early else None)
        self._tell(place, reader, command, None if is_early else plan)

    @rule(
        pair=st.sampled_from([(place, replace(place, author="43")) for place in PLACES if place.platform in HIDING]),
        command=st.sampled_from(TELLING),
        changes=LATER,
        plan=PLANS,
    )
    def ask_alone(self, pair: tuple[Sender, Sender], command: str, changes: Sequence[Plan], plan: Plan | None) -> None:
        """What the asker alone was told is told to nobody else there, also once all answers are for everybody."""
        place, other = pair
        self._restart(replace(self.configuration, asker=frozenset({f"{place.platform}:{place.chat}"})))
        word = self._say(place)
        self.said = self.run(self._deliver_alone(place, f"{QUESTION} {format_said(word)}"))
        self.truth.threads[word] = self.said.key
        self.truth.closed_threads.add(self.said.key)
        self.run(self._deliver_alone(other, "And what else is known about it?"))
        for change in changes:
            self.run(self._change(change))
        self._restart(replace(self.configuration, asker=frozenset()))
        self._tell(other, None, command, plan)

    async def _deliver_alone(self, place: Sender, text: str) -> Message:
        """Ask what the asker alone is to be answered, as platforms give it."""
        key = ConversationKey(place.platform, place.chat)
        asked = Message("", key, place.author, "", text, datetime.now(UTC), thread_state=ThreadState())
        alone = for_asker(asked)
        options = {"key": alone.key, "reference": alone.reference, "thread_state": alone.thread_state}
        return await self._deliver(place, text, **options)

    async def _say_in_a_thread(self, place: Sender, *, is_closed: bool) -> None:
        place = self._at(place)
        self.begin_thread(place, is_closed=is_closed)
        word = self._say(place)
        self.truth.threads[word] = self.thread
        self.said = await self._deliver(place, f"{QUESTION} {format_said(word)}", **self._within())
        # Its answer has the word as well; who asked is not content with it.
        asked = await self._deliver(place, QUESTION, **self._within())
        key = ConversationKey(place.platform, place.chat, rating_buttons.THREAD)
        await self._deliver(place, DOWN, RATING_COMMAND, reply_to=asked.id, key=key)

    def _tell(self, place: Sender, reader: str | None, command: str, plan: Plan | None) -> None:
        text = "" if command else QUESTION
        addressed: dict[str, Any] = {"addressed": bool(command) or place not in IN_ASKING}
        if command == "learn":
            addressed["reply_to"] = self.said.id
            text = "Which key has it?"
        # Some commands are for those who look after the bot.
        asker = replace(place, author=OWNER) if command in ("digest", "faq", "stats") else place
        self.run(self._deliver(asker, text, command, **addressed), plan)
        if reader:
            self.run(self._deliver(Sender(reader, "1"), "", "digest"))
        self.run(self._deliver(place, "And what else is known about it?"))
        self.run(self._deliver(IN_PRIVATE, "", "digest"))
        self.run(self._deliver(replace(place, author=OWNER), "", "faq"))
