"""A set's own documents as knowledge: read, cut, embedded and stored for the length of one measurement."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

from core.answering.agents.context_manager import complete_by_rule, complete_question
from core.answering.context.dependencies import Parts
from core.errors import UsageError
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.settings import FilesSource, Settings
from core.types import Passage, Question, Speaker, Turn
from knowledge.ingestion.sync import Progress, refresh
from knowledge.ports import Document, Embedder, Listing, Store
from knowledge.stores.lance.store import open_lance

T = TypeVar("T")
_MOST_FAULTS = 100


class Line:
    """One JSON object while it is read. What is wrong with it is noted in `faults`, and reading goes on."""

    def __init__(self, values: Mapping[str, Any], place: str = "", faults: list[str] | None = None) -> None:
        self._values = values
        self._place = place
        self.faults: list[str] = [] if faults is None else faults

    def text(self, key: str, *, default: str | None = None) -> str:
        """Return a text that is not empty; `default` makes it optional."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or not (value.strip() or value == default):
            self.fault(key, "a text that is not empty")
            return ""
        return value

    @overload
    def texts(self, key: str) -> tuple[str, ...]: ...

    @overload
    def texts(self, key: str, *, optional: bool) -> tuple[str, ...] | None: ...

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...] | None:
        """Return a list of texts, which may be empty; an `optional` one that is missing is None."""
        value = self._values.get(key)
        if optional and key not in self._values:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.fault(key, "a list of texts")
            return ()
        return tuple(value)

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._values.get(key)
        if not isinstance(value, bool):
            self.fault(key, "true or false")
            return False
        return value

    def lines(self, key: str, *, optional: bool = False) -> list[Line]:
        """Return a list of objects with at least one; an `optional` one may be empty or missing."""
        value = self._values.get(key)
        if optional and (key not in self._values or value == []):
            return []
        if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
            self.fault(key, "a list of objects" if optional else "a list of objects with at least one")
            return []
        return [Line(one, f"{self._place}{key}[{at}].", self.faults) for at, one in enumerate(value)]

    def fault(self, key: str, wanted: str) -> None:
        """Note that a key does not hold what is wanted."""
        problem = "must be" if key in self._values else "is missing; it must be"
        self.faults.append(f"{self._place}{key} {problem} {wanted}")


def read_cases(path: Path, read: Callable[[Line], T], form: str) -> list[T]:
    """Return the cases of a file, each made from its line by `read`. Blank lines are passed over. Blocking.

    Raises `UsageError` that names every line that cannot be used with what is wrong there, and the `form` of a line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(f"{path} cannot be read: {problem}. Name a JSON Lines file.") from error
    cases: list[T] = []
    faults: list[str] = []
    first: dict[str, int] = {}
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        line = _parsed(raw)
        if isinstance(line, Line):
            name, case = line.text("id"), read(line)
            if name and first.setdefault(name, number) != number:
                line.faults.append(f"id {name!r} is that of line {first[name]} already; give it another")
            cases.append(case)
        found = [line] if isinstance(line, str) else dict.fromkeys(line.faults)
        faults += [f"line {number}: {fault}" for fault in found]
    if not cases and not faults:
        faults = ["it has no cases"]
    if faults:
        more = [f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
        told = "\n".join(f"  {fault}" for fault in [*faults[:_MOST_FAULTS], *more])
        raise UsageError(f"{path} cannot be used:\n{told}\nEvery line is one JSON object: {form}")
    return cases


def _parsed(raw: bytes) -> Line | str:
    """Return a line's object, or say why it is none."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start + 1}); save the file as UTF-8"
    except json.JSONDecodeError as error:
        return f"it is not JSON at column {error.colno}: {error.msg}"
    except RecursionError:
        return "it is nested too deeply"
    return Line(value) if isinstance(value, dict) else "it is no JSON object"


