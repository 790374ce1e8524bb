"""What tests of the pipeline need: a library over given passages with controlled delays, and a sink that remembers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.answering.context import AnswerDependencies
from core.answering.head_start_policy import HeadStartPolicy
from core.answering.rewriting.rewrites import REWRITES
from core.errors import ServiceError
from core.language.keywords import content_words
from core.language.tokens import lexical_tokens, query_tokens
from core.llm.prompts import Prompts
from core.ports import Adapter, ChatModel, MessageHandler, WordMatch
from core.settings import Settings
from core.types import AgentScore, Passage, Reply


def passage(name: str, text: str, *, source: str = "docs", kind: str = "markdown", similarity: float = 0.6) -> Passage:
    return Passage(
        id=name,
        source=source,
        path=f"{name}.md",
        title=name.title(),
        text=text,
        url=f"https://example.org/{name}",
        kind=kind,
        similarity=similarity,
        lexical=1.0,
        score=similarity,
    )


INSTALL = passage("install", "Install the package with pip. Run `pip install kimas` in a virtual environment first.")
MEMORY = passage("memory", "The memory module stores messages. Long-term memory needs a vector database.")


@dataclass
class InMemoryLibrary:
    """Implements `Library`: every source is an agent; what is found are the passages that share a word."""

    passages: Sequence[Passage] = (INSTALL, MEMORY)
    delay_s: dict[str, float] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    route_delay_s: float = 0.0
    queries: list[str] = field(default_factory=list)
    document_titles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_empty: bool = False
    empty: Collection[str] = ()

    def restricted_to(self, sources: Collection[str]) -> InMemoryLibrary:
        titles = {name: self.document_titles[name] for name in self.document_titles if name in sources}
        passages = [entry for entry in self.passages if entry.source in sources]
        return replace(self, passages=passages, document_titles=titles)

    async def route(self, query: str, *, at_least_one: bool = False) -> Sequence[AgentScore]:
        await asyncio.sleep(self.route_delay_s)
        return [AgentScore(name, 1.0) for name in sorted({entry.source for entry in self.passages})]

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        self.queries.append(query)
        await asyncio.sleep(self.delay_s.get(agent, 0.0))
        if agent in self.broken:
            raise ServiceError(f"{agent} is down")
        query_words = set(content_words(query))
        shared = {message.id: len(query_words & set(content_words(message.text))) for message in self.passages}
        passages = [
            replace(entry, score=min(1.0, shared[entry.id] / 4)) for entry in self.passages if entry.source == agent
        ]
        return sorted((item for item in passages if item.score), key=lambda item: -item.score)[:limit]

    async def match_words(self, query: str, limit: int) -> WordMatch:
        """Match by BM25, without the lengths of passages."""
        self.queries.append(query)
        if self.broken:
            raise ServiceError("the store is down")
        query_words = query_tokens(query).split()
        tokens_by_id = {item.id: set(lexical_tokens(f"{item.title}\n{item.text}").split()) for item in self.passages}
        counts = {word: sum(word in words for words in tokens_by_id.values()) for word in query_words}
        total = len(self.passages)
        weights = {word: math.log1p((total - count + 0.5) / (count + 0.5)) for word, count in counts.items()}
        scored_passages = [
            replace(item, lexical=sum(weights[word] for word in query_words if word in tokens_by_id[item.id]))
            for item in self.passages
        ]
        best_passages = sorted((item for item in scored_passages if item.lexical), key=lambda item: -item.lexical)[
            :limit
        ]
        return WordMatch(tuple(best_passages), weights, math.log1p((total + 0.5) / 0.5) if total else 0.0)

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        query_words = set(content_words(query))
        return [len(query_words & set(content_words(text))) / max(1, len(query_words)) for text in texts]

    async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """A text belongs to the first group with whose first text it shares a content word."""
        groups: list[list[int]] = []
        for place, text in enumerate(texts):
            words = set(content_words(text))
            near = (group for group in groups if words.intersection(content_words(texts[group[0]])))
            group = next(near, None)
            if group is None:
                groups.append([place])
            else:
                group.append(place)
        return sorted(groups, key=lambda places: -len(places))

    def languages(self) -> Mapping[str, Sequence[str]]:
        return {}

    def empty_sources(self) -> Collection[str]:
        return self.empty

    def titles(self) -> Mapping[str, Sequence[str]]:
        return self.document_titles

    def modules(self) -> Mapping[str, Collection[str]]:
        return {}

    async def term_weights(self, query: str) -> Mapping[str, float]:
        return {}

    async def read_page(self, source: str, path: str) -> Sequence[Passage]:
        return [item for item in self.passages if (item.source, item.path) == (source, path)]

    async def count_words(self, words: Collection[str]) -> Mapping[str, int]:
        return {}


class OrderKeeper:
    """Implements `Reranker` by score, after a delay."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        await asyncio.sleep(self.delay_s)
        return sorted(passages, key=lambda item: -item.score)


class IdleAdapter(Adapter):
    """An adapter to which nothing arrives."""

    async def open(self) -> None:
        return None

    async def listen(self, receive: MessageHandler) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        return None


@dataclass
class MemorySink:
    """Implements `Sink` and keeps what was written. `error` is raised by the end of a reply."""

    updates: list[str] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    opened: int = 0
    error: Exception | None = None

    async def open(self) -> None:
        self.opened += 1

    async def update(self, text: str) -> None:
        self.updates.append(text)

    async def finish(self, reply: Reply) -> None:
        if self.error:
            raise self.error
        self.replies.append(reply)

    async def fail(self, text: str) -> None:
        self.failures.append(text)


def settings(*, context: Mapping[str, object] | None = None, **changes: object) -> Settings:
    # Conversations of tests are short, and the selection of their messages is to be seen.
    values = {"context": {"select_min_tokens": 0, **(context or {})}, **changes}
    return Settings.model_validate({"sources": {"docs": {"kind": "faq", "path": "faq.yaml"}}, **values})


def parts(
    library: InMemoryLibrary | None = None,
    model: ChatModel | None = None,
    configuration: Settings | None = None,
    reranker: OrderKeeper | None = None,
) -> AnswerDependencies:
    return AnswerDependencies(
        configuration or settings(),
        library or InMemoryLibrary(),
        reranker or OrderKeeper(),
        model,
        Prompts.read(),
        REWRITES,
        # Tests show what a head start does; test_head_start.py shows when there is one.
        head_starts=HeadStartPolicy((configuration or settings()).context, max_extra=1.0),
    )
