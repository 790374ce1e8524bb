"""Drafts: what the bot would answer goes to a team's chat, where people post it, replace it or drop it.

A draft is kept in the journal with its question (`core.storage.drafts`). The team's notice is a message of the bot's
own; a decision is a command, also where it was pressed or is a plain reply to that notice.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from core.answering.withholding import OutgoingFilter, make_filter
from core.catalogue import Messages, messages_for
from core.errors import PlatformUnavailable, StoreError, UsageError
from core.formatting import format_code
from core.language.languages import detect_language
from core.language.questions import is_question
from core.llm.moderation import Moderator
from core.messaging.feedback.handoff import MAX_QUESTION_CHARS, format_name
from core.messaging.gate.human_activity import answered_meanwhile_reason
from core.messaging.journaling import JournaledDelivery, RecordedSink, RightsChanged
from core.messaging.policy.command_table import is_ask_command
from core.messaging.policy.permissions import ChatPolicy, Permissions
from core.messaging.voices import asks
from core.observability.logs import get_logger
from core.ports import Adapter
from core.storage.chat_history import ChatHistory
from core.storage.drafts import Draft, DraftRepository
from core.storage.feedback import FeedbackRepository
from core.storage.message_lookup import MessageLookup
from core.storage.messages import Journal
from core.storage.overrides import AuditEntry, LiveSettings, get_chat_name, new_entry
from core.storage.reports import ReportRepository
from core.storage.tables import may_be_shown, to_stored_labels
from core.types import DROP, POST, Citation, Message, Origin, Reply, Skip, SkipReason, skip

if TYPE_CHECKING:
    from core.messaging.feedback.handler import StartAnswer

_log = get_logger(__name__)

EDIT = "edit"
DECISIONS = {POST: "posted", EDIT: "edited", DROP: "dropped"}
# After it, a late answer helps nobody: people have moved on.
MAX_HOURS = 24.0
SWEEP_MINUTES = 1.0
# How the ids of the two kinds of notices begin. Plain words below an announcement replace the answer; those below a
# note are said among people.
ANNOUNCEMENT = "draft-"
NOTE = "about-"

# "Drop" is one wherever it begins the words: nothing is read in public then.
_DECISION = re.compile(
    r"(?P<slash>/?)(?P<word>post|edit|drop)(?!\w)(?P<end>[,.:;!]?)\s*(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)

# Returns the bot that writes to a chat of the configuration, with its message of an id there, which has no words yet;
# None while the platform is not connected. `bots.daemon.posting` knows how each platform does it.
StartPost = Callable[[str, str, Sequence[Adapter]], tuple[Adapter, Message] | None]


@dataclass(slots=True)
class Drafts:
    """Keeps drafts, tells the team of them, and does what it decides.

    Without `start_post` there is no chat to send them to. The inbox adds its open `adapters`, and `start_answer`, which
    begins to process a journalled message.
    """

    live: LiveSettings
    journal: Journal
    permissions: Permissions
    start_post: StartPost | None = None
    moderator: Moderator | None = None
    adapters: dict[str, Adapter] = field(default_factory=dict)
    start_answer: StartAnswer | None = None

    @property
    def _repository(self) -> DraftRepository:
        return DraftRepository(self.journal.database)

    def takes(self, message: Message) -> bool:
        """Return whether the answer to a message becomes a draft. Call `LiveSettings.load` before."""
        is_question = is_ask_command(message.command) and message.origin.purpose in ("", "retry")
        # A command without a question gets help at once.
        is_question = is_question and (asks(message, self.live.settings) or not message.command)
        return is_question and ChatPolicy(self.live).mode(message) == "draft"

    async def find_block(self, question: Message) -> Skip | None:
        """Return why the answer to a question must not become a draft now, or None.

        Raises `PlatformUnavailable` where nobody knows now who reads the team's chat.
        """
        target = self.live.settings.get_drafts_chat(get_chat_name(question))
        if self.start_post is None or target is None or target == get_chat_name(question):
            return skip(SkipReason.DRAFTS_GO_NOWHERE)
        if question.thread_state.is_restricted and not question.private:
            return skip(SkipReason.DRAFTS_NOT_IN_CLOSED_PLACES)
        labels = to_stored_labels(self.permissions.visible_labels(question))
        # Without a connection nothing is posted there: it is judged again before.
        if post := self.start_post(target, "", list(self.adapters.values())):
            has_guests = (await self.permissions.as_read_now(*post)).has_guests
        else:
            has_guests = False
        is_open = may_be_shown(labels, self.permissions.visible_labels_of(target, has_guests=has_guests))
        return None if is_open else skip(SkipReason.DRAFTS_SEEN_BY_OTHERS)

    def make_sink(self, question: Message, delivery: JournaledDelivery, opinion: str) -> DraftSink:
        """Return the sink of an answer that becomes a draft; `opinion` is why a model decided to speak."""
        return DraftSink(delivery, partial(self._keep, question, delivery, opinion))

    async def sweep(self) -> None:
        """Close what waited too long; tell the team what it does not know yet: drafts, answers of people, failures.

        An error of the database is only logged.
        """
        try:
            await self.live.load()
            notices = await self._repository.get_notices(2 * timedelta(hours=MAX_HOURS))
            for draft in await self._repository.get_waiting():
                if datetime.now(UTC) - draft.drafted_at > timedelta(hours=MAX_HOURS):
                    await self._drop(draft, skip(SkipReason.DRAFT_EXPIRED, hours=MAX_HOURS))
                    continue
                known_ids = notices.get(draft.number, set())
                if not any(known_id.startswith(ANNOUNCEMENT) for known_id in known_ids):
                    await self._announce(draft)
                else:
                    await self._note_edit(draft, known_ids)
                await self._note_replies(draft, known_ids)
            for draft, reason in await self._repository.get_lost(notices):
                await self._note_lost(draft, reason, notices[draft.number])
        except StoreError as error:
            _log.error("drafts.not_swept", error=str(error))

    async def to_command(self, message: Message) -> Message:
        """Return a reply to a draft as the command that it is, with the draft's number; any other message unchanged."""
        is_reply = message.addressed and message.reply_to and not (message.is_by_bot or message.is_forwarded)
        if not is_reply or message.command not in ("", *DECISIONS):
            return message
        replied_to = await MessageLookup(self.journal.database).find_replied_to(message)
        notice = next((stored.message for stored in replied_to if stored.message.origin.purpose == "draft"), None)
        if notice is None or not (message.command or notice.id.startswith(ANNOUNCEMENT)):
            return message
        command_name, text = (message.command, message.text) if message.command else _read_decision(message.text)
        if not command_name:
            return message
        number = notice.origin.root_id
        first_word = (text.split() or [""])[0].strip(".!")
        has_number = first_word == number or (command_name != EDIT and first_word.isdecimal())
        if message.command and has_number:
            return message
        if command_name == EDIT:
            text = text if has_number else f"{number} {text}".strip()
        else:
            # What else is said with it is for the team.
            text = first_word if has_number else number
        command = replace(message, command=command_name, text=text)
        await self._repository.note_command(command)
        return command

    async def require_notice(self, message: Message) -> None:
        """Judge a notice again before it is posted, which may be minutes after it was made.

        Raises `RightsChanged` where its draft waits no more, as when its question was forgotten, and where its team may
        not see it any more. That a draft was lost is told afterwards.
        """
        await self.live.load()
        number = int(message.origin.root_id)
        draft = await self._repository.find_waiting(number)
        if draft is None and message.id.startswith(NOTE):
            draft = next((lost for lost, _ in await self._repository.get_lost([number])), None)
        if draft is None or not self._is_for(draft, message):
            raise RightsChanged("", skip(SkipReason.RIGHTS_CHANGED))
        if reason := await self.find_block(draft.question):
            raise RightsChanged("", reason)

    async def decide(self, message: Message, arguments: Mapping[str, str], texts: Messages) -> str:
        """Do what a command says about a draft, once, and return the reply. Raises `UsageError`."""
        number = int(float(arguments["number"]))
        draft = await self._repository.find_waiting(number)
        if draft is None or not self._is_for(draft, message):
            raise UsageError(texts.draft_unknown.format(number=number))
        # The audit outlives what people forget: it has no words of theirs.
        command = replace(message, text=str(number))
        entry = new_entry(command, "changed", f"draft {number}", "waiting", DECISIONS[message.command])
        if message.command == DROP:
            if is_decided := await self._drop(draft, skip(SkipReason.DRAFT_DROPPED), entry):
                await FeedbackRepository(self.journal.database).evict_cached_reply(draft.question)
        else:
            reply = draft.reply if message.command == POST else _replace_text(draft.reply, arguments["text"])
            if reason := await self._find_fault(draft, reply, texts, is_edited=message.command == EDIT):
                raise UsageError(texts.draft_blocked.format(number=number, reason=reason))
            if is_decided := await self._repository.approve(draft, reply, entry):
                if message.command == EDIT:
                    # Who asks the same gets no answer that the team has replaced.
                    await FeedbackRepository(self.journal.database).evict_cached_reply(draft.question)
                self._start(self._find_adapter(draft.question), draft.question)
        if not is_decided:
            raise UsageError(texts.draft_unknown.format(number=number))
        return texts.draft_decisions[message.command].format(number=number)

    async def _drop(self, draft: Draft, reason: Skip, entry: AuditEntry | None = None) -> bool:
        """Close the question of a draft without an answer; return False if something was decided before."""
        if is_dropped := await self._repository.drop(draft, reason, entry):
            self.journal.count(draft.question, "silent", reason)
        return is_dropped

    async def _keep(self, question: Message, delivery: JournaledDelivery, opinion: str, reply: Reply) -> None:
        reply = replace(reply, trace=replace(reply.trace, opinion=opinion))
        await self.journal.mark_drafted(question, reply, delivery.brought_parts, delivery.conversation)
        if draft := await self._repository.find_of(question):
            _log.info("message.drafted", number=draft.number, citations=len(reply.citations))
            await self._announce(draft)
        else:
            await delivery.require_left()

    async def _announce(self, draft: Draft) -> None:
        texts = self._get_texts(draft)
        question = draft.question
        title = await ReportRepository(self.journal.database).get_chat_title(question.key)
        chat = format_code(get_chat_name(question))

        def write(adapter: Adapter) -> str:
            return texts.draft.format(
                number=draft.number,
                author=self._hide(draft, adapter, format_name(question.author)),
                chat=f"{self._hide(draft, adapter, format_name(title))} ({chat})" if title else chat,
                message=format_code(question.id),
                question=self._hide(draft, adapter, format_code(question.text, MAX_QUESTION_CHARS)),
                answer=self._hide(draft, adapter, draft.reply.text),
                post=adapter.spell_command(f"{POST} {draft.number}"),
                drop=adapter.spell_command(f"{DROP} {draft.number}"),
            )

        await self._tell(draft, _make_id(draft, ANNOUNCEMENT, question.text), write, draft.reply.citations)

    def _hide(self, draft: Draft, adapter: Adapter, text: str) -> str:
        """Return a part of a notice, or in its place why it may not be written where the team is."""
        words = make_filter(self.live.settings.outgoing, adapter.name)
        rule = words.find(text) if words else None
        reason = self._get_texts(draft).skip_reasons[SkipReason.WORD_WITHHELD.name]
        return f"({reason.format(rule=f'outgoing.{rule}')})" if rule else text

    async def _note_edit(self, draft: Draft, known_ids: Container[str]) -> None:
        """Tell the team of a question that was edited: as it is now, it was not announced."""
        if _make_id(draft, ANNOUNCEMENT, draft.question.text) not in known_ids:
            text = format_code(draft.question.text, MAX_QUESTION_CHARS)

            def write(adapter: Adapter) -> str:
                return self._get_texts(draft).draft_question_edited.format(question=self._hide(draft, adapter, text))

            await self._note(draft, f"edited {draft.question.text}", write, known_ids)

    async def _note_replies(self, draft: Draft, known_ids: Container[str]) -> None:
        age = datetime.now(UTC) - draft.question.sent_at
        history = ChatHistory(self.journal.database)
        recent_messages = await history.get_recent_messages(draft.question, age.total_seconds())
        if reason := answered_meanwhile_reason(draft.question, recent_messages, is_certain=True):
            await self._note(draft, reason.name, lambda _: self._get_texts(draft).skip_reasons[reason.name], known_ids)

    async def _note_lost(self, draft: Draft, reason: str, known_ids: Container[str]) -> None:
        text = self._get_texts(draft).draft_lost.format(reason=reason)
        await self._note(draft, f"lost {reason}", lambda adapter: self._hide(draft, adapter, text), known_ids)

    async def _note(self, draft: Draft, key: str, write: Callable[[Adapter], str], known_ids: Container[str]) -> None:
        """Tell the team something about a draft, once for a key."""
        template = self._get_texts(draft).draft_note
        message_id = _make_id(draft, NOTE, key)
        if message_id not in known_ids:
            await self._tell(
                draft, message_id, lambda adapter: template.format(number=draft.number, note=write(adapter))
            )

    async def _tell(
        self, draft: Draft, message_id: str, write: Callable[[Adapter], str], citations: tuple[Citation, ...] = ()
    ) -> None:
        """Post into the team's chat, once for an id, as far as it may see the draft now."""
        target = self.live.settings.get_drafts_chat(get_chat_name(draft.question))
        post = self.start_post(target, message_id, list(self.adapters.values())) if self.start_post and target else None
        try:
            if post is None or await self.find_block(draft.question):
                return
        except PlatformUnavailable as error:
            _log.info("draft.not_told_yet", number=draft.number, error=str(error))
            return
        adapter, message = post
        origin = Origin(root_id=str(draft.number), purpose="draft")
        message = await self.permissions.as_read_now(adapter, message)
        message = replace(message, origin=origin, language=self._get_texts(draft).language)
        # Words that may not leave are searched in it, which a pattern can make slow.
        reply = Reply(await asyncio.to_thread(write, adapter), citations)
        if await self.journal.record_message(message, reply=reply, visible_sources=draft.visible_sources):
            self._start(adapter, message)

    def _get_texts(self, draft: Draft) -> Messages:
        """Return the texts in the language of the team's chat, else in that of the question."""
        target = self.live.settings.get_drafts_chat(get_chat_name(draft.question)) or ""
        return messages_for(self.permissions.get_chat_language(target) or detect_language(draft.question.text))

    def _is_for(self, draft: Draft, message: Message) -> bool:
        """Return whether a message was written in the chat that decides about a draft."""
        target = self.live.settings.get_drafts_chat(get_chat_name(draft.question))
        post = self.start_post(target, "", list(self.adapters.values())) if self.start_post and target else None
        return post is not None and get_chat_name(post[1]) == get_chat_name(message)

    async def _find_fault(self, draft: Draft, reply: Reply, texts: Messages, *, is_edited: bool) -> str:
        """Return why a reply cannot be posted where its question was asked, or an empty string."""
        adapter = self._find_adapter(draft.question)
        if adapter is None:
            return texts.draft_platform_away
        try:
            question = await self.permissions.as_read_now(adapter, draft.question)
            reason = ChatPolicy(self.live).block_reason(question) or await self.find_block(question)
        except PlatformUnavailable:
            # A button waits for no platform.
            return texts.draft_platform_away
        if reason is None and not may_be_shown(draft.visible_sources, self.permissions.visible_labels(question)):
            reason = skip(SkipReason.RIGHTS_CHANGED)
        if reason is None and is_edited:
            settings = self.live.settings.with_models_of(get_chat_name(question))
            outgoing = OutgoingFilter(settings.outgoing, self.moderator)
            reason = await outgoing.get_judge(question.key.platform).find_reason(reply)
        if reason:
            return texts.skip_reasons[reason.reason.name].format(**reason.values)
        return ""

    def _find_adapter(self, message: Message) -> Adapter | None:
        """Return the bot that received a message, or another one of its platform where that was removed."""
        adapters = [adapter for adapter in self.adapters.values() if adapter.name == message.key.platform]
        owner = next((adapter for adapter in adapters if adapter.bot_id == message.bot), None)
        return owner or next((adapter for adapter in adapters if adapter.can_take_over), None)

    def _start(self, adapter: Adapter | None, message: Message) -> None:
        if self.start_answer and adapter:
            self.start_answer(adapter, message)


