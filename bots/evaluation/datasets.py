"""Labelled data: cases and corpora, read from JSON Lines."""

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
from typing import Any, Literal, TypeVar, overload

from core.answering.agents.context_manager import complete_question, rule_based_query
from core.answering.context import AnswerDependencies
from core.errors import UsageError
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.settings import FilesSource, Settings
from core.settings.chats import parse_argument
from core.types import MessageRole, Passage, Question, Turn
from knowledge.ingestion.filling import fill
from knowledge.ingestion.sync import SyncOptions, SyncProgress, refresh
from knowledge.ports import Document, Embedder, Listing, Store
from knowledge.stores.sqlite.store import open_sqlite

T = TypeVar("T")
Result = TypeVar("Result")
_MAX_ERRORS = 100
CONCURRENCY = 4
RAW = "raw"
RULE = "rule"
MODEL = "model"
SPEAKERS: Mapping[str, MessageRole] = {"user": "user", "assistant": "assistant"}
ANSWERS_LINE_FORMAT = (
    '{"id", "question", "history"?, "reference"?, "relevant"?: [document id, path or source]} (docs/evaluate.md)'
)
CORPUS_LINE_FORMAT = '{"id", "text", "title"?, "url"?, "source"?} (docs/evaluate.md)'
CORPUS = "corpus"
Split = Literal["fit", "test"]
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# Passages of each agent: enough that some 20 documents are among them where a document has several.
PASSAGES_PER_AGENT = 60


class RecordReader:
    """Reads one JSON object. It collects errors in `errors` and continues."""

    def __init__(self, values: Mapping[str, Any], path: str = "", errors: list[str] | None = None) -> None:
        self._values = values
        self._path = path
        self.errors: list[str] = [] if errors is None else errors

    def get_text(self, key: str, *, default: str | None = None) -> str:
        """Return a text that is not empty; `default` makes it optional."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or not (value.strip() or value == default):
            self.add_error(key, "a text that is not empty")
            return ""
        return value

    @overload
    def get_texts(self, key: str) -> tuple[str, ...]: ...

    @overload
    def get_texts(self, key: str, *, optional: bool) -> tuple[str, ...] | None: ...

    def get_texts(self, key: str, *, optional: bool = False) -> tuple[str, ...] | None:
        """Return a list of texts, which may be empty; an `optional` one that is missing is None."""
        value = self._values.get(key)
        if optional and key not in self._values:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.add_error(key, "a list of texts")
            return ()
        return tuple(value)

    def get_split(self) -> Split | None:
        """Return the split of a line; None for another value under that key, which is of no concern here."""
        value = self._values.get("split")
        return value if value in ("fit", "test") else None

    def get_bool(self, key: str) -> bool:
        """Return true or false."""
        value = self._values.get(key)
        if not isinstance(value, bool):
            self.add_error(key, "true or false")
            return False
        return value

    def get_records(self, key: str, *, optional: bool = False) -> list[RecordReader]:
        """Return a list of objects with at least one; an `optional` one may be empty or missing."""
        value = self._values.get(key)
        if optional and (key not in self._values or value == []):
            return []
        if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
            self.add_error(key, "a list of objects" if optional else "a list of objects with at least one")
            return []
        return [RecordReader(item, f"{self._path}{key}[{index}].", self.errors) for index, item in enumerate(value)]

    def add_error(self, key: str, expected: str) -> None:
        """Add the error that a key does not hold what is expected."""
        problem = "must be" if key in self._values else "is missing; it must be"
        self.errors.append(f"{self._path}{key} {problem} {expected}")


def read_cases(
    path: Path, parse: Callable[[RecordReader], T], case_format: str, *, split: Split | None = None
) -> list[T]:
    """Return the cases of a file, each parsed from its line by `parse`. Blank lines are skipped. Blocking.

    `split` leaves out the lines of the other split: what was fitted to is not measured. Lines without one stay.

    Raises a `UsageError` that names every unusable line, what is wrong with it, and the `case_format`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(f"{path} cannot be read: {problem}. Name a JSON Lines file.") from error
    cases: list[T] = []
    errors: list[str] = []
    line_by_id: dict[str, int] = {}
    for line_number, raw_line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw_line.strip():
            continue
        record = _parse_record(raw_line)
        if isinstance(record, RecordReader):
            case_id = record.get_text("id")
            case = parse(record)
            case_split = record.get_split()
            if case_id and line_by_id.setdefault(case_id, line_number) != line_number:
                record.errors.append(f"id {case_id!r} is that of line {line_by_id[case_id]} already; give it another")
            if split is None or case_split in (None, split):
                cases.append(case)
        line_errors = [record] if isinstance(record, str) else dict.fromkeys(record.errors)
        errors += [f"line {line_number}: {line_error}" for line_error in line_errors]
    if not cases and not errors:
        errors = [_describe_missing_split(len(line_by_id), split) if split and line_by_id else "it has no cases"]
    if errors:
        overflow = [f"and {len(errors) - _MAX_ERRORS} more"] if len(errors) > _MAX_ERRORS else []
        error_list = "\n".join(f"  {line_error}" for line_error in [*errors[:_MAX_ERRORS], *overflow])
        raise UsageError(f"{path} cannot be used:\n{error_list}\nEvery line is one JSON object: {case_format}")
    return cases


