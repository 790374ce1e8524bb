"""What a daemon prepares for the operator's page before anybody opens it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bots.daemon.operator_page import prepared
from core.settings.loader import load_settings
from tests.support.operator_page import NOTHING, answered, make_message, operator_page
from tests.support.waiting import until

MODEL = {"provider": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m", "dimension": 3}


@pytest.mark.parametrize("is_local", [True, False])
async def test_questions_without_an_answer_are_judged_before_somebody_looks(tmp_path: Path, is_local: bool) -> None:
    overrides = () if is_local else tuple(f"knowledge.embedding.{name}={value}" for name, value in MODEL.items())
    settings = load_settings([], overrides, {})
    async with operator_page(tmp_path, os.environ, settings=settings) as page:
        await answered(page.journal, make_message(1, "Can sessions be kept in Redis?"), NOTHING)
        async with prepared(page.context):
            await until(lambda: page.context.judge._known or not is_local)
    # What is sent to an endpoint has its price.
    assert bool(page.context.judge._known) is is_local
