"""What the preview of a reply shows, and when it shows nothing more."""

from __future__ import annotations

import asyncio

import pytest

from bots.common.reply_sink import LivePreview
from core.errors import ClaimLost
from tests.support.sink_helpers import DeliveryLog, until


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
