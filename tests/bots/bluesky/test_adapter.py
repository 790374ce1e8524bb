"""Notifications and feeds against a strict server: each mention once, in order, whatever breaks."""

from __future__ import annotations

from tests.support.bluesky_helpers import AT, BlueskyBot
from tests.support.peers.bluesky import BlueskyPeer


async def test_a_mention_is_answered_below_it(bot: BlueskyBot, peer: BlueskyPeer) -> None:
    reply = await bot.ask(f"{AT}how do I install it?")
    assert reply.text == "Use pip."
    assert bot.questions[0].text == "how do I install it?"
    assert peer.violations == []
