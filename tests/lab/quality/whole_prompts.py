"""The citation check on whole answers: does it take true marks away, and does it notice marks that were moved?

Each answer was written in a model's place from the passages of its prompt alone, and each of its marks is true
(`whole_prompts/OWNER+NAME.jsonl`). A prompt is given by the places of its passages, whose text is read when the data is
built. Two variants of each answer are made by rule: every mark is moved to a random other passage of the prompt, or to
that which is most like the sentence and its true passage. `also` has, for each mark, the other passages that support
the sentence as well: no mark is moved there, and a check that moves one there is right. Half of the projects are held
out: nobody looks at what a check does to them while it is made. Sentences of other projects' answers, each marked with
a random passage, stand for what a model makes up.

    python -m tests.lab.quality.whole_prompts          measure the half for development alone; list the mistakes
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from core.answering.agents.look_back import get_known_text
from core.citations.check import check_citations
from core.citations.markers import CitationKey, find_markers
from core.evidence.rendering import passage_ref
from core.evidence.selection import merge_adjacent
from core.settings import Settings
from core.types import Passage, Question, Turn
from knowledge.chunking import READERS, TokenizedChunk, chunk_and_tokenize
from knowledge.ports import Document
from knowledge.sources.git.source import GitRepository
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import Project, clone, make_settings

FOLDER = Path(__file__).with_suffix("")
MAX_CHUNKS = 1_000_000
MAX_JOINED = 10
# How many sentences about other projects an answer gets: of so many answers, the first marks of each.
STRANGE_ANSWERS = 3
STRANGE_MARKS = 4
LANGUAGES = {"en": "English", "zh": "Chinese"}
# By language: what the project wants to find of the marks that were moved.
GOALS = {"en": 0.8, "zh": 0.7}
_TERM = re.compile(r"[a-z0-9_]{2,}|(?=([\u4e00-\u9fff]{2}))")

Variant = Literal["true", "random", "next best"]


@dataclass(frozen=True, slots=True)
class PromptProject:
    """A repository with answers from its passages."""

    project: Project
    is_held_out: bool

    @property
    def name(self) -> str:
        """The name of its files and of its clone."""
        return self.project.repository.replace("/", "+")


def read_projects() -> dict[str, PromptProject]:
    """Return the projects of the set, by the names of their files."""
    projects = {}
    for file in sorted(FOLDER.glob("*.json")):
        record = json.loads(file.read_text("utf-8"))
        sources = {name: tuple(patterns) for name, patterns in record["sources"].items()}
        project = Project(record["repository"], record["commit"], sources, tuple(record.get("exclude", ())))
        projects[file.stem] = PromptProject(project, record["is_held_out"])
    return projects


REPOSITORIES = tuple(item.project.repository for item in read_projects().values())


@dataclass(frozen=True)
class Mark:
    """A mark of an answer: the passage that it names, all that support its sentence, and the words before it.

    Marks of one `run` stand behind the same words.
    """

    index: int
    run: int
    position: int
    right: frozenset[int]
    sentence: str


@dataclass(frozen=True)
class Answer:
    """An answer with the passages of its prompt. `also` has a set of positions for each of its marks."""

    id: str
    language: str
    kind: str
    is_held_out: bool
    question: Question
    passages: tuple[Passage, ...]
    text: str
    also: tuple[frozenset[int], ...]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Answer:
        """Return the answer of a line of the built data."""
        history = tuple(Turn(turn["role"], turn["text"]) for turn in record["conversation"])
        passages = tuple(
            Passage(
                f"{place['source']}:{place['path']}:{place['lines'][0]}:{number}",
                place["source"],
                place["path"],
                place["title"],
                place["text"],
                "",
                place["kind"],
                place["lines"][0],
                place["lines"][1],
            )
            for number, place in enumerate(record["passages"], 1)
        )
        also = tuple(frozenset(number - 1 for number in numbers) for numbers in record["also"])
        question = Question(record["question"], history)
        return cls(
            record["id"],
            record["language"],
            record["kind"],
            record["is_held_out"],
            question,
            passages,
            record["answer"],
            also,
        )

    @property
    def project_name(self) -> str:
        """The project that it is about."""
        return self.id.rpartition("-")[0]

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """Its marks in order. Marks in a row belong to the same words: what one names, the others may name as well."""
        markers = find_markers(self.text)
        runs: list[list[int]] = []
        for index, marker in enumerate(markers):
            end = markers[index - 1].end if index else 0
            if index and not self.text[end : marker.start].strip():
                runs[-1].append(index)
            else:
                runs.append([index])
        marks: list[Mark] = []
        for number, run in enumerate(runs):
            start = markers[run[0]].start
            previous_end = markers[run[0] - 1].end if run[0] else 0
            sentence = self.text[max(previous_end, self.text.rfind("\n", 0, start) + 1) : start]
            right = frozenset(position for index in run for position in (*markers[index].positions, *self.also[index]))
            for index in run:
                [position] = markers[index].positions
                marks.append(Mark(index, number, position, right, sentence))
        return tuple(marks)

    def move_marks(self, variant: Variant) -> tuple[str, dict[int, int]]:
        """Return the text with its marks moved, and the new positions by the index of the mark.

        A mark that has no wrong passage to go to stays, and has no new position.
        """
        if variant == "true":
            return self.text, {mark.index: mark.position for mark in self.marks}
        new_positions: dict[int, int] = {}
        positions_by_run: dict[int, set[int]] = defaultdict(set)
        for mark in self.marks:
            excluded = mark.right | positions_by_run[mark.run]
            candidates = [position for position in range(len(self.passages)) if position not in excluded]
            if candidates and variant == "random":
                new_positions[mark.index] = random.Random(f"{self.id}:{mark.index}").choice(candidates)
            elif candidates:
                new_positions[mark.index] = self._likeness.find_next_best(mark, candidates)
            positions_by_run[mark.run].add(new_positions.get(mark.index, mark.position))
        return self._replace_marks(new_positions), new_positions

    @cached_property
    def _likeness(self) -> _Likeness:
        return _Likeness(self.passages)

    def _replace_marks(self, new_positions: Mapping[int, int]) -> str:
        segments = []
        end = 0
        for index, marker in enumerate(find_markers(self.text)):
            is_apart = self.text[marker.start].isspace()
            position = new_positions.get(index, marker.positions[0])
            segments += [self.text[end : marker.start], " " * is_apart, f"[{passage_ref(position)}]"]
            end = marker.end
        return "".join([*segments, self.text[end:]])


class _Likeness:
    """How alike the passages of a prompt are: the share of rare terms that they have in common.

    It does not use the product's own notion of words, so that the set stays the same when that changes.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._terms = [_get_terms(f"{passage.title}\n{passage.text}") for passage in passages]
        counts = Counter(term for terms in self._terms for term in terms)
        self._weights = {term: math.log(1 + len(passages) / count) for term, count in counts.items()}

    def find_next_best(self, mark: Mark, candidates: Collection[int]) -> int:
        sentence = _get_terms(mark.sentence)
        cited = self._terms[mark.position]
        return max(
            candidates,
            key=lambda position: self._compare(sentence, position) + self._compare(cited, position),
        )

    def _compare(self, terms: Collection[str], position: int) -> float:
        own_terms = self._terms[position]
        product = self._get_weight(terms) * self._get_weight(own_terms)
        return self._get_weight(own_terms.intersection(terms)) / math.sqrt(product) if product else 0.0

    def _get_weight(self, terms: Collection[str]) -> float:
        return sum(self._weights.get(term, 0.0) for term in terms)


