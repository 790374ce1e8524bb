"""What a refresh tells the log: also what it passed over."""

from __future__ import annotations

import json
import sys

import pytest

from core.observability.logs import configure_logs
from core.settings import LogSettings
from tests.deployment import logging_as_it_was
from tests.knowledge.test_refresh_scheduler import Upkept, until, upkept

__all__ = ["upkept"]


async def test_the_log_says_what_a_refresh_passed_over(upkept: Upkept, capsys: pytest.CaptureFixture[str]) -> None:
    fruit = upkept.files("fruit", a="apple", b=" ")
    (upkept.folder / "fruit/c.md").write_bytes(b"a\0b")
    settings = upkept.settings({"fruit": fruit})
    with logging_as_it_was():
        configure_logs(LogSettings(level="info", format="json"), sys.stdout)
        async with upkept.keeper(settings) as keeper:
            await until(keeper, "fruit", lambda state: state.documents == 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line["event"] == "source.refreshed"]
    assert (line["added"], line["skipped"]) == (1, {"empty": 1, "binary": 1})
