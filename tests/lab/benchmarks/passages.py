"""Many passages without an embedder: text of the Python library and of what is installed, vectors around topics.

Every passage is a different piece of real text, so that the words are as frequent as words are. Its vector is unit
length and near one of some hundred topics, as those of a model are; a document's passages share their topic.
"""

from __future__ import annotations

import random
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from, islice
from pathlib import Path

import numpy as np

from core.language.tokens import lexical_tokens, query_tokens
from core.types import Passage
from knowledge.ingestion.schedule import INDEX_FORMAT
from knowledge.ports import PassageRow, Vectors

DIMENSION = 384
TOPICS = 300
# A vector's own part beside its topic: the cosine of two of a topic is about 0.67.
OWN_PART = 0.7
# As a refresh would have written it: what it lists as "1" has not changed.
CHUNK_TOKENS = 200
FINGERPRINT = f"1:{INDEX_FORMAT}:{CHUNK_TOKENS}"
CHARACTERS = 700
PER_DOCUMENT = 10
SMALLEST = 2_000
LARGEST = 60_000
# What a docstring promises is much like what somebody asks for.
SENTENCE = re.compile(r'"""([A-Z][^"\n]{25,90})[.\n]')
SOURCES = ("code", "guide", "tutorials", "questions")


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What is asked: the words and the vector."""

    tokens: str
    vector: Vectors


class Topics:
    """Unit vectors around a fixed set of topics, the same for the same seed."""

    def __init__(self, seed: int, dimension: int = DIMENSION) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = np.random.default_rng(7).standard_normal((TOPICS, dimension)).astype(np.float32)

    def near(self, topic: int, count: int) -> Vectors:
        """Return vectors near a topic, shape (count, dimension)."""
        noise = self._random.standard_normal((count, self._centres.shape[1]), np.float32) * np.float32(OWN_PART)
        vectors: Vectors = self._centres[topic % TOPICS] + noise
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def documents() -> Iterator[tuple[str, list[str]]]:
    """Yield documents of at most ten pieces of real text each, with their paths: some 150,000 pieces."""
    for path_name in ("stdlib", "purelib"):
        root = Path(sysconfig.get_paths()[path_name])
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not SMALLEST < path.stat().st_size < LARGEST or (path_name == "stdlib" and "site-packages" in name):
                continue
            text = path.read_text("utf-8", "ignore")
            pieces = [text[at : at + CHARACTERS] for at in range(0, len(text), CHARACTERS)]
            for start in range(0, len(pieces), PER_DOCUMENT):
                yield f"{path_name}/{name}/{start}", pieces[start : start + PER_DOCUMENT]


def _repeated() -> Iterator[tuple[str, list[str]]]:
    """Yield the documents again and again, under another path each time: for more passages than there is text."""
    for turn in count_from(0):
        for path, pieces in documents():
            yield (f"{turn}/{path}" if turn else path), pieces


def rows(count: int) -> Iterator[tuple[str, list[PassageRow]]]:
    """Yield the rows of about `count` passages in whole documents, each with its source."""
    topics = Topics(1)
    created_at = 0
    for number, (path, pieces) in enumerate(_repeated()):
        if created_at >= count:
            return
        source = SOURCES[number % len(SOURCES)]
        vectors = topics.near(number, len(pieces))
        created_at += len(pieces)
        yield (
            source,
            [
                PassageRow(
                    Passage(f"{number}-{at}", source, path, path, text), FINGERPRINT, _tokens(path, text), vector
                )
                for at, (text, vector) in enumerate(zip(pieces, vectors, strict=True))
            ],
        )


def _tokens(path: str, text: str) -> str:
    return lexical_tokens(f"{path}\n{text}")


def batches(count: int, size: int = 2000) -> Iterator[tuple[str, list[PassageRow]]]:
    """Yield the same in batches of about `size` passages of one source each, as a refresh writes them."""
    waiting_rows: dict[str, list[PassageRow]] = {source: [] for source in SOURCES}
    for source, document in rows(count):
        waiting_rows[source] += document
        if len(waiting_rows[source]) >= size:
            yield source, waiting_rows[source]
            waiting_rows[source] = []
    yield from ((source, remaining_count) for source, remaining_count in waiting_rows.items() if remaining_count)


def queries(count: int) -> Sequence[Query]:
    """Return questions in the words of the first sentences of docstrings, each near a topic."""
    dice = random.Random(3)
    topics = Topics(4)
    sentences = sorted(
        {results for _, pieces in islice(documents(), 3000) for results in SENTENCE.findall("".join(pieces))}
    )
    return [
        Query(query_tokens(sentence), topics.near(dice.randrange(TOPICS), 1)[0])
        for sentence in dice.sample(sentences, count)
    ]