def _get_terms(text: str) -> frozenset[str]:
    return frozenset(match[1] or match[0] for match in _TERM.finditer(text.lower()))


def build(mirror: Path, data: Path) -> None:
    asyncio.run(_build(mirror, data))


async def _build(mirror: Path, data: Path) -> None:
    """Write every answer with the texts of its passages into `answers.jsonl`."""
    changed_count = 0
    with (data / "answers.jsonl").open("w", encoding="utf-8") as output_file:
        for name, item in read_projects().items():
            clone(mirror, data, {name: item.project})
            records = read_records(name)
            settings = make_settings(data, name, item.project)
            places = [place for record in records for place in record["passages"]]
            documents = await _read_documents(settings, {(place["source"], place["path"]) for place in places})
            tokens = settings.knowledge.chunking.tokens
            pieces = {key: chunk_and_tokenize(document, tokens, MAX_CHUNKS) for key, document in documents.items()}
            for place in places:
                key = place["source"], place["path"]
                changed_count += not _add_text(place, documents[key], pieces[key])
            for record in records:
                record["is_held_out"] = item.is_held_out
                output_file.write(json.dumps(record, ensure_ascii=False) + "\n")
    if changed_count:
        print(f"{changed_count} passages are not cut as they were when the answers were written.", file=sys.stderr)


def read_records(name: str) -> list[dict[str, Any]]:
    """Return the committed lines of a project; none while nobody has written any."""
    file = FOLDER / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


