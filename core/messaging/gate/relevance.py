"""How sure the gate is that it can help: a logistic regression over a few signs, small enough to be read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.ports import Library
from core.settings import LiveSource, Settings
from core.settings.messaging import GateWeightSettings
from core.text.keywords import content_words, strip_fillers
from core.text.question_detection import is_small_talk
from core.text.tokens import CJK_CHARACTER, stem
from core.types import Passage

MAX_AGENTS, PASSAGES_PER_AGENT = 3, 8
# What counts as the cosine where there are no vectors to go by.
NO_VECTOR_SIMILARITY = 0.45
# Words that are in questions of every kind, and so tell nothing of what one is about.
_STOP_WORDS = frozenset(
    """
    anyone anybody someone somebody know knows work works working help error problem issue question way possible thing
    things trying tried try want need find found get got getting make right wrong good best better idea people time
    today guys everyone does doesn isn can't don't i'm i've it's what's there's hello understand explain happens mean
    option difference between example without instead
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)
# A pair with one of these is half a particle, or asks without saying for what.
_PARTICLES = re.compile(
    "[的了吗呢吧啊是在和与及或把被对从到怎么什如何请问有没能可会不要想我你您他她哪几多少谁这那以后时候里上下为因就都还再]"
)
_NAME = re.compile(r"(?<![\w'@])[A-Za-z][\w+#]*(?:[._-]\w+)*")
# A name that comes after more blanks starts a sentence.
MAX_GAP_CHARS = 40
_NOT_NAMES = frozenset(("i", "i'm", "i've", "ok", "hi", "fyi", "btw", "pr", "todo", "faq", "eta"))


@dataclass(frozen=True, slots=True)
class Relevance:
    """How well the best passage matches, by its cosine times its share of the text's words (0 to nearly 1).

    `foreign` is the share of the names in the text that no passage near it knows. `title` names the best passage.
    """

    overlap: float = 0.0
    oov_share: float = 0.0
    title: str = ""


async def measure_relevance(text: str, library: Library, settings: Settings) -> Relevance:
    """Search what is stored, once per likely agent, and say how near the text is to it (KIMAs 3.2.2 routes alike).

    Sources that are asked at question time are not: chatter must cost their owners nothing. An agent that has no
    others is known by its description and examples. Raises `ServiceError` and `StoreError` of the library.
    """
    query = strip_fillers(text)
    agents = settings.retrieval_agents()
    live_sources = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    stored_agents = {name for name, agent in agents.items() if not live_sources & set(agent.sources)}
    likely_agents = [
        agent_score.name for agent_score in await library.route(query) if agent_score.name in stored_agents
    ][:MAX_AGENTS]
    passages = [passage for name in likely_agents for passage in await library.search(name, query, PASSAGES_PER_AGENT)]
    descriptions = [
        description
        for name, agent in agents.items()
        if name not in stored_agents
        for texts in agent.mix_ins().values()
        for description in texts
    ]
    cosines = await library.similarity(query, descriptions)
    return _to_relevance(query, passages, cosines, descriptions)


def _to_relevance(
    query: str, passages: Sequence[Passage], cosines: Sequence[float], descriptions: Sequence[str]
) -> Relevance:
    query_stems = set(_to_stems(query))
    candidates = [(passage.similarity, f"{passage.title}\n{passage.text}", passage.title) for passage in passages]
    candidates += [(cosine, text, "") for cosine, text in zip(cosines, descriptions, strict=True)]
    candidate_stems = [set(_to_stems(text)) for _, text, _ in candidates]
    has_no_vectors = not any(cosine for cosine, _, _ in candidates)
    # Neither side is enough: long passages have all words somewhere, and vectors of short texts are all a little alike.
    # One more word than there are keeps two words from being a full match.
    matches = [
        (
            (NO_VECTOR_SIMILARITY if has_no_vectors else max(cosine, 0.0))
            * len(query_stems & stems)
            / (len(query_stems) + 1),
            title,
        )
        for (cosine, _, title), stems in zip(candidates, candidate_stems, strict=True)
    ]
    overlap, title = max(matches, default=(0.0, ""))
    name_stems = {part for name in _find_names(query) for part in _to_stems(name)}
    return Relevance(
        overlap, len(name_stems.difference(*candidate_stems)) / len(name_stems) if name_stems else 0.0, title
    )


