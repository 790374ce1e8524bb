"""A conversation as the agents see it: every message has its author, and nobody can speak for others.

A message has two forms: one line of a numbered list for the agents that decide, and the original text in a fence that
names its author for the summarizer. In both forms a quoted message is marked as a quotation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.catalogue import languages, messages_for
from core.citations.markers import strip_numbers
from core.errors import UsageError
from core.evidence.rendering import escape_delimiters
from core.language.follow_ups import depends_on_history, get_author_turns
from core.language.languages import get_asker_language
from core.types import Question, Turn
from core.types.messages import MAX_QUESTION_CHARS

MAX_NAME_CHARS = 40
MAX_MESSAGE_CHARS = 600
MAX_HISTORY_TURNS = 6
ASKER_LABEL = "asker"
# A name holds no punctuation that could pass for ours.
_UNSAFE_IN_NAME = re.compile(r"[^\w .'\-]+")


def validate_question(question: Question) -> None:
    """Raise `UsageError` for a question that is empty or has more than `MAX_QUESTION_CHARS` characters."""
    if not (question.text.strip() or question.image_loaders or question.files):
        raise UsageError(messages_for(get_asker_language(question)).question_empty)
    if len(question.text) > MAX_QUESTION_CHARS:
        texts = messages_for(get_asker_language(question))
        raise UsageError(texts.question_too_long.format(length=len(question.text), allowed=MAX_QUESTION_CHARS))


def strip_old_marks(question: Question) -> Question:
    """Return a question whose earlier answers have no citation marks: a model would cite their numbers again."""
    history = tuple(
        replace(turn, text=strip_numbers(turn.text)) if turn.role == "assistant" else turn for turn in question.history
    )
    return replace(question, history=history)


def label_speakers(question: Question) -> dict[str, str]:
    """Return a label for everybody in a conversation, by author id, or by name if there is no id.

    Two people with the same display name get two labels, `Ann` and `Ann (2)`, in the order of their first messages. A
    label is one short line without punctuation that could pass for ours.
    """
    authors = [(_get_author_key(turn), turn.author) for turn in question.history if turn.role == "user"]
    labels: dict[str, str] = {}
    label_counts: Counter[str] = Counter()
    for key, name in [*authors, (_get_asker_key(question), question.author)]:
        if key and key not in labels:
            label = " ".join(_UNSAFE_IN_NAME.sub(" ", name).split())[:MAX_NAME_CHARS].strip() or "somebody"
            label_counts[label.lower()] += 1
            label_count = label_counts[label.lower()]
            labels[key] = label if label_count == 1 else f"{label} ({label_count})"
    return labels


def fence_turn(turn: Turn, question: Question, labels: Mapping[str, str]) -> str:
    """Return a user's message unchanged, fenced as data; the tag names its author.

    A message without an author is a quotation by the asker: somebody else's words. In a terminal, where only one person
    asks, the tag names nobody.
    """
    author_label = labels.get(_get_author_key(turn), "")
    asker_label = labels.get(_get_asker_key(question), "")
    attribute = f' by="{author_label}"' if author_label else f' quoted_by="{asker_label}"' if asker_label else ""
    return f"<said{attribute}>\n{escape_delimiters(turn.text)}\n</said>"


def format_numbered_turns(question: Question, turns: Sequence[Turn]) -> str:
    """Return messages as numbered lines (from 1), each with its author and role, delimiters escaped, shortened."""
    labels = label_speakers(question)
    asker_key = _get_asker_key(question)
    lines = []
    for number, turn in enumerate(turns, 1):
        if turn.role == "assistant":
            speaker = "bot (assistant)"
        elif asker_key and not _get_author_key(turn):
            speaker = "quoted (by the asker)"
        else:
            speaker = (
                f"{labels.get(_get_author_key(turn)) or ASKER_LABEL} "
                f"({'the asker' if _get_author_key(turn) == asker_key else 'user'})"
            )
        lines.append(f"{number}. {speaker}: {escape_delimiters(_to_single_line(turn.text))}")
    return "\n".join(lines)


def relevant_turns(question: Question) -> list[Turn]:
    """Return the messages that may complete a question: the asker's, their answers, and those of people it names.

    Messages of others in a group are left out: they are not the asker's subject unless the asker refers to them. But an
    asker without messages whose question points to some follows up on the last speaker's. What the bot says when it
    finds nothing is left out as well.
    """
    turn_ids = {id(turn) for turn in get_author_turns(question.history, question.author_id)}
    if question.author_id:
        for author_id in mentioned_people(question):
            turn_ids |= {id(turn) for turn in get_author_turns(question.history, author_id)}
    if not turn_ids and question.history and depends_on_history(question.text):
        last_speaker = next((turn.author_id for turn in reversed(question.history) if turn.role == "user"), "")
        turn_ids = {id(turn) for turn in get_author_turns(question.history, last_speaker)}
    return [turn for turn in question.history if id(turn) in turn_ids and not is_apology(turn)]


def is_apology(turn: Turn) -> bool:
    """Return whether a message is what the bot says when it finds nothing, in any of its languages."""
    templates = [
        text
        for catalogue in map(messages_for, languages())
        for text in (
            catalogue.no_evidence,
            catalogue.no_evidence_foreign,
            catalogue.not_read_yet,
            catalogue.nearest_pages,
        )
    ]
    return turn.role == "assistant" and any(
        turn.text.startswith(template.partition("{")[0]) and turn.text.endswith(template.rpartition("}")[2])
        for template in templates
    )


def mentioned_people(question: Question) -> list[str]:
    """Return the ids of the other people of the conversation whose name is in the question."""
    words = set(_split_words(question.text))
    other_people = {
        turn.author_id: turn.author
        for turn in question.history
        if turn.role == "user" and turn.author_id not in ("", question.author_id)
    }
    return [
        author_id
        for author_id, name in other_people.items()
        if words & {word for word in _split_words(name) if len(word) > 1}
    ]


def _get_author_key(turn: Turn) -> str:
    return turn.author_id or turn.author


def _get_asker_key(question: Question) -> str:
    return question.author_id or question.author


def _split_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _to_single_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]} …"


def format_question(question: Question) -> str:
    """Return the question with the asker's last turns, fenced as data, for the prompts that decide."""
    turns = get_author_turns(question.history, question.author_id)[-MAX_HISTORY_TURNS:]
    question_block = f"<question>\n{escape_delimiters(question.text)}\n</question>"
    if not turns:
        return question_block
    return f"<conversation>\n{format_numbered_turns(question, turns)}\n</conversation>\n{question_block}"
