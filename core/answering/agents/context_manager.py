"""The context manager for retrieval: makes a question complete before anything is searched for it (KIMAs 3.2.1).

What it does for the summarizer is in related.py.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from core.answering.agents.conversation import considered, named, numbered
from core.grounding.evidence import defuse
from core.llm.json_repair import cleaned, objects
from core.llm.prompts import Prompts
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.text.keywords import CARRIED_TERMS, content_words, leans_on_history, own_turns, rule_rewrite
from core.types import Question, Turn

MAX_QUERY_CHARS = 600
# With so many words of content a question says by itself what it is about.
COMPLETE_WORDS = 7
# So much of the shorter of two questions in the other one: the same is asked again.
AGAIN_SHARE, AGAIN_WORDS = 0.6, 2
_AGAIN = re.compile(
    r"\b(i mean|i meant|not what i|that'?s not|that is not|did ?n[o']t (?:work|help|answer)|does ?n[o']t (?:work|help)"
    r"|still|again|in other words)\b|^\s*no\b|我是说|我的意思|不是这个|不对|还是不|换句话|再问",
    re.IGNORECASE,
)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LABEL = re.compile(
    r"^(?:(?:the|rewritten|search|complete[d]?|standalone)\s+)*(?:query|question)\s*[:：]\s*", re.IGNORECASE
)


async def complete_question(question: Question, model: ChatModel | None, prompts: Prompts, budget: Budget) -> str:
    """Return a query that can be searched without knowing the conversation.

    The light model writes it where there is one, there is a conversation, and the question does not stand alone. Its
    reply is read as it is written and used as soon as its line is complete. Rules do it otherwise, and whenever the
    model is too slow, fails, talks too much, or writes something that is about neither the question nor the
    conversation.
    """
    by_rule = complete_by_rule(question)
    if model is None or not needs_model(question, model):
        budget.timings_ms.setdefault("rewrite", 0.0)
        return by_rule
    turns = considered(question)
    system = prompts.fill("rewrite")
    request = (
        f"<conversation>\n{numbered(question, turns)}\n</conversation>\n"
        f"<question>\n{defuse(question.text)}\n</question>"
    )
    pieces = model.stream(system, [Turn("user", request)], role="light", budget=budget, agent="rewrite")
    query = await budget.within("rewrite", _line_of(pieces), lambda: "")
    known = {word for text in (question.text, *(turn.text for turn in turns)) for word in content_words(text)}
    return query if len(query) <= MAX_QUERY_CHARS and known & set(content_words(query)) else by_rule


def needs_model(question: Question, model: ChatModel | None) -> bool:
    """Say whether the light model is asked to complete a question."""
    return model is not None and bool(considered(question)) and not stands_alone(question)


def complete_by_rule(question: Question) -> str:
    """Return the query that rules make: without a language model, and in its place while it is waited for.

    Where the asker puts the previous question again, its answer did not satisfy: the terms of both wordings are kept
    and those of the failed answer are left out. Otherwise a question that leans on the conversation carries the
    weighted terms of its last turns.
    """
    before = asked_before(question)
    if not before:
        return rule_rewrite(question.text, considered(question))
    present = set(content_words(question.text))
    missing = [word for word in dict.fromkeys(content_words(before)) if word not in present]
    return " ".join([question.text, *missing[:CARRIED_TERMS]])


def asked_before(question: Question) -> str:
    """Return the asker's previous question, completed, when this one puts it again; else an empty string.

    Known by words that both share, or fewer of them after an opening that objects ("no, I mean ...").
    """
    turns = own_turns(question.history, question.author_id)
    answers = [position for position, turn in enumerate(turns) if turn.role == "assistant"]
    asked = [position for position, turn in enumerate(turns[: answers[-1]]) if turn.role == "user"] if answers else []
    if not asked:
        return ""
    before = turns[asked[-1]].text
    now, then = set(content_words(question.text)), set(content_words(before))
    shared = len(now & then)
    again = shared >= AGAIN_WORDS and shared >= AGAIN_SHARE * min(len(now), len(then))
    if again or (shared and _AGAIN.search(question.text)):
        return rule_rewrite(before, turns[: asked[-1]])
    return ""


def stands_alone(question: Question) -> bool:
    """Say whether a question needs nothing of the conversation: long enough, about nobody in it, and asked first."""
    words = content_words(question.text)
    # Runs of Chinese come as overlapping pairs: about two for each word.
    weight = sum(0.5 if _WIDE.match(word) else 1 for word in words)
    return (
        weight >= COMPLETE_WORDS
        and not leans_on_history(question.text)
        and not named(question)
        and not asked_before(question)
    )


async def _line_of(pieces: AsyncGenerator[str]) -> str:
    """Return the first line that is a query, and end the stream there: what a model explains below is not awaited."""
    text = ""
    async with aclosing(pieces):
        async for piece in pieces:
            text += piece
            line = _query(text, ended=False)
            if line:
                return line
    return _query(text, ended=True)


def _query(text: str, *, ended: bool) -> str:
    """Return the query in a reply that may not be complete, or an empty string."""
    if not ended and text.lstrip().startswith("<"):
        # What a model thinks first is no query; its closing tag ends that.
        text = text.rpartition("</")[2].partition(">")[2] if "</" in text else ""
    body = cleaned(text) if ended else text.lstrip()
    if body.startswith("{"):
        return _plain(_longest(next(objects(body), None))) if ended else ""
    lines = body.splitlines(keepends=True)
    whole = lines if ended else [line for line in lines if line.endswith("\n")]
    queries = [line for line in map(str.strip, whole) if line and not line.endswith((":", "：")) and "```" not in line]
    return _plain(queries[0]) if queries else ""


def _plain(line: str) -> str:
    return _LABEL.sub("", " ".join(line.split()).strip("\"'`*“” ")).strip("\"'`*“” ")


def _longest(value: object) -> str:
    texts: Sequence[str] = [one for one in value.values() if isinstance(one, str)] if isinstance(value, Mapping) else ()
    return max(texts, key=len, default="")
