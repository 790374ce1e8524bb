"""The gate: should the bot speak? Cheap tests first; every silence has a reason that goes into the journal.

A message that addresses the bot is answered wherever the bot may speak. Others are answered only where the mode allows
it: questions that are not for anybody else, that the knowledge covers, and that no human answers meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from core.catalogue import messages_for
from core.catalogue.command_spelling import Spell, spell_texts, spell_with_slash
from core.errors import KimasError
from core.language.question_matching import canonical_form, normalize
from core.language.questions import is_question, unanswerable_reason
from core.messaging.gate.follow_up import is_follow_up, is_spoken_follow_up, other_bot_reason
from core.messaging.gate.human_activity import answered_meanwhile_reason, dialogue_reason, other_addressee_reason
from core.messaging.gate.relevance import GateAssessment, assess
from core.messaging.gate.replies import (
    clarifying_question,
    decide_attachment_only,
    duplicate_notice,
    is_attachment_only,
    limit_notice,
    offer_text,
)
from core.messaging.gate.second_opinion import Opinion, SecondOpinion, is_in_doubt
from core.messaging.policy.command_table import get_command, is_ask_command
from core.messaging.policy.permissions import ChatPolicy, Permissions, disabled_reason
from core.observability.logs import get_logger
from core.ports import Library
from core.runtime.allowance import Allowance
from core.runtime.leaving import telling_of
from core.settings import GateSettings
from core.settings.gate import UNPROMPTED_MODES
from core.storage.chat_history import ChatHistory, EarlierAnswer, HistoryMessage, get_thread
from core.storage.overrides import LiveSettings, get_chat_name
from core.types import NOTICE_PURPOSES, Message, Skip, SkipReason, skip

_log = get_logger(__name__)

LOOP_WINDOW_S = 600.0
# How far below the threshold `gate.grey` applies.
GREY_WIDTH = 0.15
# The bot answers no older question unless it is addressed: people have moved on.
MAX_QUESTION_AGE_S = 600.0
RELEVANCE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Doubt:
    """A message about which a model decides: how sure the gate is, and what it does if no model can say.

    `learned_reason` is why it is silent then, None if it speaks.
    """

    assessment: GateAssessment
    threshold: float
    learned_reason: Skip | None


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Whether to speak; `reason` says why not, and is None otherwise.

    `canned_reply`, if any, is posted in place of an answer. `is_unprompted` says that nobody addressed the bot. If
    `wait_s` is not zero, wait so many seconds and then ask `Gate.recheck`, which also settles a `doubt`. `opinion` is a
    model's reason for speaking, empty where none was asked. `in_silence` is why a command gets no reply. `made_of` are
    the numbers of the messages whose words the canned reply, the opinion or the reason has.
    """

    should_speak: bool
    reason: Skip | None = None
    canned_reply: str = ""
    is_unprompted: bool = False
    wait_s: float = 0.0
    doubt: Doubt | None = None
    opinion: str = ""
    in_silence: Skip | None = None
    made_of: Collection[int] = ()


