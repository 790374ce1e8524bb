"""One reply on Mastodon: a status below the question, and further ones below it, each posted once and whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from bots.common.connection import Refused, Unreachable
from bots.common.judged_client import judge_calls
from bots.common.social_thread import MAX_POSTS, SocialThreadSink, require_few_bots
from bots.mastodon.client import Identity, MastodonClient, Post
from bots.mastodon.connection import MastodonIntervals
from bots.mastodon.convert import DIRECT, PUBLIC_VISIBILITIES, count_other_bots
from bots.mastodon.render import count_chars, disarm, render, to_plain
from core.formatting import strip_control_characters
from core.language.languages import identify_language
from core.messaging.feedback.handoff import mentioned_users
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Button, Citation, Message

_log = get_logger(__name__)

# Never wider than the question: an answer is in no public timeline. All else is for the asker alone: a followers-only
# answer would be read by the bot's followers, not by the asker's.
_REPLY_VISIBILITIES = dict.fromkeys(PUBLIC_VISIBILITIES, "unlisted")


class MastodonSink(SocialThreadSink):
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
        reference = message.reference
        super().__init__(
            "mastodon",
            message,
            delivery,
            intervals,
            question_id=str(reference["status"]),
            previous_reply_id=previous_reply_id,
        )
        self._client = judge_calls(client, delivery)
        self._me = me
        self._visibility = _REPLY_VISIBILITIES.get(str(reference["visibility"]), DIRECT)
        quoted_warning = message.quoted[: int(reference.get("quoted_warning_chars", 0))]
        # A warning that fills a status would leave no room for the answer.
        spoiler_text = disarm(strip_control_characters(str(reference.get("spoiler_text") or quoted_warning)))
        self._spoiler_text = spoiler_text[: me.max_chars // 2]
        people = (str(reference["acct"]), *mentioned_users(message))
        self._prefix = "".join(f"@{person} " for person in dict.fromkeys(people) if person)
        # What not everybody may read reaches those alone whom it mentions.
        self._further_prefix = "" if self._visibility in PUBLIC_VISIBILITIES else self._prefix
        self._max_post_chars = me.max_chars - count_chars(self._prefix) - len(self._spoiler_text)
        self.max_chars = MAX_POSTS * me.max_chars
        self._is_in_doubt = delivery.is_in_doubt

    def _render_posts(self, text: str, citations: Sequence[Citation]) -> list[str]:
        return render(text, citations, self._max_post_chars)

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        return to_plain(part, max_chars or self._max_post_chars)

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        if not self._reply_id:
            await self._post_first_part(text)
            if not self._is_in_doubt:
                return
        # An earlier try may have posted another text; the same one is no edit.
        await self._client.edit(self._reply_id, self._make_post(text))

    async def _find(self, parent_id: str, text: str, number: int) -> str:
        if not parent_id:
            return ""
        return await self._client.find_own_reply(parent_id, self._make_post(text, number).text, self._me.id)

    async def _check_question(self) -> None:
        if self._question_id and self._message.reply_options.max_bot_replies is not None:
            replies = (await self._client.get_context(self._question_id)).get("descendants") or ()
            require_few_bots(self._message, count_other_bots(replies, self._question_id, self._me))
        elif self._question_id:
            await self._client.get_status(self._question_id)

    async def _post(self, text: str, number: int, parent_id: str) -> str:
        try:
            return await self._post_in_language(text, number, parent_id)
        except Unreachable:
            self._is_in_doubt |= number == 0
            raise

    async def _post_in_language(self, text: str, number: int, parent_id: str) -> str:
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
