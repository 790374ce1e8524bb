"""How sure the gate is that it can help: a logistic regression over a few signs, small enough to be read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.ports import Library
from core.settings import LiveSource, Settings
from core.settings.platforms import GateWeightSettings
from core.text.keywords import content_words, without_fillers
from core.text.question_detection import personal
from core.types import Passage

AGENTS, PASSAGES = 3, 8
_STEM = 6
# What counts as the cosine where there are no vectors to go by.
BLIND = 0.45
# Words that are in questions of every kind, and so tell nothing of what one is about.
_SAYS_NOTHING = frozenset(
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
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NAME = re.compile(r"(?<![\w'@])[A-Za-z][\w+#]*(?:[._-]\w+)*")
_NO_NAMES = frozenset(("i", "i'm", "i've", "ok", "hi", "fyi", "btw", "pr", "todo", "faq", "eta"))


@dataclass(frozen=True, slots=True)
class Relevance:
    """How well the best passage matches, by its cosine times its share of the text's words (0 to nearly 1).

    `foreign` is the share of the names in the text that no passage near it knows. `title` names the best passage.
    """

    match: float = 0.0
    foreign: float = 0.0
    title: str = ""


async def relevance(text: str, library: Library, settings: Settings) -> Relevance:
    """Search what is stored, once per likely agent, and say how near the text is to it (KIMAs 3.2.2 routes alike).

    Sources that are asked at question time are not: chatter must cost their owners nothing. An agent that has no
    others is known by its description and examples. Raises `ServiceError` and `StoreError` of the library.
    """
    query = without_fillers(text)
    agents = settings.retrieval_agents()
    live = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    stored = {name for name, agent in agents.items() if not live & set(agent.sources)}
    likely = [one.name for one in await library.route(query) if one.name in stored][:AGENTS]
    found = [passage for name in likely for passage in await library.search(name, query, PASSAGES)]
    described = [
        words
        for name, agent in agents.items()
        if name not in stored
        for texts in agent.mix_ins().values()
        for words in texts
    ]
    cosines = await library.similarity(query, described)
    return _judged(query, found, cosines, described)


def _judged(query: str, found: Sequence[Passage], cosines: Sequence[float], described: Sequence[str]) -> Relevance:
    wanted = set(_stems(query))
    candidates = [(one.similarity, f"{one.title}\n{one.text}", one.title) for one in found]
    candidates += [(cosine, text, "") for cosine, text in zip(cosines, described, strict=True)]
    have = [set(_stems(text)) for _, text, _ in candidates]
    blind = not any(cosine for cosine, _, _ in candidates)
    # Neither side is enough: long passages have all words somewhere, and vectors of short texts are all a little alike.
    # One more word than there are keeps two words from being a full match.
    matches = [
        ((BLIND if blind else max(cosine, 0.0)) * len(wanted & words) / (len(wanted) + 1), title)
        for (cosine, _, title), words in zip(candidates, have, strict=True)
    ]
    match, title = max(matches, default=(0.0, ""))
    names = {stem for name in _names(query) for stem in _stems(name)}
    return Relevance(match, len(names.difference(*have)) / len(names) if names else 0.0, title)


def _names(text: str) -> Iterable[str]:
    """Return what looks like a name: capitals within a sentence or a word, digits in it, Latin words among others."""
    among_others = bool(_WIDE.search(text))
    for found in _NAME.finditer(text):
        word = found[0]
        first = not re.search(r"[\w,;:)'\"`][ `]*$", text[: found.start()])
        marked = word[1:] != word[1:].lower() or any(character.isdigit() for character in word)
        if word.lower() not in _NO_NAMES and (marked or among_others or (word[0].isupper() and not first)):
            yield word


def _stems(text: str) -> Iterable[str]:
    """Return the words that carry meaning; forms of one word begin alike, identifiers count by their parts too."""
    for word in content_words(text):
        if _WIDE.match(word):
            if not _PARTICLES.search(word):
                yield word
        elif word not in _SAYS_NOTHING:
            for part in {word, *re.split(r"[_.\-]", word)}:
                if part:
                    yield _stem(part)


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2 and not word.endswith("ss"):
            word = word.removesuffix(ending)
            break
    return word[:_STEM]


NAMES = ("base", "personal", "match", "foreign")
_PULL = 0.05
_STEPS, _ENOUGH = 60, 1e-8


@dataclass(frozen=True, slots=True)
class Signs:
    """What tells whether a message is a question that the bot can answer; each from 0 to 1."""

    personal: float
    match: float
    foreign: float

    def row(self) -> tuple[float, ...]:
        """Return the signs in the order of `NAMES`, with the constant in front."""
        return 1.0, self.personal, self.match, self.foreign


def signs_of(text: str, found: Relevance) -> Signs:
    """Return the signs of a message."""
    return Signs(float(personal(text)), found.match, found.foreign)


def chance(signs: Signs, weights: GateWeightSettings) -> float:
    """Return how sure it is, from 0 to 1."""
    return _logistic(sum(value * getattr(weights, name) for name, value in zip(NAMES, signs.row(), strict=True)))


def fit(signs: Sequence[Signs], truths: Sequence[bool]) -> GateWeightSettings:
    """Return the weights that explain the truths best (Newton's method, a light pull towards zero).

    Both outcomes weigh the same, however many there are of each. Blocking; some milliseconds for a thousand cases.
    """
    rows = [one.row() for one in signs]
    counts = {outcome: max(1, sum(truth is outcome for truth in truths)) for outcome in (True, False)}
    shares = [len(rows) / (2 * counts[truth]) for truth in truths]
    weights = [0.0] * len(NAMES)
    for _ in range(_STEPS):
        chances = [_logistic(sum(a * b for a, b in zip(row, weights, strict=True))) for row in rows]
        slope = [-_PULL * weight if at else 0.0 for at, weight in enumerate(weights)]
        bend = [[_PULL * (at == other and at > 0) for other in range(len(NAMES))] for at in range(len(NAMES))]
        for row, share, said, truth in zip(rows, shares, chances, truths, strict=True):
            spread = share * max(said * (1 - said), 1e-9)
            for at, value in enumerate(row):
                slope[at] += share * (truth - said) * value
                for other, beside in enumerate(row):
                    bend[at][other] += spread * value * beside
        step = _solved(bend, slope)
        weights = [weight + change for weight, change in zip(weights, step, strict=True)]
        if max(map(abs, step)) < _ENOUGH:
            break
    return GateWeightSettings(**{name: round(weight, 2) for name, weight in zip(NAMES, weights, strict=True)})


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a symmetric positive system by elimination with pivots; what cannot be told apart stays where it is."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) < _ENOUGH:
            continue
        for row in range(size):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return [rows[at][size] / rows[at][at] if abs(rows[at][at]) >= _ENOUGH else 0.0 for at in range(size)]
