"""Calls that only show that an answer is coming hang: the answer itself does not wait for them."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.conformance.bot import Bot, Gate
from tests.conformance.platforms import until
from tests.conformance.scenarios import NO_NETWORK, POSTED_WHOLE, cannot

COSMETIC_CALLS = {
    "telegram": {"sendChatAction", "sendMessageDraft", "editMessageText"},
    "discord": {"POST /channels/{}/typing", "PATCH /channels/{}/messages/{}"},
    "slack": {"assistant.threads.setStatus", "reactions.add", "reactions.remove", "chat.appendStream", "chat.update"},
}


@pytest.mark.parametrize("kind", ["private", "group", "thread"])
@cannot(mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console=NO_NETWORK)
async def test_no_answer_waits_for_a_call_that_only_shows_that_it_is_coming(bot: Bot, kind: str) -> None:
    group = bot.group()
    channel = bot.private() if kind == "private" else group if kind == "group" else await bot.driver.thread(group)
    bot.script.pieces = ["It begins", "It begins and goes on"]
    bot.script.pause_s = 0.3
    bot.script.midway = Gate()
    hanging = []
    is_over = False

    async def hang(method: str, phase: str) -> None:
        if method in COSMETIC_CALLS[bot.platform] and phase == "before" and not is_over:
            hanging.append(method)
            await asyncio.Event().wait()

    bot.driver.peer.watch = hang  # type: ignore[attr-defined]
    message = await bot.driver.say(channel, bot.to_bot(channel, "How?"))
    await bot.script.midway.reached.wait()
    await until(lambda: bool(hanging), "a call that hangs")
    # What was removed at the end, or posted at once, was never waited for.
    is_over = True
    started_at = time.monotonic()
    bot.script.midway.open.set()
    await until(lambda: bot.texts(channel)[-1:] == ["Answer to: How?"], "the answer")
    assert (await bot.wait_until_finished(channel, message)).state == "answered"
    assert time.monotonic() - started_at < 15
    assert len(bot.texts(channel)) == 1
