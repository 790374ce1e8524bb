"""The index that routing compares questions with: an agent's passages, and its owner's description and examples."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from core.evidence.ranking import NON_CODE_KINDS
from core.evidence.selection import TITLE_SEPARATOR
from core.language.languages import get_main_languages, identify_document_language, to_language_code
from core.settings import AgentSettings, Settings
from core.types import Passage
from knowledge.ports import Embedder, SearchableStore, StoredDocument, Vectors
from knowledge.retrieval.routing import AgentIndex, MixInText, cluster

# Passages are looked at around so many centroids, so many at each; without any centroid, of so many documents.
SAMPLES = 8
SAMPLE_SIZE = 4
# Documents with more passages are not read for that.
MAX_SAMPLED_PASSAGES = 200
# What an agent's documents are called, for prompts: so many titles, of so many characters at most.
MAX_TITLES = 8
MAX_TITLE_CHARS = 60


@dataclass(frozen=True, slots=True, eq=False)
class MixIn:
    """The texts that an agent's owner configured, and their unit vectors, shape (m, d), one row each."""

    texts: tuple[MixInText, ...]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class AgentIndexEntry:
    """An agent's index (None when there is nothing to compare with), and the number of its stored passages.

    `unfilled_count` of them have no vector yet. `languages` are those of a sample of its passages, `titles` those of
    their documents; the most frequent first. `modules` are the names of the modules of each Python package.
    `empty_sources` are those of its sources of which no passage is stored.
    """

    index: AgentIndex | None
    passage_count: int
    unfilled_count: int = 0
    languages: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    modules: Mapping[str, Collection[str]] = field(default_factory=dict)
    empty_sources: Collection[str] = ()


async def embed_mix_in(agent: AgentSettings, embedder: Embedder) -> MixIn:
    """Embed what is mixed in for an agent. A kind without weight is left out. Raises `EmbeddingError`."""
    weights: Mapping[str, float] = agent.mix_in_weights.model_dump()
    mix_in_texts = tuple(
        MixInText(kind, text, weights[kind]) for kind, texts in agent.mix_ins().items() for text in texts
    )
    mix_in_texts = tuple(mix_in_text for mix_in_text in mix_in_texts if mix_in_text.weight > 0)
    if not mix_in_texts:
        return no_mix_in(embedder)
    return MixIn(mix_in_texts, await embedder.embed([mix_in_text.text for mix_in_text in mix_in_texts]))


def no_mix_in(embedder: Embedder) -> MixIn:
    """Return what is mixed in for an agent whose owner configured nothing."""
    return MixIn((), np.empty((0, embedder.dimension), np.float32))


async def index_agent(
    name: str, agent: AgentSettings, mix_in: MixIn, settings: Settings, store: SearchableStore
) -> AgentIndexEntry:
    """Cluster an agent's passages, those of equally scaled kinds of source together. Raises `StoreError`."""
    routing = settings.knowledge.routing
    sources_by_scale: dict[float, list[str]] = {}
    for source in dict.fromkeys(agent.sources):
        scale = routing.kind_scales.get(settings.sources[source].kind, 1.0)
        sources_by_scale.setdefault(scale, []).append(source)
    manifests = {source: await store.manifest(source) for source in agent.sources}
    centroid_groups = []
    for scale, sources in sources_by_scale.items():
        samples = [(await store.vectors(source), _count_vectors(manifests[source])) for source in sources]
        vectors = _concatenate(weigh_samples(samples))
        centroid_groups.append(scale * await asyncio.to_thread(cluster, vectors, routing.centroids))
    # The mix-in stands for the whole agent, so the kind with the largest weight counts.
    weights = np.array(
        [[mix_in_text.weight * max(sources_by_scale)] for mix_in_text in mix_in.texts], np.float32
    ).reshape(-1, 1)
    all_centroids = _concatenate(centroid_groups)
    # Who says both spares the start the reading of all passages.
    is_described = bool(agent.language and agent.description)
    sample = () if is_described else await _sample_passages(agent, all_centroids, store)
    configured_language = to_language_code(agent.language)
    languages = (configured_language,) if configured_language else _identify_languages(sample)
    titles = get_typical_titles(sample)
    documents = [document for manifest in manifests.values() for document in manifest.values()]
    modules = await asyncio.to_thread(find_modules, [path for manifest in manifests.values() for path in manifest])
    passage_count = sum(document.passage_count for document in documents)
    counts = (passage_count, sum(document.unfilled_count for document in documents))
    empty_sources = [
        name
        for name, manifest in manifests.items()
        if not any(document.passage_count for document in manifest.values())
    ]
    if not passage_count and not len(mix_in.vectors):
        return AgentIndexEntry(None, *counts, languages, titles, modules, empty_sources)
    mix_in_vectors = weights * mix_in.vectors
    index = AgentIndex(name, all_centroids, mix_in_vectors, agent.mix_in_weight, agent.scale, mix_in.texts)
    return AgentIndexEntry(index, *counts, languages, titles, modules, empty_sources)


