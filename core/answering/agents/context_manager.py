"""The context manager for retrieval: makes a question complete before anything is searched for it (KIMAs 3.2).

`history_selection` does the same for the summarizer.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from core.answering.agents.conversation import format_numbered_turns, relevant_turns
from core.evidence.rendering import escape_delimiters
from core.language.follow_ups import (
    MAX_CARRIED_TERMS,
    depends_on_history,
    distinctive_words,
    expand_with_history,
    get_author_turns,
)
from core.language.keywords import content_words
from core.llm.prompts import Prompts
from core.llm.reasoning import append_visible, remove_reasoning
from core.llm.reply_parsing import extract_json, longest_text, strip_reasoning
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.types import Question, Turn

MAX_QUERY_CHARS = 600
# A reply without a query in so many characters has none. It is searched again after each piece.
MAX_REPLY_CHARS = 4000
MAX_EARLIER_QUESTIONS = 3
# When at least this share of the shorter question's words is in the other one, the question is repeated.
MIN_REPEAT_SHARE = 0.6
MIN_REPEAT_WORDS = 2
_OBJECTION = re.compile(
    r"\b(i mean|i meant|not what i|that'?s not|that is not|did ?n[o']t (?:work|help|answer)|does ?n[o']t (?:work|help)"
    r"|still|again|in other words)\b|^\s*no\b|我是说|我的意思|不是这个|不对|还是不|换句话|再问",
    re.IGNORECASE,
)
# The forms of a reply that are shorter than a whole query.
PLUS_SIGNS = ("+", "＋")
_SAME_REPLY = re.compile(r"\W*same\W*", re.IGNORECASE)
_QUERY_LABEL = re.compile(
    r"^(?:(?:the|rewritten|search|complete[d]?|standalone)\s+)*(?:query|question)\s*[:：]\s*", re.IGNORECASE
)


async def complete_question(question: Question, model: ChatModel | None, prompts: Prompts, budget: Budget) -> str:
    """Return a query that can be searched without knowing the conversation.

    The light model writes it when there is a model and a conversation. Its reply is streamed and used as soon as the
    first line is complete. Rules write it otherwise, and whenever the model fails, is too slow, writes too much, or
    writes about neither the question nor the conversation.
    """
    if model is None or not needs_model(question, model):
        budget.timings_ms.setdefault("rewrite", 0.0)
        return rule_based_query(question)
    history_turns = relevant_turns(question)
    system = prompts.fill("rewrite")
    request = (
        f"<conversation>\n{format_numbered_turns(question, history_turns)}\n</conversation>\n"
        f"<question>\n{escape_delimiters(question.text)}\n</question>"
    )
    chunks = model.stream(system, [Turn("user", request)], role="light", budget=budget, agent="rewrite")
    reply = await budget.run_stage("rewrite", _read_query_line(chunks), lambda: "")
    return apply_rewrite(reply, question, history_turns) or rule_based_query(question)


def apply_rewrite(reply: str, question: Question, history_turns: Sequence[Turn]) -> str:
    """Return the query that the light model's line makes of a question; an empty string where it makes no sense.

    The line is a whole query, `SAME`, or what is missing after a plus sign: a model writes a few words sooner than a
    whole question, and everything after it waits for them. In front of the question they find as much.
    """
    if len(reply) > MAX_QUERY_CHARS:
        return ""
    if _SAME_REPLY.fullmatch(reply):
        # The rules are hardly ever wrong about a question that points back; weak models are.
        return "" if depends_on_history(question.text) else question.text
    question_words = set(content_words(question.text))
    history_words = {word for turn in history_turns for word in content_words(turn.text)}
    if not reply.startswith(PLUS_SIGNS):
        return reply if (question_words | history_words) & set(content_words(reply)) else ""
    missing_text = _clean_query(reply.lstrip("".join(PLUS_SIGNS)))
    missing_words = set(content_words(missing_text))
    if not history_words & missing_words:
        return ""
    # Some models write the whole query all the same.
    is_whole = bool(question_words) and question_words <= missing_words
    return missing_text if is_whole else f"{missing_text}: {question.text}"


def needs_model(question: Question, model: ChatModel | None) -> bool:
    """Return whether the light model is asked to complete a question: wherever there is a conversation.

    Long questions that look complete lean on it as well ("Why does the last point sometimes drop?").
    """
    return model is not None and bool(relevant_turns(question))


def rule_based_query(question: Question) -> str:
    """Return the query that rules make: without a language model, and while the model is still working.

    When the asker repeats the previous question, its answer did not satisfy: the query has the terms of both wordings
    and none of the answer. Otherwise a question that depends on the conversation carries the weighted terms of its last
    turns.
    """
    previous_question = find_rephrased_question(question)
    if not previous_question:
        return expand_with_history(question.text, relevant_turns(question))
    question_words = set(distinctive_words(question.text))
    missing_words = [word for word in dict.fromkeys(distinctive_words(previous_question)) if word not in question_words]
    return " ".join([question.text, *missing_words[:MAX_CARRIED_TERMS]])


def get_early_query(question: Question) -> str:
    """Return what is searched while the model completes a question: that mostly finds what the completed one will.

    A question that depends on its conversation has the questions before it in front, up to one that stands alone: their
    whole wording is nearer to what the model writes than their terms are.
    """
    texts = [turn.text for turn in relevant_turns(question) if turn.role == "user"]
    if find_rephrased_question(question) or not texts or not depends_on_history(question.text):
        return rule_based_query(question)
    earlier_texts: list[str] = []
    for text in reversed(texts[-MAX_EARLIER_QUESTIONS:]):
        earlier_texts.insert(0, text)
        if not depends_on_history(text):
            break
    query = " ".join([*earlier_texts, question.text])
    return query if len(query) <= MAX_QUERY_CHARS else rule_based_query(question)


def find_rephrased_question(question: Question) -> str:
    """Return the asker's previous question, completed, when this one repeats it; else an empty string.

    Both share words; fewer shared words are enough after an opening that objects ("no, I mean ...").
    """
    turns = get_author_turns(question.history, question.author_id)
    answer_positions = [position for position, turn in enumerate(turns) if turn.role == "assistant"]
    question_positions = (
        [position for position, turn in enumerate(turns[: answer_positions[-1]]) if turn.role == "user"]
        if answer_positions
        else []
    )
    if not question_positions:
        return ""
    previous_text = turns[question_positions[-1]].text
    current_words = set(distinctive_words(question.text))
    previous_words = set(distinctive_words(previous_text))
    shared_count = len(current_words & previous_words)
    is_repeated = shared_count >= MIN_REPEAT_WORDS and shared_count >= MIN_REPEAT_SHARE * min(
        len(current_words), len(previous_words)
    )
    if is_repeated or (shared_count and _OBJECTION.search(question.text)):
        return expand_with_history(previous_text, turns[: question_positions[-1]])
    return ""


async def _read_query_line(chunks: AsyncGenerator[str]) -> str:
    """Return the first line that is a query and end the stream there: explanations below it are not awaited."""
    text = ""
    async with aclosing(chunks):
        async for chunk in chunks:
            text = append_visible(text, chunk)
            line = _parse_query(text, is_complete=False)
            if line:
                return line
            if len(text) > MAX_REPLY_CHARS:
                break
    return _parse_query(text, is_complete=True)


def _parse_query(text: str, *, is_complete: bool) -> str:
    """Return the query in a reply that may not be complete, or an empty string."""
    body = strip_reasoning(text) if is_complete else remove_reasoning(text).lstrip()
    if body.startswith("{"):
        return _clean_query(longest_text(next(extract_json(body), None))) if is_complete else ""
    lines = body.splitlines(keepends=True)
    complete_lines = lines if is_complete else [line for line in lines if line.endswith("\n")]
    candidates = [
        line for line in map(str.strip, complete_lines) if line and not line.endswith((":", "：")) and "```" not in line
    ]
    return _clean_query(candidates[0]) if candidates else ""


def _clean_query(line: str) -> str:
    return _QUERY_LABEL.sub("", " ".join(line.split()).strip("\"'`*“” ")).strip("\"'`*“” ")
