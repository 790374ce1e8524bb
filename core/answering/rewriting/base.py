"""What the strategies that ask the light model have in common: one decision per query, and a rule in its place."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from core.answering.context.dependencies import Parts
from core.grounding.evidence import defuse
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.structured_output import Ask, decide
from core.observability.logs import logger
from core.runtime.budget import Budget, Why
from core.runtime.tasks import task_group
from core.settings import AgentSettings
from core.text.keywords import content_words, phrases, without_fillers
from core.text.language import language_of
from core.types import Passage, Turn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """One search.

    `text` is the query as a person would put it. `words`, where given, is what is looked up by its words in its place,
    and `dense` what is compared by meaning.
    """

    text: str
    words: str = ""
    dense: str = ""

    def lexical(self) -> str:
        """Return what is looked up by its words."""
        return self.words or self.text

    def meaning(self) -> str:
        """Return what is compared by meaning."""
        return self.dense or self.text


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """For whom a rewrite works, and with what.

    `name` and `agent` are the retrieval agent and its settings. `first` waits for the passages of the search with the
    question as it is, which runs meanwhile; there are none when it failed. `ends` is the monotonic time, in seconds, by
    which the rewrite has to be done.
    """

    name: str
    agent: AgentSettings
    parts: Parts
    budget: Budget
    first: Callable[[], Awaitable[Sequence[Passage]]]
    ends: float

    def remaining(self) -> float:
        """Return the seconds left for this rewrite, never below zero."""
        return max(0.0, self.ends - time.monotonic())

    async def within(self, stage: str, work: Awaitable[T]) -> T | None:
        """Await work inside the time left; None, with the stage cut, when it overruns."""
        try:
            async with asyncio.timeout(self.remaining()) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            self.cut(stage, "overran its share", "late")
        return None

    def cut(self, stage: str, reason: str, why: Why = "failed") -> None:
        """Note that the stage's stand-in is used: why, as the trace says it, and the reason in words for the log."""
        self.budget.cut_off(stage, why)
        logger(__name__).warning("rewrite.stand_in", stage=stage, agent=self.name, reason=reason)


