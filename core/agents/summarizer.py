"""The summarizer: writes the answer from the evidence, streaming (KIMAs 3.4), or quotes it when no model can."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from core.budget import Budget
from core.evidence import defuse, estimate_tokens, render
from core.extract import extract
from core.parts import Parts
from core.ports import ChatModel
from core.settings import Settings
from core.types import Passage, Question, Turn

HISTORY_TOKENS = 1500
# Quoting is what is left when the model took all the time: it gets this many seconds even then.
LEAST_QUOTE_S = 0.5
NO_SEARCH = "The sources did not answer in time. Please ask again in a moment."
NO_EVIDENCE = "I found nothing about this in the sources I know ({sources})."
EXTRACTIVE_NOTE = "*Quoted from the sources; no language model is configured.*"
FALLBACK_NOTE = "*The language model could not answer. This is quoted from the sources.*"
CUT_NOTE = "*The answer was cut short: the language model stopped.*"


async def stream(
    question: Question, passages: Sequence[Passage], model: ChatModel, parts: Parts, budget: Budget
) -> AsyncGenerator[str]:
    """Yield the answer piece by piece, with passage ids as marks. Raises `ModelError`."""
    settings = parts.settings
    evidence = render(passages, settings.evidence_tokens()) or "(no passages were found)"
    system = parts.prompts.fill("summarizer", name=settings.name, persona=settings.answer.persona)
    asked = Turn("user", f"<evidence>\n{evidence}\n</evidence>\n<question>\n{defuse(question.text)}\n</question>")
    turns = [*_recent(question.history), asked]
    async with aclosing(model.stream(system, turns, role="main", budget=budget, agent="summarizer")) as pieces:
        async for piece in pieces:
            yield piece


async def quote(
    question: str, passages: Sequence[Passage], parts: Parts, budget: Budget, note: str = EXTRACTIVE_NOTE
) -> str:
    """Return the extractive answer, with passage ids as marks, or say that nothing was found."""
    settings = parts.settings
    least = settings.knowledge.search.min_similarity
    # Where vectors had no say (a language that the embedder hardly knows), words alone decide.
    by_words = all(one.similarity == 0 for one in passages)
    related = any(one.lexical > 0 if by_words else one.similarity >= least for one in passages)
    seconds = max(LEAST_QUOTE_S, 0.5 * budget.remaining())
    quoted = await extract(question, passages, parts.library, seconds) if related else ""
    if quoted:
        return f"{quoted}\n\n{note}"
    return NO_SEARCH if not passages and "search" in budget.cut else no_evidence(settings)


def no_evidence(settings: Settings) -> str:
    """Return the sentence that says so plainly, with what the bot does know."""
    return NO_EVIDENCE.format(sources=", ".join(settings.sources) or "none are configured")


def _recent(history: Sequence[Turn]) -> list[Turn]:
    """Return the latest turns that fit, each user turn with its author so that people are kept apart."""
    kept: list[Turn] = []
    left = HISTORY_TOKENS
    for turn in reversed(history):
        left -= estimate_tokens(turn.text)
        if left < 0:
            break
        name = f"{turn.author}: " if turn.role == "user" and turn.author else ""
        kept.append(Turn(turn.role, defuse(name + turn.text)))
    # Some chat templates refuse a conversation that the assistant opens.
    while kept and kept[-1].role == "assistant":
        kept.pop()
    return list(reversed(kept))