class Gate:
    """Judges messages by the configuration, the knowledge and the recent messages of the chat."""

    def __init__(
        self,
        live: LiveSettings,
        history: ChatHistory,
        library: Library | None = None,
        permissions: Permissions | None = None,
        second_opinion: SecondOpinion | None = None,
    ) -> None:
        self._live = live
        self._history = history
        self._library = library
        self._second_opinion = second_opinion
        self._permissions = permissions or Permissions(live)
        self.chat_policy = ChatPolicy(live)
        self._last_unprompted_at: dict[str, float] = {}
        # Who is forgotten is not counted in the journal.
        self._forget_replies = Allowance()

    @property
    def _gate_settings(self) -> GateSettings:
        return self._live.settings.gate

    async def judge(
        self, message: Message, *, is_resumed: bool = False, spell: Spell = spell_with_slash
    ) -> GateDecision:
        """Judge one message. `is_resumed` says that its answer began before a restart.

        `spell` says how commands are given there.

        Raises `StoreError` when the journal cannot be read.
        """
        if message.origin.purpose in NOTICE_PURPOSES:
            # A draft without its words may not be told of there any more.
            is_lost = message.origin.purpose == "draft" and not is_resumed
            return _skip(SkipReason.RIGHTS_CHANGED) if is_lost else GateDecision(True, canned_reply=message.text)
        await self.chat_policy.refresh()
        if message.addressed and not is_resumed and (reason := await self.other_bot_reason(message)):
            return _skip(reason)
        if message.addressed and not is_ask_command(message.command):
            return await self._judge_command(message, is_resumed=is_resumed)
        block = self.chat_policy.block_reason(message)
        if is_resumed and not block and await self._is_unasked(message):
            block = skip(SkipReason.NOT_ADDRESSED)
        if is_resumed or block:
            return GateDecision(block is None, block)
        if decision := await self._judge_for_asker(message, spell) or await self._judge_addressed(message):
            return decision
        return _skip(SkipReason.NOT_ADDRESSED) if self._is_mute(message) else await self._judge_unaddressed(message)

    async def recheck(self, message: Message, decision: GateDecision) -> GateDecision:
        """Judge again after the wait: people or another bot may have answered in the meantime.

        Only then does a model judge a message in doubt: where people answer, it costs nothing.
        """
        await self.chat_policy.refresh()
        recent_messages = await self._get_recent_messages(message)
        reason = (
            self.chat_policy.block_reason(message)
            or (skip(SkipReason.NOT_ADDRESSED) if self._is_mute(message) else None)
            or answered_meanwhile_reason(message, recent_messages)
            or self._cooldown_reason(message, recent_messages)
        )
        if reason := reason or await self.other_bot_reason(message):
            return _skip(reason)
        if decision.doubt:
            decision = await self._resolve_doubt(message, decision, decision.doubt, recent_messages)
            if decision.reason:
                return decision
            # Meanwhile the bot may have spoken in another thread of the chat.
            if reason := self._cooldown_reason(message, ()):
                return _skip(reason)
        self._last_unprompted_at = {**self._active_cooldowns(), _get_place(message): time.monotonic()}
        return replace(decision, is_unprompted=True, wait_s=0.0, doubt=None)

    def _is_mute(self, message: Message) -> bool:
        """Return whether the bot says nothing to a message that nobody addressed to it."""
        return self.chat_policy.mode(message) not in UNPROMPTED_MODES or bool(message.is_post)

    async def _is_unasked(self, message: Message) -> bool:
        """Return whether an answer that waits is one that nobody asked for, in a chat that gets none any more."""
        is_asked = message.addressed or not self._is_mute(message)
        return not is_asked and not await self._history.was_addressed(message)

    async def _resolve_doubt(
        self, message: Message, decision: GateDecision, doubt: Doubt, recent_messages: Sequence[HistoryMessage]
    ) -> GateDecision:
        """Let the model decide about a message in doubt; the learned decision counts where it cannot."""
        opinion = await self._ask_model(message, doubt, recent_messages)
        if opinion is None:
            return _skip(doubt.learned_reason) if doubt.learned_reason else decision
        if opinion.should_speak:
            return GateDecision(True, is_unprompted=True, opinion=opinion.reason, made_of=tuple(opinion.made_of))
        reason = skip(
            SkipReason.MODEL_DECLINED,
            probability=doubt.assessment.probability,
            threshold=doubt.threshold,
            opinion=opinion.reason,
        )
        return replace(_skip(reason), made_of=tuple(opinion.made_of))

    async def _ask_model(
        self, message: Message, doubt: Doubt, recent_messages: Sequence[HistoryMessage]
    ) -> Opinion | None:
        """Return what the model says, if one can; without its words where somebody in them was forgotten meanwhile."""
        if self._second_opinion is None:
            return None
        # It is told of no other thread.
        recent_messages = [other for other in recent_messages if other.thread == get_thread(message)]
        numbers = [other.number for other in recent_messages if other.author_id]
        with telling_of(numbers):
            opinion = await self._second_opinion.ask(message, doubt.assessment.passages, recent_messages)
        if opinion is None:
            return None
        if await self._history.are_remembered(numbers):
            return replace(opinion, made_of=numbers)
        return replace(opinion, reason="answer" if opinion.should_speak else "silent")

    def release_cooldown(self, message: Message) -> None:
        """End the cooldown after an unprompted answer that was never posted."""
        self._last_unprompted_at = {
            place: spoken_at for place, spoken_at in self._last_unprompted_at.items() if place != _get_place(message)
        }

    async def other_bot_reason(self, message: Message) -> SkipReason | None:
        """Return why another bot of ours in the chat takes this message, or None."""
        return await other_bot_reason(message, self._history, self._live.settings)

    async def _judge_command(self, message: Message, *, is_resumed: bool) -> GateDecision:
        """Judge a command. Most pass where questions do not: otherwise none could switch the bot on again.

        Whoever wants to be forgotten is so wherever the bot has something of theirs, however often they say so.
        """
        if message.command == "forget":
            return GateDecision(True, in_silence=None if is_resumed else self._limit_forget_replies(message))
        role = self._permissions.cached_role(message)
        if role == "owner":
            return GateDecision(True)
        if exclusion := self.chat_policy.excluded_reason(message):
            return _skip(exclusion)
        command = get_command(message.command)
        if self.chat_policy.is_off(message) and (command is None or command.required_role == "everyone"):
            return _skip(disabled_reason(message))
        if is_resumed or role == "admin":
            return GateDecision(True)
        return await self._check_answer_loop(message, GateDecision(True))

    def _limit_forget_replies(self, message: Message) -> Skip | None:
        """Return why a request to be forgotten gets no reply: its author had as many as others have answers."""
        limit = self._gate_settings.answers_in_10_min
        person = (get_chat_name(message), message.author_id)
        if self._forget_replies.take(person, limit, 60 * limit / LOOP_WINDOW_S) >= 1:
            return None
        return skip(SkipReason.ANSWER_LOOP, count=limit)

    async def _judge_for_asker(self, message: Message, spell: Spell) -> GateDecision | None:
        """Judge what may only be answered to the asker, where it did not come in a way that allows that; else None."""
        if not self._permissions.hides_answer(message):
            return None
        if not message.addressed:
            return _skip(skip(SkipReason.FOR_ASKER_ONLY, chat=get_chat_name(message)))
        texts = spell_texts(messages_for(self._permissions.get_language(message)), spell)
        return await self._check_answer_loop(message, GateDecision(True, canned_reply=texts.ask_by_command))

    async def _judge_addressed(self, message: Message) -> GateDecision | None:
        """Judge messages to the bot, follow-ups, and attachments without text; None for all others."""
        if is_attachment_only(message):
            models = self._live.settings.with_models_of(get_chat_name(message)).models
            has_hearing = models.transcription is not None
            if has_hearing and await is_spoken_follow_up(message, self._history, self._live.settings):
                await self._history.mark_addressed(message)
                message = replace(message, addressed=True)
            attachment_skip, canned_reply = await decide_attachment_only(
                message,
                self._history,
                self._permissions.get_language(message),
                has_vision=models.get_vision_model() is not None,
                has_hearing=has_hearing,
            )
            if attachment_skip:
                return _skip(attachment_skip)
            return await self._check_answer_loop(message, GateDecision(True, canned_reply=canned_reply))
        if not message.addressed:
            if not await is_follow_up(message, self._history, self._live.settings):
                return None
            if reason := await self.other_bot_reason(message):
                return _skip(reason)
            await self._history.mark_addressed(message)
        return await self._check_answer_loop(message, GateDecision(True))

    async def _check_answer_loop(self, message: Message, decision: GateDecision) -> GateDecision:
        """Stop answering an account that may be a bot which replies to our answers, and say so once."""
        limit = self._gate_settings.answers_in_10_min
        answer_count = await self._history.count_answers_to(message, LOOP_WINDOW_S)
        if answer_count < limit:
            return decision
        notice = limit_notice(message, self._permissions.get_language(message), limit)
        # Where a team decides, nobody is told of a limit to answers that nobody saw.
        is_draft = is_ask_command(message.command) and self.chat_policy.mode(message) == "draft"
        if message.addressed and not is_draft and not await self._history.was_told(message, notice, LOOP_WINDOW_S):
            return GateDecision(True, canned_reply=notice)
        _log.warning("gate.answer_loop", chat=get_chat_name(message), author_id=message.author_id, answers=answer_count)
        return _skip(skip(SkipReason.ANSWER_LOOP, count=answer_count))

    async def _judge_unaddressed(self, message: Message) -> GateDecision:
        if reason := _certain_silence_reason(message):
            return _skip(reason)
        recent_messages = await self._get_recent_messages(message)
        if reason := await other_addressee_reason(message, self._history, recent_messages):
            return _skip(reason)
        if reason := await self.other_bot_reason(message):
            return _skip(reason)
        if (
            activity := dialogue_reason(message, recent_messages)
            or answered_meanwhile_reason(message, recent_messages)
            or self._cooldown_reason(message, recent_messages)
        ):
            return _skip(activity)
        decision = await self._check_answer_loop(message, await self._score(message))
        return decision if not decision.should_speak or decision.wait_s else await self.recheck(message, decision)

    async def _get_recent_messages(self, message: Message) -> Sequence[HistoryMessage]:
        return await self._history.get_recent_messages(message, self._get_recent_s())

    def _get_recent_s(self) -> float:
        """Return how many seconds back what people wrote is looked at."""
        return max(MAX_QUESTION_AGE_S + self._gate_settings.wait_s, self._gate_settings.cooldown_s)

    async def _score(self, message: Message) -> GateDecision:
        assessment = await self._assess(message)
        if isinstance(assessment, SkipReason):
            return _skip(assessment)
        probability = assessment.probability
        threshold = self.chat_policy.threshold(message)
        _log.debug("gate.scored", sure=round(probability, 3), why=assessment.explanation)
        unsure_skip = skip(
            SkipReason.UNSURE if is_question(message.text) else SkipReason.STATEMENT,
            probability=probability,
            threshold=threshold,
            explanation=assessment.explanation,
        )
        grey = self._gate_settings.grey
        is_grey = grey != "silent" and probability >= threshold - GREY_WIDTH
        is_doubtful = self._second_opinion is not None and is_in_doubt(probability, threshold)
        if probability < threshold and not (is_grey or is_doubtful):
            return _skip(unsure_skip)
        if earlier_answer := self._find_repeated(
            message,
            await self._history.get_earlier_answers(
                message, self._gate_settings.repeated_hours * 3600, self._permissions.visible_labels(message)
            ),
        ):
            if self._gate_settings.repeated == "silent":
                return _skip(SkipReason.REPEATED)
            notice = duplicate_notice(earlier_answer, self._permissions.get_language(message))
            return replace(self._delayed(message, notice), made_of=(earlier_answer.number,))
        learned_reason = None if probability >= threshold or is_grey else unsure_skip
        doubt = Doubt(assessment, threshold, learned_reason) if is_doubtful else None
        if probability >= threshold or not is_grey:
            return self._delayed(message, doubt=doubt)
        make_reply = offer_text if grey == "suggest" else clarifying_question
        reply = make_reply(self._permissions.get_language(message), assessment.title)
        return self._delayed(message, reply, doubt=doubt)

    async def _assess(self, message: Message) -> GateAssessment | SkipReason:
        """Return how sure the gate is of a message, or why that is unknown."""
        if self._library is None:
            return SkipReason.NO_KNOWLEDGE
        library = self._library
        settings = self._live.settings
        searched_sources = self._permissions.searched_sources(message)
        if searched_sources is not None:
            library = library.restricted_to(searched_sources)
            settings = settings.restricted_to(searched_sources)
        try:
            async with asyncio.timeout(RELEVANCE_TIMEOUT_S):
                return await assess(message.text, library, settings)
        except (KimasError, TimeoutError) as error:
            _log.warning("gate.assessment_failed", error=str(error) or f"not in {RELEVANCE_TIMEOUT_S} s")
            return SkipReason.RELEVANCE_UNKNOWN

    def _find_repeated(self, message: Message, earlier_answers: Sequence[EarlierAnswer]) -> EarlierAnswer | None:
        normalized = normalize(message.text)
        canonical = canonical_form(message.text)
        for answer in earlier_answers:
            if normalize(answer.question) == normalized or (canonical and canonical_form(answer.question) == canonical):
                return answer
        return None

    def _delayed(self, message: Message, canned_reply: str = "", doubt: Doubt | None = None) -> GateDecision:
        age_s = (datetime.now(UTC) - message.sent_at).total_seconds()
        wait_s = max(0.0, self._gate_settings.wait_s - max(0.0, age_s))
        # A team decides about whole answers, not about the offer of one.
        shown_reply = "" if self.chat_policy.mode(message) == "draft" else canned_reply
        return GateDecision(True, canned_reply=shown_reply, is_unprompted=True, wait_s=wait_s, doubt=doubt)

    def _cooldown_reason(self, message: Message, recent_messages: Sequence[HistoryMessage]) -> Skip | None:
        cooldown_s = self._gate_settings.cooldown_s
        last_spoken_at = self._last_unprompted_at.get(_get_place(message), -float("inf"))
        is_topic = message.thread_state.is_topic
        has_spoken_recently = any(
            other.has_unprompted_answer
            and other.age_s < cooldown_s
            and (not is_topic or other.thread == get_thread(message))
            for other in recent_messages
        )
        if has_spoken_recently or time.monotonic() - last_spoken_at < cooldown_s:
            return skip(SkipReason.COOLDOWN, seconds=cooldown_s)
        return None

    def _active_cooldowns(self) -> dict[str, float]:
        now = time.monotonic()
        return {
            place: spoken_at
            for place, spoken_at in self._last_unprompted_at.items()
            if now - spoken_at < self._gate_settings.cooldown_s
        }


def _get_place(message: Message) -> str:
    """Return the name of the place where an answer keeps the bot from speaking again: the chat, or a topic of it."""
    chat = get_chat_name(message)
    return f"{chat} {get_thread(message)}" if message.thread_state.is_topic else chat


def _certain_silence_reason(message: Message) -> SkipReason | None:
    """Return why a message is certainly not for the bot, whatever its knowledge; None if it may be."""
    if (datetime.now(UTC) - message.sent_at).total_seconds() > MAX_QUESTION_AGE_S:
        return SkipReason.TOO_OLD
    if message.command:
        return SkipReason.COMMAND_FOR_OTHER_BOT
    return unanswerable_reason(message.text)


def _skip(reason: SkipReason | Skip) -> GateDecision:
    return GateDecision(False, skip(reason) if isinstance(reason, SkipReason) else reason)
