"""Entries of feeds as posts: nothing can be replied to, so that the comment names what it is about above itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

from core.errors import KimasError, MessageGone, UsageError, Withheld
from core.messaging.auto_comment.guarded_sink import MOST, HeldSink, PatientDelivery, WatchedDelivery
from core.messaging.policy.posts import against, by_bot, is_post
from core.observability.logs import logger
from core.ports import Adapter, Library, Sink
from core.settings import Settings
from core.storage.auto_comments import comments_of_the_hour, opened_thread, rivals
from core.storage.messages import Journal
from core.types import Message, Question, Reply

BOT = "written by another bot"
IN_DOUBT = "the comment was being posted at the deadline; whether it is there is not known"
BEFORE_RESTART = "the comment was posted before a restart"

Answer = Callable[[Question, Sink], Awaitable[Reply]]


class Commenter:
    """Comments below posts of the configured chats and on entries of feeds; other bots' messages are only counted."""

    def __init__(self, settings: Settings, journal: Journal, answer: Answer, library: Library | None = None) -> None:
        self._settings = settings.auto_comment
        self._longest = settings.answer.max_question_chars
        self._journal = journal
        self._answer = answer
        self._library = library
        self._admitting = asyncio.Lock()
        self._making: set[tuple[str, str]] = set()

    def concerns(self, message: Message) -> bool:
        """Say whether a message is dealt with here: another bot wrote it, or it is a post to be commented on."""
        return by_bot(message) or self._takes(message)

    async def settle(self, adapter: Adapter, message: Message, previous: str, delivery: PatientDelivery) -> None:
        """Bring a message that concerns us to its end in the journal: a comment, a silence or a failure."""
        if not self._takes(message):
            await self._journal.silent(message, BOT)
        elif previous:
            await self._journal.silent(message, BEFORE_RESTART)
        else:
            try:
                await self._comment(adapter, message, delivery)
            finally:
                # Not before it is in the journal, which counts it from then on.
                self._making.discard((_chat(message), message.id))

    def _takes(self, message: Message) -> bool:
        """Say whether a post is to be commented on; one that addresses the bot is answered as any question."""
        unasked = not (message.addressed or message.command)
        followed = _chat(message) in self._settings.chats or feed_of(message) in self._settings.feeds
        return unasked and is_post(message) and followed

    async def _comment(self, adapter: Adapter, post: Message, delivery: PatientDelivery) -> None:
        watched = WatchedDelivery(delivery, lambda: self._lost(post))
        # Where the network can compare for itself, no rival slips in between our last look and its post.
        compared = replace(post, reference={**post.reference, MOST: self._settings.replies_per_post})
        told = alone(post) if feed_of(post) else compared
        sink = HeldSink(adapter.sink(told, watched), self._unfit, heading_of(post))
        reply, fault = await self._within_time(post, sink, watched)
        if reply is None and watched.is_posted:
            # Its first part is there; the deadline or a failure took what was to follow.
            reply = sink.reply
        if reply is not None:
            await self._journal.answered(post, reply)
            if feed_of(post) and watched.reply_id:
                await opened_thread(self._journal.database, post, watched.reply_id)
            logger(__name__).info("post.commented", age_s=round(_age(post), 2), cut=reply.trace.cut)
        elif watched.in_doubt:
            await self._journal.failed(post, IN_DOUBT)
            logger(__name__).warning("post.comment_in_doubt", error=str(fault))
        elif isinstance(fault, Withheld | MessageGone | UsageError):
            await self._journal.silent(post, str(fault))
            logger(__name__).info("post.not_commented", reason=str(fault))
        else:
            await self._journal.failed(post, str(fault) or type(fault).__name__)
            expected = isinstance(fault, KimasError)
            logger(__name__).error("post.comment_failed", error=str(fault), exc_info=None if expected else fault)

    async def _within_time(
        self, post: Message, sink: HeldSink, watched: WatchedDelivery
    ) -> tuple[Reply | None, Exception | None]:
        """Return the comment that was posted, or why there is none."""
        limit = asyncio.timeout(max(0.0, self._settings.deadline_s - _age(post)))
        try:
            async with limit:
                return await self._written(post, sink), None
        except asyncio.CancelledError:
            await watched.settle()
            raise
        except TimeoutError as fault:
            return None, Withheld(self._too_late()) if limit.expired() else fault
        except Exception as fault:
            # Whatever it is: nobody asked, so it goes to the journal and the log alone.
            return None, fault

    async def _written(self, post: Message, sink: HeldSink) -> Reply:
        if reason := await self._against(post):
            raise Withheld(reason)
        text = (await self._journal.begin(post))[: self._longest]
        return await self._answer(Question(text, (), post.id, post.author, post.author_id, post.key), sink)

    async def _against(self, post: Message) -> str:
        """Return what speaks against writing a comment, the cheapest tests first, or nothing."""
        if late := str(post.reference.get(LATE, "")):
            return late
        if _age(post) >= self._settings.deadline_s:
            return self._too_late()
        by_rule = against(post, self._settings, datetime.now(UTC).astimezone())
        return by_rule or await self._lost(post) or await self._irrelevant(post) or await self._over_rate(post)

    async def _lost(self, post: Message) -> str:
        """Return why the race for this post is lost, or nothing."""
        if _age(post) >= self._settings.deadline_s:
            return self._too_late()
        others, most = await rivals(self._journal.database, post), self._settings.replies_per_post
        return f"{others} replies of bots below the post already ({most} at most)" if others >= most else ""

    async def _irrelevant(self, post: Message) -> str:
        least = self._settings.min_relevance
        if least is None:
            return ""
        if self._library is None:
            return "there is no knowledge to compare the post with (auto_comment.min_relevance)"
        scores = await self._library.route(post.text[: self._longest])
        best = max((one.score for one in scores), default=-1.0)
        return f"outside our knowledge: {best:.2f}, at least {least:g} is wanted" if best < least else ""

    async def _over_rate(self, post: Message) -> str:
        """Return that the hour is used up, or nothing; this comment then has its place in the hour."""
        most = self._settings.per_hour
        if most is None:
            return ""
        # One after the other, or two at the same moment would take the same last place.
        async with self._admitting:
            making = {number for chat, number in self._making if chat == _chat(post)}
            made = len(making) + await comments_of_the_hour(self._journal.database, post, making)
            if made >= most:
                return f"{made} comments within the last hour (auto_comment.per_hour)"
            self._making.add((_chat(post), post.id))
        return ""

    def _unfit(self, reply: Reply) -> str:
        """Return why a reply is no comment to be proud of, or nothing."""
        if not reply.text.strip():
            return "the comment is empty"
        if "write" in reply.trace.cut:
            return "the language model did not write it to its end"
        if self._settings.needs_citation and not reply.citations:
            return "the comment would cite nothing (auto_comment.needs_citation)"
        return ""

    def _too_late(self) -> str:
        return f"not done within {self._settings.deadline_s:g} s from the post (auto_comment.deadline_s)"


