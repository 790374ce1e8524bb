"""The responses of platforms: bounded, and read off the event loop unless they are short."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientPayloadError, ClientResponse

from bots.common.downloads import CHUNK_BYTES
from core.runtime.foreign_json import MAX_INLINE_BYTES, read_json

# Far above the longest list of messages that a platform returns at once.
MAX_RESPONSE_BYTES = 16 * 2**20


class ResponseTooLarge(ClientPayloadError):
    """A platform's response holds more than is read."""


class BoundedResponse(ClientResponse):
    """A response of at most `max_bytes` bytes: given to a session as the class of its responses.

    Reading a longer one raises `ResponseTooLarge`; JSON raises what `core/runtime/foreign_json.py` does.
    """

    max_bytes = MAX_RESPONSE_BYTES

    async def read(self) -> bytes:
        """Return the content."""
        if self._body is None:
            content = bytearray()
            async for chunk in self.content.iter_chunked(CHUNK_BYTES):
                content += chunk
                if len(content) > self.max_bytes:
                    self.close()
                    raise ResponseTooLarge(f"a response of more than {self.max_bytes >> 20} MB")
            self._body = bytes(content)
        return self._body

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        """Return the content as text; platforms write UTF-8, whatever a server in between names."""
        return (await self.read()).decode("utf-8", "replace")

    async def json(self, **options: Any) -> Any:
        """Return the values of the content."""
        content = await self.read()
        if len(content) <= MAX_INLINE_BYTES:
            return await super().json(**options)
        # How much there may be is bounded above; what members write in it may look like values.
        return await read_json(content, lambda values: values, max_values=self.max_bytes)
