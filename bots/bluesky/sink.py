"""One reply on Bluesky: a post below the question, and further ones below it, each under a key that is made from it.

So whoever posts it a second time finds the first one there. Posts cannot be edited.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate

from bots.bluesky.client import POSTS, BlueskyClient, Identity, Ref
from bots.bluesky.connection import BlueskyIntervals
from bots.bluesky.convert import count_other_bots, get_closed_reason, is_follower
from bots.bluesky.render import MAX_CHARS, count_chars, make_mention, render, to_plain, to_post
from bots.common.json_client import TooLarge
from bots.common.judged_client import judge_calls
from bots.common.social_thread import MAX_POSTS, SocialThreadSink, require_few_bots
from core.errors import CommentSuppressed, MessageDeleted
from core.language.languages import identify_language
from core.messaging.feedback.handoff import mentioned_users
from core.ports import Delivery
from core.types import Button, Citation, Message, SkipReason, skip

# Of the 300 of a post; the words of a call need the rest.
MAX_PREFIX_CHARS = 180
# Keys are timestamps in form, in an alphabet of their own. Those that begin with a 2 lie before 2006: no client makes
# such ones, and none lies in the future.
_KEY_START = "2"
_BASE32 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_SORTABLE = b"234567abcdefghijklmnopqrstuvwxyz"
KEY_CHARS = 13


def make_key(*identity: object) -> str:
    """Return the record key that belongs to something: a valid timestamp in form, and always the same.

    >>> make_key("a", 1)
    '26tfocexoomaq'
    """
    digest = base64.b32encode(hashlib.sha256(json.dumps(identity).encode()).digest())
    return _KEY_START + digest.translate(bytes.maketrans(_BASE32, _SORTABLE)).decode()[: KEY_CHARS - 1]


class BlueskySink(SocialThreadSink):
    """Writes the reply to one message."""

    max_chars = MAX_POSTS * MAX_CHARS

    def __init__(
        self,
        client: BlueskyClient,
        me: Identity,
        message: Message,
        delivery: Delivery,
        *,
        previous_reply_id: str,
        intervals: BlueskyIntervals,
        is_for_follower: bool = False,
    ) -> None:
        reference = message.reference
        super().__init__(
            "bluesky",
            message,
            delivery,
            intervals,
            question_id=str(reference["uri"]),
            previous_reply_id=previous_reply_id,
        )
        self._client = judge_calls(client, delivery)
        self._me = me
        # As long as they follow the bot: that is their agreement.
        self._is_for_follower = is_for_follower
        self._root = Ref(str(reference.get("root_uri", "")), str(reference.get("root_cid", "")))
        self._refs = {self._question_id: Ref(self._question_id, str(reference.get("cid", "")))}
        self._prefix = ""
        self._max_post_chars = MAX_CHARS

    async def _show_final(self, text: str, citations: Sequence[Citation], buttons: Sequence[Button] = ()) -> None:
        people = mentioned_users(self._message)
        if people:
            profiles = await self._client.get_profiles(people)
            mentions = (f"{make_mention(str(item['handle']), str(item['did']))} " for item in profiles)
            # As many as a post has room for beside the words: nobody is told by a name without its facet.
            lengths = accumulate(mentions)
            self._prefix = next((text for text in reversed([*lengths]) if count_chars(text) <= MAX_PREFIX_CHARS), "")
            self._max_post_chars = MAX_CHARS - count_chars(self._prefix)
        await super()._show_final(text, citations, buttons)

    def _mention_prefix(self) -> str:
        return self._prefix

    def _render_posts(self, text: str, citations: Sequence[Citation]) -> list[str]:
        return render(text, citations, self._max_post_chars)

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        return to_plain(part, max_chars or MAX_CHARS)

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        if not self._reply_id:
            await self._post_first_part(text)

    async def _check_question(self) -> None:
        if self._question_id:
            # What others write below may be as large as they want: it is read only where bots are counted.
            below = 0 if self._message.reply_options.max_bot_replies is None else 1
            try:
                thread = await self._client.get_thread(self._question_id, below=below)
            except TooLarge as error:
                state = "too large to be read"
                raise CommentSuppressed(skip(SkipReason.THREAD_CLOSED, state=state)) from error
            if state := get_closed_reason(thread):
                raise CommentSuppressed(skip(SkipReason.THREAD_CLOSED, state=state))
            if self._is_for_follower and not is_follower(thread["post"]["author"]):
                raise CommentSuppressed(skip(SkipReason.AUTHOR_NOT_AGREED))
            require_few_bots(self._message, count_other_bots(thread, self._me))

    async def _post(self, text: str, number: int, parent_id: str) -> str:
        shown_text, facets = to_post(text)
        language = identify_language(shown_text) or self._message.language
        record = {
            "$type": POSTS,
            "text": shown_text,
            "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **({"facets": facets} if facets else {}),
            **({"langs": [language]} if language else {}),
            **({"reply": await self._make_reply(parent_id)} if parent_id else {}),
        }
        ref = await self._client.post(self._make_key(number), record)
        return self._remember(ref)

    async def _find(self, parent_id: str, text: str, number: int) -> str:
        ref = await self._client.find_post(self._make_key(number))
        return self._remember(ref) if ref else ""

    async def _make_reply(self, parent_id: str) -> dict[str, dict[str, str]]:
        """Return what a post replies to: its parent, and the first post of the thread."""
        # What the bot posts by itself begins a thread.
        root = self._root if self._root.uri else await self._get_ref(self._reply_id)
        return {"root": root.to_json(), "parent": (await self._get_ref(parent_id)).to_json()}

    async def _get_ref(self, uri: str) -> Ref:
        """Return the version of the question or of a post of ours. Raises `MessageDeleted`."""
        ref = self._refs.get(uri) or await self._client.find_post(uri.rpartition("/")[2])
        if ref is None:
            raise MessageDeleted("the post before this one is gone")
        self._remember(ref)
        return ref

    def _remember(self, ref: Ref) -> str:
        self._refs[ref.uri] = ref
        return ref.uri

    def _make_key(self, number: int) -> str:
        # A post is one in all its feeds; an alert, which replies to nothing, has one id in all its chats.
        place = "" if self._question_id else self._message.key.chat
        return make_key(self._me.did, place, self._message.id, number)
