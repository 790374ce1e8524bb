"""What social networks share: a reply that is a thread of posts, each posted once and whole, and what is in a thread.

People are notified of each post, so nothing is shown before the reply is complete.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bots.common.connection import Intervals
from bots.common.reply_sink import ReplySink, cut_reply
from core.errors import CommentSuppressed
from core.ports import Delivery
from core.types import Button, Citation, Message, Reply, SkipReason, skip

# So many posts one answer takes at most.
MAX_POSTS = 10
_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:\s+(.*))?", re.DOTALL)


class SocialThreadSink(ReplySink):
    """Writes the reply to one message as posts, each below the one before it; the first one below `question_id`."""

    def __init__(
        self,
        platform: str,
        message: Message,
        delivery: Delivery,
        intervals: Intervals,
        *,
        question_id: str,
        previous_reply_id: str,
    ) -> None:
        super().__init__(platform, message, delivery, intervals)
        self._question_id = question_id
        self._reply_id = previous_reply_id
        self._last_id = previous_reply_id
        self._max_post_chars = 0

    async def _run_preview(self) -> None:
        return

    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        """Return Markdown as at most `MAX_POSTS` posts; of a longer one, the beginning, and what it cites."""
        parts = self._render_posts(text, citations)
        reply = Reply(text, tuple(citations))
        max_chars = len(text)
        while len(parts) > MAX_POSTS:
            # How full posts are, and how long the list of sources is, is known once they are made.
            max_chars = max_chars * 4 // 5
            parts = self._render_posts(*cut_reply(self._message, reply, max_chars))
        return parts

    async def _post_first_part(self, text: str) -> None:
        """Post the first part, unless an earlier try did."""
        self._reply_id = await self._retry.post(
            lambda: self._post(text, 0, self._question_id),
            lambda: self._find(self._question_id, text, 0),
            self._check_question,
        )
        self._last_id = self._reply_id

    async def _post_part(self, part: str, number: int, buttons: Sequence[Button]) -> None:
        await super()._post_part(part, number, buttons)
        self._last_id = self._delivery.parts[number]

    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        return await self._post(text, number, self._last_id)

    async def _find_part(self, text: str, number: int) -> str:
        return await self._find(self._last_id, text, number)

    @abstractmethod
    def _render_posts(self, text: str, citations: Sequence[Citation]) -> list[str]:
        """Return Markdown as posts."""

    @abstractmethod
    async def _check_question(self) -> None:
        """Look again right before the post: an answer to what is gone would quote it, and bots may have been faster.

        Raises `MessageDeleted` and `CommentSuppressed`.
        """

    @abstractmethod
    async def _post(self, text: str, number: int, parent_id: str) -> str:
        """Post a part, counted from 0, and return its id."""

    @abstractmethod
    async def _find(self, parent_id: str, text: str, number: int) -> str:
        """Return the id of a part that an earlier try posted, or ""."""


def require_few_bots(message: Message, count: int) -> None:
    """Raise `CommentSuppressed` where so many other bots have replied to a post that it gets no comment of ours."""
    max_bot_replies = message.reply_options.max_bot_replies
    if max_bot_replies is not None and count >= max_bot_replies:
        raise CommentSuppressed(skip(SkipReason.COMPETITORS_ON_NETWORK))


def count_answers(own_flags: Iterable[bool]) -> int:
    """Return how many answers of the bot stand in a thread, of whose posts it wrote those that are flagged.

    An answer of several posts counts once.

    >>> count_answers([False, True, True, False, True])
    2
    """
    return sum(is_own and not was_own for was_own, is_own in pairwise([False, *own_flags]))


def split_command(text: str) -> tuple[str, str]:
    """Return the command that a text without mentions is, and its argument; or "" and the text.

    >>> split_command("/Ask how?"), split_command("how?")
    (('ask', 'how?'), ('', 'how?'))
    """
    match = _COMMAND.fullmatch(text)
    return (match[1].lower(), match[2] or "") if match else ("", text)
