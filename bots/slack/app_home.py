"""The Home tab of the app: what the bot is and knows, as the person who opens it may see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bots.common.caches import TtlCache
from bots.common.connection import Refused
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import FinalTextSink
from bots.slack.feedback import MAX_SECTION_CHARS
from bots.slack.render import split_message, to_mrkdwn, to_plain
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Message, Reply

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

# A view takes 100 blocks.
MAX_SECTIONS = 99


class HomeSink(FinalTextSink):
    """Publishes a text on somebody's App Home; nothing for people of other workspaces, or that Slack does not know."""

    def __init__(self, client: SlackClient, members: TtlCache[bool], message: Message, delivery: Delivery) -> None:
        # Slack says first who somebody is: a source may be closed in that time.
        self._client = judge_calls(client, delivery)
        self._members = members
        self._user_id = message.author_id

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        if is_error or not await self._members.get(self._user_id, lambda: self._client.is_member(self._user_id)):
            _log.info("slack.home_not_shown", is_error=is_error)
            return
        text = await asyncio.to_thread(to_mrkdwn, reply.text)
        try:
            await self._client.publish_home(self._user_id, to_view(text, "mrkdwn"))
        except Refused as error:
            _log.warning("slack.home_refused", error=str(error))
            await self._client.publish_home(self._user_id, to_view("\n".join(to_plain(text)), "plain_text"))


def to_view(text: str, text_type: str) -> dict[str, Any]:
    """Return a text as the view of an App Home, cut where it takes no more."""
    parts = split_message(text, MAX_SECTION_CHARS)[:MAX_SECTIONS]
    sections = [{"type": "section", "text": {"type": text_type, "text": part}} for part in parts]
    return {"type": "home", "blocks": sections}
