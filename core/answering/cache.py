"""The answer cache: the same question in the same chat gets its earlier reply, as long as nothing has changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

from core.errors import KimasError
from core.language.follow_ups import get_author_turns
from core.language.question_matching import canonical_form, is_self_contained, normalize
from core.llm.prompts import Prompts
from core.observability.logs import get_logger
from core.ports import Library, Sink
from core.runtime.budget import Budget
from core.settings import Settings
from core.settings.audience import Audiences
from core.types import Citation, Passage, Question, Reply

if TYPE_CHECKING:
    from core.storage.answer_cache import AnswerCache, CacheEntry, CacheKey

_log = get_logger(__name__)

Result = TypeVar("Result")

# Increase it when the stored values change, or the rule by which two questions are the same.
CACHE_FORMAT = 3
# Comparing questions must stay cheaper than answering.
COMPARE_TIMEOUT_S = 0.5
# How old the versions of sources may be, in seconds: when a reply is stored, and when it is looked up. A reply that was
# stored with an older version is only made once more.
STORE_VERSION_MAX_AGE_S = 60.0
LOOKUP_VERSION_MAX_AGE_S = 1.0
# The sections of the settings that affect an answer. The templates count by their text, not by their paths.
FINGERPRINT_SECTIONS = frozenset(
    (
        "name",
        "sources",
        "agents",
        "knowledge",
        "models",
        "answer",
        "context",
        "strategies",
        "budget",
        "evidence",
        "privacy",
    )
)

# Returns the version of each named source, at most so many seconds old; "" for a source without versions.
GetVersions = Callable[[Collection[str], float], Awaitable[Mapping[str, str]]]
MakeAnswer = Callable[[Question, Sink, Budget], Awaitable[Reply]]

# No cached reply, and no versions to store a new one with.
CACHE_MISS: tuple[CacheEntry | None, Mapping[str, str] | None] = (None, None)


@dataclass(frozen=True, slots=True)
class CachedAnswers:
    """The parts of the cache: stored replies, the library that compares questions, and versions of sources.

    `get_audiences` returns those of now: a reply is for those who see the same, read in the same way.
    """

    cache: AnswerCache
    library: Library
    get_versions: GetVersions
    sources: tuple[str, ...]
    min_similarity: float
    get_audiences: Callable[[], Audiences]


async def answer_with_cache(
    question: Question, sink: Sink, make_answer: MakeAnswer, cached_answers: CachedAnswers, budget: Budget
) -> Reply:
    """Return a cached reply, or make one and store it if it is cacheable. Raises what `make_answer` raises.

    Stored replies were made without a conversation: private details, or words that somebody planted in a group, never
    reach others. An asker with a conversation gets a cached reply only for exactly the same words: an asker who
    rephrases a question may not have been content with the reply.

    When the cache fails, or the lookup takes longer than the share `look_up` of the budget, the error is logged and the
    answer is made without the cache.
    """
    if question.has_attachments or not is_self_contained(question):
        return await make_answer(question, sink, budget)
    has_history = bool(get_author_turns(question.history, question.author_id))
    cache_key = _make_cache_key(question, cached_answers.get_audiences(), with_canonical_form=not has_history)
    lookup = _suppress_errors(_look_up(cache_key, cached_answers), CACHE_MISS)
    entry, versions = await budget.run_stage("look_up", lookup, lambda: CACHE_MISS)
    if entry:
        spent_ms = round(budget.elapsed_ms(), 2)
        reply = replace(entry.reply, trace=replace(entry.reply.trace, timings_ms={"total": spent_ms}))
        _log.info("answer.cached", same_words=entry.is_exact_match, spent_ms=spent_ms)
        await sink.finish(reply)
        return reply
    reply = await make_answer(question if has_history else replace(question, history=()), sink, budget)
    if versions and not has_history and is_cacheable(reply):
        source_versions = {citation.source: versions.get(citation.source, "") for citation in reply.citations}
        # Nobody can see whether a source without a version, such as a search engine, has changed.
        if all(source_versions.values()):
            # A model may have words of what it does not cite; clients are told where that is.
            used_sources = {passage.source for passage in reply.passages}
            source_versions |= {name: version for name in used_sources if (version := versions.get(name))}
            await _suppress_errors(cached_answers.cache.store(cache_key, reply, source_versions), None)
    return reply


def is_cacheable(reply: Reply) -> bool:
    """Return whether others who ask the same may get a reply: it answers with citations, and no stage was cut short."""
    return bool(reply.citations) and not reply.found_nothing and not reply.trace.degraded and not reply.trace.cached


def fingerprint(settings: Settings, prompts: Prompts) -> str:
    """Return a hash of all that affects answers except the knowledge: settings and templates."""
    field_names = [[field.name for field in fields(dataclass_type)] for dataclass_type in (Citation, Passage)]
    inputs = [
        CACHE_FORMAT,
        field_names,
        settings.model_dump(mode="json", include=set(FINGERPRINT_SECTIONS)),
        asdict(prompts),
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def _make_cache_key(question: Question, audiences: Audiences, *, with_canonical_form: bool) -> CacheKey:
    from core.storage.answer_cache import CacheKey, to_scope

    return CacheKey(
        to_scope(question.key, is_restricted_thread=question.in_restricted_thread),
        question.text,
        normalize(question.text),
        canonical_form(question.text) if with_canonical_form else "",
        None if question.visible_sources is None else audiences.list_labels(question.visible_sources),
        question.persona,
        question.language,
    )


async def _look_up(
    cache_key: CacheKey, cached_answers: CachedAnswers
) -> tuple[CacheEntry | None, Mapping[str, str] | None]:
    """Return the cached reply, or else the versions to store a new one with."""
    candidates = await cached_answers.cache.find_replies(cache_key)
    fresh_entries: list[CacheEntry] = []
    if candidates:
        sources = {source for entry in candidates for source in entry.versions}
        versions = await cached_answers.get_versions(sources, LOOKUP_VERSION_MAX_AGE_S)
        fresh_entries = [
            entry
            for entry in candidates
            if all(versions.get(name) == stored_version for name, stored_version in entry.versions.items())
        ]
        if stale_numbers := [entry.number for entry in candidates if entry not in fresh_entries]:
            await cached_answers.cache.evict(stale_numbers)
    if closest_entry := await _find_closest(cache_key, fresh_entries, cached_answers):
        return closest_entry, None
    # Read before the answer is made: if a source changes meanwhile, the stored reply is out of date at once.
    return None, await cached_answers.get_versions(cached_answers.sources, STORE_VERSION_MAX_AGE_S)


async def _find_closest(
    cache_key: CacheKey, candidates: list[CacheEntry], cached_answers: CachedAnswers
) -> CacheEntry | None:
    if not candidates or candidates[0].is_exact_match:
        return candidates[0] if candidates else None
    try:
        async with asyncio.timeout(COMPARE_TIMEOUT_S):
            cosines = await cached_answers.library.similarity(cache_key.text, [entry.question for entry in candidates])
    except TimeoutError:
        _log.warning("questions.not_compared", allowed_s=COMPARE_TIMEOUT_S)
        return None
    best_index = max(range(len(candidates)), key=lambda index: cosines[index])
    return candidates[best_index] if cosines[best_index] >= cached_answers.min_similarity else None


async def _suppress_errors(awaitable: Awaitable[Result], default: Result) -> Result:
    try:
        return await awaitable
    except KimasError as error:
        _log.error("cache.failed", error=str(error))
        return default
