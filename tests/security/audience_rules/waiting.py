"""What waits: for a team, for a platform that is away, for people to answer first; and what changes meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from sqlalchemy import select

from core.storage.drafts import DraftRepository
from core.storage.tables import messages
from tests.security.audience_rules.steps import (
    FELLOWS,
    IN_ASKING,
    IN_DRAFTED,
    LATER,
    LATER_OR_ERASED,
    PLANS,
    QUESTIONS,
    SENDERS,
)
from tests.support.audience_changes import CHANGES, CLOSINGS, Deployment, Plan
from tests.support.audience_world import OWNER, PLACES, QUESTION, TEAM, format_said
from tests.support.interleaving import PLACE, Interruption
from tests.support.recording_bot import Sender


class WaitingRules(Deployment):
    """Answers, drafts and hints that are made under one configuration and shown under another one."""

    def _pass(self, changes: Sequence[Plan]) -> None:
        for plan in changes:
            self.run(self._change(plan))

    def _open_again(self, changes: Sequence[Plan]) -> None:
        """Begin anew where something was closed: there would soon be nothing left to close."""
        for plan in [plan for plan in changes if plan.change in CLOSINGS][:1]:
            self._reopen(plan.pick)

    def _word(self, sender: Sender, *, is_said: bool) -> str:
        return format_said(self._say(self._at(sender))) if is_said else QUESTION

    @rule(
        sender=SENDERS,
        is_said=st.booleans(),
        count=st.integers(0, 1),
        change=st.sampled_from(CHANGES),
        pick=st.none() | st.integers(0, len(PLACES) - 1),
        command=st.sampled_from(("", "", "", "why", "sources", "faq", "digest")),
    )
    def wait_for_the_platform(
        self, sender: Sender, is_said: bool, count: int, change: str, pick: int | None, command: str
    ) -> None:
        """Ask while the platform is away; the answer is posted when it is back, after something has changed."""
        plan = Plan("wait", count, change, PLACES.index(sender) if pick is None else pick)
        text = "" if command else self._word(sender, is_said=is_said)
        self.last_messages[sender] = self.run(self._deliver(sender, text, command), plan)

    @rule(
        sender=SENDERS,
        is_said=st.booleans(),
        command=st.sampled_from(("", "", "", "why", "faq", "digest", "escalate")),
        changes=LATER,
    )
    def wait_for_the_next_start(self, sender: Sender, is_said: bool, command: str, changes: Sequence[Plan]) -> None:
        """Ask while the platform is away, which it is until the bot is started again."""
        text = "" if command else self._word(sender, is_said=is_said)
        self.interruptions.refusals = 99
        self.run(self._deliver_until(sender, text, command, Interruption("wait", 0, self._stand_still)))
        self.interruptions.refusals = 0
        self._restart(self.configuration)
        self._pass(changes)
        PLACE.set(self._at(sender))
        self.run(self._resume())
        self._open_again(changes)

    @rule(
        is_said=st.booleans(),
        is_told=st.booleans(),
        changes=LATER_OR_ERASED,
        choice=st.sampled_from(("post", "post", "edit", "drop", "reply")),
        plan=PLANS,
    )
    def let_a_draft_wait(
        self, is_said: bool, is_told: bool, changes: Sequence[Plan], choice: str, plan: Plan | None
    ) -> None:
        """A draft waits for its team while something changes, told of or not; then somebody decides."""
        text = self._word(IN_DRAFTED, is_said=is_said)
        self.last_messages[IN_DRAFTED] = self.run(self._deliver(IN_DRAFTED, text))
        if is_told:
            self.run(self._tell_of_drafts())
        self._pass(changes)
        self.run(self._decide(choice), plan)
        self._open_again(changes)

    async def _tell_of_drafts(self) -> None:
        PLACE.set(Sender(TEAM, OWNER))
        await self.bot.processor.drafts.sweep()
        await self.bot.processor.join()

    async def _decide(self, choice: str) -> None:
        """Decide about all drafts that wait, by a command or by other words below what tells of them."""
        await self._tell_of_drafts()
        place = Sender(TEAM, OWNER)
        for draft in await DraftRepository(self.bot.journal.database).get_waiting():
            if choice == "reply":
                notices = [row for row in await self._find_notices() if row.root_id == str(draft.number)]
                options: dict[str, Any] = {"reply_to": notices[-1].reply_id, "quotes_bot": True} if notices else {}
                await self._deliver(place, "It is as the team says [1].", **options)
            else:
                text = " It is as the team says [1]." if choice == "edit" else ""
                await self._deliver(place, f"{draft.number}{text}", choice)

    async def _find_notices(self) -> Sequence[Any]:
        query = select(messages).filter_by(platform="telegram", chat=TEAM, purpose="draft")
        return await self.bot.journal.database.fetch_all(query.where(messages.c.reply_id != ""))

    @rule(
        pair=st.sampled_from([*FELLOWS, *([IN_ASKING] * 4)]),
        question=st.sampled_from(QUESTIONS),
        changes=LATER_OR_ERASED,
        plan=PLANS,
    )
    def ask_the_same(
        self, pair: tuple[Sender, Sender], question: str, changes: Sequence[Plan], plan: Plan | None
    ) -> None:
        """Ask nobody what was answered to somebody else before: the cache has it, or a hint points to it."""
        first, second = pair
        self.run(self._deliver(first, question))
        self._pass(changes)
        self.last_messages[second] = self.run(self._deliver(second, question, addressed=False), plan)
        self._open_again(changes)

    @rule(
        first=st.sampled_from(IN_ASKING),
        is_said=st.booleans(),
        change=st.sampled_from(CHANGES),
        pick=st.integers(0, len(PLACES) - 1),
    )
    def give_people_time(self, first: Sender, is_said: bool, change: str, pick: int) -> None:
        """Ask everybody; while people have time to answer, something changes."""
        plan = Plan("wait", 0, change, pick)
        text = self._word(first, is_said=is_said)
        self.last_messages[first] = self.run(self._deliver(first, text, addressed=False), plan)

    @rule(pair=st.sampled_from(FELLOWS), is_said=st.booleans(), changes=LATER_OR_ERASED, plan=PLANS)
    def call_for_another(
        self, pair: tuple[Sender, Sender], is_said: bool, changes: Sequence[Plan], plan: Plan | None
    ) -> None:
        """Call people to the question of a fellow, whose words it repeats."""
        fellow, sender = pair
        asked = self.run(self._deliver(fellow, self._word(fellow, is_said=is_said)))
        self._pass(changes)
        self.run(self._deliver(sender, "", "escalate", reply_to=asked.id), plan)
        self._open_again(changes)
