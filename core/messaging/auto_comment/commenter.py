"""Auto-comments: one comment below a post of a channel, or one post about an entry of a feed.

The rules are checked before a comment is written, and a comment that is not good enough is never posted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time

from core.answering.withholding import guard_words, make_filter
from core.errors import AnswerWithheld, CommentSuppressed, KimasError, MessageDeleted, PlatformUnavailable, UsageError
from core.formatting import format_link
from core.language.courtesies import find_courtesy
from core.messaging.journaling import JournaledDelivery
from core.messaging.policy.permissions import Permissions
from core.messaging.redelivery import Undelivered
from core.observability.logs import get_logger
from core.ports import Adapter, AnswerFunction, Library, Sink
from core.settings import AutoCommentSettings
from core.storage.auto_comments import AutoCommentRepository
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, get_chat_name
from core.types import Message, PlatformName, Question, Reply, ReplyOptions, Skip, SkipReason, skip
from core.types.messages import MAX_QUESTION_CHARS

_log = get_logger(__name__)

IN_DOUBT_REASON = "the comment was being posted at the deadline; whether it is there is not known"

MAX_TITLE_CHARS = 200


class Commenter:
    """Comments below posts of the configured chats and on entries of feeds; other bots' messages are only counted."""

    def __init__(
        self, live: LiveSettings, journal: Journal, answer: AnswerFunction, policy: Permissions, library: Library | None
    ) -> None:
        self._permissions = policy
        self._live = live
        self._settings = live.settings.auto_comment
        self._journal = journal
        self._repository = AutoCommentRepository(journal.database)
        self._answer = answer
        self._library = library
        self._rate_lock = asyncio.Lock()
        self._in_progress: set[tuple[str, str]] = set()

    def should_handle(self, message: Message) -> bool:
        """Return whether the commenter handles a message: another bot wrote it, or it is a post to comment on."""
        return message.is_by_bot or self._is_target(message)

    async def handle(
        self, adapter: Adapter, message: Message, previous_reply_id: str, delivery: JournaledDelivery
    ) -> None:
        """Handle one message and record its outcome in the journal: a comment, a skip or a failure."""
        if not self._is_target(message):
            await self._journal.mark_skipped(message, skip(SkipReason.WRITTEN_BY_BOT))
        elif previous_reply_id and delivery.final_reply is None:
            await self._journal.mark_skipped(message, skip(SkipReason.BEFORE_RESTART))
        elif refusal := adapter.refuse_comment(message):
            await self._journal.mark_skipped(message, refusal)
        else:
            try:
                await self._comment(adapter, message, delivery, previous_reply_id)
            finally:
                # Only once it is in the journal, which counts it from then on.
                self._in_progress.discard((get_chat_name(message), message.id))

    def _is_target(self, message: Message) -> bool:
        """Return whether a post is to get a comment; one that addresses the bot gets an answer like any question."""
        is_unaddressed = not (message.addressed or message.command)
        is_followed = get_chat_name(message) in self._settings.chats or self._is_entry(message)
        return is_unaddressed and is_post(message) and is_followed

    def _is_entry(self, message: Message) -> bool:
        """Return whether a post is an entry of a feed that is followed, in the chat where it is commented on."""
        feed = self._settings.feeds.get(get_feed(message))
        chat = PlatformName.parse(feed.chat) if feed else None
        return chat is not None and (message.key.platform, message.key.chat) == (chat.platform, chat.posted_id)

    async def _comment(
        self, adapter: Adapter, post: Message, delivery: JournaledDelivery, previous_reply_id: str
    ) -> None:
        guarded_delivery = GuardedDelivery(delivery, lambda: self._lost_race_reason(post), previous_reply_id)
        # Where the network itself counts the replies, no other bot can reply between our check and the post.
        limited_post = replace(post, reply_options=ReplyOptions(max_bot_replies=self._settings.replies_per_post))
        # An entry has no thread in its chat: the comment begins it.
        detached_post = replace(post, key=replace(post.key, thread=""))
        sink_message = detached_post if get_feed(post) else limited_post
        platform_sink = adapter.sink(sink_message, guarded_delivery, previous_reply_id)
        sink = BufferedSink(platform_sink, self._unfit_reason, delivery, entry_heading(post))
        reply, error = await self._comment_before_deadline(post, sink, guarded_delivery)
        if isinstance(error, PlatformUnavailable) and delivery.final_reply:
            raise Undelivered(error, post.sent_at, is_unprompted=True) from error
        if reply is None and guarded_delivery.is_posted:
            # Its first part was posted; a later part failed.
            reply = sink.reply
        if reply is not None:
            await self._journal.mark_delivered(post, reply)
            if get_feed(post) and guarded_delivery.reply_id:
                await self._repository.set_thread(post, guarded_delivery.reply_id)
            _log.info("post.commented", age_s=round(_age_s(post), 2), cut=reply.trace.degraded)
        elif guarded_delivery.in_doubt:
            await self._journal.mark_failed(post, IN_DOUBT_REASON)
            _log.warning("post.comment_in_doubt", error=str(error))
        elif isinstance(error, CommentSuppressed | MessageDeleted | UsageError):
            await self._journal.mark_skipped(post, _to_skip(error))
            _log.info("post.not_commented", reason=str(error))
        else:
            await self._journal.mark_failed(post, str(error) or type(error).__name__)
            is_expected = isinstance(error, KimasError)
            _log.error("post.comment_failed", error=str(error), exc_info=None if is_expected else error)

    async def _comment_before_deadline(
        self, post: Message, sink: BufferedSink, guarded_delivery: GuardedDelivery
    ) -> tuple[Reply | None, Exception | None]:
        """Return the comment that was posted, or why there is none."""
        # A comment that has begun is posted to its end; one that may have been posted is looked for first.
        has_begun = guarded_delivery.is_posted or guarded_delivery.is_in_doubt
        timeout = asyncio.timeout(None if has_begun else max(0.0, self._settings.deadline_s - _age_s(post)))
        try:
            async with timeout:
                return await self._write_comment(post, sink, guarded_delivery), None
        except asyncio.CancelledError:
            await guarded_delivery.wait_for_posting()
            raise
        except TimeoutError as error:
            if guarded_delivery.is_posted:
                return None, PlatformUnavailable("the deadline came between the parts of the comment")
            return None, CommentSuppressed(self._too_late_reason()) if timeout.expired() else error
        except Exception as error:
            # Any error: nobody asked, so only the journal and the log have it.
            return None, error

    async def _write_comment(self, post: Message, sink: BufferedSink, guarded_delivery: GuardedDelivery) -> Reply:
        if reply := guarded_delivery.final_reply:
            language = self._permissions.get_language(post)
            await guard_words(self._live.settings.outgoing, post.key.platform, language, sink).finish(reply)
            return reply
        if reason := await self._reject_reason(post):
            raise CommentSuppressed(reason)
        text = (await self._journal.begin_answer(post, self._permissions.visible_labels(post)))[:MAX_QUESTION_CHARS]
        chat_settings = self._permissions.get_chat_settings(post)
        question = Question(
            text,
            (),
            post.id,
            post.author,
            post.author_id,
            post.key,
            visible_sources=self._permissions.searched_sources(post),
            persona=chat_settings.persona,
            language=chat_settings.language,
            is_unprompted=True,
        )
        return await self._answer(question, sink)

    async def _reject_reason(self, post: Message) -> Skip | None:
        """Return why no comment is to be written, or None. The cheapest tests come first."""
        if post.feed_entry and post.feed_entry.is_too_old:
            return skip(SkipReason.ENTRY_TOO_OLD)
        if _age_s(post) >= self._settings.deadline_s:
            return self._too_late_reason()
        # Above the comment stands the entry's title, which no model wrote.
        words = make_filter(self._live.settings.outgoing, post.key.platform)
        if words and (rule := await asyncio.to_thread(words.find, entry_heading(post))):
            return skip(SkipReason.WORD_WITHHELD, rule=f"outgoing.{rule}")
        rule_reason = reject_reason(post, self._settings, datetime.now(UTC).astimezone())
        return (
            rule_reason
            or await self._lost_race_reason(post)
            or await self._irrelevant_reason(post)
            or await self._over_rate_reason(post)
        )

    async def _lost_race_reason(self, post: Message) -> Skip | None:
        """Return why other comments make ours useless, or None."""
        if _age_s(post) >= self._settings.deadline_s:
            return self._too_late_reason()
        count = await self._repository.count_competitor_replies(post)
        limit = self._settings.replies_per_post
        return skip(SkipReason.COMPETITORS, count=count, limit=limit) if count >= limit else None

    async def _irrelevant_reason(self, post: Message) -> Skip | None:
        min_relevance = self._settings.min_relevance
        if min_relevance is None:
            return None
        if self._library is None:
            return skip(SkipReason.NO_KNOWLEDGE_FOR_POST)
        sources = self._permissions.searched_sources(post)
        library = self._library if sources is None else self._library.restricted_to(sources)
        scores = await library.route(post.text[:MAX_QUESTION_CHARS])
        score = max((agent_score.score for agent_score in scores), default=-1.0)
        return skip(SkipReason.IRRELEVANT_POST, score=score, minimum=min_relevance) if score < min_relevance else None

    async def _over_rate_reason(self, post: Message) -> Skip | None:
        """Return that the hour is used up; or None, and this comment counts for the hour."""
        max_per_hour = self._settings.per_hour
        if max_per_hour is None:
            return None
        # One at a time: otherwise two comments could both count as the last one of the hour.
        async with self._rate_lock:
            in_progress = {post_id for chat, post_id in self._in_progress if chat == get_chat_name(post)}
            comment_count = len(in_progress) + await self._repository.count_recent_comments(post, in_progress)
            if comment_count >= max_per_hour:
                return skip(SkipReason.COMMENT_LIMIT, count=comment_count)
            self._in_progress.add((get_chat_name(post), post.id))
        return None

    def _unfit_reason(self, reply: Reply) -> Skip | None:
        """Return why a reply is not good enough for a comment, or None."""
        if not reply.text.strip():
            return skip(SkipReason.EMPTY_COMMENT)
        if "write" in reply.trace.degraded:
            return skip(SkipReason.UNFINISHED_COMMENT)
        if self._settings.needs_citation and (reply.found_nothing or not reply.citations):
            return skip(SkipReason.UNCITED_COMMENT)
        return None

    def _too_late_reason(self) -> Skip:
        return skip(SkipReason.DEADLINE, seconds=self._settings.deadline_s)


