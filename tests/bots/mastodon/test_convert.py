"""From a status to a message: whose words it quotes."""

from __future__ import annotations

import pytest

from bots.mastodon.client import Identity
from bots.mastodon.convert import to_message
from core.types import Message
from tests.support.peers.mastodon import BOT, DOMAIN, MastodonPeer


@pytest.mark.parametrize("is_quote_post", [False, True])
@pytest.mark.parametrize("is_own", [False, True])
async def test_a_message_knows_whether_it_quotes_the_bot(*, is_own: bool, is_quote_post: bool) -> None:
    peer = MastodonPeer()
    ann = peer.account("ann")
    quoted_id = await peer.say(BOT if is_own else ann, "The plan is to move.")
    quoted_status = peer.to_json(peer.statuses[quoted_id])
    extra = {"quote": {"quoted_status": quoted_status}} if is_quote_post else {"reply_to": quoted_id}
    question_id = await peer.say(ann, "@kimas why?", **extra)  # type: ignore[arg-type]
    above = [] if is_quote_post else [quoted_status]
    message = to_message(peer.to_json(peer.statuses[question_id]), above, Identity(BOT.id, BOT.username, DOMAIN), 5)
    assert isinstance(message, Message)
    assert message.quoted == "The plan is to move."
    assert message.quotes_bot is is_own
