"""The processes that read documents as forks (`parser_forks.py`), in place of interpreters, where forks are served."""

from __future__ import annotations

import os

import pytest

from core.settings import ParsingSettings
from knowledge.parsing import pool
from tests.support.forked import ADDRESS, PARSERS, are_served, start_parser

start_interpreter = vars(pool._Worker)["start"]


def fork_parsers(patch: pytest.MonkeyPatch) -> None:
    """Let this process fork those that read documents, if forks are served."""
    if not are_served():
        return
    address = os.environ[ADDRESS] + PARSERS

    async def start(worker: type[pool._Worker], settings: ParsingSettings) -> pool._Worker:
        limits = (settings.memory_mb << 20, settings.cpu_s, pool.MAX_OUTPUT_BYTES)
        return worker(
            await start_parser(address, {"limits": limits, "environment": pool._make_environment()}), settings
        )

    patch.setattr(pool._Worker, "start", classmethod(start))


def start_interpreters(patch: pytest.MonkeyPatch) -> None:
    """Let this process start them as the daemon does."""
    patch.setattr(pool._Worker, "start", start_interpreter)