def _identify_languages(passages: Collection[Passage]) -> tuple[str, ...]:
    codes = (identify_document_language(passage.text, is_prose=passage.kind in NON_CODE_KINDS) for passage in passages)
    return get_main_languages(Counter(code for code in codes if code))


def find_modules(paths: Collection[str]) -> Mapping[str, Collection[str]]:
    """Return the names of the modules, folders included, of each Python package: of the outermost `__init__.py`.

    >>> {name: sorted(modules) for name, modules in find_modules(["src/a/__init__.py", "src/a/b/c.py", "d.py"]).items()}
    {'a': ['__init__', 'a', 'b', 'c']}
    """
    folders = {path.removesuffix("/__init__.py") for path in paths if path.endswith("/__init__.py")}
    outermost_folders = {folder for folder in folders if folder.rpartition("/")[0] not in folders}
    modules: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split("/")
        for index, folder in enumerate(accumulate(parts[:-1], "{}/{}".format)):
            if folder in outermost_folders:
                modules.setdefault(parts[index], set()).update(part.removesuffix(".py") for part in parts[index:])
    return modules


async def _sample_passages(agent: AgentSettings, centroids: Vectors, store: SearchableStore) -> Collection[Passage]:
    """Return the passages around some of an agent's centroids, each once."""
    if not len(centroids):
        return await _sample_documents(agent, store)
    step = max(1, len(centroids) // SAMPLES)
    samples = [await store.search("", centroid, agent.sources, SAMPLE_SIZE) for centroid in centroids[::step][:SAMPLES]]
    return {passage.id: passage for passages in samples for passage in passages}.values()


async def _sample_documents(agent: AgentSettings, store: SearchableStore) -> Collection[Passage]:
    """Return the first passages of some of an agent's documents."""
    samples = list[Passage]()
    for source in agent.sources:
        documents = (await store.manifest(source)).items()
        paths = [path for path, document in documents if 0 < document.passage_count <= MAX_SAMPLED_PASSAGES]
        for path in paths[:: max(1, len(paths) // SAMPLES)][:SAMPLES]:
            samples += [row.passage for row in (await store.rows(source, [path]))[:SAMPLE_SIZE]]
    return samples


def get_typical_titles(passages: Collection[Passage]) -> tuple[str, ...]:
    """Return the titles of the documents of passages, at most `MAX_TITLES`, those of most passages first.

    A passage's title begins with its document's; code has the name of its file.
    """
    titles = Counter(" ".join(_get_document_name(passage).split())[:MAX_TITLE_CHARS].strip() for passage in passages)
    return tuple(title for title, _ in titles.most_common() if title)[:MAX_TITLES]


def _get_document_name(passage: Passage) -> str:
    is_prose = passage.kind in NON_CODE_KINDS
    return passage.title.partition(TITLE_SEPARATOR)[0] if is_prose else passage.path.rpartition("/")[2]


async def make_indexes(settings: Settings, store: SearchableStore, embedder: Embedder) -> Sequence[AgentIndex]:
    """Return what routing compares queries with, for every agent that has vectors of its knowledge or a mix-in.

    Raises `StoreError`, `EmbeddingError`.
    """
    indexes = []
    for name, agent in settings.retrieval_agents().items():
        mix_in = await embed_mix_in(agent, embedder)
        indexes.append((await index_agent(name, agent, mix_in, settings, store)).index)
    return [index for index in indexes if index and (len(index.centroids) or len(index.mix_in_vectors))]


def _count_vectors(manifest: Mapping[str, StoredDocument]) -> int:
    return sum(document.passage_count - document.unfilled_count for document in manifest.values())


def weigh_samples(samples: Sequence[tuple[Vectors, int]]) -> Sequence[Vectors]:
    """Return the vectors of sources, of which some may be samples, so that each has the share of its passages.

    With each come how many vectors its source has.
    """
    share = min((len(vectors) / count for vectors, count in samples if 0 < len(vectors) < count), default=1.0)
    return [
        vectors[np.linspace(0, len(vectors) - 1, max(1, round(share * count))).astype(np.intp)]
        if share * count < len(vectors)
        else vectors
        for vectors, count in samples
    ]


def _concatenate(arrays: Sequence[Vectors]) -> Vectors:
    # Joining copies, and a large source alone fills a good part of the memory.
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
