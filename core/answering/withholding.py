"""Withholds what may not leave: every answer passes here on its way out, whatever platform or program asked for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.catalogue import messages_for
from core.errors import AnswerWithheld, ServiceError
from core.language.languages import get_asker_language
from core.llm.moderation import Moderator
from core.observability.logs import get_logger
from core.ports import Sink
from core.settings import OutgoingSettings
from core.settings.base import OPERATOR_PLATFORM
from core.types import Question, Reply, Skip, SkipReason, skip

if TYPE_CHECKING:
    from core.language.word_filter import WordFilter

_log = get_logger(__name__)

# A growing answer is searched again when it is longer by this share, so that all searches cost no more than some.
GROWTH = 1.05


@dataclass(frozen=True, slots=True)
class OutgoingFilter:
    """Judges answers by words and patterns, and by a moderation endpoint where one is configured."""

    settings: OutgoingSettings
    moderator: Moderator | None = None

    @classmethod
    def open(cls, settings: OutgoingSettings) -> OutgoingFilter:
        """Prepare the filter without sending anything."""
        moderator = Moderator.open(settings.moderation) if settings.moderation.base_url else None
        return cls(settings, moderator)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self.moderator:
            await self.moderator.close()

    def guard(self, question: Question, sink: Sink) -> Sink:
        """Return the sink of an answer, or one before it that lets only through what may leave."""
        judge = self.get_judge(question.key.platform if question.key else OPERATOR_PLATFORM)
        if not (judge.words or judge.moderator):
            return sink
        text = self.settings.replacement or messages_for(get_asker_language(question)).answer_withheld
        return GuardedSink(sink, judge, text)

    def get_judge(self, platform: str) -> OutgoingJudge:
        """Return what judges whole answers on a platform."""
        moderation = self.settings.moderation
        is_moderated = moderation.base_url is not None and platform in moderation.platforms
        words = make_filter(self.settings, platform)
        return OutgoingJudge(platform, words, self.moderator if is_moderated else None)


def make_filter(settings: OutgoingSettings, platform: str) -> WordFilter | None:
    """Return what finds the words and patterns that may not leave there; None where there are none."""
    is_open = bool(settings.platforms) and platform not in settings.platforms
    if is_open or not (settings.words or settings.patterns):
        return None
    # Its library takes a while to load.
    from core.language.word_filter import make_word_filter

    return make_word_filter(settings.words, settings.patterns)


def guard_words(settings: OutgoingSettings, platform: str, language: str, sink: Sink) -> Sink:
    """Return the sink of a text that no model writes now, or one before it that lets only through what may leave.

    The text has titles of documents or an earlier answer in it, which may be from before the words were configured.
    """
    words = make_filter(settings, platform)
    text = settings.replacement or messages_for(language).answer_withheld
    return GuardedSink(sink, OutgoingJudge(platform, words, None), text) if words else sink


@dataclass(frozen=True, slots=True)
class OutgoingJudge:
    """Judges whole answers on one platform."""

    platform: str
    words: WordFilter | None
    moderator: Moderator | None

    async def find_reason(self, reply: Reply) -> Skip | None:
        """Return why a reply may not leave, or None."""
        # What is shown of a citation leaves as well.
        sources = [part for citation in reply.citations for part in (citation.title, citation.path, citation.url)]
        text = "\n".join([reply.text, *sources])
        if self.words and (rule := await asyncio.to_thread(self.words.find, text)):
            return skip(SkipReason.WORD_WITHHELD, rule=f"outgoing.{rule}")
        return await self._find_moderated_reason(self.moderator, text) if self.moderator and text.strip() else None

    async def _find_moderated_reason(self, moderator: Moderator, text: str) -> Skip | None:
        try:
            categories = await moderator.judge(text)
        except ServiceError as error:
            is_withheld = moderator.settings.withholds_unjudged(self.platform)
            _log.error("moderation.failed", platform=self.platform, withheld=is_withheld, error=str(error))
            # Members may read the reason: the address stays in the log.
            return skip(SkipReason.MODERATION_FAILED) if is_withheld else None
        return skip(SkipReason.MODERATION_FLAGGED, categories=", ".join(categories)) if categories else None


class GuardedSink:
    """Passes on to another sink what may leave. Raises `AnswerWithheld` with `text` at the end of any other answer.

    A growing answer is shown up to the first character that may belong to something that is searched; where it is to
    be moderated, not before it is whole.
    """

    def __init__(self, sink: Sink, judge: OutgoingJudge, text: str) -> None:
        self._sink = sink
        self._judge = judge
        self._text = text
        self._next_search_chars = 0

    async def open(self) -> None:
        """Show that an answer is coming."""
        await self._sink.open()

    async def update(self, text: str) -> None:
        """Show the settled part of the reply so far."""
        words = self._judge.words
        if self._judge.moderator or not words or len(text) < self._next_search_chars:
            return
        self._next_search_chars = int(len(text) * GROWTH) + 1
        settled_count = await asyncio.to_thread(words.count_settled, text)
        if settled_text := text[:settled_count].rstrip():
            await self._sink.update(settled_text)

    async def finish(self, reply: Reply) -> None:
        """Show the final reply. Raises `AnswerWithheld`."""
        if reason := await self._judge.find_reason(reply):
            _log.warning("answer.withheld", platform=self._judge.platform, reason=str(reason))
            raise AnswerWithheld(self._text, reason)
        await self._sink.finish(reply)

    async def fail(self, text: str) -> None:
        """Show that the answer failed, in words of our own."""
        await self._sink.fail(text)
