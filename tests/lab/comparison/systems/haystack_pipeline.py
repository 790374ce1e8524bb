"""Haystack: a conversational pipeline that rephrases the query, retrieves by BM25 and vectors, joins and streams.

As its guides on conversational RAG and on hybrid retrieval have it, with its in-memory document store, the one of these
guides that needs no server. Tuned: the asynchronous pipeline, whose two retrievers run side by side, one thread for
each processor, and no rephrasing where there is no conversation.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from haystack import Document as HaystackDocument, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

from tests.lab.comparison.contract import (
    ANSWER_PROMPT,
    API_KEY,
    EMBEDDING_MODEL,
    MODEL,
    REWRITE_PROMPT,
    TOP_K,
    Document,
    Query,
    SystemConfig,
)

SPLIT_WORDS = 200
PASSAGES = "{% for document in documents %}{{ document.content }}\n\n{% endfor %}"


def open_system(config: SystemConfig, option: str) -> HaystackSystem:
    return HaystackSystem(config)


class HaystackSystem:
    def __init__(self, config: SystemConfig) -> None:
        self._config = config
        self._file = str(config.folder / "documents.json")

    async def index(self, documents: Sequence[Document]) -> None:
        store = InMemoryDocumentStore()
        pipeline = Pipeline()
        pipeline.add_component("splitter", DocumentSplitter(split_by="word", split_length=SPLIT_WORDS))
        pipeline.add_component(
            "embedder",
            OpenAIDocumentEmbedder(
                api_key=_key(),
                model=EMBEDDING_MODEL,
                api_base_url=self._config.embedder_url,
                batch_size=64,
                progress_bar=False,
            ),
        )
        pipeline.add_component("writer", DocumentWriter(store))
        pipeline.connect("splitter", "embedder")
        pipeline.connect("embedder", "writer")
        contents = [HaystackDocument(content=item.text, meta={"document": item.id}) for item in documents]
        await pipeline.run_async({"splitter": {"documents": contents}})
        self._config.folder.mkdir(parents=True, exist_ok=True)
        store.save_to_disk(self._file)

    async def start(self) -> None:
        store = InMemoryDocumentStore.load_from_disk(self._file)
        store.executor = ThreadPoolExecutor(os.cpu_count())
        self._standalone, self._follow_up = (
            self._pipeline(store),
            self._pipeline(store, with_rephrasing=True),
        )
        self._standalone.warm_up()
        self._follow_up.warm_up()

    async def answer(self, query: Query) -> AsyncIterator[str]:
        pipeline, data = self._inputs(query)
        async for chunk in pipeline.stream(data, streaming_components=["model"]):
            if chunk.content:
                yield chunk.content

    async def retrieve(self, query: Query) -> list[str]:
        pipeline, data = self._inputs(query)
        result = await pipeline.run_async(data, include_outputs_from={"joiner"})
        return list(dict.fromkeys(item.meta["document"] for item in result["joiner"]["documents"]))

    async def close(self) -> None:
        return None

    def _inputs(self, query: Query) -> tuple[Pipeline, dict[str, Any]]:
        history = [
            ChatMessage.from_user(text) if role == "user" else ChatMessage.from_assistant(text)
            for role, text in query.history
        ]
        question = ChatMessage.from_user(query.question)
        data: dict[str, Any] = {
            "prompt": {"template": [ChatMessage.from_system(ANSWER_PROMPT + PASSAGES), *history, question]}
        }
        if history:
            data["rephrase_prompt"] = {"template": [ChatMessage.from_system(REWRITE_PROMPT), *history, question]}
            return self._follow_up, data
        return self._standalone, {
            **data,
            "embedder": {"text": query.question},
            "bm25": {"query": query.question},
        }

    def _pipeline(self, store: InMemoryDocumentStore, *, with_rephrasing: bool = False) -> Pipeline:
        pipeline = Pipeline()
        pipeline.add_component(
            "embedder",
            OpenAITextEmbedder(api_key=_key(), model=EMBEDDING_MODEL, api_base_url=self._config.embedder_url),
        )
        pipeline.add_component("bm25", InMemoryBM25Retriever(store, top_k=TOP_K))
        pipeline.add_component("vectors", InMemoryEmbeddingRetriever(store, top_k=TOP_K))
        pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=TOP_K))
        pipeline.add_component("prompt", ChatPromptBuilder(variables=["documents"], required_variables=["documents"]))
        pipeline.add_component("model", self._generator())
        pipeline.connect("embedder.embedding", "vectors.query_embedding")
        pipeline.connect("bm25", "joiner")
        pipeline.connect("vectors", "joiner")
        pipeline.connect("joiner.documents", "prompt.documents")
        pipeline.connect("prompt.prompt", "model.messages")
        if with_rephrasing:
            pipeline.add_component("rephrase_prompt", ChatPromptBuilder())
            pipeline.add_component("rephrase_model", self._generator())
            pipeline.add_component("query", OutputAdapter(template="{{ replies[0].text }}", output_type=str))
            pipeline.connect("rephrase_prompt.prompt", "rephrase_model.messages")
            pipeline.connect("rephrase_model.replies", "query.replies")
            pipeline.connect("query", "embedder.text")
            pipeline.connect("query", "bm25.query")
        return pipeline

    def _generator(self) -> OpenAIChatGenerator:
        return OpenAIChatGenerator(api_key=_key(), model=MODEL, api_base_url=self._config.model_url)


def _key() -> Secret:
    return Secret.from_token(API_KEY)
