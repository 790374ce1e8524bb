"""The gate: should the bot speak? Cheap tests first; every silence has a reason that goes into the journal.

Who addresses the bot is answered wherever it may speak. Unasked it speaks in chats of the mode `auto` only, to a
question that nobody else was asked, that it knows something about, and that no human answers meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.errors import KimasError
from core.messaging.gate.attachments import wordless
from core.messaging.gate.bot_arbitration import left_to_another
from core.messaging.gate.follow_up import follows_up
from core.messaging.gate.human_activity import answered_meanwhile, is_for_somebody_else, talking
from core.messaging.gate.relevance import Relevance, chance, relevance, signs_of
from core.messaging.gate.replies import clarification, instead, pointer, suggestion
from core.messaging.policy.chat_policy import Place, off
from core.messaging.policy.command_table import find, is_question
from core.messaging.policy.permissions import Permissions
from core.observability.logs import logger
from core.ports import Library
from core.settings import Settings
from core.storage.chat_history import Answered, Room, Said
from core.storage.overrides import Steering, chat_of
from core.text.question_detection import no_question
from core.text.question_matching import normal, sense
from core.types import Message

LOOP_S = 600.0
# A question is not answered unasked when it is older: after a break people have moved on.
LATE_S = 600.0
JUDGING_S = 5.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to speak; `reason` says why not, and is empty otherwise.

    With `text` that is said in place of an answer. `unasked` marks what nobody addressed to the bot. After `wait_s`
    seconds the verdict is to be confirmed first.
    """

    speak: bool
    reason: str = ""
    text: str = ""
    unasked: bool = False
    wait_s: float = 0.0


