"""Look-back: finds the citations of an answer whose model did not cite (KIMAs 3.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.answering.context.dependencies import AnswerDependencies
from core.grounding.citations import insert_markers, split_sentences
from core.grounding.evidence import escape_delimiters, render_to_budget
from core.grounding.support import find_support_by_overlap
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.types import Passage, Turn

_SUPPORT_LINE = re.compile(r"^\W*(\d{1,3})\W*[:：]\s*(.*)$", re.MULTILINE)
_PASSAGE_ID = re.compile(r"p\s?(\d{1,3})", re.IGNORECASE)


async def look_back(
    text: str,
    passages: Sequence[Passage],
    model: ChatModel,
    deps: AnswerDependencies,
    budget: Budget,
    /,
    *,
    question: str = "",
) -> str:
    """Return the answer with passage ids behind the sentences that passages support.

    The light model says which; when it is too slow or fails, words decide. `asked` is the question.
    """
    llm_support = await budget.run_stage("look_back", find_support(model, text, passages, deps, budget), dict)
    is_degraded = "look_back" in budget.degraded
    support = (
        await deps.turnstile.run_in_thread(find_support_by_overlap, text, passages, question)
        if is_degraded
        else llm_support
    )
    return insert_markers(text, support)


async def find_support(
    model: ChatModel, text: str, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget
) -> dict[int, list[int]]:
    """Return the positions of passages (from 0) that a model finds behind sentences, by place in `sentences(text)`.

    Raises `ModelError`.
    """
    answer_sentences = split_sentences(text)
    numbered_sentences = "\n".join(
        f"{number}: {escape_delimiters(' '.join(sentence.split()))}"
        for number, sentence in enumerate(answer_sentences, 1)
    )
    evidence = render_to_budget(passages, deps.settings.evidence_tokens("light"), deps.settings.evidence.layout)
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
