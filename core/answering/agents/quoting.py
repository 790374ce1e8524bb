"""The answer without a model: sentences quoted from the evidence, or else the pages nearest to the question."""

from __future__ import annotations

from dataclasses import dataclass

from core.answering.agents.translation import get_foreign_agents, to_comparable_query
from core.answering.context import AnswerDependencies, AnswerInputs
from core.catalogue import messages_for
from core.citations.markers import to_citation
from core.formatting import format_code, format_link, shorten
from core.language.languages import identify_language, language_name
from core.ports import Library
from core.quoting.extractive import MAX_PASSAGES, extract_answer, extract_similar
from core.quoting.nearest import NearPage, find_nearest_pages
from core.quoting.subject import Subject
from core.runtime.budget import Budget
from core.types import Citation

# Quoting is the fallback when the model took all the time: it gets at least this many seconds.
MIN_QUOTE_S = 0.5
# Whoever writes a page chooses its title. Longer addresses open nowhere.
MAX_TITLE_CHARS = 300
MAX_URL_CHARS = 2000
# A page is named when a passage of it is so much nearer to the question than one that may be quoted has to be.
NEAR_MARGIN = 0.2


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """The text of an answer, with passage ids as markers.

    `nearest_pages` are what it names in place of an answer. `failure` is why there is no answer, where that has another
    reason than the evidence.
    """

    text: str
    is_extractive: bool = False
    nearest_pages: tuple[Citation, ...] = ()
    failure: str = ""


async def quote_passages(
    inputs: AnswerInputs, deps: AnswerDependencies, budget: Budget, failure: str = ""
) -> WrittenAnswer:
    """Return the extractive answer; without a quote, that nothing was found, with the pages that come closest.

    `failure` is why the model wrote nothing, "" if there is none. Then the text says so: what a model would have found
    in the passages is not known. Who did not ask gets no pages.
    """
    query = inputs.retrieval.query
    passages = inputs.retrieval.passages
    settings = deps.settings
    messages = messages_for(deps.prompts.language)
    note = messages.fallback if failure else messages.extractive
    min_similarity = settings.knowledge.search.min_similarity
    has_match = await _has_match(inputs, deps.library, min_similarity)
    # The passages may be in another language than the question.
    queries = list(filter(None, (query, budget.translations.get(query)))) if has_match else []
    timeout_s = max(MIN_QUOTE_S, 0.5 * budget.remaining())
    for text in queries:
        if quotes := await extract_answer(text, passages, deps.library, timeout_s):
            return WrittenAnswer(f"{quotes}\n\n{note}", is_extractive=True)
    if has_match:
        nearest_arguments = (
            to_comparable_query(query, passages, budget),
            passages,
            deps.library,
            min_similarity + NEAR_MARGIN,
        )
        if quotes := await extract_similar(*nearest_arguments, timeout_s):
            return WrittenAnswer(f"{quotes}\n\n{note}", is_extractive=True)
        if not inputs.question.is_unprompted and (pages := await find_nearest_pages(*nearest_arguments, timeout_s)):
            links = tuple(to_citation(passages[page.position], number) for number, page in enumerate(pages, 1))
            lines = "\n".join(map(_format_page, pages, links))
            text = messages.llm_failed_pages if failure else messages.nearest_pages
            return WrittenAnswer(text.format(pages=lines), True, links, failure)
    if not passages and "search" in budget.degraded:
        return WrittenAnswer(messages.search_timed_out, is_extractive=True, failure=failure)
    if failure:
        return WrittenAnswer(messages.llm_failed, is_extractive=True, failure=failure)
    return WrittenAnswer(say_nothing_found(deps, inputs.question.text), is_extractive=True)


def say_nothing_found(deps: AnswerDependencies, question: str = "") -> str:
    """Return that nothing was found in the sources, in the asker's language.

    Without a model, a question in another language than the sources had hardly a chance: then the text says so.
    """
    messages = messages_for(deps.prompts.language)
    sources = ", ".join(deps.settings.sources) or messages.no_sources
    is_known = any(identify_language(question) in codes for codes in deps.library.languages().values())
    language, _ = get_foreign_agents(question, deps) if deps.model is None and not is_known else ("", ())
    template = messages.no_evidence_foreign if language else messages.no_evidence
    return template.format(sources=sources, language=language_name(language))


async def _has_match(inputs: AnswerInputs, library: Library, min_similarity: float) -> bool:
    """Return whether a passage may be about the question: it is near enough, or its heading has all of its words."""
    passages = inputs.retrieval.passages
    # Without vectors (a language that the embedder hardly knows), words alone decide.
    is_lexical_only = all(passage.similarity == 0 for passage in passages)
    if any(passage.lexical > 0 if is_lexical_only else passage.similarity >= min_similarity for passage in passages):
        return True
    # A short question such as "How do I install it?" is near nothing.
    query = inputs.retrieval.query
    subject = Subject.from_question(query, await library.term_weights(query))
    return any(map(subject.is_heading_of, passages[:MAX_PASSAGES]))


def _format_page(page: NearPage, link: Citation) -> str:
    url = link.url if len(link.url) <= MAX_URL_CHARS else ""
    title = format_link(shorten(link.title or link.path, MAX_TITLE_CHARS), url)
    # Nothing else would say where a page without an address is.
    location = f" · {format_code(link.path)}" if link.title and not url else ""
    return f"- **{title}**{location}" + (f"\n  {page.line}" if page.line else "")
