"""Handing questions over to people, and learning from what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import and_, or_, select

from core.errors import UsageError
from core.messaging.feedback import escalation as calling
from core.messaging.feedback.handler import May, Start
from core.messaging.feedback.message_reference import before, began, pointed
from core.messaging.policy.posts import by_bot
from core.observability.logs import logger
from core.ports import Adapter
from core.settings import Settings
from core.storage.chat_history import readable
from core.storage.lessons import Lessons
from core.storage.messages import Journal, message_of
from core.storage.tables import messages
from core.text.feedback_messages import Words, words_in
from core.text.language import language_of
from core.text.question_detection import ASKING, asking
from core.types import CALL, ESCALATION_COMMAND, Message, Reply, Turn

ESCALATE, LEARN = "escalate", "learn"
# Those that wait for people to answer first are in the state in which they were received.
UNANSWERED = ("received", "silent", "failed")
CALLS = (messages.c.command == ESCALATION_COMMAND, messages.c.id.endswith(CALL))


class Handoff:
    """Calls people to questions, and keeps trusted people's answers for review.

    `start` answers a message that was journalled here; `may` says who looks after the bot.
    """

    def __init__(self, settings: Settings, journal: Journal, start: Start, may: May) -> None:
        self._settings = settings.handoff
        self._journal = journal
        self._lessons = Lessons(journal.database)
        self._start = start
        self._may = may
        # Two at once would both find that nobody was called lately.
        self._calling = asyncio.Lock()

    def takes(self, message: Message) -> bool:
        """Say whether a command is answered here. A call is one of our own: anybody can type its name."""
        return message.command in (ESCALATE, LEARN) or bool(calling.called(message))

    async def answer(self, adapter: Adapter, message: Message) -> str:
        """Return what to say to a command. Raises `UsageError` for what cannot be done."""
        words = words_in(language_of(message.text or message.quoted))
        if message.command == LEARN:
            return await self._learn(adapter, message, words)
        if message.command == ESCALATE:
            return await self._escalate(adapter, message, words)
        return words.call.format(author=calling.shown_name(message.author)) + calling.asked(message)

    async def after(self, adapter: Adapter, question: Message, reply: Reply) -> None:
        """Call people to a question whose answer is not likely to help, where the configuration says so."""
        why = calling.occasion(reply)
        if why is None or why not in self._settings.when:
            return
        async with self._calling:
            if await self._against(question, words_in("")):
                return
            logger(__name__).info("question.handed_over", why=why)
            await self._call(adapter, question)

    async def hear(self, adapter: Adapter, message: Message) -> bool:
        """Keep a trusted person's reply to a question that nobody answered, or for which people were called.

        Returns whether it was kept: it is then no message to the bot, not even where it replies to the call.
        """
        if not message.reply_to or message.command or message.private or by_bot(message) or not message.text.strip():
            return False
        if asking(message.text) >= ASKING:
            return False
        asked = await self._open_question(message)
        if asked is None or asked.author_id == message.author_id or not await self._trusts(adapter, message):
            return False
        number = await self._lessons.teach(message, asked.author_id, asked.text, message.text)
        logger(__name__).info("answer.learned", number=number, question=asked.id)
        return True

    async def _escalate(self, adapter: Adapter, message: Message, words: Words) -> str:
        question = message if message.text.strip() else await self._meant(message)
        if question is None:
            raise UsageError(words.no_question)
        async with self._calling:
            if refusal := await self._against(question, words):
                raise UsageError(refusal)
            if not await self._call(adapter, question):
                raise UsageError(words.called)
        return words.calling

    async def _call(self, adapter: Adapter, question: Message) -> bool:
        """Journal the call, so that it is made whatever happens; its id keeps it from a second one."""
        call = calling.call_for(question, calling.people_of(self._settings, question.key.platform))
        if not await self._journal.received(call):
            return False
        self._start(adapter, call)
        return True

    async def _against(self, question: Message, words: Words) -> str:
        """Return what speaks against calling people now, or nothing."""
        if question.private:
            return words.alone
        if not calling.people_of(self._settings, question.key.platform):
            return words.nobody
        since = datetime.now(UTC) - timedelta(minutes=self._settings.cooldown_minutes)
        latest = await self._rows(question, *CALLS, messages.c.received_at > since)
        return words.cooling if latest else ""

    async def _learn(self, adapter: Adapter, message: Message, words: Words) -> str:
        if not await self._trusts(adapter, message):
            raise UsageError(words.untrusted)
        message = pointed(message)
        lesson = await self._shown(message, message.reply_to)
        answer = message.quoted or (lesson.text if lesson else "")
        own = await self._own_answer(message)
        asked = await self._answered_by(message, lesson)
        question = message.text.strip() or (own[0].text if own else "") or (asked.text if asked else "")
        answer = own[1].text if own else answer
        if not (question and answer.strip()):
            raise UsageError(words.teach)
        # A quotation from elsewhere replies to nothing here.
        taught = lesson or replace(message, id=message.reply_to or message.id)
        asker = asked.author_id if asked else own[0].author_id if own else ""
        number = await self._lessons.teach(taught, asker, question, answer)
        return words.known if number is None else words.learned.format(number=number)

    async def _trusts(self, adapter: Adapter, message: Message) -> bool:
        if not message.author_id:
            return False
        named = f"{message.key.platform}:{message.author_id}" in self._settings.trusted
        return named or await self._may(message, adapter)

    async def _open_question(self, reply: Message) -> Message | None:
        """Return the question that a reply is to, if nobody has answered it or people were called for it.

        Who addresses the bot means the bot, except below its call.
        """
        columns = messages.c
        shown = and_(columns.reply_id == reply.reply_to, columns.reply_id != "")
        for row in await self._rows(reply, or_(columns.id == reply.reply_to, shown)):
            if reply.addressed and not calling.called(message_of(row)):
                continue
            number = calling.first_id(row.id)
            question = next(iter(await self._rows(reply, columns.id == number)), row)
            unanswered = question.state in UNANSWERED and asking(question.text) >= ASKING
            if question.text and (unanswered or await self._rows(reply, columns.id == f"{number}{CALL}")):
                return message_of(question)
        return None

    async def _meant(self, message: Message) -> Message | None:
        """Return the question that a command without words is about: the one replied to, or its author's last one."""
        columns = messages.c
        if message.reply_to:
            shown = and_(columns.reply_id == message.reply_to, columns.reply_id != "")
            which = or_(columns.id == message.reply_to, shown)
        else:
            which = columns.author_id == message.author_id
        rows = await self._rows(message, which, columns.command.in_(("", "ask")), columns.text != "")
        return message_of(rows[0]) if rows else None

    async def _own_answer(self, message: Message) -> tuple[Turn, Turn] | None:
        """Return the question and our answer that a command is about, where it may be told of here."""
        ours = (messages.c.reply_id == message.reply_to, readable(message))
        if not message.reply_to or not await self._rows(message, *ours):
            return None
        return await self._journal.answer_shown_as(message)

    async def _answered_by(self, message: Message, lesson: Message | None) -> Message | None:
        """Return what the message that is learned from replies to, or the question that its thread began with."""
        asked = await self._shown(message, before(message, lesson))
        first = None if asked else await self._shown(message, began(message, lesson))
        return first if first and asking(first.text) >= ASKING else asked

    async def _shown(self, message: Message, number: str) -> Message | None:
        rows = await self._rows(message, messages.c.id == number, readable(message)) if number else []
        return message_of(rows[0]) if rows else None

    async def _rows(self, message: Message, *conditions: Any) -> Sequence[Any]:
        """Return rows of the message's chat, newest first."""
        columns, key = messages.c, message.key
        here = (columns.platform == key.platform, columns.bot == message.bot, columns.chat == key.chat)
        query = select(messages).where(*here, columns.id != message.id, *conditions)
        async with self._journal.database.reading() as connection:
            return (await connection.execute(query.order_by(columns.number.desc()).limit(20))).all()
