"""A conversation as the agents see it: everybody kept apart by who they are, and nobody able to speak for others.

There are two ways to write a message: for the agents that decide, as one line of a numbered list; for the one that
writes, as it was written, inside a fence of its own that names its author. In both, what is quoted is nobody's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from core.grounding.evidence import defuse
from core.text.keywords import own_turns
from core.types import Question, Turn
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TypeVar
from core.answering.agents.reranker import rerank
from core.answering.agents.retrieval import retrieve
from core.answering.context.dependencies import Parts
from core.errors import KimasError
from core.runtime.budget import Budget
from core.types import AgentScore, Passage

NAME_CHARS, MESSAGE_CHARS = 40, 600
ASKER = "asker"
# What could be taken for our own punctuation has no place in a name.
_ODD = re.compile(r"[^\w .'\-]+")


def speakers(question: Question) -> dict[str, str]:
    """Return a label for everybody in a conversation, by author id (by name where there is no id).

    Two people with one display name get two labels: `Ann` and `Ann (2)`, in the order in which they first spoke. A
    label is one short line without punctuation that could pass for ours.
    """
    people = [(_key(turn), turn.author) for turn in question.history if turn.role == "user"]
    labels: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for key, name in [*people, (_asker(question), question.author)]:
        if key and key not in labels:
            label = " ".join(_ODD.sub(" ", name).split())[:NAME_CHARS].strip() or "somebody"
            taken[label.lower()] += 1
            again = taken[label.lower()]
            labels[key] = label if again == 1 else f"{label} ({again})"
    return labels


def said(turn: Turn, question: Question, labels: Mapping[str, str]) -> str:
    """Return a user's message as it was written, fenced as data, with whose it is in the tag.

    A message without an author is what the asker quoted: somebody else's words. In a terminal, where one person asks,
    nobody is named.
    """
    name, asker = labels.get(_key(turn), ""), labels.get(_asker(question), "")
    by = f' by="{name}"' if name else f' quoted_by="{asker}"' if asker else ""
    return f"<said{by}>\n{defuse(turn.text)}\n</said>"


def numbered(question: Question, turns: Sequence[Turn]) -> str:
    """Return messages as numbered lines (from 1), each with its author and role, defused and shortened."""
    labels = speakers(question)
    asker = _asker(question)
    lines = []
    for number, turn in enumerate(turns, 1):
        if turn.role == "assistant":
            who = "bot (assistant)"
        elif asker and not _key(turn):
            who = "quoted (by the asker)"
        else:
            who = f"{labels.get(_key(turn)) or ASKER} ({'the asker' if _key(turn) == asker else 'user'})"
        lines.append(f"{number}. {who}: {defuse(_one_line(turn.text))}")
    return "\n".join(lines)


def considered(question: Question) -> list[Turn]:
    """Return the messages that may complete a question: the asker's with their answers, and those of people it names.

    What others in a group talk about is not the asker's subject, unless the asker refers to them.
    """
    kept = {id(turn) for turn in own_turns(question.history, question.author_id)}
    if question.author_id:
        for author in named(question):
            kept |= {id(turn) for turn in own_turns(question.history, author)}
    return [turn for turn in question.history if id(turn) in kept]


def named(question: Question) -> list[str]:
    """Return the ids of the other people of the conversation whose name is in the question."""
    words = set(_words(question.text))
    others = {
        turn.author_id: turn.author
        for turn in question.history
        if turn.role == "user" and turn.author_id not in ("", question.author_id)
    }
    return [author for author, name in others.items() if words & {word for word in _words(name) if len(word) > 1}]


def _key(turn: Turn) -> str:
    return turn.author_id or turn.author


def _asker(question: Question) -> str:
    return question.author_id or question.author


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARS else f"{line[:MESSAGE_CHARS]} …"


def asked_about(question: Question) -> str:
    """Return the question with the asker's last turns, fenced as data, for the prompts that decide."""
    turns = own_turns(question.history, question.author_id)[-HISTORY_TURNS:]
    asked = f"<question>\n{defuse(question.text)}\n</question>"
    if not turns:
        return asked
    return f"<conversation>\n{numbered(question, turns)}\n</conversation>\n{asked}"


HISTORY_TURNS = 6
