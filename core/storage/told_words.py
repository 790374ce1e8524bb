"""Words of people in a row of the journal: what it quotes, forwards and attaches, and what models wrote of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

from sqlalchemy import ColumnElement, Row, Text, cast, func, null

from core.language.tokens import lexical_tokens

# Bob's answer has words of Ann's where so many of hers follow each other in it; each of them alone is anybody's.
COPIED_WORDS = 3
# What a draft keeps beside its reply: the numbers of the messages before its question that it was made from.
MADE_FROM = "made_from"
# In the reference of a message: its words before edits.
FORMER_TEXTS = "former_texts"
# What is looked at in the messages of others.
COPY_COLUMNS = (
    "number",
    "received_at",
    "settled_at",
    "text",
    "reference",
    "reply_to",
    "quoted",
    "quotes_bot",
    "quoted_authors",
    "is_forwarded",
    "attachments",
    "image_description",
    "reply",
    "trace",
    "state",
    "reason",
    "delivery",
)


def find_quoted_words(row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
    """Return the new values of a message whose answer has words of its quotation, which its author has not typed.

    The question of a draft may have been edited since the team quoted it.
    """
    answer = (row.delivery or {}).get("text") or row.reply
    written_text = f"{answer}\n{get_written_text(row.trace or {})}"
    if not (to_phrases(written_text) - to_phrases(row.text)) & to_phrases(row.quoted):
        return {}
    return {"reply": "", "citations": null(), "trace": null(), "delivery": null()}


def get_written_text(trace: Mapping[str, Any]) -> str:
    """Return what models wrote of a conversation in a trace: completed questions, queries, reasons and opinions."""
    rounds = trace.get("rounds") or ()
    queries = (query for search_round in rounds for query in (*search_round["queries"], search_round["reason"]))
    opinions = map(str, (trace.get("values") or {}).values())
    return "\n".join((str(trace.get("query") or ""), str(trace.get("opinion") or ""), *queries, *opinions))


def get_description(row: Row[*tuple[Any, ...]]) -> str:
    """Return what a message's attachments say, also where its answer waits."""
    return str(row.image_description or (row.delivery or {}).get("image_description") or "")


def lists(column: ColumnElement[Any], value: str | Mapping[str, str]) -> ColumnElement[bool]:
    """Return the condition that a column with a list has a value: an id, or what else JSON has in that order."""
    text = cast(column, Text)
    # LIKE takes "ann" for "Ann" on SQLite: over HTTP these are two people.
    return func.replace(text, json.dumps(value), "") != text


def get_transcripts(row: Row[*tuple[Any, ...]]) -> Sequence[str]:
    """Return what the recordings of a message say, as far as a model has written it down."""
    return [str(attachment.get("transcript") or "") for attachment in row.attachments or ()]


def is_forward(row: Row[*tuple[Any, ...]]) -> bool:
    """Return whether a message is nothing but what it forwards: its sender typed what stands beside a quotation.

    Nor did its sender say what a recording says that is another person's.
    """
    is_recording = bool(row.quoted_authors) and row.text in get_transcripts(row)
    return (row.is_forwarded or is_recording) and not row.quoted


def is_made_without(row: Row[*tuple[Any, ...]], numbers: Set[int]) -> bool:
    """Return whether a draft is known to be made from none of some messages, nor from what its question brings.

    What it has in common with them is then from the sources, or by chance. Of a cached reply nobody knows it, nor of a
    draft of an earlier version.
    """
    draft = row.delivery or {}
    is_known = MADE_FROM in draft and not draft["trace"].get("cached")
    brings_any = row.reply_to or row.quoted or is_forward(row) or get_description(row)
    return is_known and not brings_any and numbers.isdisjoint(draft[MADE_FROM])


def may_bring_answer(row: Row[*tuple[Any, ...]]) -> bool:
    """Return whether a message may bring words of the bot's: not every platform says whose a forward is."""
    return bool(row.quotes_bot or row.is_forwarded)


def get_brought_text(row: Row[*tuple[Any, ...]]) -> str:
    """Return what a message quotes, or forwards."""
    return str(row.text if is_forward(row) else row.quoted)


def get_brought_texts(row: Row[*tuple[Any, ...]]) -> Sequence[str]:
    """Return all that a message brings: what it quotes or forwards, and what its files and recordings say."""
    forwarded = (row.text, *row.reference.get(FORMER_TEXTS, ())) if is_forward(row) else ()
    return [row.quoted, get_description(row), *get_transcripts(row), *forwarded]


def to_phrases(text: str) -> set[tuple[str, ...]]:
    """Return each `COPIED_WORDS` words that follow each other."""
    words = lexical_tokens(text).split()
    return set(zip(*(words[start:] for start in range(COPIED_WORDS)), strict=False))


def to_words(text: str) -> Set[str]:
    """Return the words of a text, as they are searched."""
    return frozenset(lexical_tokens(text).split())
