"""The relevance of a message to the knowledge, for the gate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from core.language.glossary import MIN_COVERAGE, prepare_glossary, translate_terms
from core.language.languages import detect_language
from core.language.tokens import lexical_tokens, query_tokens
from core.messaging.gate.features import BEST_PASSAGES, extract_features
from core.messaging.gate.model import SHIPPED, load_model
from core.ports import Library, WordMatch
from core.settings import LiveSource, Settings
from core.types import Passage

# The weight of a word that no passage contains where there are no passages: as among a thousand.
_DEFAULT_UNKNOWN_WEIGHT = 7.6


@dataclass(frozen=True, slots=True)
class GateAssessment:
    """How sure the gate is of a message, from 0 to 1, why in one line, and the best passages."""

    probability: float
    explanation: str
    passages: tuple[Passage, ...]

    @property
    def title(self) -> str:
        """The title of the best passage, empty if there is none."""
        return self.passages[0].title if self.passages else ""


async def assess(text: str, library: Library, settings: Settings) -> GateAssessment:
    """Assess a message by the configured model.

    Raises `StoreError` of the library, `ConfigurationError` for a model that cannot be read.
    """
    match = await measure_relevance(text, library, settings)
    model = await asyncio.to_thread(load_model, settings.gate.model or SHIPPED)
    features = extract_features(text, match)
    return GateAssessment(model.probability(features), model.explain(features), match.passages)


async def measure_relevance(text: str, library: Library, settings: Settings) -> WordMatch:
    """Match the words of a message with what is stored. Raises `StoreError` of the library.

    Sources that are asked at question time are not: chatter must cost their owners nothing. An agent that has no others
    is known by its description and examples. Where no source is in Chinese and no Chinese passage matches, the terms of
    a Chinese message are matched in English.
    """
    match = await library.match_words(text, BEST_PASSAGES)
    has_chinese = any(detect_language(passage.text) == "zh" for passage in match.passages)
    translation = await _translate(text, library) if settings.context.translate and not has_chinese else ""
    if translation:
        match = replace(await library.match_words(translation, BEST_PASSAGES), translation=translation)
    live_sources = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    descriptions = [
        description
        for agent in settings.retrieval_agents().values()
        if live_sources.intersection(agent.sources)
        for texts in agent.mix_ins().values()
        for description in texts
    ]
    return _with_descriptions(translation or text, match, descriptions) if descriptions else match


async def _translate(text: str, library: Library) -> str:
    """Return the words of a Chinese message in English, where no source is in Chinese; else an empty string."""
    languages = {code for codes in library.languages().values() for code in codes}
    if not languages or "zh" in languages or detect_language(text) != "zh":
        return ""
    await prepare_glossary(text)
    terms = translate_terms(text)
    return terms.text if terms.coverage >= MIN_COVERAGE else ""


def _with_descriptions(text: str, match: WordMatch, descriptions: list[str]) -> WordMatch:
    """Add the best description as if it were as many passages as count: a live source has more to say than it."""
    unknown_weight = match.unknown_weight or _DEFAULT_UNKNOWN_WEIGHT
    tokens = query_tokens(text).split()
    weights = {token: match.weights.get(token, unknown_weight) for token in tokens}
    passages = list(match.passages)
    for description in descriptions:
        words = set(lexical_tokens(description).split())
        known_tokens = [token for token in tokens if token in words]
        # A word of a description is known, and as rare as a word in one of the passages.
        weights |= {token: min(weights[token], unknown_weight - 1.1) for token in known_tokens}
        passages += [
            Passage("", "", "", "", description, lexical=sum(weights[token] for token in known_tokens))
        ] * BEST_PASSAGES
    best = sorted((passage for passage in passages if passage.lexical), key=lambda passage: -passage.lexical)
    return replace(match, passages=tuple(best[:BEST_PASSAGES]), weights=weights, unknown_weight=unknown_weight)