def _to_skip(error: CommentSuppressed | MessageDeleted | UsageError) -> Skip:
    if isinstance(error, CommentSuppressed | AnswerWithheld):
        return error.skip
    reason = SkipReason.POST_DELETED if isinstance(error, MessageDeleted) else SkipReason.COMMENT_REFUSED
    return skip(reason, error=error)


def _age_s(post: Message) -> float:
    """Return the seconds since the post was sent, at least 0: the platform's clock may be ahead of ours."""
    return max(0.0, (datetime.now(UTC) - post.sent_at).total_seconds())


def get_feed(post: Message) -> str:
    """Return the name of the feed that a post is an entry of, "" for any other post."""
    return post.feed_entry.feed if post.feed_entry else ""


def entry_heading(post: Message) -> str:
    """Return the heading of a comment on an entry, as Markdown: its title, linked; "" for any other post.

    The feed's text is shown as plain text: no markup, no mention, no citation.
    """
    entry = post.feed_entry
    if entry is None:
        return ""
    title = " ".join(entry.title.split()) or entry.link or post.author
    title = title if len(title) <= MAX_TITLE_CHARS else f"{title[:MAX_TITLE_CHARS].rstrip()}…"
    return f"**{format_link(title, entry.link)}**\n\n"


def is_post(message: Message) -> bool:
    """Return whether a message is a post: its adapter says so, or it opens a thread."""
    if message.is_post is not None:
        return message.is_post
    opens_thread = message.key.thread == message.id and not message.reply_to
    return opens_thread and not message.private and not message.is_by_bot


