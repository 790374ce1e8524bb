"""Reads the body of a request, and gives the answer to it: whole, or as a stream while it is written."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from bots.api.rejections import Rejected
from bots.api.running import RunningAnswer
from core.types import Reply

READ_TIMEOUT_S = 10.0
# Proxies close a connection on which nothing comes for a minute.
KEEP_ALIVE_S = 15.0
# How often it is looked whether the client is still there while it waits.
LOOK_S = 0.5
# A mark of a citation is no longer.
MAX_MARK_CHARS = 12
STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
CORS_HEADERS = web.RequestKey("cors_headers", dict[str, str])


def get_settled(text: str) -> str:
    """Return what is certain already of a text that grows: no part of a mark or an address, no blanks at its end."""
    settled_text = text.rstrip()
    mark = settled_text.rfind("[")
    if mark >= 0 and "]" not in settled_text[mark:] and len(settled_text) - mark <= MAX_MARK_CHARS:
        settled_text = settled_text[:mark]
    elif settled_text == text:
        last_word = text.rpartition(" ")[2].rpartition("\n")[2]
        address = last_word.find("http")
        settled_text = text[: len(text) - len(last_word) + address] if address >= 0 else text
    return settled_text.rstrip()


async def read_body(request: web.Request) -> bytes:
    """Return the body of a request. Raises `Rejected` for one that does not arrive."""
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await request.read()
    except TimeoutError as error:
        raise Rejected(408, "slow", f"the body did not arrive within {READ_TIMEOUT_S:g} s") from error


async def wait_for_reply(request: web.Request, running: RunningAnswer, task: asyncio.Task[Reply]) -> Reply:
    """Return the whole answer, to be sent at once; give up when the client has gone.

    Raises `Rejected`, `KimasError`.
    """
    while not task.done():
        await asyncio.wait((task,), timeout=LOOK_S)
        if has_gone(request):
            raise Rejected(499, "client_gone", "the client closed the connection")
    reply = task.result()
    await running.require_rights()
    return reply


async def send(response: web.StreamResponse, value: Mapping[str, Any]) -> None:
    """Send one event."""
    await response.write(f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode())


async def send_words(running: RunningAnswer, response: web.StreamResponse, value: Mapping[str, Any]) -> None:
    """Send words of an answer as an event. Raises `KimasError` where a source was closed since, as by a slow client."""
    await running.require_rights()
    await send(response, value)


def has_gone(request: web.Request) -> bool:
    """Return whether the client has closed the connection."""
    return request.transport is None or request.transport.is_closing()


async def stream_text(
    request: web.Request,
    response: web.StreamResponse,
    make_part: Callable[[str], Mapping[str, Any]],
    running: RunningAnswer,
    task: asyncio.Task[Reply],
) -> str:
    """Send an answer as it grows, until it is whole or failed, and a comment where nothing comes. Return what was sent.

    Raises `ConnectionError` when the client has gone, `KimasError` where it may not be told any more.
    """
    sent_text = ""
    sent_at = time.monotonic()
    while not task.done():
        change_task = asyncio.create_task(running.wait_for_change())
        await asyncio.wait((task, change_task), timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        change_task.cancel()
        if has_gone(request):
            raise ConnectionError("the client closed the connection")
        text = get_settled(running.text)
        if len(text) > len(sent_text) and text.startswith(sent_text):
            await send_words(running, response, make_part(text[len(sent_text) :]))
            sent_text = text
            sent_at = time.monotonic()
        elif time.monotonic() - sent_at >= KEEP_ALIVE_S:
            await response.write(b": waiting\n\n")
            sent_at = time.monotonic()
    return sent_text
