"""Answers, their evidence, and how they were made: the record that the journal keeps, of bounded size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

# Why an answer may not help: nothing was found, no statement was supported, or no model could write it.
Shortfall = Literal["nothing_found", "unsupported", "quoted"]
# How much of the passages is recorded: enough to see why an answer says what it says.
MAX_PASSAGES = 12
MAX_EXCERPT_CHARS = 300
MAX_PLACE_CHARS = 300
MAX_SPANS = 60
# What the fields of a trace are called where it is stored or printed.
JSON_NAMES = {"degraded": "cut", "degrade_reasons": "why_cut"}

# Of a question, and where two answers are to it, of an answer.
_ENTRY_MARK = re.compile(r"#[\w-]*-[0-9a-f]{6}$")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a source.

    `path` is the document's path within its source; `start_line` and `end_line` (1-based, inclusive; 0 for none) are
    its place there. Scores belong to one query: `similarity` is the cosine (-1 to 1), `lexical` the BM25 score (0 and
    up), `lexical_share` its share of the highest possible, and `score` that of the last ranking stage (0 to 1).
    `standing` says where its source counts more or less than others, or which place it has in a service's own order.
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
    standing: str = ""


@dataclass(frozen=True, slots=True)
class AgentScore:
    """How well a retrieval agent matches a query, after mix-in and scaling (KIMAs 3.3.2)."""

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

    @property
    def place(self) -> str:
        """The path as people know it: that of an entry of a FAQ without the mark behind the file."""
        return _ENTRY_MARK.sub("", self.path)


@dataclass(frozen=True, slots=True)
class SearchRound:
    """One round of searches, and the verdict on the evidence after it.

    `quality` is "good", "poor", or empty without a verdict; `reason` explains it.
    """

    queries: tuple[str, ...]
    quality: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """One run of a stage: when it began after the question, and how long it took, in milliseconds."""

    stage: str
    start_ms: float
    spent_ms: float


@dataclass(frozen=True, slots=True)
class TracedPassage:
    """A passage that the answer was written from: its place, its scores as in `Passage`, the beginning of its text."""

    id: str
    source: str
    path: str
    title: str
    url: str
    start_line: int
    end_line: int
    similarity: float
    lexical_share: float
    score: float
    excerpt: str


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of a reply: the rewritten query, the agents, the time per stage, the `degraded` stages.

    `tokens` is the usage of language models by "agent.prompt" and "agent.completion", `cost` their cost by agent in the
    currency of the configured prices, `models` the model that each agent called last. `cached` is true for a cached
    answer. `degrade_reasons` says why each stage was degraded: "late", "failed", "unreadable" or "stopped". `rounds`
    are those of a strategy that judges its evidence. `saved_searches` counts the agents that routing left out;
    `opinion` is why a model decided to speak unprompted. `scores` are the routing scores of the asked agents, `spans`
    the runs of stages in the order in which they ended, `passages` the evidence, best first. `dropped_citations` were
    removed from the answer, `moved_citations` name another passage than the model wrote.
    """

    query: str
    strategy: str
    agents: tuple[str, ...]
    timings_ms: Mapping[str, float]
    degraded: tuple[str, ...] = ()
    dropped_citations: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    cached: bool = False
    degrade_reasons: Mapping[str, str] = field(default_factory=dict)
    rounds: tuple[SearchRound, ...] = ()
    saved_searches: int = 0
    opinion: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    passages: tuple[TracedPassage, ...] = ()
    moved_citations: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the trace as JSON values, by the names of `JSON_NAMES`."""
        return {JSON_NAMES.get(name, name): value for name, value in asdict(self).items()}


def trace_from_json(values: Mapping[str, Any]) -> Trace:
    """Return the trace of JSON values, also of those that an earlier version wrote."""
    names = {json_name: name for name, json_name in JSON_NAMES.items()}
    fields = {names.get(name, name): value for name, value in values.items()}
    for name in ("agents", "degraded"):
        fields[name] = tuple(fields[name])
    fields["rounds"] = tuple(replace(SearchRound(**item), queries=tuple(item["queries"])) for item in fields["rounds"])
    fields["spans"] = tuple(Span(**item) for item in fields.get("spans", ()))
    fields["passages"] = tuple(TracedPassage(**item) for item in fields.get("passages", ()))
    return Trace(**fields)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: Markdown text in which [n] refers to `citations`, the passages behind it, and its trace.

    `image_description` is what the question's attachments say: lines of its files, and a model's description of its
    images. `failure` is set where the text is an apology: why there is no answer. `nearest_pages` are links that the
    text names beside or in place of an answer. With `found_nothing`, the model says that the passages do not answer the
    question; what it cites is beside it. `heard` is what the text begins with that is no answer: what was understood
    of a voice message.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    passages: tuple[Passage, ...] = ()
    is_extractive: bool = False
    trace: Trace = field(default_factory=lambda: Trace("", "none", (), {}))
    image_description: str = ""
    failure: str = ""
    nearest_pages: tuple[Citation, ...] = ()
    found_nothing: bool = False
    heard: str = ""

    @property
    def is_stopped(self) -> bool:
        """Return whether somebody stopped the answer before it was complete."""
        return self.trace.degrade_reasons.get("write") == "stopped"

    @property
    def shortfall(self) -> Shortfall | None:
        """Why the reply is likely not to help, or None.

        An answer that cites nothing, and whose sentences no passage supports, has found nothing, whatever it says.
        """
        if self.is_stopped:
            return None
        if self.found_nothing:
            return "nothing_found"
        if self.is_extractive and "write" in self.trace.degraded:
            return "quoted"
        if self.citations or not self.trace.query or self.trace.strategy == "none":
            return None
        return "unsupported" if self.trace.dropped_citations else "nothing_found"