def _find_names(text: str) -> Iterable[str]:
    """Return what looks like a name: capitals within a sentence or a word, digits in it, Latin words among others."""
    has_cjk = bool(CJK_CHARACTER.search(text))
    for match in _NAME.finditer(text):
        word = match[0]
        is_first = not _is_within_sentence(text[max(0, match.start() - MAX_GAP_CHARS) : match.start()])
        is_marked = word[1:] != word[1:].lower() or any(character.isdigit() for character in word)
        if word.lower() not in _NOT_NAMES and (is_marked or has_cjk or (word[0].isupper() and not is_first)):
            yield word


def _is_within_sentence(text: str) -> bool:
    """Tell whether a text ends in the middle of a sentence: in a word, a comma, an opened code."""
    trimmed_text = text.rstrip(" `")
    return "`" in text[len(trimmed_text) :] or re.fullmatch(r"[\w,;:)'\"]", trimmed_text[-1:]) is not None


def _to_stems(text: str) -> Iterable[str]:
    """Return the words that carry meaning; forms of one word begin alike, identifiers count by their parts too."""
    for word in content_words(text):
        if CJK_CHARACTER.match(word):
            if not _PARTICLES.search(word):
                yield word
        elif word not in _STOP_WORDS:
            for part in {word, *re.split(r"[_.\-]", word)}:
                if part:
                    yield stem(part)


FEATURE_NAMES = ("base", "personal", "match", "foreign")
_L2_PENALTY = 0.05
_MAX_STEPS, _TOLERANCE = 60, 1e-8


@dataclass(frozen=True, slots=True)
class GateFeatures:
    """What tells whether a message is a question that the bot can answer; each from 0 to 1."""

    personal: float
    match: float
    foreign: float

    def to_row(self) -> tuple[float, ...]:
        """Return the features in the order of `FEATURE_NAMES`, with the constant in front."""
        return 1.0, self.personal, self.match, self.foreign


def extract_features(text: str, relevance: Relevance) -> GateFeatures:
    """Return the features of a message."""
    return GateFeatures(float(is_small_talk(text)), relevance.overlap, relevance.oov_share)


def answer_probability(features: GateFeatures, weights: GateWeightSettings) -> float:
    """Return how sure it is, from 0 to 1."""
    return _logistic(
        sum(value * getattr(weights, name) for name, value in zip(FEATURE_NAMES, features.to_row(), strict=True))
    )


def fit(features: Sequence[GateFeatures], labels: Sequence[bool]) -> GateWeightSettings:
    """Return the weights that explain the truths best (Newton's method, a light pull towards zero).

    Both outcomes weigh the same, however many there are of each. Blocking; some milliseconds for a thousand cases.
    """
    rows = [example.to_row() for example in features]
    counts = {outcome: max(1, sum(label is outcome for label in labels)) for outcome in (True, False)}
    class_weights = [len(rows) / (2 * counts[label]) for label in labels]
    weights = [0.0] * len(FEATURE_NAMES)
    for _ in range(_MAX_STEPS):
        probabilities = [_logistic(sum(a * b for a, b in zip(row, weights, strict=True))) for row in rows]
        gradient = [-_L2_PENALTY * weight if index else 0.0 for index, weight in enumerate(weights)]
        hessian = [
            [_L2_PENALTY * (index == other_index and index > 0) for other_index in range(len(FEATURE_NAMES))]
            for index in range(len(FEATURE_NAMES))
        ]
        for row, class_weight, probability, label in zip(rows, class_weights, probabilities, labels, strict=True):
            curvature = class_weight * max(probability * (1 - probability), 1e-9)
            for index, value in enumerate(row):
                gradient[index] += class_weight * (label - probability) * value
                for other_index, other_value in enumerate(row):
                    hessian[index][other_index] += curvature * value * other_value
        step = _solve_linear(hessian, gradient)
        weights = [weight + change for weight, change in zip(weights, step, strict=True)]
        if max(map(abs, step)) < _TOLERANCE:
            break
    return GateWeightSettings(**{name: round(weight, 2) for name, weight in zip(FEATURE_NAMES, weights, strict=True)})


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))


def _solve_linear(matrix: list[list[float]], rhs: list[float]) -> list[float]:
    """Solve a symmetric positive system by elimination with pivots; what cannot be told apart stays where it is."""
    rows = [[*row, value] for row, value in zip(matrix, rhs, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        if abs(rows[column][column]) < _TOLERANCE:
            continue
        for row in range(size):
            if row != column:
                factor = rows[row][column] / rows[column][column]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    return [
        rows[column][size] / rows[column][column] if abs(rows[column][column]) >= _TOLERANCE else 0.0
        for column in range(size)
    ]
