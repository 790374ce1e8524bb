"""Groups questions by topic: which ask about the same things, by their words alone."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.language.keywords import content_words
from core.language.tokens import count_cjk, stem

# A question joins the topic that it shares so much of its weight with.
MIN_SIMILARITY = 0.25
MAX_QUESTIONS = 500
MAX_QUESTION_CHARS = 600
MAX_WORDS = 40
MAX_LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Topic:
    """Questions about the same things: the words that they share, the place of the most typical, the places of all."""

    words: tuple[str, ...]
    typical: int
    members: tuple[int, ...]


@dataclass(slots=True)
class _Cluster:
    """A topic while it is collected: its members, and the sum of their vectors with the square of its length."""

    members: list[int] = field(default_factory=list)
    weights: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    squared_length: float = 0.0

    def add(self, index: int, vector: Mapping[str, float]) -> None:
        self.members.append(index)
        for word, weight in vector.items():
            self.squared_length += weight * (2 * self.weights[word] + weight)
            self.weights[word] += weight

    @property
    def length(self) -> float:
        """The length of the sum; 1 where it is empty."""
        return math.sqrt(self.squared_length) or 1.0

    def similarity(self, vector: Mapping[str, float]) -> float:
        """Return the cosine between a unit vector and the members' mean."""
        return sum(weight * self.weights.get(word, 0.0) for word, weight in vector.items()) / self.length


def group_by_topic(questions: Sequence[str]) -> list[Topic]:
    """Return the topics of the first `MAX_QUESTIONS` questions, the largest first.

    Each question joins the topic whose words it shares most, by IDF, or begins one; then each is compared once more
    with all topics, so that their order matters little. A question without content words is a topic of its own.

    >>> topics = group_by_topic(["How do I set a proxy?", "Which licence?", "Does the proxy need a password?"])
    >>> [topic.members for topic in topics]
    [(0, 2), (1,)]
    """
    words_by_question = [_stem_words(question) for question in questions[:MAX_QUESTIONS]]
    vectors = _to_tf_idf([Counter(words) for words in words_by_question])
    clusters: list[_Cluster] = []
    for _ in range(2):
        clusters = _assign(vectors, clusters)
    topics = [_to_topic(cluster, vectors, words_by_question) for cluster in clusters if cluster.members]
    return sorted(topics, key=lambda topic: (-len(topic.members), topic.members))


def _assign(vectors: Sequence[Mapping[str, float]], centres: Sequence[_Cluster]) -> list[_Cluster]:
    """Return clusters to which each vector is added in turn.

    It is compared with the `centres` of an earlier round where there are any, and with the clusters begun in this one.
    """
    clusters = [_Cluster() for _ in centres]
    seeds = list(centres)
    seeds_by_word: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for number, centre in enumerate(centres):
        for word in centre.weights:
            seeds_by_word[word][number] = None
    for index, vector in enumerate(vectors):
        products: defaultdict[int, float] = defaultdict(float)
        for word, weight in vector.items():
            for candidate in seeds_by_word[word]:
                products[candidate] += weight * seeds[candidate].weights[word]
        number, similarity = max(
            ((candidate, product / seeds[candidate].length) for candidate, product in products.items()),
            key=lambda entry: (entry[1], -entry[0]),
            default=(0, 0.0),
        )
        if similarity < MIN_SIMILARITY:
            number = len(clusters)
            clusters.append(_Cluster())
            seeds.append(clusters[-1])
        clusters[number].add(index, vector)
        if seeds[number] is clusters[number]:
            for word in vector:
                seeds_by_word[word][number] = None
    return clusters


def _stem_words(question: str) -> Mapping[str, str]:
    """Return the content words of a question by their stem."""
    return {stem(word): word for word in reversed(content_words(question[:MAX_QUESTION_CHARS])[:MAX_WORDS])}


def _to_tf_idf(counts: Sequence[Counter[str]]) -> list[Mapping[str, float]]:
    """Return the unit vectors of word counts, weighted by IDF."""
    document_counts = Counter(word for count in counts for word in count)
    vectors: list[Mapping[str, float]] = []
    for count in counts:
        weights = {word: math.log1p(len(counts) / document_counts[word]) for word in count}
        norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        vectors.append({word: weight / norm for word, weight in weights.items()})
    return vectors


def _to_topic(cluster: _Cluster, vectors: Sequence[Mapping[str, float]], words: Sequence[Mapping[str, str]]) -> Topic:
    typical_index = max(cluster.members, key=lambda index: (cluster.similarity(vectors[index]), -index))
    counts = Counter(word for index in cluster.members for word in words[index])
    best = sorted(cluster.weights, key=lambda word: (-counts[word], -cluster.weights[word], word))[:MAX_LABEL_WORDS]
    spelling = {key: word for index in reversed(cluster.members) for key, word in words[index].items()}
    # Pairs of CJK characters are no words to read.
    label = tuple(spelling[word] for word in best if not count_cjk(word))
    return Topic(label, typical_index, tuple(cluster.members))
