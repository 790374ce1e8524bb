"""One reply on Mastodon: a status that replies to the question, and further ones below it, each posted once and whole.

People are notified of each edit, so nothing is shown before the reply is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from bots.common.connection import Refused, Unreachable
from bots.common.reply_sink import ReplySink, cut_reply
from bots.mastodon.client import Identity, MastodonClient, Post
from bots.mastodon.connection import MastodonIntervals
from bots.mastodon.convert import DIRECT, PUBLIC_VISIBILITIES, count_other_bots
from bots.mastodon.render import count_chars, disarm, render, to_plain
from core.errors import CommentSuppressed
from core.formatting import strip_control_characters
from core.language.languages import identify_language
from core.messaging.feedback.handoff import mentioned_users
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Button, Citation, Message, Reply, SkipReason, skip

_log = get_logger(__name__)

# So many statuses one answer takes at most.
MAX_STATUSES = 10
# Never wider than the question: an answer is in no public timeline. All else is for the asker alone: a followers-only
# answer would be read by the bot's followers, not by the asker's.
_REPLY_VISIBILITIES = dict.fromkeys(PUBLIC_VISIBILITIES, "unlisted")


class MastodonSink(ReplySink):
    """Writes the reply to one message."""

    def __init__(
        self,
        client: MastodonClient,
        me: Identity,
        message: Message,
        delivery: Delivery,
        *,
        previous_reply_id: str,
        intervals: MastodonIntervals,
    ) -> None:
        super().__init__("mastodon", message, delivery, intervals)
        self._client = client
        self._me = me
        reference = message.reference
        self._question_id = str(reference["status"])
        self._visibility = _REPLY_VISIBILITIES.get(str(reference["visibility"]), DIRECT)
        # A warning that fills a status would leave no room for the answer.
        spoiler_text = disarm(strip_control_characters(str(reference.get("spoiler_text", ""))))
        self._spoiler_text = spoiler_text[: me.max_chars // 2]
        people = (str(reference["acct"]), *mentioned_users(message))
        self._prefix = "".join(f"@{person} " for person in dict.fromkeys(people) if person)
        # What not everybody may read reaches those alone whom it mentions.
        self._further_prefix = "" if self._visibility in PUBLIC_VISIBILITIES else self._prefix
        self._max_status_chars = me.max_chars - count_chars(self._prefix) - len(self._spoiler_text)
        self.max_chars = MAX_STATUSES * me.max_chars
        self._reply_id = previous_reply_id
        self._last_id = previous_reply_id
        self._is_in_doubt = delivery.is_in_doubt

    async def _run_preview(self) -> None:
        return

    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        """Return Markdown as at most `MAX_STATUSES` statuses; of a longer one, the beginning, and what it cites."""
        parts = render(text, citations, self._max_status_chars)
        reply = Reply(text, tuple(citations))
        max_chars = len(text)
        while len(parts) > MAX_STATUSES:
            # How full statuses are, and how long the list of sources is, is known once they are made.
            max_chars = max_chars * 4 // 5
            parts = render(*cut_reply(self._message, reply, max_chars), self._max_status_chars)
        return parts

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        return to_plain(part, max_chars or self._max_status_chars)

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        if not self._reply_id:
            self._reply_id = await self._retry.post(
                self._delivery, lambda: self._post_first(text), lambda: self._find(self._question_id, text, 0)
            )
            self._last_id = self._reply_id
            if not self._is_in_doubt:
                return
        # An earlier try may have posted another text; the same one is no edit.
        await self._client.edit(self._reply_id, self._make_post(text))

    async def _post_part(self, part: str, number: int, buttons: Sequence[Button]) -> None:
        await super()._post_part(part, number, buttons)
        self._last_id = self._delivery.parts[number]

    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        return await self._post(text, number, self._last_id)

    async def _find_part(self, text: str, number: int) -> str:
        return await self._find(self._last_id, text, number)

    async def _find(self, parent_id: str, text: str, number: int) -> str:
        if not parent_id:
            return ""
        return await self._client.find_own_reply(parent_id, self._make_post(text, number).text, self._me.id)

    async def _post_first(self, text: str) -> str:
        # Right before the post: an answer to what is gone would quote it, and bots may have been faster.
        max_bot_replies = self._message.reply_options.max_bot_replies
        if self._question_id and max_bot_replies is not None:
            replies = (await self._client.get_context(self._question_id)).get("descendants") or ()
            if count_other_bots(replies, self._question_id, self._me) >= max_bot_replies:
                raise CommentSuppressed(skip(SkipReason.COMPETITORS_ON_NETWORK))
        elif self._question_id:
            await self._client.get_status(self._question_id)
        try:
            return await self._post(text, 0, self._question_id)
        except Unreachable:
            self._is_in_doubt = True
            raise

    async def _post(self, text: str, number: int, parent_id: str) -> str:
        language = identify_language(text) or self._message.language
        try:
            return await self._client.post(self._make_post(text, number, parent_id, language))
        except Refused as error:
            if not language:
                raise
            # Servers refuse languages that they do not know.
            _log.info("mastodon.post_refused", error=str(error))
            return await self._client.post(self._make_post(text, number, parent_id))

    def _make_post(self, text: str, number: int = 0, parent_id: str = "", language: str = "") -> Post:
        # An alert has one id in all its chats.
        identity = [self._me.id, self._message.key.chat, self._message.id, number]
        key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        prefix = self._further_prefix if number else self._prefix
        return Post(prefix + text, key, parent_id, self._visibility, self._spoiler_text, language)
