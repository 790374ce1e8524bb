"""`kimas eval citations`: how well citations are found, and false ones removed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bots.common.terminal import print_json
from bots.daemon.bootstrap import open_app
from bots.evaluation import charts, output
from bots.evaluation.datasets import RecordReader, read_cases, run_concurrently
from core.answering.agents.look_back import find_support
from core.answering.context import AnswerDependencies
from core.citations.check import check_citations, find_support_by_overlap
from core.citations.markers import find_markers, insert_markers, resolve_markers
from core.evidence.rendering import passage_ref
from core.language.prose import split_sentences
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Counts, Scores, compute_scores
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Passage

CITATION_CASE_FORMAT = '{"id", "question", "answer", "passages": [{"id", "text"}], "cited": [id]} (docs/evaluate.md)'
_ID_LIST = re.compile(r"\[([^\[\]\n]+)\]")


@dataclass(frozen=True, slots=True)
class CitationCase:
    """An answer, the passages that it was made from, and the ids of those that support it."""

    id: str
    question: str
    answer: str
    passages: tuple[Passage, ...]
    cited_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class CitationEvaluation:
    """The scores of `cases` cases.

    `look_back`: passages found for answers without markers, by `words` and, if there is one, by the `model`.
    `citations`: those of the answers themselves, `unchecked` and `checked` by the citation check.
    `removals`: what the citation check removed or moved away, against what it should have. `moves`: what it cites
    instead, against what it may.
    """

    cases: int
    look_back: Mapping[str, Scores]
    citations: Mapping[str, Scores]
    removals: Scores
    moves: Scores


def parse_citation_case(record: RecordReader) -> CitationCase:
    """Read one line of labelled data."""
    case_id = record.get_text("id")
    question = record.get_text("question")
    answer = record.get_text("answer")
    passage_texts = [(item.get_text("id"), item.get_text("text")) for item in record.get_records("passages")]
    cited_ids = record.get_texts("cited")
    ids = [passage_id for passage_id, _ in passage_texts]
    duplicates = sorted({passage_id for passage_id in ids if ids.count(passage_id) > 1})
    unknown_ids = sorted(set(cited_ids) - set(ids))
    if duplicates:
        record.errors.append(f"passages has the id {duplicates[0]!r} twice; give each its own")
    if unknown_ids and passage_texts:
        record.errors.append(f"cited names {unknown_ids[0]!r}, which is no id in passages ({', '.join(ids)})")
    passages = tuple(Passage(passage_id, source="", path="", title="", text=text) for passage_id, text in passage_texts)
    return CitationCase(case_id, question, answer, passages, frozenset(cited_ids))


async def evaluate_citations(cases: Sequence[CitationCase], deps: AnswerDependencies) -> CitationEvaluation:
    """Measure the look-back and the citation check on labelled cases. Raises `ModelError` when the model fails."""
    results = await run_concurrently(lambda case: _evaluate_case(case, deps), cases)
    return await asyncio.to_thread(_summarize, results)


@dataclass(frozen=True, slots=True)
class _CaseResult:
    look_back: Mapping[str, Counts]
    counts_before_check: Counts
    counts_after_check: Counts
    removal_counts: Counts
    move_counts: Counts


def _summarize(results: Sequence[_CaseResult]) -> CitationEvaluation:
    methods = results[0].look_back if results else ()
    return CitationEvaluation(
        len(results),
        {method: compute_scores([result.look_back[method] for result in results]) for method in methods},
        {
            "unchecked": compute_scores([result.counts_before_check for result in results]),
            "checked": compute_scores([result.counts_after_check for result in results]),
        },
        compute_scores([result.removal_counts for result in results]),
        compute_scores([result.move_counts for result in results]),
    )


async def _evaluate_case(case: CitationCase, deps: AnswerDependencies) -> _CaseResult:
    text = _with_passage_refs(case)
    unmarked_text = resolve_markers(text, ()).text
    support_by_method = {
        "words": await deps.turnstile.run_in_thread(
            find_support_by_overlap, unmarked_text, case.passages, case.question
        )
    }
    if deps.model:
        support_by_method["model"] = await find_support(
            deps.model, split_sentences(unmarked_text), case.passages, deps, Budget(deps.settings.budget)
        )
    if not find_markers(text):
        all_positions = range(len(case.passages))
        text = insert_markers(text, dict.fromkeys(range(len(split_sentences(text))), all_positions))
    cited_ids = {citation.passage_id for citation in resolve_markers(text, case.passages).citations}
    check = await deps.turnstile.run_in_thread(check_citations, text, case.passages, known=case.question)
    checked_ids = {citation.passage_id for citation in resolve_markers(text, case.passages, check.changes).citations}
    correct_ids = cited_ids & case.cited_ids
    new_ids = checked_ids - cited_ids
    return _CaseResult(
        {
            method: Counts.compare(_passage_ids(support, case), case.cited_ids)
            for method, support in support_by_method.items()
        },
        Counts.compare(cited_ids, correct_ids),
        Counts.compare(checked_ids, correct_ids | new_ids & case.cited_ids),
        Counts.compare(cited_ids - checked_ids, cited_ids - correct_ids),
        Counts.compare(new_ids, new_ids & case.cited_ids),
    )


def _passage_ids(support: Mapping[int, Sequence[int]], case: CitationCase) -> set[str]:
    return {case.passages[position].id for positions in support.values() for position in positions}


def _with_passage_refs(case: CitationCase) -> str:
    """Return the answer with the pipeline's markers, [p1], in place of the passages' own ids."""
    positions = {passage.id: position for position, passage in enumerate(case.passages)}

    def to_passage_refs(match: re.Match[str]) -> str:
        ids = [part.strip() for part in match[1].split(",")]
        are_known = all(passage_id in positions for passage_id in ids)
        return f"[{', '.join(passage_ref(positions[passage_id]) for passage_id in ids)}]" if are_known else match[0]

    return _ID_LIST.sub(to_passage_refs, case.answer)


async def citations(settings: Settings, data: Path, *, as_json: bool, plot: Path | None = None) -> int:
    """Measure the look-back and the citation check. The data is checked before anything is opened."""
    charts.check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, parse_citation_case, CITATION_CASE_FORMAT, split="test")
    async with open_app(settings) as app:
        measurement = await evaluate_citations(cases, app.deps)
    rows = {f"look-back, {variant}": scores for variant, scores in measurement.look_back.items()}
    rows |= {f"citations, {variant}": scores for variant, scores in measurement.citations.items()}
    rows |= {"removals": measurement.removals, "moves": measurement.moves}
    if plot:
        await charts.save_charts(charts.score_charts(rows), plot)
    if as_json:
        print_json(citations_as_json(measurement))
        return 0
    output.print_lines([output.format_title(measurement.cases), *output.score_table(rows)])
    return 0


def citations_as_json(measurement: CitationEvaluation) -> Mapping[str, Any]:
    """Return the object that `kimas eval citations --json` prints (a contract)."""
    return {
        "kind": "citations",
        "cases": measurement.cases,
        "level": CONFIDENCE_LEVEL,
        "look_back": {variant: output.scores_as_json(scores) for variant, scores in measurement.look_back.items()},
        "citations": {variant: output.scores_as_json(scores) for variant, scores in measurement.citations.items()},
        "removals": output.scores_as_json(measurement.removals),
        "moves": output.scores_as_json(measurement.moves),
    }
