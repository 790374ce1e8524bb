"""The translated question: one call per question, when the knowledge is in another language than the question.

Without a model, and where its call fails, the words of a Chinese question are looked up in a dictionary, and searched
in English.

Beside the question itself its translation is searched, at the agents whose sources are in that language. The languages
of sources come from a sample of their passages (`knowledge.retrieval.agent_index`), or from `agents.NAME.language`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from core.answering.context import MAX_QUERY_CHARS, UNKNOWN_SUBJECT, AnswerDependencies
from core.answering.rewriting.query_reply import QUERY_SCHEMA, is_refusal
from core.errors import KimasError
from core.evidence.ranking import NON_CODE_KINDS
from core.evidence.rendering import escape_delimiters
from core.language.glossary import MIN_COVERAGE, is_foreign_to, list_meanings, prepare_glossary, translate_terms
from core.language.keywords import content_words
from core.language.languages import detect_language, extract_names, identify_language, is_in_language, language_name
from core.language.tokens import lexical_tokens
from core.llm.decision_schema import ParsedReply
from core.llm.structured_output import DecisionRequest, decide
from core.observability.logs import get_logger
from core.ports import WordMatch
from core.runtime.budget import Budget
from core.types import Passage, Turn

_log = get_logger(__name__)

STAGE = "translate"
# So many passages decide what an ambiguous word means.
READ_PASSAGES = 30


@dataclass(frozen=True, slots=True)
class Translation:
    """A query in the language of the sources of `agents` (names); both are empty when there is none."""

    text: str = ""
    agents: tuple[str, ...] = ()


def get_foreign_agents(query: str, deps: AnswerDependencies) -> tuple[str, tuple[str, ...]]:
    """Return the language to translate a query into, and the agents whose sources are in it; ("", ()) for none.

    Sources in two languages are searched in both where the query is not in the first one: their documents in the other
    one are often older, or fewer. An agent with a rewrite `translation` translates for itself.
    """
    language = identify_language(query) if deps.settings.context.translate else ""
    settings = deps.settings.retrieval_agents()
    foreign_agents = {
        name: codes
        for name, codes in deps.library.languages().items()
        if language and language != codes[0] and "translation" not in settings[name].rewrites
    }
    if not foreign_agents:
        return "", ()
    target = Counter(codes[0] for codes in foreign_agents.values()).most_common(1)[0][0]
    return target, tuple(name for name, codes in foreign_agents.items() if target in codes)


async def translate_once(query: str, deps: AnswerDependencies, budget: Budget) -> Translation:
    """Return the translation of a query: of the first of a question that needs one, and never of a second.

    The call has the share `requery` of the budget; when it fails, only the question itself is searched.
    """
    if deps.model is None:
        return Translation()
    target, foreign_agents = get_foreign_agents(query, deps)
    if not target or not budget.claim(STAGE):
        return Translation()
    names = extract_names(query) if detect_language(query) else set()
    await prepare_glossary(query)

    def accept(parsed_reply: ParsedReply) -> str | None:
        text = parsed_reply.get_text("query")
        is_usable = bool(content_words(text)) and len(text) <= MAX_QUERY_CHARS and not is_refusal(text, query)
        is_translated = is_in_language(text, target) is not False and names <= extract_names(text)
        return text if is_usable and is_translated and not is_foreign_to(text, query) else None

    descriptions = "\n".join(f"- {text}" for name in foreign_agents if (text := deps.describe_agent(name)))
    system = deps.prompts.fill(
        "rewrite_translation",
        language=language_name(target),
        description=f"\n{descriptions}" if descriptions else UNKNOWN_SUBJECT,
    )
    turns = [Turn("user", f"<question>\n{escape_delimiters(query)}\n</question>")]
    text = await decide(DecisionRequest(STAGE, "requery", QUERY_SCHEMA, system, turns), accept, "", deps, budget)
    if not text:
        return Translation()
    _log.info("question.translated", language=target, characters=len(text))
    budget.translations[query] = text
    return Translation(text, foreign_agents)


async def translate_by_dictionary(
    query: str, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget
) -> Translation:
    """Return the terms of a Chinese query in English, where no passage that it found by its words is in Chinese.

    Single words find much that is beside the point. So they are not searched where the question itself finds something.
    """
    if detect_language(query) != "zh" or budget.translations:
        return Translation()
    target, foreign_agents = get_foreign_agents(query, deps)
    # What a vector alone has found need not have anything to do with the question.
    found_by_words = (passage for passage in passages if passage.lexical_share or not passage.similarity)
    if target != "en" or any(is_chinese_prose(passage) for passage in found_by_words):
        return Translation()
    await prepare_glossary(query)
    text = await _read_terms(query, deps, budget)
    # What is unknown may be the subject: then the rest is searched, and not taken for what was asked.
    if text and translate_terms(query).coverage >= MIN_COVERAGE:
        budget.translations[query] = text
    return Translation(text, foreign_agents)


async def _read_terms(query: str, deps: AnswerDependencies, budget: Budget) -> str:
    """Return the terms of a Chinese query in English, each in the meaning in which the documents have it.

    All meanings are searched by words; where that fails, the first two meanings of each term are taken.
    """
    meanings_by_term = list_meanings(query)
    try:
        async with asyncio.timeout(budget.share("search")):
            match = await deps.library.match_words(" ".join(chain.from_iterable(meanings_by_term)), READ_PASSAGES)
    except (KimasError, TimeoutError) as error:
        _log.warning("terms.not_read", error=str(error))
        return translate_terms(query).text
    return await asyncio.to_thread(_choose_meanings, meanings_by_term, match)


def _choose_meanings(meanings_by_term: Sequence[Sequence[str]], match: WordMatch) -> str:
    """Return one meaning of each term: the one that the passages have which have most of the terms, in any meaning.

    So 代理 is a proxy and no surrogate beside "port".
    """
    texts = [frozenset(lexical_tokens(f"{passage.title}\n{passage.text}").split()) for passage in match.passages]
    weighed_shares = {
        meaning: _weigh_meaning(meaning, texts, match) for meaning in set(chain.from_iterable(meanings_by_term))
    }
    totals = [0.0] * len(texts)
    for meanings in meanings_by_term:
        for place in range(len(texts)):
            totals[place] += max(weight * shares[place] for weight, shares in map(weighed_shares.__getitem__, meanings))
    support = {
        meaning: sum(share * total**2 for share, total in zip(shares, totals, strict=True))
        for meaning, (_, shares) in weighed_shares.items()
    }
    # Of equals the first stays: the dictionary begins with the usual one.
    return " ".join(dict.fromkeys(max(meanings, key=support.__getitem__) for meanings in meanings_by_term))


def _weigh_meaning(meaning: str, texts: Sequence[Collection[str]], match: WordMatch) -> tuple[float, list[float]]:
    """Return the weight of the rarest known word of a meaning, and the share of its words that each text has."""
    tokens = set(lexical_tokens(meaning).split())
    weights = {token: match.weights.get(token, match.unknown_weight) for token in tokens}
    total = sum(weights.values()) or 1.0
    shares = [sum(weight for token, weight in weights.items() if token in text) / total for text in texts]
    return max((weight for weight in weights.values() if weight < match.unknown_weight), default=0.0), shares


async def to_comparable_query(query: str, passages: Sequence[Passage], budget: Budget) -> str:
    """Return the query in the language of its passages: its translation, or what a dictionary makes of it."""
    if translation := budget.translations.get(query):
        return translation
    if detect_language(query) != "zh" or any(is_chinese_prose(passage) for passage in passages):
        return query
    await prepare_glossary(query)
    terms = translate_terms(query)
    return terms.text if terms.coverage >= MIN_COVERAGE else query


def is_chinese_prose(passage: Passage) -> bool:
    """Return whether a passage is written in Chinese; English ones have Chinese words in links and examples."""
    return passage.kind in NON_CODE_KINDS and detect_language(passage.text) == "zh"
