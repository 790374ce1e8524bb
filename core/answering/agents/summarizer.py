"""The summarizer: writes the answer from the evidence, streaming (KIMAs 3.4), or quotes it when no model can."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from core.answering.agents.conversation import fence_turn
from core.answering.agents.history_selection import ContextualQuestion, get_speaker_labels, to_asked_by_attribute
from core.answering.context.dependencies import AnswerDependencies
from core.grounding.evidence import escape_delimiters, estimate_tokens, render_passages
from core.grounding.extractive import extract_answer
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.text.messages import messages_for
from core.types import Passage, Question, Turn

MAX_HISTORY_TOKENS = 1500
# Quoting is what is left when the model took all the time: it gets this many seconds even then.
MIN_QUOTE_S = 0.5


async def stream_answer(
    question: Question,
    passages: Sequence[Passage],
    model: ChatModel,
    deps: AnswerDependencies,
    budget: Budget,
    *,
    low_quality_reason: str = "",
) -> AsyncGenerator[str]:
    """Yield the answer piece by piece, with passage ids as marks. `doubt` is that of `prompt`. Raises `ModelError`."""
    await deps.turnstile.yield_turn()
    system, turns = build_prompt(question, passages, deps, low_quality_reason)
    async with aclosing(model.stream(system, turns, role="main", budget=budget, agent="summarizer")) as chunks:
        async for chunk in chunks:
            yield chunk


async def quote_passages(
    question: str, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget, note: str = ""
) -> str:
    """Return the extractive answer, with passage ids as marks, or say that nothing was found.

    `note` says why it is quoted; by itself, that there is no model.
    """
    settings, messages = deps.settings, messages_for(deps.prompts.language)
    min_similarity = settings.knowledge.search.min_similarity
    # Where vectors had no say (a language that the embedder hardly knows), words alone decide.
    is_lexical_only = all(passage.similarity == 0 for passage in passages)
    has_match = any(
        passage.lexical > 0 if is_lexical_only else passage.similarity >= min_similarity for passage in passages
    )
    timeout_s = max(MIN_QUOTE_S, 0.5 * budget.remaining())
    quotes = await extract_answer(question, passages, deps.library, timeout_s) if has_match else ""
    if quotes:
        return f"{quotes}\n\n{note or messages.extractive}"
    if not passages and "search" in budget.degraded:
        return messages.search_timed_out
    return messages.no_evidence.format(sources=", ".join(settings.sources) or messages.no_sources)


def build_prompt(
    question: Question, passages: Sequence[Passage], deps: AnswerDependencies, low_quality_reason: str = ""
) -> tuple[str, list[Turn]]:
    """Return the instructions, and the conversation with the evidence, the analysis and the question last.

    The conversation is the question's history: what the context manager has selected (KIMAs 3.2.2), or all of it.
    `doubt` is why the evidence was judged poor; empty where it was not.
    """
    settings = deps.settings
    evidence_text = (
        render_passages(passages, settings.evidence_tokens(), settings.evidence.layout) or "(no passages were found)"
    )
    system = deps.prompts.fill("summarizer", name=settings.name, persona=settings.answer.persona)
    analysis = question.analysis if isinstance(question, ContextualQuestion) else ""
    # No mark-up of ours is in an analysis: whatever looks like a tag came from the conversation.
    guidance = f"<analysis>\n{_escape_angle_brackets(analysis)}\n</analysis>\n" if analysis else ""
    guidance = (
        f"<judgement>\nThe evidence is poor: {_escape_angle_brackets(low_quality_reason)}\n</judgement>\n{guidance}"
        if low_quality_reason
        else guidance
    )
    question_block = f"<question{to_asked_by_attribute(question)}>\n{escape_delimiters(question.text)}\n</question>"
    return system, [
        *_get_recent_turns(question),
        Turn("user", f"<evidence>\n{evidence_text}\n</evidence>\n{guidance}{question_block}"),
    ]


def _escape_angle_brackets(text: str) -> str:
    return text.replace("<", "‹").replace(">", "›")


def _get_recent_turns(question: Question) -> list[Turn]:
    """Return the latest turns that fit, each message of people fenced, with whose it is."""
    recent_turns: list[Turn] = []
    remaining_tokens = MAX_HISTORY_TOKENS
    labels = get_speaker_labels(question)
    for turn in reversed(question.history):
        remaining_tokens -= estimate_tokens(turn.text)
        if remaining_tokens < 0:
            break
        recent_turns.append(
            Turn(turn.role, fence_turn(turn, question, labels) if turn.role == "user" else escape_delimiters(turn.text))
        )
    # Some chat templates refuse a conversation that the assistant opens.
    if recent_turns and recent_turns[-1].role == "assistant":
        recent_turns[-1] = Turn("user", f"(Your earlier answer:)\n<said>\n{recent_turns[-1].text}\n</said>")
    return list(reversed(recent_turns))
