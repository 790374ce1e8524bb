"""Many messages in many chats: every one is accounted for."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.conformance.bot import Bot
from tests.conformance.platforms import Channel, Person
from tests.conformance.scenarios import ONE_GROUP, ONLY_MENTIONS, cannot

CHATS = 20
# More than a platform hands over at once, which is a hundred at most.
MESSAGES = 120


@cannot(github="a few repositories are played", mastodon=ONLY_MENTIONS, console=ONE_GROUP)
async def test_many_messages_over_twenty_chats_are_all_accounted_for(bot: Bot) -> None:
    channels = [
        bot.group(number) if number % 2 else bot.private(Person(number, f"P{number}")) for number in range(CHATS)
    ]
    written: list[tuple[Channel, str, bool]] = []
    for number in range(MESSAGES):
        channel = channels[number % CHATS]
        asks = channel.private or number % 5 == 0
        text = bot.to_bot(channel, f"question {number}?") if asks else f"chatter {number}"
        message = await bot.driver.say(channel, text, person=Person(number % CHATS, f"P{number % CHATS}"))
        written.append((channel, message, asks))
        if number == MESSAGES // 2:
            await bot.driver.lose_connection()
    async with asyncio.timeout(100):
        while len(entries := [entry for channel in channels for entry in await bot.entries(channel)]) < MESSAGES or any(
            entry.state not in ("answered", "silent") for entry in entries
        ):
            await asyncio.sleep(0.05)
    states = Counter(entry.state for entry in entries)
    total = sum(asks for *_, asks in written)
    assert states == {"answered": total, "silent": MESSAGES - total}
    assert all(entry.reason for entry in entries if entry.state == "silent")
    assert sum(len(bot.messages(channel)) for channel in channels) == total
    for channel in channels:
        messages = [int(text.removeprefix("Answer to: question ").rstrip("?")) for text in bot.texts(channel)]
        assert len(set(messages)) == len(messages)
        assert messages == sorted(messages) or not channel.private, "order is kept within a conversation"