AT_ONCE = 4
RAW, RULE, MODEL = "raw", "rule", "model"
SPEAKERS: Mapping[str, Speaker] = {"user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its truth: the relevant documents, or the agents that should get it."""

    question: Question
    wanted: frozenset[str]


def read_retrieval(line: Line) -> Case:
    """Read one line with the documents that answer its question."""
    case = Case(read_question(line), frozenset(line.texts("relevant")))
    if not case.wanted and not line.faults:
        line.fault("relevant", "a list with at least one document")
    return case


def read_routing(line: Line) -> Case:
    """Read one line with the agents that its question should get; none where no knowledge has to do with it."""
    return Case(read_question(line), frozenset(line.texts("agents")))


async def queries(cases: Sequence[Case], parts: Parts) -> tuple[Mapping[str, Sequence[str]], int]:
    """Return the query of every case by way, and how often the model's had to be left out for the rule's."""
    ways = {
        RAW: [case.question.text for case in cases],
        RULE: [complete_by_rule(case.question) for case in cases],
    }
    if parts.model is None:
        return ways, 0
    budgets = [Budget(parts.settings.budget) for _ in cases]

    async def completed(number: int) -> str:
        # Each question's time begins when its turn comes.
        budgets[number] = Budget(parts.settings.budget)
        return await complete_question(cases[number].question, parts.model, parts.prompts, budgets[number])

    written = await at_once(completed, range(len(cases)))
    return {**ways, MODEL: written}, sum("rewrite" in budget.cut for budget in budgets)


async def at_once(work: Callable[[T], Awaitable[str]], items: Sequence[T]) -> Sequence[str]:
    """Return what becomes of every item, a few at the same time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> str:
        async with gate:
            return await work(item)

    async with task_group() as tasks:
        running = [tasks.create_task(one(item)) for item in items]
    return [task.result() for task in running]


def read_question(line: Line) -> Question:
    """Read the question of a line, with the conversation before it."""
    turns = []
    for one in line.lines("history", optional=True):
        role, text = one.text("role"), one.text("text")
        speaker = SPEAKERS.get(role)
        if speaker:
            turns.append(Turn(speaker, text))
        elif role:
            one.fault("role", "user or assistant")
    return Question(line.text("question"), tuple(turns), line.text("id"))


CORPUS_FORM = '{"id", "text", "title"?, "url"?, "source"?} (docs/evaluate.md)'
CORPUS = "corpus"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One document of a corpus. Its id is its path; `source` is the source, and without agents the agent, it is of."""

    id: str
    text: str
    title: str = ""
    url: str = ""
    source: str = CORPUS


def read_entry(line: Line) -> Entry:
    """Read one line of a corpus."""
    title, url = line.text("title", default=""), line.text("url", default="")
    source = line.text("source", default=CORPUS)
    if source and not _NAME.fullmatch(source):
        line.faults.append(f"source {source!r} is no name: use small letters, digits, - and _, at most 63")
    return Entry(line.text("id"), line.text("text"), title, url, source)


def with_corpus(settings: Settings, entries: Sequence[Entry]) -> Settings:
    """Return the settings for a corpus in place of the configured sources.

    The configured agents stay where the corpus has all of their sources; else every source is an agent.
    """
    names = sorted({one.source for one in entries})
    agents = {name: agent for name, agent in settings.agents.items() if set(agent.sources) <= set(names)}
    complete = {source for agent in agents.values() for source in agent.sources} == set(names)
    sources = {name: FilesSource(kind="files", path=Path(CORPUS)) for name in names}
    return settings.model_copy(update={"sources": sources, "agents": agents if complete else {}})


@asynccontextmanager
async def corpus_store(
    entries: Sequence[Entry],
    embedder: Embedder,
    *,
    chunk_tokens: int,
    progress: Callable[[Progress], None] | None = None,
) -> AsyncIterator[Store]:
    """Open a store that holds a corpus, for the block; nothing of it stays. Raises `StoreError`, `EmbeddingError`."""
    with tempfile.TemporaryDirectory(prefix="kimas-corpus-") as folder:
        store = await open_lance(Path(folder) / "passages", embedder.name, embedder.dimension)
        try:
            for name in sorted({one.source for one in entries}):
                source = CorpusSource(name, [one for one in entries if one.source == name])
                await refresh(source, store, embedder, chunk_tokens=chunk_tokens, progress=progress)
            yield store
        finally:
            await store.close()


class CorpusSource:
    """Implements `knowledge.ports.Source` over entries."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        self.name = name
        self._entries = {one.id: one for one in entries}

    async def listing(self) -> Listing:
        """List every entry."""
        prints = {one.id: hashlib.sha256(one.text.encode()).hexdigest()[:32] for one in self._entries.values()}
        return Listing(prints)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the entries of these ids."""
        for path in paths:
            entry = self._entries[path]
            yield Document(path, entry.text, "text", entry.title, entry.url)


# Passages of each agent: enough that some 20 documents are among them where a document has several.
DEPTH = 60


def documents(passages: Sequence[Passage], wanted: Collection[str]) -> Sequence[str]:
    """Return the documents of ranked passages, each once: by path, or by `source: path` where that one is wanted."""
    paths = (
        place if (place := f"{passage.source}: {passage.path}") in wanted else passage.path for passage in passages
    )
    return list(dict.fromkeys(paths))
