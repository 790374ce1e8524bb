"""The answer without a model: sentences quoted from the evidence, or else the pages nearest to the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.answering.agents.translation import get_foreign_agents, to_comparable_query
from core.answering.context import AnswerDependencies, AnswerInputs
from core.answering.introduction import list_sources
from core.catalogue import messages_for
from core.citations.markers import to_citation
from core.formatting import format_code, format_link, shorten
from core.language.languages import detect_language, identify_language, language_name
from core.quoting.extractive import Extract, NearPage, extract
from core.runtime.budget import Budget
from core.settings import LearnedSource, LiveSource
from core.types import Citation, Passage

# Quoting is the fallback when the model took all the time: it gets at least this many seconds.
MIN_QUOTE_S = 0.5
# Whoever writes a page chooses its title. Longer addresses open nowhere.
MAX_TITLE_CHARS = 300
MAX_URL_CHARS = 2000
NOTHING_READ = "no source has been read yet"


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """The text of an answer, with passage ids as markers.

    `passages` are what the ids of quotes name, where other parts of a page are quoted than those that were found.
    `nearest_pages` are what it names beside its quotes, or in place of an answer. `failure` is why there is no answer,
    where that has another reason than the evidence.
    """

    text: str
    is_extractive: bool = False
    nearest_pages: tuple[Citation, ...] = ()
    failure: str = ""
    passages: tuple[Passage, ...] = ()


def is_unread(inputs: AnswerInputs, deps: AnswerDependencies) -> bool:
    """Return whether nothing was found because no source has been read, and the question brings no text of its own."""
    was_searched = inputs.retrieval.was_searched and not inputs.retrieval.passages
    # What people teach may well be nothing yet, and a live source is never read.
    is_read = any(not isinstance(source, LearnedSource | LiveSource) for source in deps.settings.sources.values())
    return was_searched and not inputs.question.attached and is_read and deps.library.is_empty


async def quote_passages(
    inputs: AnswerInputs, deps: AnswerDependencies, budget: Budget, failure: str = ""
) -> WrittenAnswer:
    """Return the extractive answer; without a quote, that nothing was found, with the pages that come closest.

    `failure` is why the model wrote nothing, "" if there is none. Then the text says so: what a model would have found
    in the passages is not known. Who did not ask gets no pages.
    """
    query = inputs.retrieval.query
    passages = _keep_readable(inputs.retrieval.passages, deps.prompts.language)
    settings = deps.settings
    messages = messages_for(deps.prompts.language)
    note = messages.fallback if failure else messages.extractive
    if is_unread(inputs, deps):
        # That nothing was found would be recorded as a gap of the knowledge.
        text = messages.not_read_yet.format(sources=", ".join(list_sources(settings, deps.library)))
        return WrittenAnswer(text, is_extractive=True, failure=NOTHING_READ)
    # The passages may be in another language than the question.
    queries = list(dict.fromkeys((query, await to_comparable_query(query, passages, budget))))
    timeout_s = max(MIN_QUOTE_S, 0.5 * budget.remaining()) / len(queries)
    # The built-in embedding compares no languages, and what a dictionary has translated was searched for.
    is_compared = settings.knowledge.embedding.provider != "local" or len(queries) > 1
    language = "" if is_compared or failure else _find_foreign_language(inputs.question.text, deps)
    foreign_note = messages.foreign_sources.format(language=language_name(language)) if language else ""
    if language and inputs.question.is_unprompted:
        # Names and words that both languages have are too little for an answer that nobody asked for.
        found = Extract()
    else:
        found = await extract(queries, passages, deps.library, settings.knowledge.search.min_fit, timeout_s)
    links = tuple(to_citation(found.passages[page.position], number) for number, page in enumerate(found.pages, 1))
    if found.text:
        # Where the quotes miss the point, one of these often has it.
        others = messages.see_also.format(pages=", ".join(map(_format_title, links)))
        parts = (found.text, others if links else "", note, foreign_note)
        return WrittenAnswer("\n\n".join(filter(None, parts)), True, links, passages=found.passages)
    if links and not inputs.question.is_unprompted:
        lines = "\n".join(map(_format_page, found.pages, links))
        text = (messages.llm_failed_pages if failure else messages.nearest_pages).format(pages=lines)
        return WrittenAnswer("\n\n".join(filter(None, (text, foreign_note))), True, links, failure)
    if not passages and "search" in budget.degraded:
        text = messages.search_timed_out
    else:
        text = messages.llm_failed if failure else say_nothing_found(deps, inputs.question.text)
    return WrittenAnswer(text, is_extractive=True, failure=failure)


def _keep_readable(passages: Sequence[Passage], language: str) -> Sequence[Passage]:
    """Return the passages in Latin script, or that of a language; all where none is.

    Who asks in English does not read the Chinese translation that lies beside a page; the reverse is usual.
    """
    return [passage for passage in passages if detect_language(passage.text) in ("", language)] or passages


def say_nothing_found(deps: AnswerDependencies, question: str = "") -> str:
    """Return that nothing was found in the sources, in the asker's language.

    Without a model, a question in another language than the sources had hardly a chance: then the text says so.
    """
    messages = messages_for(deps.prompts.language)
    sources = ", ".join(list_sources(deps.settings, deps.library)) or messages.no_sources
    language = _find_foreign_language(question, deps)
    template = messages.no_evidence_foreign if language else messages.no_evidence
    return template.format(sources=sources, language=language_name(language))


def _find_foreign_language(question: str, deps: AnswerDependencies) -> str:
    """Return the language of the sources where the question is in none of theirs, and no model translates; else ""."""
    is_known = any(identify_language(question) in codes for codes in deps.library.languages().values())
    return get_foreign_agents(question, deps)[0] if deps.model is None and not is_known else ""


def _format_page(page: NearPage, link: Citation) -> str:
    return f"- {_format_title(link)}" + (f"\n  {page.line}" if page.line else "")


def _format_title(link: Citation) -> str:
    url = link.url if len(link.url) <= MAX_URL_CHARS else ""
    title = format_link(shorten(link.title or link.path, MAX_TITLE_CHARS), url)
    # Nothing else would say where a page without an address is.
    location = f" · {format_code(link.place)}" if link.title and not url else ""
    return f"**{title}**{location}"
