"""What is said in the terminal about the last answer: /good, /bad with a reason, /again. Kept in the journal."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from bots.console.commands import HERE, OWNER
from bots.daemon.bootstrap import open_journal
from core.answering.retry import Again, ask_again
from core.messaging.feedback.rating_buttons import REASONS, press
from core.settings import Settings
from core.text.feedback_messages import words_in
from core.text.language import language_of
from core.types import DOWN, UP, Message, Question, Reply, Turn

GOOD, BAD, AGAIN = "/good", "/bad", "/again"
HINT = f"{GOOD}, {BAD} or {AGAIN} say what an answer was worth."
NO_ANSWER = "There is no answer yet that this could be about."
USAGE = f"Write it as {GOOD}, {BAD} or {BAD} with one of: {', '.join(REASONS)}."


@dataclass(frozen=True, slots=True)
class Heard:
    """What is said to who rated an answer, and the question to be answered once more, if that was asked for."""

    text: str
    again: Again | None = None


class Ratings:
    """The last answer of a conversation in the terminal, and what is said about it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: tuple[Question, Reply] | None = None
        self._number = ""
        self._reason = ""

    def answered(self, question: Question, reply: Reply) -> None:
        """Note the newest answer."""
        self._last, self._number, self._reason = (question, reply), "", ""

    async def heard(self, line: str) -> Heard | None:
        """Take over what a line says about the last answer; None for any other line. Raises `StoreError`."""
        word, _, rest = line.partition(" ")
        if word not in (GOOD, BAD, AGAIN):
            return None
        if self._last is None:
            return Heard(NO_ANSWER)
        question, reply = self._last
        words = words_in(language_of(question.text))
        if word == AGAIN:
            if isinstance(question, Again):
                return Heard(words.once)
            before = (Turn("user", question.text), Turn("assistant", reply.text))
            cited = [one.passage_id for one in reply.citations]
            return Heard(words.trying, ask_again(question, before, cited, self._reason))
        reason = rest.strip()
        if reason and (word == GOOD or reason not in REASONS):
            return Heard(USAGE)
        self._reason = reason
        return Heard(await self._rated(UP if word == GOOD else DOWN, reason))

    async def _rated(self, verdict: str, reason: str) -> str:
        """Journal the answer, which nobody has done here, and what is said about it."""
        from core.storage.feedback import Opinions

        if self._last is None:
            return NO_ANSWER
        question, reply = self._last
        words, now = words_in(language_of(question.text)), datetime.now(UTC)
        journal = await open_journal(self._settings)
        try:
            if not self._number:
                self._number = uuid.uuid4().hex
                # Under the name that /forget is given by.
                message = Message(self._number, HERE, OWNER, OWNER, question.text, now, private=True, addressed=True)
                await journal.received(message)
                await journal.answered(message, reply)
            pressed = press(
                reason or verdict,
                self._number,
                number=uuid.uuid4().hex,
                platform=HERE.platform,
                chat=HERE.chat,
                author_id=OWNER,
                author=OWNER,
                at=now,
                reference={},
            )
            rating = await Opinions(journal.database).rate(pressed, self._number, verdict, reason)
        finally:
            await journal.close()
        if reason and rating.reason:
            return words.noted
        said = {UP: words.up, DOWN: words.down}.get(rating.verdict, words.back)
        return said.format(up=rating.up, down=rating.down)
