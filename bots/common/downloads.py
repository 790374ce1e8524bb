"""The content of a file that a platform hands over: never more than was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import ClientError

from bots.common.connection import Unreachable
from core.errors import PlatformError


async def read_limited(chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
    """Return what comes piece by piece. Raises `PlatformError` for more than `most` bytes, `Unreachable` for a break.

    Of what went wrong only the kind is told: the addresses of files hold secrets.
    """
    content = bytearray()
    try:
        async for chunk in chunks:
            content += chunk
            if len(content) > max_bytes:
                raise PlatformError(f"the file is larger than {max_bytes} bytes")
    except (ClientError, OSError) as error:
        raise Unreachable(f"the file was not handed over: {type(error).__name__}") from error
    return bytes(content)
