"""The first part of a reply: posted so that a crash at any moment leads to no second one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bots.posting.failures import Unreachable
from core.errors import PlatformError
from core.ports import Delivery


async def announced(delivery: Delivery, post: Callable[[], Awaitable[str]]) -> None:
    """Post the first part of a reply, and tell the journal before and after it.

    `post` returns the reply's id. A definite refusal is told as one, so that a later try is no second post; where no
    answer came the part may have arrived all the same, and nothing is taken back.
    """
    await delivery.posting()
    try:
        reply_id = await post()
    except Unreachable:
        raise
    except PlatformError:
        await delivery.refused()
        raise
    await delivery.posted(reply_id)
