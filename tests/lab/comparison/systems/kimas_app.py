"""KIMAs with its default settings: one source, one model. The option `local` keeps its built-in embedder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from bots.daemon.bootstrap import App, open_app
from core.answering.agents.context_manager import complete_question
from core.answering.agents.search import ranked_search
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Question, Reply, Turn
from tests.lab.comparison.contract import DIMENSION, EMBEDDING_MODEL, MODEL, Document, Query, SystemConfig


def open_system(config: SystemConfig, option: str) -> KimasSystem:
    return KimasSystem(config, uses_own_embedder=option == "local")


class StreamSink:
    """Puts what is new of a reply into a queue; None ends it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._text = ""

    async def open(self) -> None:
        return None

    async def update(self, text: str) -> None:
        self.queue.put_nowait(text.removeprefix(self._text))
        self._text = text

    async def finish(self, reply: Reply) -> None:
        assert not reply.is_extractive, reply.trace
        if reply.text.startswith(self._text):
            await self.update(reply.text)
        self.queue.put_nowait(None)

    async def fail(self, text: str) -> None:
        raise AssertionError(text)


class KimasSystem:
    def __init__(self, config: SystemConfig, *, uses_own_embedder: bool) -> None:
        documents = config.folder / "documents"
        knowledge = {} if uses_own_embedder else {"embedding": _remote_embedder(config.embedder_url)}
        values = {
            "data_dir": config.folder / "data",
            "sources": {"documents": {"kind": "files", "path": documents}},
            "models": {"main": {"base_url": config.model_url, "model": MODEL}},
            "knowledge": knowledge,
            "context": {"head_start": config.head_starts},
        }
        self._documents = documents
        self._settings = Settings.model_validate(json.loads(json.dumps(values, default=str)))
        self._stack = AsyncExitStack()
        self._app: App | None = None

    async def index(self, documents: Sequence[Document]) -> None:
        self._documents.mkdir(parents=True, exist_ok=True)
        for document in documents:
            (self._documents / f"{document.id}.txt").write_text(document.text, "utf-8")
        async with open_app(self._settings) as app:
            result = await app.refresh()
            assert not result.failures, result.failures

    async def start(self) -> None:
        self._app = await self._stack.enter_async_context(open_app(self._settings))
        await self._app.warm_up()

    async def answer(self, query: Query) -> AsyncIterator[str]:
        assert self._app is not None
        sink = StreamSink()
        answering = asyncio.create_task(self._app.answer(_to_question(query), sink))
        answering.add_done_callback(lambda task: sink.queue.put_nowait(None) if task.exception() else None)
        while (text := await sink.queue.get()) is not None:
            yield text
        await answering

    async def retrieve(self, query: Query) -> list[str]:
        assert self._app is not None
        deps = self._app.deps
        budget = Budget(self._settings.budget)
        completed = await complete_question(_to_question(query), deps.model, deps.prompts, budget)
        result = await ranked_search(completed, deps, budget)
        return list(dict.fromkeys(passage.path.removesuffix(".txt") for passage in result.passages))

    async def close(self) -> None:
        await self._stack.aclose()


def _to_question(query: Query) -> Question:
    turns = (Turn("user" if role == "user" else "assistant", text) for role, text in query.history)
    return Question(query.question, tuple(turns))


def _remote_embedder(url: str) -> dict[str, object]:
    return {"provider": "openai", "base_url": url, "model": EMBEDDING_MODEL, "dimension": DIMENSION}
