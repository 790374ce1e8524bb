"""One reply on a forge: a comment, posted once and whole. A marker in it, which nobody sees, says which reply it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from bots.common.connection import Unreachable
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import ReplySink, cut_reply
from bots.forges.client import ForgeClient, Identity, remove_number
from bots.forges.connection import ForgeIntervals
from bots.forges.convert import get_answered_reason, get_closed_reason, has_answer_of_people, is_own
from bots.forges.render import MAX_CHARS, render, to_plain
from core.errors import CommentSuppressed
from core.messaging.feedback.handoff import mentioned_users
from core.ports import Delivery
from core.types import Button, Citation, Message, Reply, SkipReason, skip
from core.types.messages import OWN_COMMENT_MARKER

if TYPE_CHECKING:
    from core.settings.messaging import ForgeSettings


class ForgeSink(ReplySink):
    """Writes the reply to one message."""

    max_chars = 40_000

    def __init__(
        self,
        client: ForgeClient,
        me: Identity,
        settings: ForgeSettings,
        message: Message,
        delivery: Delivery,
        *,
        check_project: Callable[[str], Awaitable[None]],
        previous_reply_id: str,
        intervals: ForgeIntervals,
    ) -> None:
        super().__init__(message.key.platform, message, delivery, intervals)
        self._client = judge_calls(client, delivery)
        self._me = me
        self._settings = settings
        self._check_project = check_project
        reference = message.reference
        self._project = str(reference["project"])
        self._topic_path = str(reference["topic"])
        self._comment_number = int(reference["comment"])
        self._reply_id = previous_reply_id
        self._is_in_doubt = delivery.is_in_doubt

    async def finish(self, reply: Reply) -> None:
        """Post the reply with its sources, and label the issue."""
        await super().finish(reply)
        label = self._settings.not_found_label if reply.shortfall else self._settings.answered_label
        if label and self._reply_id and not self._message.command:
            await self._try_quietly(self._client.add_label(self._project, self._topic_path, label))

    async def _run_preview(self) -> None:
        return

    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        """Return Markdown as one comment; of a longer one, the beginning, and what it cites."""
        parts = render(text, citations, self._me.host)
        max_chars = len(text)
        while len(parts[0]) > MAX_CHARS:
            # How long markup and the list of sources are is known once they are written.
            max_chars = max_chars * 4 // 5
            parts = render(*cut_reply(self._message, Reply(text, tuple(citations)), max_chars), self._me.host)
        return parts

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        return to_plain(part, max_chars)

    def _mention_prefix(self) -> str:
        return "".join(f"@{remove_number(person)} " for person in mentioned_users(self._message))

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        if not self._reply_id:
            self._reply_id = await self._retry.post(
                lambda: self._post_first(text), lambda: self._find_part(text, 0), self._check_question
            )
            if not self._is_in_doubt:
                return
        # An earlier try may have posted another text.
        await self._client.edit_comment(self._project, self._topic_path, self._reply_id, self._sign(text, 0))

    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        return await self._client.post_comment(self._project, self._topic_path, self._sign(text, number))

    async def _find_part(self, text: str, number: int) -> str:
        marker = self._make_marker(number)
        comments = await self._client.list_comments_below(self._project, self._topic_path)
        return next((item.id for item in comments if is_own(item, self._me) and marker in item.text), "")

    async def _post_first(self, text: str) -> str:
        try:
            return await self._send_part(text, 0, ())
        except Unreachable:
            self._is_in_doubt = True
            raise

    async def _check_question(self) -> None:
        """Look again right before the post: an answer to what is gone would quote it, and people may have been faster.

        Raises `MessageDeleted`, also in another project of the name, and `CommentSuppressed` where the topic was closed
        or people have answered.
        """
        await self._check_project(self._project)
        topic = await self._client.get_topic(self._project, self._topic_path)
        if state := get_closed_reason(topic):
            raise CommentSuppressed(skip(SkipReason.THREAD_CLOSED, state=state))
        if get_answered_reason(topic, self._message):
            raise CommentSuppressed(skip(SkipReason.HUMAN_REPLIED))
        if self._comment_number:
            await self._client.get_comment(self._project, self._topic_path, self._comment_number)
        elif not self._message.addressed and topic.comment_count:
            comments = await self._client.list_comments_below(self._project, self._topic_path)
            if has_answer_of_people(topic, comments, self._me):
                raise CommentSuppressed(skip(SkipReason.HUMAN_REPLIED))
        await self._client.wait_to_write()

    def _sign(self, text: str, number: int) -> str:
        return f"{text}\n\n{self._make_marker(number)}"

    def _make_marker(self, number: int) -> str:
        message = self._message
        identity = [self._me.login, message.key.chat, message.key.thread, message.question_id, message.id, number]
        return f"{OWN_COMMENT_MARKER}{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]} -->"
