"""How tests wait for what happens beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# Only what hangs takes so long, however busy the machine is.
LONGEST_S = 60.0


async def until(is_true: Callable[[], object], timeout_s: float = LONGEST_S) -> None:
    """Wait until something is true. Raises `TimeoutError` where it never is."""
    async with asyncio.timeout(timeout_s):
        while not is_true():
            await asyncio.sleep(0.01)
