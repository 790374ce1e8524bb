"""LangChain: a history-aware retriever over an ensemble of BM25 and FAISS, and a retrieval chain that streams.

As its guides on conversational retrieval and on the ensemble retriever have it (package `langchain_classic`). Tuned:
the persisted FAISS index, asynchronous calls, words in lower case for BM25 (as it comes, it splits at blanks), and no
more passages for an answer than the others get.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document as LangChainDocument
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

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

CHUNK = 1000
OVERLAP = 200


def open_system(config: SystemConfig, option: str) -> LangChainSystem:
    return LangChainSystem(config)


class LangChainSystem:
    def __init__(self, config: SystemConfig) -> None:
        self._folder = str(config.folder / "faiss")
        self._model = ChatOpenAI(model=MODEL, base_url=config.model_url, api_key=API_KEY)
        # Another endpoint than OpenAI's takes texts, not its tokens.
        self._embedder = OpenAIEmbeddings(
            model=EMBEDDING_MODEL,
            base_url=config.embedder_url,
            api_key=API_KEY,
            check_embedding_ctx_length=False,
            chunk_size=64,
        )

    async def index(self, documents: Sequence[Document]) -> None:
        splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK, chunk_overlap=OVERLAP)
        chunks = splitter.split_documents(
            [LangChainDocument(document.text, metadata={"document": document.id}) for document in documents]
        )
        store = await FAISS.afrom_documents(chunks, self._embedder)
        store.save_local(self._folder)

    async def start(self) -> None:
        store = await asyncio.to_thread(
            FAISS.load_local, self._folder, self._embedder, allow_dangerous_deserialization=True
        )
        # BM25 is not persisted: it is built from the documents at each start.
        chunks = [store.docstore.search(name) for name in store.index_to_docstore_id.values()]
        bm25 = await asyncio.to_thread(BM25Retriever.from_documents, chunks, preprocess_func=_words, k=TOP_K)
        ensemble = EnsembleRetriever(
            retrievers=[bm25, store.as_retriever(search_kwargs={"k": TOP_K})], weights=[0.5, 0.5]
        )
        rewriting = ChatPromptTemplate.from_messages(
            [("system", REWRITE_PROMPT), MessagesPlaceholder("chat_history"), ("human", "{input}")]
        )
        answering = ChatPromptTemplate.from_messages(
            [("system", ANSWER_PROMPT + "{context}"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
        )
        retriever = create_history_aware_retriever(self._model, ensemble | _first, rewriting)
        self._chain = create_retrieval_chain(retriever, create_stuff_documents_chain(self._model, answering))

    async def answer(self, query: Query) -> AsyncIterator[str]:
        async for part in self._chain.astream(_inputs(query)):
            if text := part.get("answer"):
                yield text

    async def retrieve(self, query: Query) -> list[str]:
        result = await self._chain.ainvoke(_inputs(query))
        return list(dict.fromkeys(chunk.metadata["document"] for chunk in result["context"]))

    async def close(self) -> None:
        return None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _first(chunks: Sequence[LangChainDocument]) -> list[LangChainDocument]:
    return list(chunks[:TOP_K])


def _inputs(query: Query) -> dict[str, Any]:
    roles = {"user": "human", "assistant": "ai"}
    return {"input": query.question, "chat_history": [(roles[role], text) for role, text in query.history]}