async def _read_documents(settings: Settings, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Document]:
    """Return the documents of these sources and paths as the product reads them."""
    documents = {}
    for source, source_settings in settings.sources.items():
        assert source_settings.kind == "git"
        repository = GitRepository(source, source_settings, settings.data_dir)
        paths = [path for name, path in keys if name == source]
        listing = await repository.listing()
        async for document in repository.documents(listing, paths):
            documents[source, document.path] = document
    return documents


def hash_text(text: str) -> str:
    """Return what tells whether a passage is still cut as it was."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _add_text(place: dict[str, Any], document: Document, chunks: Sequence[TokenizedChunk]) -> bool:
    """Add the text of a passage; return whether it is the one that the answer was written from.

    It is that of chunks between these lines. If the product cuts them otherwise now, the lines alone are read.
    """
    first, last = place["lines"]
    pieces = [
        Passage("", "", document.path, "", chunk.text, "", chunk.kind, chunk.start_line, chunk.end_line)
        for chunk in chunks
        if first <= chunk.start_line <= last
    ]
    passages = [*_join(pieces), _read_lines(document, first, last)]
    unchanged = next((passage for passage in passages if hash_text(passage.text) == place["hash"]), None)
    covering = (passage for passage in passages if (passage.start_line, passage.end_line) == (first, last))
    passage = unchanged or next(covering)
    place.update(text=passage.text, kind=passage.kind)
    return unchanged is not None


def _join(pieces: Sequence[Passage]) -> Iterator[Passage]:
    """Yield what neighbours can have been joined to, all of them first: another passage may have taken any piece.

    Of many pieces, only rows are tried: what a page includes has the line of the inclusion.
    """
    for count in range(min(len(pieces), MAX_JOINED), 0, -1):
        rows = (pieces[start : start + count] for start in range(len(pieces) - count + 1))
        for subset in combinations(pieces, count) if len(pieces) <= MAX_JOINED else rows:
            yield reduce(lambda passage, piece: merge_adjacent(passage, piece) or passage, subset)


def _read_lines(document: Document, first: int, last: int) -> Passage:
    """Return some lines of a document as the product reads them. Code is what it is, however it is cut."""
    lines = document.text.split("\n")
    text = "\n".join(line for number, line in enumerate(lines, 1) if first <= document.get_line(number) <= last)
    if document.kind in READERS:
        part = Document(document.path, text, document.kind)
        text = "\n\n".join(chunk.text for chunk in chunk_and_tokenize(part, len(document.text), MAX_CHUNKS))
    return Passage("", "", document.path, "", text, "", document.kind, first, last)


def read_answers(data: Path) -> list[Answer]:
    """Return the answers of the built data."""
    lines = (data / "answers.jsonl").read_text("utf-8").splitlines()
    return [Answer.from_record(json.loads(line)) for line in lines]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check did to one mark: the passage that it named, and the one that it names now; None without a mark."""

    answer: Answer
    variant: Variant
    mark: Mark
    position: int
    new_position: int | None

    @property
    def is_lost(self) -> bool:
        """Return whether there is no mark any more."""
        return self.new_position is None

    @property
    def is_moved(self) -> bool:
        """Return whether the mark names another passage now."""
        return self.new_position not in (None, self.position)

    @property
    def is_right(self) -> bool:
        """Return whether the mark names a passage that supports its sentence."""
        return self.new_position in self.mark.right


def measure(data: Path) -> list[Figure]:
    """Check every answer with its own marks, and with moved ones."""
    answers = read_answers(data)
    outcomes = check_all(answers)
    figures = []
    for half, is_held_out in (("development", False), ("held out", True)):
        figures += make_figures([item for item in outcomes if item.answer.is_held_out is is_held_out], half)
        figures += make_strange_figures([answer for answer in answers if answer.is_held_out is is_held_out], half)
    return figures


def make_figures(outcomes: Sequence[Outcome], half: str) -> list[Figure]:
    """Return the shares of marks that were lost, removed or moved, by language."""
    return [
        figure
        for language in LANGUAGES
        for figure in _language_figures([item for item in outcomes if item.answer.language == language], language, half)
    ]


