"""LlamaIndex: its condense-plus-context chat engine over a hybrid of a FAISS index and BM25, fused by reciprocal ranks.

As its guides on chat engines and on reciprocal-rank fusion have it. Tuned: FAISS in place of the vector store in plain
Python, both indexes persisted, everything asynchronous, no queries generated beside the condensed one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import faiss
from llama_index.core import Document as LlamaDocument, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.faiss import FaissVectorStore

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


def open_system(config: SystemConfig, option: str) -> LlamaIndexSystem:
    return LlamaIndexSystem(config)


class LlamaIndexSystem:
    def __init__(self, config: SystemConfig) -> None:
        self._vectors = str(config.folder / "vectors")
        self._bm25 = str(config.folder / "bm25")
        self._llm = OpenAILike(
            model=MODEL, api_base=config.model_url, api_key=API_KEY, is_chat_model=True, context_window=32_000
        )
        self._embedder = OpenAILikeEmbedding(
            model_name=EMBEDDING_MODEL, api_base=config.embedder_url, api_key=API_KEY, embed_batch_size=64
        )

    async def index(self, documents: Sequence[Document]) -> None:
        nodes = SentenceSplitter().get_nodes_from_documents(
            [LlamaDocument(text=document.text, id_=document.id) for document in documents]
        )
        store = FaissVectorStore(faiss_index=faiss.IndexFlatIP(DIMENSION))
        storage = StorageContext.from_defaults(vector_store=store)
        index = VectorStoreIndex(nodes, storage_context=storage, embed_model=self._embedder)
        index.storage_context.persist(persist_dir=self._vectors)
        BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=TOP_K).persist(self._bm25)

    async def start(self) -> None:
        store = FaissVectorStore.from_persist_dir(self._vectors)
        storage = StorageContext.from_defaults(vector_store=store, persist_dir=self._vectors)
        index = load_index_from_storage(storage, embed_model=self._embedder)
        self._retriever = QueryFusionRetriever(
            [index.as_retriever(similarity_top_k=TOP_K), BM25Retriever.from_persist_dir(self._bm25)],
            llm=self._llm,
            mode="reciprocal_rerank",
            similarity_top_k=TOP_K,
            num_queries=1,
            use_async=True,
        )

    async def answer(self, query: Query) -> AsyncIterator[str]:
        response = await self._engine().astream_chat(query.question, chat_history=_messages(query))
        async for piece in response.async_response_gen():
            yield piece

    async def retrieve(self, query: Query) -> list[str]:
        response = await self._engine().achat(query.question, chat_history=_messages(query))
        return list(dict.fromkeys(item.node.ref_doc_id for item in response.source_nodes))

    async def close(self) -> None:
        return None

    def _engine(self) -> CondensePlusContextChatEngine:
        """An engine keeps the memory of one conversation."""
        return CondensePlusContextChatEngine.from_defaults(retriever=self._retriever, llm=self._llm)


def _messages(query: Query) -> list[ChatMessage]:
    return [ChatMessage(role=role, content=text) for role, text in query.history]
