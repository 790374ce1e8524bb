"""Groups texts by meaning: by their vectors, or by their words where the embedding model hardly knows them."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np

from core.errors import EmbeddingError
from core.language.keywords import content_words
from core.language.tokens import stem
from core.observability.logs import get_logger
from knowledge.embedding.batches import normalize
from knowledge.ports import Embedder, Vectors
from knowledge.retrieval.query_embedder import MIN_VOCABULARY_COVERAGE

_log = get_logger(__name__)

# A text joins the group whose mean it is so near to: by meaning, and by the weight of common words.
MIN_SIMILARITY = 0.42
MIN_SHARED_WORDS = 0.25
MAX_TEXT_CHARS = 600
MAX_WORDS = 40
WORD_DIMENSION = 2048
# Questions that are asked meanwhile get their turn in between.
BATCH_SIZE = 32
CACHE_SIZE = 4096
# Of so many texts, a word that more than this share has tells them apart no more.
MIN_TEXTS = 6
COMMON_SHARE = 0.5
PUNCTUATION = ".,;:!?()[]\"'`"


class TextGrouper:
    """Groups texts, and keeps the vectors of the last ones, but not the texts."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: OrderedDict[bytes, Vectors] = OrderedDict()

    async def group(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the places of the texts of each group, the most typical first, the largest group first."""
        short_texts = await asyncio.to_thread(_remove_common_words, [text[:MAX_TEXT_CHARS] for text in texts])
        known = await asyncio.to_thread(self._find_known, short_texts)
        try:
            vectors = await self._embed([short_texts[place] for place in known])
        except EmbeddingError as error:
            _log.warning("texts.not_embedded", error=str(error))
            known = []
        groups: list[list[int]] = []
        if known:
            groups += _pick(known, await asyncio.to_thread(group_vectors, vectors, MIN_SIMILARITY))
        others = sorted(set(range(len(texts))) - set(known))
        groups += _pick(others, await asyncio.to_thread(_group_by_words, [short_texts[place] for place in others]))
        return sorted(groups, key=lambda places: (-len(places), min(places)))

    def _find_known(self, texts: Sequence[str]) -> list[int]:
        """Return the places of the texts whose words the model knows."""
        coverage = self._embedder.vocabulary_coverage
        return [place for place, text in enumerate(texts) if coverage(text) >= MIN_VOCABULARY_COVERAGE]

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row for each text, zero for one that the model refuses. Raises `EmbeddingError`."""
        keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
        new_texts = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        new_keys = list(new_texts)
        found = {key: self._vectors[key] for key in keys if key in self._vectors}
        for start in range(0, len(new_keys), BATCH_SIZE):
            batch = new_keys[start : start + BATCH_SIZE]
            vectors = np.nan_to_num(await self._embedder.embed([new_texts[key] for key in batch], "query"))
            found.update(zip(batch, vectors, strict=True))
        self._vectors.update(found)
        while len(self._vectors) > CACHE_SIZE:
            self._vectors.popitem(last=False)
        return np.array([found[key] for key in keys], dtype=np.float32)


def _remove_common_words(texts: Sequence[str]) -> list[str]:
    """Return texts without the words that most of them have: the product's name would make them all alike."""
    if len(texts) < MIN_TEXTS:
        return list(texts)
    words = [[(word, stem(word.strip(PUNCTUATION).lower())) for word in text.split()] for text in texts]
    counts = Counter(form for own in words for form in {form for _, form in own})
    common = {form for form, count in counts.items() if count > COMMON_SHARE * len(texts)}
    return [
        " ".join(word for word, form in own if form not in common) or text
        for own, text in zip(words, texts, strict=True)
    ]


def group_vectors(vectors: Vectors, min_similarity: float) -> list[list[int]]:
    """Return the rows of each group of unit vectors, the one nearest to the mean first.

    Each joins the group whose mean is nearest, or begins one; then each is compared once more with all groups, so that
    their order matters little. A vector of zeros is a group of its own.
    """
    groups: list[list[int]] = []
    for _ in range(2):
        groups = _assign(vectors, groups, min_similarity)
    return [_with_typical_first(vectors, places) for places in groups if places]


def _assign(vectors: Vectors, earlier: Sequence[Sequence[int]], min_similarity: float) -> list[list[int]]:
    """Return groups to which each vector is added in turn, compared with the means of an earlier round, if there are
    any, and with those of the groups begun in this one."""
    groups: list[list[int]] = [[] for _ in earlier]
    sums = np.zeros((len(earlier) + len(vectors), vectors.shape[1]), dtype=np.float32)
    lengths = np.ones(len(sums), dtype=np.float32)
    for number, places in enumerate(earlier):
        sums[number] = vectors[list(places)].sum(axis=0)
        lengths[number] = np.linalg.norm(sums[number]) or 1
    for row, vector in enumerate(vectors):
        similarities = sums[: len(groups)] @ vector / lengths[: len(groups)]
        number = int(similarities.argmax()) if groups else 0
        if not groups or similarities[number] < min_similarity:
            number = len(groups)
            groups.append([])
        groups[number].append(row)
        if number >= len(earlier):
            sums[number] += vector
            lengths[number] = np.linalg.norm(sums[number]) or 1
    return groups


def _with_typical_first(vectors: Vectors, places: Sequence[int]) -> list[int]:
    similarities = vectors[list(places)] @ vectors[list(places)].sum(axis=0)
    typical = places[int(similarities.argmax())]
    return [typical, *(place for place in places if place != typical)]


def _group_by_words(texts: Sequence[str]) -> list[list[int]]:
    """Return the places of texts whose content words, weighed by how rare they are, are mostly the same."""
    words = [{stem(word) for word in content_words(text)[:MAX_WORDS]} for text in texts]
    counts = Counter(word for own in words for word in own)
    vectors = np.zeros((len(texts), WORD_DIMENSION), dtype=np.float32)
    for row, own in enumerate(words):
        for word in own:
            column = zlib.crc32(word.encode("utf-8", "replace")) % WORD_DIMENSION
            vectors[row, column] += np.log1p(len(texts) / counts[word])
    return group_vectors(np.nan_to_num(normalize(vectors)), MIN_SHARED_WORDS)


def _pick(places: Sequence[int], groups: Sequence[Sequence[int]]) -> list[list[int]]:
    return [[places[row] for row in group] for group in groups]
