"""Messages that are edited, delivered twice or brought elsewhere, replies to the bot's own words, and lessons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from core.storage.lessons import TaughtAnswerRepository
from tests.security.audience_rules.steps import FELLOWS, IN_DRAFTED, PLANS, SENDERS
from tests.support.audience_changes import Deployment, Plan
from tests.support.audience_world import IN_PRIVATE, MEMBER, OWNER, PLACES, PUBLIC, QUESTION, TEAM, format_said
from tests.support.recording_bot import Sender

GROUPS = tuple(place for place in PLACES if place.platform == "telegram" and not place.is_private)
TELEGRAM = st.sampled_from([place for place in PLACES if place.platform == "telegram"])


class MessageRules(Deployment):
    """What becomes of messages after they were written."""

    @rule(sender=SENDERS, plan=PLANS)
    def deliver_twice(self, sender: Sender, plan: Plan | None) -> None:
        """A platform that delivers a message once more gets no second answer, whatever has changed since."""
        if last := self.last_messages.get(sender):
            shown = len(self.watch.shown)
            self.run(self._deliver_again(last), plan)
            assert plan or len(self.watch.shown) == shown, f"{last} was answered twice: {self.watch.shown[shown:]}"

    @rule(sender=SENDERS, command=st.sampled_from(("admins", "pause", "forget", "mode", "faq")))
    def edit_into_a_command(self, sender: Sender, command: str) -> None:
        """Nothing that is edited is a command: no rights come of it, nor is anybody forgotten or muted."""
        if last := self.last_messages.get(sender):
            text = {"admins": "add 43", "mode": "off", "faq": "approve 1"}.get(command, "")
            self.run(self._deliver_again(replace(last, text=text, command=command, is_edit=True)))

    @rule(sender=SENDERS, plan=PLANS)
    def edit_a_command(self, sender: Sender, plan: Plan | None) -> None:
        """A command that is edited runs as it was given first; its author's words go with them."""

        async def give() -> None:
            command = await self._deliver(sender, "", "ask")
            await self._deliver_again(replace(command, text=format_said(self._say(self._at(sender))), is_edit=True))

        self.run(give(), plan)

    @rule(plan=PLANS)
    def edit_for_another(self, plan: Plan | None) -> None:
        """Who names another's message in an edit writes nothing into it, also while it waits for a team."""
        asked = self.run(self._deliver(IN_DRAFTED, QUESTION))
        other = replace(IN_DRAFTED, author="43")

        async def edit() -> None:
            text = format_said(self._say(other))
            await self._deliver_again(replace(asked, author_id=other.author, text=text, is_edit=True))
            # Nobody would find it in the message of somebody else.
            await self._give_forget(other)

        self.run(edit(), plan)

    @rule(
        sender=SENDERS,
        text=st.sampled_from(("", "And what does that mean?", "Is it still so?")),
        is_whole=st.booleans(),
        pick=st.integers(0, 5),
        plan=PLANS,
    )
    def reply_to_the_bot(self, sender: Sender, text: str, is_whole: bool, pick: int, plan: Plan | None) -> None:
        """Reply to what the bot told somebody in the chat, which the platform quotes as a whole, in part or not."""

        async def reply() -> None:
            place = self._at(sender)
            if answers := await self._find_answers(place):
                row = answers[-1 - pick % len(answers)]
                quoted = row.reply if is_whole else ""
                options: dict[str, Any] = {"quotes_bot": True, "reply_to": row.reply_id or row.id, "quoted": quoted}
                self.last_messages[sender] = await self._deliver(sender, text, **options)

        self.run(reply(), plan)

    @rule(sender=TELEGRAM, other=TELEGRAM, way=st.sampled_from(("forward", "quote")), plan=PLANS)
    def carry(self, sender: Sender, other: Sender, way: str, plan: Plan | None) -> None:
        """Bring into another chat what the bot answered somebody, who may be forgotten then."""

        async def bring() -> None:
            place, target = self._at(sender), self._at(other)
            answers = await self._find_answers(place)
            # What a member of one chat tells another one is no leak of the bot's.
            answers = [row for row in answers if self._may_be_brought(target, row.reply)]
            # What somebody says in several chats themselves is forgotten in each of them.
            if answers and place.chat != target.chat and place.author != target.author:
                for word in self.truth.said:
                    if word in answers[-1].reply:
                        self.truth.carried.setdefault(word, set()).add((target.platform, target.chat))
                if way == "forward":
                    await self._deliver(other, answers[-1].reply, is_forwarded=True)
                else:
                    await self._deliver(other, "Is it this?", quoted=answers[-1].reply, quotes_bot=True)

        self.run(bring(), plan)

    def _may_be_brought(self, place: Sender, text: str) -> bool:
        return not self.truth.find_leaks(place, text) - self.truth.said.keys()

    @rule(pair=st.sampled_from([pair for pair in FELLOWS if pair[0] in GROUPS]), is_approved=st.booleans(), plan=PLANS)
    def learn_from(self, pair: tuple[Sender, Sender], is_approved: bool, plan: Plan | None) -> None:
        """Teach what a fellow has said, who may be forgotten meanwhile; what was approved is knowledge."""
        fellow, sender = pair
        text = format_said(self._say(self._at(fellow))).removesuffix(" Is that right?")
        # Where the bot repeats it, it would be a word of its own.
        said = self.run(self._deliver(fellow, text, addressed=False))
        options = {"reply_to": said.id, "quoted": said.text, "quoted_authors": (fellow.author,)}
        self.run(self._deliver(sender, "Which key has it?", "learn", **options), plan)
        if is_approved:
            self.run(self._approve())
        self.run(self._give_forget(fellow))

    @rule(
        number=st.integers(1, 6),
        editor=st.sampled_from((IN_PRIVATE, Sender(PUBLIC, OWNER), Sender(TEAM, OWNER), Sender(PUBLIC, MEMBER))),
        is_approved=st.booleans(),
        plan=PLANS,
    )
    def edit_a_lesson(self, number: int, editor: Sender, is_approved: bool, plan: Plan | None) -> None:
        """Give a lesson, also of somebody else, words of one's own: they go with who wrote them."""
        text = format_said(self._say(self._at(editor)))
        self.run(self._deliver(editor, f"edit {number} {text}", "faq"), plan)
        if is_approved:
            self.run(self._approve())
        self.run(self._give_forget(editor))

    async def _approve(self) -> None:
        """Approve all lessons; what was said in them is knowledge from then on."""
        repository = TaughtAnswerRepository(self.bot.journal.database)
        for answer in await repository.list_answers("pending", reader=None):
            await self._deliver(IN_PRIVATE, f"approve {answer.number}", "faq")
        for answer in await repository.list_answers("approved", reader=None):
            for word in [word for word in self.truth.said if word in answer.answer + answer.question]:
                said = self.truth.said.pop(word)
                self.truth.threads.pop(word, None)
                self.truth.lessons[word] = (f"{said.platform}:{said.chat}", False)
        await self.bot.app.refresh(["taught", "taught-team"])
