"""Files that pages include, files of secrets and prompts, and sources that are removed, renamed and added again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.security.audience_rules.steps import QUESTIONS, SENDERS
from tests.support.audience_changes import PART_CLOSINGS, Deployment, Plan
from tests.support.audience_world import AUDIENCES, NAMES, PARTS_AUDIENCES, PLACES, QUESTION
from tests.support.interleaving import PLACE, POINTS
from tests.support.recording_bot import Sender
from tests.support.watched_doors import PROGRAMS


class FileRules(Deployment):
    """What operators do with sources, and what their documents show of each other."""

    @rule(parts=st.sampled_from(PARTS_AUDIENCES), sender=SENDERS, is_read=st.booleans())
    def open_parts(self, parts: tuple[str, ...] | None, sender: Sender, is_read: bool) -> None:
        """Begin anew where the included files are a source of their own for others, or for nobody but pages."""
        before = self.truth.part_number
        self._restart(replace(self.configuration, parts=parts))
        if is_read:
            self.run(self.bot.app.refresh())
        self._search(before)
        for question in QUESTIONS[:2]:
            self.run(self._deliver(sender, question))

    @rule(
        sender=SENDERS,
        point=st.sampled_from(POINTS),
        count=st.integers(0, 12),
        change=st.sampled_from(PART_CLOSINGS),
        pick=st.integers(0, len(PLACES) - 1),
    )
    def close_parts_meanwhile(self, sender: Sender, point: str, count: int, change: str, pick: int) -> None:
        self.run(self._deliver(sender, QUESTION), Plan(point, count, change, pick))

    @rule(change=st.sampled_from(PART_CLOSINGS), pick=st.integers(0, len(PLACES) - 1), is_read=st.booleans())
    def close_parts(self, change: str, pick: int, is_read: bool) -> None:
        """Close the included files; whoever searches from now on gets nothing of them, read again or not."""
        before = self.truth.part_number
        self.run(self._change(Plan("", 0, change, pick)))
        if is_read:
            self.run(self.bot.app.refresh())
        self._search(before)

    def _search(self, number: int) -> None:
        """Search as programs: nobody finds words of a file with this number or a later one that they may not read."""
        words = [f"pademelon{each}x" for each in range(number, self.truth.part_number + 1)]
        for program in PROGRAMS[:2]:
            found = self.run(self._get_found(program))
            told = [word for word in words if word in found and not self.truth.sees_parts(program)]
            assert not told, f"a new search of {program} finds {told}"

    async def _get_found(self, program: Sender) -> str:
        PLACE.set(program)
        return await self.opened.doors.ask(program, "search", QUESTION, self.configuration.name)

    @rule(
        audience=st.sampled_from(AUDIENCES),
        is_renamed=st.booleans(),
        sender=SENDERS,
        other=SENDERS,
        is_read=st.booleans(),
    )
    def remove_and_add_again(
        self, audience: tuple[str, ...], is_renamed: bool, sender: Sender, other: Sender, is_read: bool
    ) -> None:
        """Take the closed source out of the file, and put it back for others, also under another name."""
        self.run(self._deliver(sender, QUESTION))
        number, was_open = self.closed_number, self.truth.is_open
        self.run(self._change(Plan("", 0, "remove", 0)))
        self.run(self._deliver(other, QUESTION))
        name = self.configuration.name
        name = next(each for each in NAMES if each != name) if is_renamed else name
        configuration = replace(self.configuration, is_removed=False, audience=audience, name=name)
        self._write(configuration)
        if was_open:
            self.truth.names_then.pop(number, None)
        # A new source is there at once, for whom it is for.
        self.truth.audiences = [audience]
        self.truth.name = name
        self.run(self._reload(configuration))
        if is_read:
            self.run(self.bot.app.refresh())
        for place in (sender, other):
            self.run(self._deliver(place, "And what else is known about it?"))
            self.run(self._deliver(place, QUESTION))
            self.run(self._deliver(place, "", "why"))