def _age(post: Message) -> float:
    """Return the seconds since the post was sent; a clock ahead of ours makes no post younger than new."""
    return max(0.0, (datetime.now(UTC) - post.sent_at).total_seconds())


def _chat(message: Message) -> str:
    return f"{message.key.platform}:{message.key.chat}"


# In a post's reference: the feed it is from, its title and link, and why it is too late for it, if it is.
FEED, TITLE, LINK, LATE = "feed", "title", "link", "late"

LONGEST_TITLE = 200
_WORD_JOINER = "\u2060"
_MARKUP = re.compile(r"([\\`*_\[\]<>()~#|!&{}+])")
# In running text a number in brackets is a citation, and what follows an @ may be somebody.
_MEANT = re.compile(r"\[(?=\d)|@(?=\S)")
_NO_ADDRESS = re.compile(r"[\x00-\x20\x7f<>\\`]")


def feed_of(post: Message) -> str:
    """Return the name of the feed that a post is an entry of, "" for any other post."""
    return str(post.reference.get(FEED, ""))


def alone(post: Message) -> Message:
    """Return an entry as a sink is to see it: in no thread of its chat, for there is none before the comment."""
    return replace(post, key=replace(post.key, thread=""))


def heading_of(post: Message) -> str:
    """Return what stands above the comment on an entry, as Markdown: its title, linked; "" for any other post.

    Whatever the feed wrote there is text: no markup, no mention, no citation.
    """
    if not feed_of(post):
        return ""
    link = _NO_ADDRESS.sub(lambda found: f"%{ord(found[0]):02X}", str(post.reference.get(LINK, "")))
    title = " ".join(str(post.reference.get(TITLE, "")).split()) or link or post.author
    title = title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE].rstrip()}…"
    safe = _MARKUP.sub(r"\\\1", _MEANT.sub(lambda found: found[0] + _WORD_JOINER, title))
    # An ampersand would begin an entity.
    address = link.replace("&", "\\&")
    return f"**[{safe}](<{address}>)**\n\n" if link else f"**{safe}**\n\n"
