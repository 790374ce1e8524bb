"""What an endpoint says when it refuses a request: the client's library would read all of it, however long it is."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from httpx2 import Response

# An explanation takes some hundred bytes. It is parsed on the event loop.
MAX_ERROR_BYTES = 64 << 10


async def shorten_error(response: Response) -> None:
    """Read the beginning of a refusal, unpacked, in place of all of it. Other replies are left as they are."""
    if not response.is_error:
        return
    content = bytearray()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            content += part
            if len(content) > MAX_ERROR_BYTES:
                break
    await response.aclose()
    # The library takes this for what it has read itself.
    response._content = bytes(content[:MAX_ERROR_BYTES])
