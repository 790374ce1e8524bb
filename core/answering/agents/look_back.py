"""From the marks that a model wrote to citations: doubtful ones are looked up once more, and missing ones found.

Words decide most marks (`core.citations.check`). The light model names the passages behind a sentence where words are
in doubt, and behind every sentence of an answer without any mark (KIMAs 3.4).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from core.answering.context import AnswerDependencies
from core.catalogue import messages_for
from core.citations.check import CitationCheck, check_citations, find_support_by_overlap
from core.citations.markers import CitationKey, ResolvedCitations, insert_markers, resolve_markers
from core.evidence.rendering import escape_delimiters, render_to_budget
from core.language.prose import split_sentences
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Passage, Question, Turn

_SUPPORT_LINE = re.compile(r"^[^\w\n]*+(\d{1,3})\W{0,20}[:：]\s*(.*)$", re.MULTILINE)
_PASSAGE_ID = re.compile(r"p\s?(\d{1,3})", re.IGNORECASE)


def get_known_text(question: Question, settings: Settings) -> str:
    """Return what needs no support in an answer: the question, the conversation, and our own names."""
    return "\n".join(
        (question.text, question.attached, *(turn.text for turn in question.history), settings.name, *settings.sources)
    )


async def verify_citations(
    text: str,
    passages: Sequence[Passage],
    deps: AnswerDependencies,
    budget: Budget,
    *,
    known: str = "",
    show: Callable[[str], Awaitable[None]] | None = None,
) -> ResolvedCitations:
    """Resolve the citation markers of an answer; those whose passage does not support its sentence move or go.

    `known` needs no support. With `show`, a light model is asked once about all marks that words cannot decide; the
    answer as words have decided it is shown before.
    """
    if not passages or deps.settings.evidence.support_check == "none":
        return resolve_markers(text, passages)
    with budget.timed("support"):
        check = await deps.turnstile.run_in_thread(check_citations, text, passages, known=known)
    changes = check.changes
    model = deps.model if deps.settings.models.light and deps.settings.evidence.support_check == "model" else None
    if show and model and check.doubts:
        await show(resolve_markers(text, passages, changes).text)
        changes = await budget.run_stage(
            "verify", judge_doubts(model, check, passages, deps, budget), lambda: check.certain_changes
        )
    return resolve_markers(text, passages, changes)


async def judge_doubts(
    model: ChatModel, check: CitationCheck, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget
) -> Mapping[CitationKey, int | None]:
    """Return the changes of a check, those in doubt as the model decides. Raises `ModelError`."""
    sentences = list(dict.fromkeys(check.doubts.values()))
    support = await find_support(model, sentences, passages, deps, budget, agent="verify")
    changes = dict(check.certain_changes)
    for key, sentence in check.doubts.items():
        positions = support.get(sentences.index(sentence), [])
        if key[1] not in positions:
            changes[key] = next(iter(positions), None)
    return changes


async def look_back(
    cited_answer: ResolvedCitations,
    passages: Sequence[Passage],
    deps: AnswerDependencies,
    budget: Budget,
    *,
    known: str = "",
) -> ResolvedCitations:
    """Return an answer without citations with those that its sentences turn out to have; any other as it is.

    The light model names the passage behind each sentence; when it fails or is too slow, shared words decide. An answer
    that the model marked as finding nothing costs no call. `known` needs no support. One whose sentences no passage is
    behind says so.
    """
    text = cited_answer.text
    sentences = split_sentences(text)
    # An answer of code alone states nothing.
    has_nothing_to_cite = cited_answer.finds_nothing or not (sentences and passages)
    if cited_answer.citations or has_nothing_to_cite or deps.model is None:
        return cited_answer
    llm_support = await budget.run_stage("look_back", find_support(deps.model, sentences, passages, deps, budget), dict)
    is_degraded = "look_back" in budget.degraded
    support = (
        await deps.turnstile.run_in_thread(find_support_by_overlap, text, passages, known)
        if is_degraded
        else llm_support
    )
    if any(support.values()):
        marked_text = insert_markers(text, support)
        with budget.timed("support"):
            check = await deps.turnstile.run_in_thread(check_citations, marked_text, passages, known=known)
        marked_answer = resolve_markers(marked_text, passages, check.changes)
        if marked_answer.citations:
            return replace(marked_answer, dropped_count=cited_answer.dropped_count, moved_count=0)
    note = messages_for(deps.prompts.language).uncited
    return replace(cited_answer, text=f"{text}\n\n{note}")


async def find_support(
    model: ChatModel,
    sentences: Sequence[str],
    passages: Sequence[Passage],
    deps: AnswerDependencies,
    budget: Budget,
    *,
    agent: str = "look_back",
) -> dict[int, list[int]]:
    """Return, by the position of a sentence, the positions of the passages that support it.

    Raises `ModelError`.
    """
    numbered_sentences = "\n".join(
        f"{number}: {escape_delimiters(' '.join(sentence.split()))}" for number, sentence in enumerate(sentences, 1)
    )
    evidence = render_to_budget(passages, deps.settings.evidence_tokens("light"))
    request = f"<evidence>\n{evidence}\n</evidence>\n<answer>\n{numbered_sentences}\n</answer>"
    reply = await model.complete(
        deps.prompts.fill("look_back"), [Turn("user", request)], role="light", budget=budget, agent=agent
    )
    return _parse_support(reply, sentences, len(passages))


def _parse_support(reply: str, sentences: Sequence[str], passage_count: int) -> dict[int, list[int]]:
    support: dict[int, list[int]] = {}
    for number, ids in _SUPPORT_LINE.findall(reply):
        positions = [int(digits) - 1 for digits in _PASSAGE_ID.findall(ids)]
        if 0 < int(number) <= len(sentences):
            support[int(number) - 1] = [position for position in positions if 0 <= position < passage_count]
    return support