def _describe_missing_split(line_count: int, split: Split) -> str:
    """Say that all lines are of the other split, and what to do."""
    other_split, purpose = ("fit", "fitting") if split == "test" else ("test", "tests")
    lines_are = "its only line is" if line_count == 1 else f"all {line_count} lines are"
    return (
        f"{lines_are} for {purpose} (split: {other_split}); accept more lines or set split to {split} in some "
        "(docs/evaluate.md#make-labelled-data)"
    )


def _parse_record(raw: bytes) -> RecordReader | str:
    """Return a line's object, or say why it is none."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start + 1}); save the file as UTF-8"
    except json.JSONDecodeError as error:
        return f"it is not JSON at column {error.colno}: {error.msg}"
    except RecursionError:
        return "it is nested too deeply"
    return RecordReader(value) if isinstance(value, dict) else "it is no JSON object"


@dataclass(frozen=True, slots=True)
class QueryCase:
    """A question with its label: the relevant documents, or the agents that should get it."""

    question: Question
    expected_ids: frozenset[str]


def read_retrieval(line: RecordReader) -> QueryCase:
    """Read one line with the documents that answer its question."""
    case = QueryCase(read_question(line), frozenset(line.get_texts("relevant")))
    if not case.expected_ids and not line.errors:
        line.add_error("relevant", "a list with at least one document")
    return case


def read_routing(line: RecordReader) -> QueryCase:
    """Read one line with the agents that should get its question; none for an irrelevant question."""
    return QueryCase(read_question(line), frozenset(line.get_texts("agents")))


async def make_queries(cases: Sequence[QueryCase], deps: AnswerDependencies) -> tuple[Mapping[str, Sequence[str]], int]:
    """Return the queries of all cases by variant, and how often the rule's query replaced the model's."""
    queries_by_variant = {
        RAW: [case.question.text for case in cases],
        RULE: [rule_based_query(case.question) for case in cases],
    }
    if deps.model is None:
        return queries_by_variant, 0
    budgets = [Budget(deps.settings.budget) for _ in cases]

    async def complete(number: int) -> str:
        # Each question's time begins when its turn comes.
        budgets[number] = Budget(deps.settings.budget)
        return await complete_question(cases[number].question, deps.model, deps.prompts, budgets[number])

    rewrites = await run_concurrently(complete, range(len(cases)))
    return {**queries_by_variant, MODEL: rewrites}, sum("rewrite" in budget.degraded for budget in budgets)


async def run_concurrently(work: Callable[[T], Awaitable[Result]], items: Sequence[T]) -> Sequence[Result]:
    """Return the result for every item, with a few running at the same time."""
    semaphore = asyncio.Semaphore(CONCURRENCY)

    async def run(item: T) -> Result:
        async with semaphore:
            return await work(item)

    async with task_group() as tasks:
        item_tasks = [tasks.create_task(run(item)) for item in items]
    return [task.result() for task in item_tasks]


def read_question(line: RecordReader) -> Question:
    """Read the question of a line, with the conversation before it."""
    turns = []
    for turn_line in line.get_records("history", optional=True):
        role = turn_line.get_text("role")
        text = turn_line.get_text("text")
        speaker = SPEAKERS.get(role)
        if speaker:
            turns.append(Turn(speaker, text))
        elif role:
            turn_line.add_error("role", "user or assistant")
    return Question(line.get_text("question"), tuple(turns), line.get_text("id"))


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """One document of a corpus. Its id is its path; `source` is the source, and without agents the agent, it is of."""

    id: str
    text: str
    title: str = ""
    url: str = ""
    source: str = CORPUS


def read_corpus_document(line: RecordReader) -> CorpusDocument:
    """Read one line of a corpus."""
    title = line.get_text("title", default="")
    url = line.get_text("url", default="")
    source = line.get_text("source", default=CORPUS)
    if source and not _NAME.fullmatch(source):
        line.errors.append(f"source {source!r} is no name: use small letters, digits, - and _, at most 63")
    return CorpusDocument(line.get_text("id"), line.get_text("text"), title, url, source)


def with_corpus(settings: Settings, documents: Sequence[CorpusDocument]) -> Settings:
    """Return the settings for a corpus in place of the configured sources.

    The configured agents stay where the corpus has all of their sources; else every source is an agent.
    """
    source_names = sorted({document.source for document in documents})
    agents = {name: agent for name, agent in settings.agents.items() if set(agent.sources) <= set(source_names)}
    is_complete = {source for agent in agents.values() for source in agent.sources} == set(source_names)
    sources = {name: FilesSource(kind="files", path=Path(CORPUS)) for name in source_names}
    return settings.model_copy(update={"sources": sources, "agents": agents if is_complete else {}})


@asynccontextmanager
async def corpus_store(
    documents: Sequence[CorpusDocument],
    embedder: Embedder,
    *,
    chunk_tokens: int,
    on_progress: Callable[[SyncProgress], None] | None = None,
) -> AsyncIterator[Store]:
    """Open a store that holds a corpus, for the block; nothing of it stays. Raises `StoreError`, `EmbeddingError`."""
    with tempfile.TemporaryDirectory(prefix="kimas-corpus-") as folder:
        store = await open_sqlite(Path(folder) / "passages", embedder.name, embedder.dimension)
        try:
            for name in sorted({document.source for document in documents}):
                source = CorpusSource(name, [document for document in documents if document.source == name])
                await refresh(source, store, SyncOptions(chunk_tokens, on_progress=on_progress))
                await fill(name, store, embedder)
            yield store
        finally:
            await store.close()


class CorpusSource:
    """Implements `knowledge.ports.Source` over entries."""

    def __init__(self, name: str, documents: Sequence[CorpusDocument]) -> None:
        self.name = name
        self._documents = {document.id: document for document in documents}

    async def listing(self) -> Listing:
        """List every entry."""
        fingerprints = {
            document.id: hashlib.sha256(document.text.encode()).hexdigest()[:32]
            for document in self._documents.values()
        }
        return Listing(fingerprints)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield the entries of these ids."""
        for path in paths:
            document = self._documents[path]
            yield Document(path, document.text, "text", document.title, document.url)


def to_document_ids(passages: Sequence[Passage], expected_ids: Collection[str]) -> Sequence[str]:
    """Return the documents of ranked passages, each once: by path, or by `source: path` where that one is wanted."""
    document_ids = (
        qualified_path if (qualified_path := f"{passage.source}: {passage.path}") in expected_ids else passage.path
        for passage in passages
    )
    return list(dict.fromkeys(document_ids))


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """A question with what is known of its answer: a reference (or empty), and what it should cite (None: unknown)."""

    question: Question
    reference: str = ""
    relevant: frozenset[str] | None = None


def read_answers(line: RecordReader) -> AnswerCase:
    """Read one line of questions to be answered."""
    relevant = line.get_texts("relevant", optional=True)
    return AnswerCase(
        read_question(line), line.get_text("reference", default=""), None if relevant is None else frozenset(relevant)
    )


def parse_chat(chat: str) -> tuple[str, str] | None:
    """Return the platform and the id of a chat; None for an empty text. Raises `UsageError`."""
    name = parse_argument(chat) if chat else None
    return (name.platform, name.id) if name else None
