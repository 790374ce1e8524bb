"""AgentScope 2: an agent with its RAG middleware over a local Qdrant collection.

The option is the middleware's mode. `static` searches with the question as it stands and puts what it finds before the
model. `agentic` gives the model a search tool. It searches by vectors alone: the middleware has no hybrid.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.embedding import OpenAIEmbeddingModel
from agentscope.event import HintBlockEvent, TextBlockDeltaEvent, ToolResultTextDeltaEvent
from agentscope.message import AssistantMsg, Msg, TextBlock, UserMsg
from agentscope.middleware import RAGMiddleware
from agentscope.model import OpenAIChatModel
from agentscope.rag import ApproxTokenChunker, KnowledgeBase, QdrantStore, Section
from agentscope.state import AgentState
from agentscope.tool import Toolkit

from tests.lab.comparison.contract import (
    API_KEY,
    DIMENSION,
    EMBEDDING_MODEL,
    MODEL,
    TOP_K,
    Document,
    Query,
    SystemConfig,
)

NAME = "assistant"
COLLECTION = "documents"
SYSTEM_PROMPT = "You answer questions from the knowledge base, and say so when it does not contain the answer."
SOURCE = re.compile(r"\(source: (\S+)\)")


def open_system(config: SystemConfig, option: str) -> AgentScopeSystem:
    return AgentScopeSystem(config, option)


class AgentScopeSystem:
    def __init__(self, config: SystemConfig, mode: str) -> None:
        self._folder = config.folder
        self._mode = mode
        self._model = OpenAIChatModel(
            credential=OpenAICredential(api_key=API_KEY, base_url=config.model_url), model=MODEL, stream=True
        )
        embedder = OpenAIEmbeddingModel(
            credential=OpenAICredential(api_key=API_KEY, base_url=config.embedder_url),
            model=EMBEDDING_MODEL,
            dimensions=DIMENSION,
            pass_dimensions=False,
        )
        self._store = QdrantStore(path=str(config.folder / "qdrant"))
        self._base = KnowledgeBase("guide", "The guide, and the library's source.", embedder, self._store, COLLECTION)

    async def index(self, documents: Sequence[Document]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        chunker = ApproxTokenChunker()
        async with self._store:
            for document in documents:
                section = Section(content=TextBlock(text=document.text), source=document.id)
                await self._base.insert_document(await chunker.chunk([section]), document_id=document.id)

    async def start(self) -> None:
        await self._store.__aenter__()
        self._tools = await self._middleware().list_tools()
        # A local collection is loaded on its first use.
        await self._base.ensure_collection()

    async def answer(self, query: Query) -> AsyncIterator[str]:
        async for event in self._agent(query).reply_stream(UserMsg("user", query.question)):
            if isinstance(event, TextBlockDeltaEvent):
                yield event.delta

    async def retrieve(self, query: Query) -> list[str]:
        text = ""
        async for event in self._agent(query).reply_stream(UserMsg("user", query.question)):
            if isinstance(event, HintBlockEvent):
                text += str(event.hint)
            elif isinstance(event, ToolResultTextDeltaEvent):
                text += event.delta
        return list(dict.fromkeys(SOURCE.findall(text)))

    async def close(self) -> None:
        await self._store.__aexit__(None, None, None)

    def _middleware(self) -> RAGMiddleware:
        return RAGMiddleware([self._base], RAGMiddleware.Parameters(mode=self._mode, top_k=TOP_K))

    def _agent(self, query: Query) -> Agent:
        """An agent and its middleware keep the state of one conversation."""
        return Agent(
            name=NAME,
            system_prompt=SYSTEM_PROMPT,
            model=self._model,
            toolkit=Toolkit(tools=self._tools),
            middlewares=[self._middleware()],
            state=AgentState(context=[_message(role, text) for role, text in query.history]),
        )


def _message(role: str, text: str) -> Msg:
    return UserMsg("user", text) if role == "user" else AssistantMsg(NAME, text)
