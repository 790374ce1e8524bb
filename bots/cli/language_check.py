"""Languages that the embedding model does not know: what `kimas ingest` and `kimas check` say about them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bots.cli.console import Finding
from bots.common.open_storage import open_existing_database
from core.errors import StoreError
from core.formatting import pluralize
from core.language.languages import get_main_languages, identify_language, language_name
from core.settings import Settings
from knowledge.embedding import get_known_languages
from knowledge.ingestion.schedule import LANGUAGES

SAMPLED_QUESTIONS = 200
WAY_OUT = (
    "use a multilingual model: knowledge.embedding with provider multilingual (on this machine) or openai "
    "(docs/configure.md), then `kimas ingest --rebuild`"
)


def describe_unknown_languages(languages: Mapping[str, Sequence[str]], known_languages: Sequence[str]) -> list[str]:
    """Return a sentence for each source with documents in languages that the embedding model does not know."""
    return [
        f"{name}: documents are in {_join(unknown)}; the embedding model knows only {_join(known_languages)}, "
        f"so they are found by their words alone: {WAY_OUT}"
        for name, codes in languages.items()
        if (unknown := _unknown(codes, known_languages))
    ]


async def check_languages(settings: Settings) -> list[Finding]:
    """Return warnings about documents and recent questions in languages that the embedding model does not know.

    What was never ingested or asked is not judged; neither is a model that does not say what it knows.
    """
    known_languages = await asyncio.to_thread(get_known_languages, settings.knowledge.embedding)
    if not known_languages:
        return []
    try:
        languages, questions = await _read_samples(settings)
    except StoreError as error:
        return [Finding("warning", "journal", str(error))]
    subject = "knowledge.embedding"
    findings = [Finding("warning", subject, text) for text in describe_unknown_languages(languages, known_languages)]
    counts = Counter(code for code in map(identify_language, questions) if code)
    unknown_languages = _unknown(get_main_languages(counts), known_languages)
    has_translation = bool(settings.models.main or settings.models.light) and settings.context.translate
    if unknown_languages and not has_translation:
        hint = f"{WAY_OUT}; or configure a language model, which translates them"
        known = f"the embedding model knows only {_join(known_languages)}"
        count = sum(counts[code] for code in unknown_languages)
        verb = "is" if count == 1 else "are"
        asked = f"{count} of {pluralize(len(questions), 'recent question')} {verb} in {_join(unknown_languages)}"
        text = f"{asked}; {known}: {hint}"
        findings.append(Finding("warning", subject, text))
    return findings


async def _read_samples(settings: Settings) -> tuple[Mapping[str, Sequence[str]], Sequence[str]]:
    """Return the languages of the stored sources, and recent questions. Raises `StoreError`."""
    from core.storage.messages import Journal
    from core.storage.refresh_state import RefreshStateRepository

    async with open_existing_database(settings) as database:
        if database is None:
            return {}, ()
        states = await RefreshStateRepository(database).get_states()
        questions = await Journal(database).get_recent_questions(SAMPLED_QUESTIONS)
    languages = {name: state.counts.get(LANGUAGES, ()) for name, state in states.items() if name in settings.sources}
    return languages, questions


def _unknown(codes: Iterable[str], known_languages: Sequence[str]) -> list[str]:
    return [code for code in codes if code not in known_languages]


def _join(codes: Iterable[str]) -> str:
    return " and ".join(map(language_name, codes))
