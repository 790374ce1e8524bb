"""What the knowledge has for a question, and how a reply refers to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a source.

    `path` is the document's path within its source; `start_line` and `end_line` (1-based, inclusive; 0 for none) are
    its place there. Scores belong to one query: `similarity` is the cosine (-1 to 1), `lexical` the BM25 score (0 and
    up), `lexical_share` its share of the highest possible, and `score` that of the last ranking stage (0 to 1).
    """

    id: str
    source: str
    path: str
    title: str
    text: str
    url: str = ""
    kind: str = "text"
    start_line: int = 0
    end_line: int = 0
    similarity: float = 0.0
    lexical: float = 0.0
    score: float = 0.0
    lexical_share: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentScore:
    """How well a retrieval agent matches a query, after mix-in and scaling (KIMAs 3.2.2)."""

    name: str
    score: float


@dataclass(frozen=True, slots=True)
class Citation:
    """The link behind [n] in a reply."""

    n: int
    passage_id: str
    source: str
    title: str
    path: str
    url: str


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a stored source stands: its last refreshes, and when the next one is due.

    `error` is why the last try failed, "" after a success. `passages` and `documents` are what is stored, `unreadable`
    names what could not be read, and why. Times are None for "never" and, for `next_run`, for "only when asked".
    """

    name: str
    kind: str
    passages: int = 0
    documents: int = 0
    last_try: datetime | None = None
    last_success: datetime | None = None
    error: str = ""
    paused: bool = False
    running: bool = False
    next_run: datetime | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
