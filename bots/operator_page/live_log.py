"""The log as it is written: the last lines, and new ones as server-sent events."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiohttp import web

from bots.operator_page.context import get_context, get_session, show

MAX_STREAMS = 8
SHOWN_LINES = 200
POLL_S = 0.5
HEARTBEAT_S = 15.0
# Keys that are shown in separate columns.
_OWN_KEYS = ("event", "level", "timestamp", "logger")


async def show_log(request: web.Request) -> web.StreamResponse:
    """Show the last lines; the script continues from there."""
    lines = get_context(request).log_buffer.lines_after()[-SHOWN_LINES:]
    values = {"lines": [to_entry(number, line) for number, line in lines], "last": lines[-1][0] if lines else 0}
    return show(request, "log.html", values)


def to_entry(number: int, line: str) -> Mapping[str, Any]:
    """Return the parts of a line of the log that are shown: time, level, event, and the other keys as text."""
    values = json.loads(line)
    details = [(name, _to_text(value)) for name, value in values.items() if name not in _OWN_KEYS]
    keys = {name: str(values.get(name, "")) for name in _OWN_KEYS}
    return {"number": number, **keys, "details": details}


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


async def stream_log(request: web.Request) -> web.StreamResponse:
    """Send new lines until the reader leaves, the session ends, or the daemon stops."""
    context = get_context(request)
    if len(context.streams) >= MAX_STREAMS:
        raise web.HTTPServiceUnavailable(text="Too many readers of the log.")
    task = asyncio.current_task()
    if task is None:
        raise AssertionError("a request is handled by a task")
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    context.streams.add(task)
    try:
        # The reader may leave at any time: that is how a stream usually ends.
        with suppress(ConnectionResetError):
            await response.prepare(request)
            await _send_lines(request, response)
    finally:
        context.streams.discard(task)
    return response


async def _send_lines(request: web.Request, response: web.StreamResponse) -> None:
    context = get_context(request)
    session = get_session(request)
    text = request.headers.get("Last-Event-ID") or request.query.get("after", "")
    last = int(text) if re.fullmatch("[0-9]{1,15}", text) else 0
    silent_s = 0.0
    while session and not (session.has_ended or context.closing.is_set()):
        lines: Sequence[tuple[int, str]] = context.log_buffer.lines_after(last)
        for number, line in lines:
            entry = json.dumps(to_entry(number, line), ensure_ascii=False)
            await response.write(f"id: {number}\ndata: {entry}\n\n".encode("utf-8", "replace"))
            last = number
            silent_s = 0.0
        if silent_s >= HEARTBEAT_S:
            # Without it nobody would notice that the reader has left.
            await response.write(b": still here\n\n")
            silent_s = 0.0
        try:
            async with asyncio.timeout(POLL_S):
                await context.closing.wait()
        except TimeoutError:
            silent_s += POLL_S
