"""Downloading the files that people attach, within a size limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from aiohttp import ClientError, ClientSession

from bots.common.connection import Unreachable
from core.errors import PlatformError

CHUNK_BYTES = 65536


async def download(session: ClientSession, url: str, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a file. Follows no redirect, because the headers are for this address. Raises as `read_limited`."""
    try:
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                raise Unreachable(f"the file was not handed over: status {response.status}")
            return await read_limited(response.content.iter_chunked(CHUNK_BYTES), max_bytes)
    except (ClientError, OSError) as error:
        raise Unreachable(f"the file was not handed over: {type(error).__name__}") from error


async def read_limited(chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
    """Return the content of a download. Raises `PlatformError` for more than `max_bytes` bytes.

    A download that breaks off raises `Unreachable`.
    The error names the type of the failure alone: the addresses of files hold secrets.
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