def _language_figures(outcomes: Sequence[Outcome], language: str, half: str) -> Iterator[Figure]:
    name = f"{LANGUAGES[language]}, {half}"
    true = [item for item in outcomes if item.variant == "true"]
    yield Figure(f"true marks lost, {name}", _share(true, lambda item: item.is_lost), 0.02, lower_is_better=True)
    yield Figure(
        f"true marks moved to a wrong passage, {name}",
        _share(true, lambda item: item.is_moved and not item.is_right),
        0.02,
        lower_is_better=True,
    )
    variants: tuple[Variant, ...] = ("random", "next best")
    for variant in variants:
        false = [item for item in outcomes if item.variant == variant]
        yield Figure(
            f"false marks ({variant}) removed or moved to a right passage, {name}",
            _share(false, lambda item: item.is_lost or item.is_right),
            GOALS[language],
        )
        yield Figure(f"false marks ({variant}) moved to a right passage, {name}", _share(false, lambda i: i.is_right))


def check_all(answers: Sequence[Answer]) -> list[Outcome]:
    """Return what the product's check does to every mark of every variant of the answers."""
    variants: tuple[Variant, ...] = ("true", "random", "next best")
    outcomes = []
    for answer in answers:
        for variant in variants:
            text, positions = answer.move_marks(variant)
            changes = check(answer, text)
            outcomes += [
                Outcome(answer, variant, mark, position, changes.get((mark.index, position), position))
                for mark in answer.marks
                if (position := positions.get(mark.index)) is not None
            ]
    return outcomes


def make_strange_figures(answers: Sequence[Answer], half: str) -> list[Figure]:
    """Return the shares of sentences about other projects that keep a mark, by language."""
    figures = []
    for language, name in LANGUAGES.items():
        own_answers = [answer for answer in answers if answer.language == language]
        is_kept = [kept for answer in own_answers for kept in _check_strange_sentences(answer, own_answers)]
        share = sum(is_kept) / max(1, len(is_kept))
        figures.append(Figure(f"sentences about other projects that keep a mark, {name}, {half}", share))
    return figures


def _check_strange_sentences(answer: Answer, answers: Sequence[Answer]) -> list[bool]:
    """Return whether sentences of other projects' answers, marked with a random passage each, keep their marks."""
    draw = random.Random(answer.id)
    others = [other for other in answers if other.project_name != answer.project_name]
    chosen = draw.sample(others, min(STRANGE_ANSWERS, len(others)))
    sentences = [mark.sentence.strip() for other in chosen for mark in other.marks[:STRANGE_MARKS]]
    lines = [f"{sentence} [{passage_ref(draw.randrange(len(answer.passages)))}]" for sentence in sentences if sentence]
    text = "\n\n".join(lines)
    changes = check(answer, text)
    return [(index, marker.positions[0]) not in changes for index, marker in enumerate(find_markers(text))]


def check(answer: Answer, text: str) -> Mapping[CitationKey, int | None]:
    """Return the marks that the product's check removes (None) or moves (the new position), as it calls the check."""
    known = get_known_text(answer.question, Settings.model_validate({"sources": {}}))
    return check_citations(text, answer.passages, known=known).changes


def write_mistakes(outcomes: Sequence[Outcome], file: Path) -> None:
    """Write each true mark that was lost or moved, and each false one that stayed."""
    lines = []
    for item in outcomes:
        is_mistake = not item.is_right if item.variant == "true" else not (item.is_lost or item.is_right)
        if is_mistake:
            names = [
                "-" if position is None else f"{passage_ref(position)} {item.answer.passages[position].title}"
                for position in (item.mark.position, item.position, item.new_position)
            ]
            lines.append(
                f"{item.answer.id} {item.variant}: {item.mark.sentence.strip()}\n"
                f"    true {names[0]} | written {names[1]} | now {names[2]}\n"
            )
    file.write_text("".join(lines), "utf-8")


def _share(outcomes: Sequence[Outcome], holds: Callable[[Outcome], bool]) -> float:
    return sum(map(holds, outcomes)) / max(1, len(outcomes))


def main() -> None:
    """Measure the half for development."""
    data = Path(__file__).resolve().parents[3] / ".cache/quality/whole_prompts"
    outcomes = check_all([answer for answer in read_answers(data) if not answer.is_held_out])
    write_mistakes(outcomes, data / "mistakes.txt")
    strange_figures = make_strange_figures(
        [answer for answer in read_answers(data) if not answer.is_held_out], "development"
    )
    for figure in [*make_figures(outcomes, "development"), *strange_figures]:
        print(f"{figure.value:.3f}  {figure.name}")
    for kind in sorted({item.answer.kind for item in outcomes}):
        print(kind, *(f"{f.value:.3f}" for f in make_figures([o for o in outcomes if o.answer.kind == kind], kind)))


if __name__ == "__main__":
    main()
