"""Look-back: finds the citations of an answer whose model did not cite (KIMAs 3.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.answering.context import AnswerDependencies
from core.citations.check import verify_citations
from core.citations.markers import ResolvedCitations, insert_markers
from core.citations.support import find_support_by_overlap
from core.evidence.rendering import escape_delimiters, render_to_budget
from core.language.prose import split_sentences
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.types import Passage, Turn

_SUPPORT_LINE = re.compile(r"^[^\w\n]*+(\d{1,3})\W{0,20}[:：]\s*(.*)$", re.MULTILINE)
_PASSAGE_ID = re.compile(r"p\s?(\d{1,3})", re.IGNORECASE)


async def look_back(
    cited_answer: ResolvedCitations,
    passages: Sequence[Passage],
    deps: AnswerDependencies,
    budget: Budget,
    *,
    question: str = "",
) -> ResolvedCitations:
    """Return an answer without citations with those that its sentences turn out to have; any other as it is.

    The light model names the passage behind each sentence; when it fails or is too slow, shared words decide. An answer
    that the model marked as finding nothing costs no call. `question` needs no support: what it says
    itself is left out of the comparison.
    """
    if cited_answer.citations or not passages or deps.model is None or cited_answer.finds_nothing:
        return cited_answer
    text = cited_answer.text
    llm_support = await budget.run_stage("look_back", find_support(deps.model, text, passages, deps, budget), dict)
    is_degraded = "look_back" in budget.degraded
    support = (
        await deps.turnstile.run_in_thread(find_support_by_overlap, text, passages, question)
        if is_degraded
        else llm_support
    )
    marked_text = insert_markers(text, support)
    marked_answer = await verify_citations(marked_text, passages, deps, budget, question=question, allow_bare=False)
    return replace(marked_answer, dropped_count=cited_answer.dropped_count)


async def find_support(
    model: ChatModel, text: str, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget
) -> dict[int, list[int]]:
    """Return, by the position of a sentence in `split_sentences(text)`, the positions of the passages that support it.

    Raises `ModelError`.
    """
    answer_sentences = split_sentences(text)
    numbered_sentences = "\n".join(
        f"{number}: {escape_delimiters(' '.join(sentence.split()))}"
        for number, sentence in enumerate(answer_sentences, 1)
    )
    evidence = render_to_budget(passages, deps.settings.evidence_tokens("light"))
    request = f"<evidence>\n{evidence}\n</evidence>\n<answer>\n{numbered_sentences}\n</answer>"
    reply = await model.complete(
        deps.prompts.fill("look_back"), [Turn("user", request)], role="light", budget=budget, agent="look_back"
    )
    return _parse_support(reply, answer_sentences, len(passages))


def _parse_support(reply: str, answer_sentences: Sequence[str], passage_count: int) -> dict[int, list[int]]:
    support: dict[int, list[int]] = {}
    for number, ids in _SUPPORT_LINE.findall(reply):
        positions = [int(digits) - 1 for digits in _PASSAGE_ID.findall(ids)]
        if 0 < int(number) <= len(answer_sentences):
            support[int(number) - 1] = [position for position in positions if 0 <= position < passage_count]
    return support