def reject_reason(post: Message, settings: AutoCommentSettings, now: datetime) -> Skip | None:
    """Return why the configured rules forbid a comment, or None. `now` is the local time."""
    if not post.text.strip():
        return skip(SkipReason.EMPTY_POST)
    if find_courtesy(post.text):
        return skip(SkipReason.COURTESY)
    if in_quiet_hours(settings.quiet_hours, now.time()):
        return skip(SkipReason.QUIET_HOURS, hours=settings.quiet_hours)
    if settings.include and not find_word(post.text, settings.include):
        return skip(SkipReason.TOPIC_NOT_INCLUDED)
    word = find_word(post.text, settings.exclude)
    return skip(SkipReason.TOPIC_EXCLUDED, word=word) if word else None


def find_word(text: str, words: Sequence[str]) -> str:
    """Return the first of the words or phrases that a text contains, or "". Case does not count.

    A word in Latin letters must match a whole word. Scripts without spaces are searched for as substrings.
    """
    folded_text = text.casefold()
    for word in words:
        pattern = re.escape(word.casefold().strip())
        bounded_pattern = rf"(?<![^\W_]){pattern}(?![^\W_])" if word.isascii() else pattern
        if pattern and re.search(bounded_pattern, folded_text, re.ASCII if word.isascii() else 0):
            return word
    return ""


