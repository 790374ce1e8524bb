"""What a refresh tells the log: also what it passed over."""

from __future__ import annotations

import json
import sys

import pytest

from core.observability.logs import configure_logs
from core.settings import LogSettings
from tests.deployment import logging_as_it_was
from tests.knowledge.test_refresh_scheduler import KnowledgeFolder, knowledge_folder, until

__all__ = ["knowledge_folder"]


async def test_the_log_says_what_a_refresh_passed_over(
    knowledge_folder: KnowledgeFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    fruit = knowledge_folder.files("fruit", a="apple", b=" ")
    (knowledge_folder.folder / "fruit/c.md").write_bytes(b"a\0b")
    settings = knowledge_folder.settings({"fruit": fruit})
    with logging_as_it_was():
        configure_logs(LogSettings(level="info", format="json"), sys.stdout)
        async with knowledge_folder.run_scheduler(settings) as scheduler:
            await until(scheduler, "fruit", lambda state: state.documents == 1)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line["event"] == "source.refreshed"]
    assert (line["added"], line["skipped"]) == (1, {"empty": 1, "binary": 1})
