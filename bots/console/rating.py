"""What is said in the terminal about the last answer: /good, /bad with a reason, /again. Kept in the journal."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from bots.common.open_storage import open_journal
from bots.console.commands import OWNER_ID, TERMINAL_KEY
from core.answering.retry import RetryQuestion, to_retry_question
from core.messaging.feedback.rating_buttons import REASONS, to_rating_message
from core.settings import Settings
from core.text.catalogue import messages_for
from core.text.language import detect_language
from core.types import DOWN, UP, Message, Question, Reply, Turn

GOOD, BAD, AGAIN = "/good", "/bad", "/again"
HINT = f"{GOOD}, {BAD} or {AGAIN} say what an answer was worth."
NO_ANSWER = "There is no answer yet that this could be about."
USAGE = f"Write it as {GOOD}, {BAD} or {BAD} with one of: {', '.join(REASONS)}."


@dataclass(frozen=True, slots=True)
class RatingResult:
    """What is said to who rated an answer, and the question to be answered once more, if that was asked for."""

    text: str
    retry_question: RetryQuestion | None = None


class RatingCommands:
    """The last answer of a conversation in the terminal, and what is said about it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_answer: tuple[Question, Reply] | None = None
        self._message_id = ""
        self._reason = ""

    def record_answer(self, question: Question, reply: Reply) -> None:
        """Note the newest answer."""
        self._last_answer, self._message_id, self._reason = (question, reply), "", ""

    async def handle_line(self, line: str) -> RatingResult | None:
        """Take over what a line says about the last answer; None for any other line. Raises `StoreError`."""
        command, _, argument = line.partition(" ")
        if command not in (GOOD, BAD, AGAIN):
            return None
        if self._last_answer is None:
            return RatingResult(NO_ANSWER)
        question, reply = self._last_answer
        messages = messages_for(detect_language(question.text))
        if command == AGAIN:
            if isinstance(question, RetryQuestion):
                return RatingResult(messages.already_retried)
            previous_turns = (Turn("user", question.text), Turn("assistant", reply.text))
            cited_passage_ids = [citation.passage_id for citation in reply.citations]
            return RatingResult(
                messages.retrying, to_retry_question(question, previous_turns, cited_passage_ids, self._reason)
            )
        reason = argument.strip()
        if reason and (command == GOOD or reason not in REASONS):
            return RatingResult(USAGE)
        self._reason = reason
        return RatingResult(await self._save_rating(UP if command == GOOD else DOWN, reason))

    async def _save_rating(self, verdict: str, reason: str) -> str:
        """Journal the answer, which nobody has done here, and what is said about it."""
        from core.storage.feedback import FeedbackRepository

        if self._last_answer is None:
            return NO_ANSWER
        question, reply = self._last_answer
        messages, now = messages_for(detect_language(question.text)), datetime.now(UTC)
        journal = await open_journal(self._settings)
        try:
            if not self._message_id:
                self._message_id = uuid.uuid4().hex
                # Under the name that /forget is given by.
                message = Message(
                    self._message_id, TERMINAL_KEY, OWNER_ID, OWNER_ID, question.text, now, private=True, addressed=True
                )
                await journal.record_message(message)
                await journal.mark_answered(message, reply)
            rating_message = to_rating_message(
                reason or verdict,
                self._message_id,
                message_id=uuid.uuid4().hex,
                platform=TERMINAL_KEY.platform,
                chat=TERMINAL_KEY.chat,
                author_id=OWNER_ID,
                author=OWNER_ID,
                sent_at=now,
                reference={},
            )
            rating = await FeedbackRepository(journal.database).rate(rating_message, self._message_id, verdict, reason)
        finally:
            await journal.close()
        if reason and rating.reason:
            return messages.reason_noted
        confirmation = {UP: messages.rated_up, DOWN: messages.rated_down}.get(rating.verdict, messages.rating_removed)
        return confirmation.format(up=rating.up, down=rating.down)
