"""Messages with attachments: a real adapter on its peer, the real processor and pipeline, a model that sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from core.answering.service import AnswerService
from core.llm.model_sets import ModelSets
from core.messaging.inbox import Inbox
from core.ports import Adapter, Sink
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Question, Reply
from knowledge.formats.attached import AttachedFileReader
from knowledge.parsing.parser import ThreadParser
from tests.support.fixtures import InMemoryLibrary, parts, settings
from tests.support.scripted import ScriptedPeer
from tests.support.wiring import make_processor, running

IMAGE_DESCRIPTION = "ModuleNotFoundError: No module named 'kimas'"


@dataclass
class Harness:
    model: ScriptedPeer
    journal: Journal
    processor: Inbox

    async def outcomes(self) -> list[tuple[str, str]]:
        """Return state and reason of every message, in the order in which they came."""
        query = select(messages.c.state, messages.c.reason).order_by(messages.c.number)
        async with self.journal.database.connect() as connection:
            return [(row.state, row.reason) for row in (await connection.execute(query)).all()]

    async def wait_until_finished(self, count: int, timeout: float = 30) -> list[tuple[str, str]]:
        """Wait until so many messages came to their end, and return how."""
        async with asyncio.timeout(timeout):
            while len(results := await self.outcomes()) < count or not {state for state, _ in results} <= {
                "answered",
                "silent",
                "failed",
            }:
                await asyncio.sleep(0.01)
        return results


@asynccontextmanager
async def open_harness(
    folder: Path,
    adapter: Adapter,
    *,
    sees: bool = True,
    transcription: dict[str, Any] | None = None,
    **changes: object,
) -> AsyncIterator[Harness]:
    async with ScriptedPeer(see=IMAGE_DESCRIPTION, write="Install it [p1].") as model:
        endpoint = {"base_url": model.base_url, "model": "peer"}
        configuration: Settings = settings(
            models={"main": endpoint, **({"vision": endpoint} if sees else {}), "transcription": transcription},
            context={"select": False},
            **changes,
        )
        models = ModelSets.open(configuration.models)
        journal = await Journal.open(folder / "journal.db")

        async def answered(question: Question, sink: Sink) -> Reply:
            deps = replace(
                parts(model=models.general, configuration=configuration),
                file_reader=AttachedFileReader(ThreadParser()),
                transcriber=models.transcriber,
            )
            return await AnswerService(deps).answer(question, sink)

        processor = make_processor(configuration, journal, answered, InMemoryLibrary())
        try:
            async with running(adapter, processor, drain_s=0):
                yield Harness(model, journal, processor)
        finally:
            await journal.close()
            await models.close()
