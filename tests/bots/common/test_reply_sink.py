"""What the preview of a reply shows, and when it shows nothing more."""

from __future__ import annotations

import asyncio

import pytest

from bots.common.judged_client import judge_calls
from bots.common.reply_sink import LivePreview
from core.errors import ClaimLost, UsageError
from tests.support.sink_helpers import DeliveryLog
from tests.support.waiting import until


async def test_who_lost_the_message_changes_nothing_of_what_another_daemon_wrote() -> None:
    delivery = DeliveryLog()
    preview = LivePreview("reply", delivery)
    shown: list[str] = []

    async def show() -> float:
        shown.append(preview.text)
        return 0

    preview.start(lambda: preview.run_updates(show))
    preview.push("ours")
    await until(lambda: shown == ["ours"])
    delivery.is_lost = True
    preview.push("ours, and more")
    await until(lambda: preview.error is not None)
    with pytest.raises(ClaimLost):
        preview.push("ours, and even more")
    with pytest.raises(ClaimLost):
        await preview.join(lambda: False)
    await asyncio.sleep(0.05)
    assert shown == ["ours"]


async def test_a_state_that_waited_is_not_shown_where_it_may_not_be_any_more() -> None:
    """The platform has asked for a pause, and a source is closed in it. The end is judged by itself."""
    delivery = DeliveryLog()
    preview = LivePreview("reply", delivery)
    shown: list[str] = []
    paused = asyncio.Event()

    class Client:
        async def edit(self) -> None:
            shown.append(preview.text)

    client = judge_calls(Client(), delivery)

    async def show() -> float:
        await client.edit()
        paused.set()
        return 0.05

    async def show_states() -> None:
        await preview.run_updates(show)

    preview.start(show_states)
    preview.push("open")
    await paused.wait()
    preview.push("closed")
    delivery.are_rights_lost = True
    assert preview._task
    await preview._task
    # Nobody needs to write on, either.
    with pytest.raises(UsageError, match="a source was closed"):
        preview.push("closed, and more")
    assert await preview.join(lambda: False)
    assert shown == ["open"]
