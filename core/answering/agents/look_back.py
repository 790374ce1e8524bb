"""Look-back: finds the citations of an answer whose model did not cite (KIMAs 3.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.answering.context.dependencies import Parts
from core.grounding.citations import mark_sentences, sentences
from core.grounding.evidence import defuse, render_within
from core.grounding.support import overlap_support
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.types import Passage, Turn

_LINE = re.compile(r"^\W*(\d{1,3})\W*[:：]\s*(.*)$", re.MULTILINE)
_ID = re.compile(r"p\s?(\d{1,3})", re.IGNORECASE)


async def look_back(
    text: str, passages: Sequence[Passage], model: ChatModel, parts: Parts, budget: Budget, /, *, asked: str = ""
) -> str:
    """Return the answer with passage ids behind the sentences that passages support.

    The light model says which; when it is too slow or fails, words decide. `asked` is the question.
    """
    said = await budget.within("look_back", ask_model(model, text, passages, parts, budget), dict)
    cut = "look_back" in budget.cut
    support = await parts.turns.aside(overlap_support, text, passages, asked) if cut else said
    return mark_sentences(text, support)


async def ask_model(
    model: ChatModel, text: str, passages: Sequence[Passage], parts: Parts, budget: Budget
) -> dict[int, list[int]]:
    """Return the positions of passages (from 0) that a model finds behind sentences, by place in `sentences(text)`.

    Raises `ModelError`.
    """
    found = sentences(text)
    numbered = "\n".join(f"{number}: {defuse(' '.join(sentence.split()))}" for number, sentence in enumerate(found, 1))
    evidence = render_within(passages, parts.settings.evidence_tokens("light"), parts.settings.evidence.layout)
    request = f"<evidence>\n{evidence}\n</evidence>\n<answer>\n{numbered}\n</answer>"
    reply = await model.complete(
        parts.prompts.fill("look_back"), [Turn("user", request)], role="light", budget=budget, agent="look_back"
    )
    return _parse(reply, found, len(passages))


def _parse(reply: str, found: Sequence[str], passages: int) -> dict[int, list[int]]:
    support: dict[int, list[int]] = {}
    for number, ids in _LINE.findall(reply):
        positions = [int(digits) - 1 for digits in _ID.findall(ids)]
        if 0 < int(number) <= len(found):
            support[int(number) - 1] = [position for position in positions if 0 <= position < passages]
    return support
