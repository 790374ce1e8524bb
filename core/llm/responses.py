"""The responses of an endpoint, read within bounds: whole replies, refusals, and what is no reply at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from core.llm.sse import InvalidReplyError
from core.runtime.foreign_json import MAX_JSON_VALUES, JsonTooComplex, read_json

if TYPE_CHECKING:
    from httpx2 import Response

# The vector of a question is read on the event loop: a thread would cost more, and every question waits for it.
MAX_INLINE_BYTES = 40 << 10
# An explanation takes some hundred bytes. It is parsed on the event loop.
MAX_ERROR_BYTES = 64 << 10
MOVED_STATUSES = frozenset({301, 302})
WEB_PAGE = "text/html instead of JSON, which is a web page: check base_url, it often ends with /v1"

Result = TypeVar("Result")


async def read_body(response: Response, max_bytes: int) -> bytes:
    """Read a whole reply. Raises `InvalidReplyError` for one that is too large."""
    content = bytearray()
    async with aclosing(response):
        async for data in response.aiter_bytes():
            content += data
            if len(content) > max_bytes:
                raise InvalidReplyError(f"a reply of more than {max_bytes >> 10} kB")
    return bytes(content)


async def read_reply(
    response: Response, content: bytes, parse: Callable[[object], Result], max_values: int = MAX_JSON_VALUES
) -> Result:
    """Parse the JSON of a reply. Raises `InvalidReplyError`, also for a proxy's page instead of JSON."""
    try:
        return await read_json(content, parse, max_values=max_values, max_inline_bytes=MAX_INLINE_BYTES)
    except JsonTooComplex as error:
        raise InvalidReplyError(str(error).replace("answered with", "a reply of")) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        content_type = response.headers.get("content-type", "nothing").split(";")[0] if content.strip() else "nothing"
        text = WEB_PAGE if is_web_page(response) else f"{content_type[:60]} instead of JSON"
        raise InvalidReplyError(text) from error


def is_web_page(response: Response) -> bool:
    """Return whether a server calls its response a web page. An address beside the API often answers with one.

    Some servers say so of every response. So it explains why a reply cannot be read, and is no error by itself.
    """
    return bool(response.headers.get("content-type", "").startswith("text/html"))


async def keep_method(response: Response) -> None:
    """Let a request that is sent elsewhere go there as it is: after these the library would ask with GET, for nothing.

    A server that moved, or wants https or another form of the path, often has no other status for it.
    """
    if response.status_code in MOVED_STATUSES and response.request.method == "POST":
        response.status_code = 308


async def shorten_error(response: Response) -> None:
    """Read the beginning of a refusal, unpacked, in place of all of it, which the client's library would read.

    Other responses are left as they are.
    """
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
