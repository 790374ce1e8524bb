"""A daemon in this process that shows nothing, and what it withheld."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bots.daemon.runner import run
from core.settings.loader import load_settings
from tests.support.deployment import Deployment


@asynccontextmanager
async def daemon(deployment: Deployment, *, dry: bool) -> AsyncIterator[asyncio.Task[int]]:
    task = asyncio.create_task(run(load_settings([deployment.config]), dry_run=dry))
    try:
        yield task
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def get_withheld_replies(log: io.StringIO) -> list[dict[str, Any]]:
    data = [json.loads(line) for line in log.getvalue().splitlines()]
    return [record for record in data if record["event"] == "reply.withheld"]
