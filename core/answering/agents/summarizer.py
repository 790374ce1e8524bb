"""The summarizer: writes the answer from the evidence, streaming (KIMAs 3.4), or quotes it when no model can."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from core.answering.agents.conversation import said
from core.answering.agents.history_selection import Understood, asked_by, labels_of
from core.answering.context.dependencies import Parts
from core.grounding.evidence import defuse, estimate_tokens, render
from core.grounding.extractive import extract
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.text.messages import notes_in
from core.types import Passage, Question, Turn

HISTORY_TOKENS = 1500
# Quoting is what is left when the model took all the time: it gets this many seconds even then.
LEAST_QUOTE_S = 0.5


async def stream(
    question: Question, passages: Sequence[Passage], model: ChatModel, parts: Parts, budget: Budget, *, doubt: str = ""
) -> AsyncGenerator[str]:
    """Yield the answer piece by piece, with passage ids as marks. `doubt` is that of `prompt`. Raises `ModelError`."""
    await parts.turns.next()
    system, turns = prompt(question, passages, parts, doubt)
    async with aclosing(model.stream(system, turns, role="main", budget=budget, agent="summarizer")) as pieces:
        async for piece in pieces:
            yield piece


async def quote(question: str, passages: Sequence[Passage], parts: Parts, budget: Budget, note: str = "") -> str:
    """Return the extractive answer, with passage ids as marks, or say that nothing was found.

    `note` says why it is quoted; by itself, that there is no model.
    """
    settings, notes = parts.settings, notes_in(parts.prompts.language)
    least = settings.knowledge.search.min_similarity
    # Where vectors had no say (a language that the embedder hardly knows), words alone decide.
    by_words = all(one.similarity == 0 for one in passages)
    related = any(one.lexical > 0 if by_words else one.similarity >= least for one in passages)
    seconds = max(LEAST_QUOTE_S, 0.5 * budget.remaining())
    quoted = await extract(question, passages, parts.library, seconds) if related else ""
    if quoted:
        return f"{quoted}\n\n{note or notes.extractive}"
    if not passages and "search" in budget.cut:
        return notes.no_search
    return notes.no_evidence.format(sources=", ".join(settings.sources) or notes.no_sources)


def prompt(question: Question, passages: Sequence[Passage], parts: Parts, doubt: str = "") -> tuple[str, list[Turn]]:
    """Return the instructions, and the conversation with the evidence, the analysis and the question last.

    The conversation is the question's history: what the context manager has selected (KIMAs 3.2.2), or all of it.
    `doubt` is why the evidence was judged poor; empty where it was not.
    """
    settings = parts.settings
    evidence = render(passages, settings.evidence_tokens(), settings.evidence.layout) or "(no passages were found)"
    system = parts.prompts.fill("summarizer", name=settings.name, persona=settings.answer.persona)
    analysis = question.analysis if isinstance(question, Understood) else ""
    # No mark-up of ours is in an analysis: whatever looks like a tag came from the conversation.
    wanted = f"<analysis>\n{_plain(analysis)}\n</analysis>\n" if analysis else ""
    wanted = f"<judgement>\nThe evidence is poor: {_plain(doubt)}\n</judgement>\n{wanted}" if doubt else wanted
    asked = f"<question{asked_by(question)}>\n{defuse(question.text)}\n</question>"
    return system, [*_recent(question), Turn("user", f"<evidence>\n{evidence}\n</evidence>\n{wanted}{asked}")]


def _plain(said: str) -> str:
    return said.replace("<", "‹").replace(">", "›")


def _recent(question: Question) -> list[Turn]:
    """Return the latest turns that fit, each message of people fenced, with whose it is."""
    kept: list[Turn] = []
    left = HISTORY_TOKENS
    labels = labels_of(question)
    for turn in reversed(question.history):
        left -= estimate_tokens(turn.text)
        if left < 0:
            break
        kept.append(Turn(turn.role, said(turn, question, labels) if turn.role == "user" else defuse(turn.text)))
    # Some chat templates refuse a conversation that the assistant opens.
    if kept and kept[-1].role == "assistant":
        kept[-1] = Turn("user", f"(Your earlier answer:)\n<said>\n{kept[-1].text}\n</said>")
    return list(reversed(kept))