class Rewrite(Protocol):
    """A strategy: makes other queries of those it is given, in the order in which they matter.

    What it raises, and what it does not finish in time, leaves the queries as they were.
    """

    async def __call__(self, queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
        """Return the queries to go on with; none at all means those it was given."""
        ...


MOST_TERMS = 16
_SPACED = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


async def rule(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query without filler words, its words the noun phrases and their synonyms."""
    return [by_rule(query, context)[0] for query in queries]


def by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
    """Return the query without filler words; its words are the noun phrases and their synonyms."""
    text = without_fillers(query.text)
    terms = (*phrases(query.words or text), *synonyms(query.lexical(), context.agent.synonyms))
    return [replace(query, text=text, words=joined(terms) or query.words)]


def joined(terms: Sequence[str]) -> str:
    """Return terms as words to look up, each once, at most as many as a search should have."""
    return " ".join(list(dict.fromkeys(term.strip() for term in terms if term.strip()))[:MOST_TERMS])


def synonyms(text: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what the knowledge says for the words and phrases of a text."""
    return [other for said, _ in _said(text, known) for other in known[said]]


def replaced(text: str, known: Mapping[str, Sequence[str]]) -> str:
    """Return a text with its words and phrases replaced by the first of what the knowledge says for each."""
    for said, pattern in _said(text, known):
        text = pattern.sub(known[said][0].replace("\\", r"\\"), text)
    return text


def _said(text: str, known: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the phrases of the map that a text holds, longer ones first, with the pattern that finds them."""
    for said in sorted(known, key=len, reverse=True):
        if not known[said] or not said.strip():
            continue
        words = r"\s+".join(re.escape(word) for word in said.split())
        # Text without spaces between its words has no word boundaries either.
        before = r"(?<!\w)" if _SPACED.match(said) else ""
        after = r"(?!\w)" if _SPACED.match(said.rstrip()[-1]) else ""
        pattern = re.compile(f"{before}{words}{after}", re.IGNORECASE)
        if pattern.search(text):
            yield said, pattern


# By code, the names that a configuration may use. The first ones have a script of their own.
_NAMES = {
    "zh": "chinese mandarin 中文 汉语",
    "ja": "japanese 日本語",
    "ko": "korean 한국어",
    "ru": "russian русский",
    "el": "greek ελληνικά",
    "ar": "arabic العربية",
    "he": "hebrew עברית",
    "th": "thai ไทย",
    "hi": "hindi हिन्दी",
    "en": "english",
    "de": "german deutsch",
    "fr": "french français francais",
    "es": "spanish español espanol",
    "it": "italian italiano",
    "pt": "portuguese português portugues",
    "nl": "dutch nederlands",
}
_COMMONEST = {
    "en": "the is are do does how what which why where when can to of in for and my with it this not",
    "de": "der die das ist sind wie was welche warum wo wann kann ich zu von für und mit ein eine nicht wird den",
    "fr": "le la les est sont comment que quel quelle pourquoi où quand peut je de des du pour et avec un une ne pas",
    "es": "el la los las es son cómo como qué cuál por dónde cuándo puedo de del para y con un una no se",
    "it": "il lo gli è sono come che quale perché dove quando posso di del per e con un una non si",
    "pt": "o os as é são como que qual porque onde quando posso de do da para e com um uma não se",
    "nl": "de het is zijn hoe wat welke waarom waar wanneer kan ik van voor en met een niet wordt",
}
_WORDS = {code: frozenset(words.split()) for code, words in _COMMONEST.items()}


def code_of(language: str) -> str:
    """Return the code of a language given as a code or a name, or nothing when it is not known here."""
    said = language.strip().lower()
    short = said.split("-")[0].split("_")[0]
    return next((code for code, names in _NAMES.items() if short == code or said in names.split()), "")


def is_in(text: str, language: str) -> bool | None:
    """Say whether a text is in a language; None where neither its script nor its words tell."""
    wanted, script = code_of(language), language_of(text)
    if not wanted:
        return None
    if script or wanted not in _WORDS:
        return script == wanted
    words = re.findall(r"[^\W\d_]+", text.lower())
    hits = {code: sum(word in known for word in words) for code, known in _WORDS.items()}
    best = max(hits.values())
    if hits[wanted] < best:
        return False
    return True if best and list(hits.values()).count(best) == 1 else None


def same_script(one: str, other: str) -> bool:
    """Say whether two texts are in the same script."""
    return language_of(one) == language_of(other)


ByModel = Callable[[Query, RewriteContext], Awaitable[Sequence[Query] | None]]
ByRule = Callable[[Query, RewriteContext], Sequence[Query]]
MAX_QUERY_CHARS = 600
QUERY_KEYS = (
    *("rewritten query", "rewritten", "rewrite", "search query", "new query", "queries", "q", "question", "search"),
    *("translation", "translated query", "translated", "result", "output", "text"),
    *("查询", "改写", "改写后的查询", "搜索词", "检索词", "翻译", "译文", "结果"),
)
QUERY = Shape("query", "A search query", (Slot("query", "text", "the search query, one line", QUERY_KEYS),))
_REFUSAL = re.compile(
    r"(?i)^\W*(?:i(?:'m| am)? (?:sorry|afraid|unable|not able|cannot|can't|can not|do not|don't|did not|didn't"
    r"|would need)"
    r"|sorry\b|as an ai\b|unfortunately\b|please (?:provide|clarify|give)|(?:很?抱歉|对不起|我不|我无法|无法|作为))"
)

# What is left of an object or a tag that could not be read.
_DEBRIS = re.compile(r"^\s*[{<\[]|[\"']\w+[\"']\s*:\s")


async def each(
    queries: Sequence[Query], context: RewriteContext, by_model: ByModel, by_rule: ByRule
) -> Sequence[Query]:
    """Rewrite every query by the model, all at once, and by the rule where the model could not."""

    async def one(query: Query) -> Sequence[Query]:
        made = await by_model(query, context) if context.parts.model else None
        return made or by_rule(query, context)

    async with task_group() as tasks:
        running = [tasks.create_task(one(query)) for query in queries]
    return [query for task in running for query in task.result()]


async def ask(
    stage: str,
    shape: Shape,
    request: str,
    accept: Callable[[Record], T | None],
    context: RewriteContext,
) -> T | None:
    """Return what the light model decided, by the agent's own template of the stage's name.

    None, with the stage cut, when it fails, overruns its time, or cannot be understood.
    """
    system = context.parts.prompts.of(context.name).fill(
        stage,
        agent=context.name,
        description=context.agent.description or "(nothing is said about it)",
        language=context.agent.language or "the language of the question",
    )
    asked = Ask(stage, "requery", shape, system, [Turn("user", request)])
    return await context.within(stage, decide(asked, accept, None, context.parts, context.budget))


def asked(query: Query) -> str:
    """Return a query fenced as data."""
    return f"<question>\n{defuse(query.text)}\n</question>"


def sensible(text: str, query: Query, longest: int = MAX_QUERY_CHARS) -> bool:
    """Say whether what a model wrote of a query can be searched: it says something, is no refusal and no essay."""
    says = bool(content_words(text)) and any(map(str.isalpha, text)) and not _DEBRIS.search(text)
    # Whoever asks what they cannot do is no model that refuses.
    refused = bool(_REFUSAL.match(text)) and not _REFUSAL.match(query.text)
    return says and not refused and len(text) <= longest


def related(text: str, query: Query, context: RewriteContext) -> bool:
    """Say whether a text shares a word with the query, or with what is said about the agent."""
    known = " ".join((query.text, context.agent.description, *context.agent.examples))
    return not set(content_words(known)).isdisjoint(content_words(text))