class DraftSink(RecordedSink):
    """Keeps the final reply as a draft. Nothing is shown to who asked, also where the answer fails."""

    def __init__(self, delivery: JournaledDelivery, keep: Callable[[Reply], Awaitable[None]]) -> None:
        self._delivery = delivery
        self._keep = keep
        self.is_resumed = False

    async def open(self) -> None:
        """Show nothing: the answer may never come."""

    async def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, reply: Reply) -> None:
        """Keep a reply, unless it only says why there is no answer."""
        await self._delivery.require_rights()
        if not reply.failure:
            await self._keep(reply)

    async def apologize(self, reply: Reply) -> None:
        """Show nothing: the journal has the reason."""

    async def deliver(self, reply: Reply) -> None:
        """Keep a reply that was recorded before, unless it only says why there is no answer."""
        await self.finish(reply)


def _read_decision(text: str) -> tuple[str, str]:
    """Return the command that plain words below an announcement are, with the rest; "" where they are said to the bot.

    Commands may be typed as words. Other words replace the answer, but no question and no other command does: these
    are meant for the bot or the team, and would be read in public.

    >>> _read_decision("/drop he did not pay"), _read_decision("Post your log first."), _read_decision("Is it true?")
    (('drop', 'he did not pay'), ('edit', 'Post your log first.'), ('', 'Is it true?'))
    """
    if match := _DECISION.match(text):
        word = match["word"].lower()
        # Advice begins with such words, too: "Post your log", "Edit the file".
        is_whole = {POST: not match["rest"].strip(" .!0123456789"), EDIT: match["end"] == ":", DROP: True}
        if match["slash"] or is_whole[word]:
            return word, match["rest"]
    # What is said or drawn is no text: a voice message is heard as a question.
    if not text.strip() or text.startswith("/") or is_question(text):
        return "", text
    return EDIT, text


def _make_id(draft: Draft, kind: str, key: str) -> str:
    identity = f"{draft.number} {draft.drafted_at.isoformat()} {key}"
    # Discord takes 25 characters at most.
    return f"{kind}{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _replace_text(reply: Reply, text: str) -> Reply:
    """Return a reply with a person's words, and with those of its citations that these have. It lacks nothing."""
    numbers = set(re.findall(r"\[(\d+)\]", text))
    citations = tuple(citation for citation in reply.citations if str(citation.n) in numbers)
    trace = replace(reply.trace, query="", degraded=())
    return Reply(text, citations, trace=trace, image_description=reply.image_description)