def in_quiet_hours(hours: str, now: time) -> bool:
    """Return whether a time of day lies within quiet hours such as 22:00-07:00; their end belongs to the day."""
    if not hours:
        return False
    start, end = (time.fromisoformat(part) for part in hours.split("-"))
    return start <= now < end if start <= end else now >= start or now < end


# Returns why the comment should not be posted, or None.
Precondition = Callable[[], Awaitable[Skip | None]]


@dataclass(slots=True, eq=False)
class BufferedSink:
    """Passes the finished reply to another sink, and nothing before it.

    `reject_reason` returns why a reply should not be posted, or None. `reply` is the one that was passed on, without
    the `heading` that is shown above it; `delivery` records it first.
    """

    sink: Sink
    reject_reason: Callable[[Reply], Skip | None]
    delivery: JournaledDelivery
    heading: str = ""
    reply: Reply | None = field(default=None, init=False)

    async def open(self) -> None:
        """Show nothing: a typing indicator would promise a comment that may never come."""

    async def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, reply: Reply) -> None:
        """Pass the whole reply on. Raises `CommentSuppressed` for one that is unfit."""
        if reason := self.reject_reason(reply):
            raise CommentSuppressed(reason)
        self.reply = reply
        await self.delivery.mark_final(reply)
        await self.sink.finish(replace(reply, text=self.heading + reply.text))

    async def fail(self, text: str) -> None:
        """Raise `CommentSuppressed`: nobody asked, so nobody is told."""
        raise CommentSuppressed(skip(SkipReason.COMMENT_FAILED, error=text))


class GuardedDelivery:
    """Checks the rules a last time before the first part is posted, and before every retry of it.

    `is_posted` says that the comment is there, `in_doubt` that it may be there. `reply_id` is the
    platform's id of it.
    """

    def __init__(self, delivery: JournaledDelivery, precondition: Precondition, previous_reply_id: str = "") -> None:
        self._delivery = delivery
        self._precondition = precondition
        self.mark_part = delivery.mark_part
        self.require_claim = delivery.require_claim
        self.require_rights = delivery.require_rights
        self.wait_for_posting = delivery.wait_for_posting
        self.is_posted = bool(previous_reply_id)
        self.in_doubt = False
        self.reply_id = previous_reply_id

    @property
    def final_reply(self) -> Reply | None:
        """The comment that the last run was to post."""
        return self._delivery.final_reply

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the last run ended while it posted the comment."""
        return self._delivery.is_in_doubt

    @property
    def parts(self) -> Mapping[int, str]:
        """The further parts of the comment."""
        return self._delivery.parts

    async def mark_posting(self) -> None:
        """Record the posting, then check the rules: nothing delays the post after the check.

        Raises `CommentSuppressed` when the check fails; nothing is posted then.
        """
        await self._delivery.mark_posting()
        if reason := await self._precondition():
            # A comment of an earlier try may still be there.
            if not self.in_doubt:
                await self._delivery.mark_rejected()
            raise CommentSuppressed(reason)
        self.in_doubt = True

    async def mark_rejected(self) -> None:
        """Record that nothing was posted."""
        self.in_doubt = False
        await self._delivery.mark_rejected()

    async def mark_posted(self, reply_id: str) -> None:
        """Record that the first part was posted."""
        await self._delivery.mark_posted(reply_id)
        self.is_posted = True
        self.in_doubt = False
        self.reply_id = reply_id