class Gate:
    """Judges messages by the configuration, the knowledge and what was said in the chat."""

    def __init__(
        self,
        settings: Settings,
        room: Room,
        library: Library | None = None,
        steering: Steering | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        self._whole = settings
        self._settings = settings.gate
        self._room = room
        self._library = library
        self._permissions = permissions
        self.place = Place(settings.gate, steering)
        self._spoken: dict[str, float] = {}

    def adopt(self, settings: Settings) -> None:
        """Judge by other settings from now on."""
        self._whole, self._settings = settings, settings.gate
        self.place.adopt(settings.gate)

    async def judge(self, message: Message, *, begun: bool = False) -> Verdict:
        """Judge one message. What was `begun` before a restart is finished wherever the bot may still speak.

        Raises `StoreError` when the journal cannot be read.
        """
        await self.place.look()
        if message.addressed and not begun and (reason := await self.left_to_another(message)):
            return _silence(reason)
        if message.addressed and not is_question(message.command):
            return await self._judge_command(message, begun=begun)
        reason = self.place.against(message)
        if begun or reason:
            return Verdict(not reason, reason)
        if verdict := await self._judge_asked(message):
            return verdict
        if self.place.mode(message) != "auto" or message.reference.get("kind") == "post":
            return _silence("the bot was not addressed")
        return await self._judge_unasked(message)

    async def confirm(self, message: Message, verdict: Verdict) -> Verdict:
        """Judge again after the wait: what has happened meanwhile, and what somebody else was answered."""
        await self.place.look()
        said = await self._lately(message)
        reason = self.place.against(message) or answered_meanwhile(message, said) or self._too_soon(message, said)
        if reason := reason or await self.left_to_another(message):
            return _silence(reason)
        self._spoken = {**self._still_cooling(), chat_of(message): time.monotonic()}
        return Verdict(True, text=verdict.text, unasked=True)

    def unspoken(self, message: Message) -> None:
        """Take back that the bot spoke unasked: nothing came of it, and the next question need not wait for that."""
        self._spoken = {chat: at for chat, at in self._spoken.items() if chat != chat_of(message)}

    async def left_to_another(self, message: Message) -> str:
        """Return why another bot of ours in the chat takes this message, or nothing."""
        return await left_to_another(message, self._room, self._whole)

    async def _judge_command(self, message: Message, *, begun: bool) -> Verdict:
        """Let commands through where questions are not answered: otherwise nobody could change that by one."""
        known = self._permissions.known(message) if self._permissions else "everyone"
        if known == "owner":
            return Verdict(True)
        if reason := self.place.closed(message):
            return _silence(reason)
        command = find(message.command)
        if self.place.is_off(message) and (command is None or command.who == "everyone"):
            return _silence(off(message))
        if begun or known == "admin":
            return Verdict(True)
        return await self._unless_loop(message, Verdict(True))

    async def _judge_asked(self, message: Message) -> Verdict | None:
        """Judge what somebody wants of the bot, and what has no words; None for the rest."""
        if wordless(message):
            reason, text = await instead(message, self._room, sees=self._whole.models.seeing() is not None)
            if reason:
                return _silence(reason)
            return await self._unless_loop(message, Verdict(True, text=text))
        if not message.addressed:
            if not await follows_up(message, self._room, self._whole):
                return None
            if reason := await self.left_to_another(message):
                return _silence(reason)
            await self._room.meant(message)
        return await self._unless_loop(message, Verdict(True))

    async def _unless_loop(self, message: Message, verdict: Verdict) -> Verdict:
        """Stop answering an account that talks like a machine: it answers our answers."""
        answers = await self._room.answers_to(message, LOOP_S)
        if answers < self._settings.answers_in_10_min:
            return verdict
        logger(__name__).warning("gate.loop", chat=chat_of(message), author_id=message.author_id, answers=answers)
        return _silence(f"{answers} answers to this account within ten minutes (gate.answers_in_10_min)")

    async def _judge_unasked(self, message: Message) -> Verdict:
        if reason := _not_a_question(message):
            return _silence(reason)
        said = await self._lately(message)
        if reason := await is_for_somebody_else(message, self._room, said):
            return _silence(reason)
        if reason := await self.left_to_another(message):
            return _silence(reason)
        if reason := talking(message, said) or answered_meanwhile(message, said) or self._too_soon(message, said):
            return _silence(reason)
        verdict = await self._unless_loop(message, await self._scored(message))
        return verdict if not verdict.speak or verdict.wait_s else await self.confirm(message, verdict)

    async def _lately(self, message: Message) -> Sequence[Said]:
        return await self._room.lately(message, max(LATE_S + self._settings.wait_s, self._settings.cooldown_s))

    async def _scored(self, message: Message) -> Verdict:
        found = await self._relevance(message)
        if isinstance(found, str):
            return _silence(found)
        sure = chance(signs_of(message.text, found), self._settings.weights)
        threshold = self.place.threshold(message)
        logger(__name__).debug("gate.scored", sure=round(sure, 3), match=round(found.match, 3), foreign=found.foreign)
        reason = f"not sure enough to help: {sure:.2f}, threshold {threshold:.2f}"
        if sure < threshold - (self._settings.grey_width if self._settings.grey != "silent" else 0):
            return _silence(reason)
        if repeated := self._again(message, await self._room.answered(message, self._settings.repeated_hours * 3600)):
            if self._settings.repeated == "silent":
                return _silence("the same was answered in this chat before")
            return self._patient(message, pointer(repeated, message.text))
        if sure >= threshold:
            return self._patient(message)
        say = suggestion if self._settings.grey == "suggest" else clarification
        return self._patient(message, say(message.text, found.title))

    async def _relevance(self, message: Message) -> Relevance | str:
        """Return how near a message is to the knowledge, or why that cannot be told."""
        if self._library is None:
            return "there is no knowledge to judge by"
        try:
            async with asyncio.timeout(JUDGING_S):
                return await relevance(message.text, self._library, self._whole)
        except (KimasError, TimeoutError) as fault:
            logger(__name__).warning("gate.not_judged", error=str(fault) or f"not in {JUDGING_S} s")
            return "whether it is about the knowledge could not be told"

    def _again(self, message: Message, earlier: Sequence[Answered]) -> Answered | None:
        same, means = normal(message.text), sense(message.text)
        for one in earlier:
            if normal(one.question) == same or (means and sense(one.question) == means):
                return one
        return None

    def _patient(self, message: Message, text: str = "") -> Verdict:
        waited = (datetime.now(UTC) - message.sent_at).total_seconds()
        wait_s = max(0.0, self._settings.wait_s - max(0.0, waited))
        return Verdict(True, text=text, unasked=True, wait_s=wait_s)

    def _too_soon(self, message: Message, said: Sequence[Said]) -> str:
        cooldown_s, spoken = self._settings.cooldown_s, self._spoken.get(chat_of(message), -float("inf"))
        lately = any(one.volunteered and one.age_s < cooldown_s for one in said)
        if lately or time.monotonic() - spoken < cooldown_s:
            return f"it spoke unasked less than {cooldown_s:g} s ago (gate.cooldown_s)"
        return ""

    def _still_cooling(self) -> dict[str, float]:
        now = time.monotonic()
        return {chat: at for chat, at in self._spoken.items() if now - at < self._settings.cooldown_s}


def _not_a_question(message: Message) -> str:
    """Return why the words alone say that nobody asks the group something that knowledge answers."""
    if (datetime.now(UTC) - message.sent_at).total_seconds() > LATE_S:
        return "it is too old to be answered unasked"
    if message.command:
        return "a command for another bot"
    return no_question(message.text)


def _silence(reason: str) -> Verdict:
    return Verdict(False, reason)
