from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.llm.client import OpenAIClient


@pytest.fixture(autouse=True, scope="session")
def _model_client_is_loaded() -> None:
    """Load the package of the model's client ahead: on a busy machine that takes longer than a stage of an answer."""

    async def load() -> None:
        endpoint = OpenAIClient.open("http://127.0.0.1:9/v1", "", 1)
        await endpoint.warm_up()
        await endpoint.close()

    # Beside the tests: their own event loop is none of its business.
    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, load()).result()
