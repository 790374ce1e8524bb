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
from bots.evaluation.datasets import Line, read_cases
from bots.evaluation.output import print_lines, save, score_table, scores_as_json, title
from bots.evaluation.plots import check_plot, score_charts
from core.answering.agents.look_back import ask_model
from core.answering.context.dependencies import Parts
from core.grounding.citation_check import unsupported
from core.grounding.citations import mark_sentences, marks, resolve, sentences
from core.grounding.evidence import handle
from core.grounding.support import overlap_support
from core.messaging.gate.scores import LEVEL, Counts, Scores, score
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.settings import Settings
from core.types import Passage

FORM = '{"id", "question", "answer", "passages": [{"id", "text"}], "cited": [id]} (docs/evaluate.md)'
AT_ONCE = 4
# Nobody waits for an answer here: what is measured is the check, not its time.
_SECONDS = 60.0
_IDS = re.compile(r"\[([^\[\]\n]+)\]")


@dataclass(frozen=True, slots=True)
class Case:
    """An answer, the passages that it was made from, and the ids of those that support it."""

    id: str
    question: str
    answer: str
    passages: tuple[Passage, ...]
    cited: frozenset[str]


@dataclass(frozen=True, slots=True)
class Measured:
    """Scores by what was measured, of `cases` cases.

    `look_back`: the passages found for answers without their marks, by `words` and by the `model` where there is one.
    `citations`: those of the answers themselves, `unchecked` and `checked` by the support check.
    `removals`: what the support check took away against what it should have.
    """

    cases: int
    look_back: Mapping[str, Scores]
    citations: Mapping[str, Scores]
    removals: Scores


def read_case(line: Line) -> Case:
    """Read one line of labelled data."""
    name, question, answer = line.text("id"), line.text("question"), line.text("answer")
    given = [(one.text("id"), one.text("text")) for one in line.lines("passages")]
    cited = line.texts("cited")
    ids = [one for one, _ in given]
    repeated = sorted({one for one in ids if ids.count(one) > 1})
    unknown = sorted(set(cited) - set(ids))
    if repeated:
        line.faults.append(f"passages has the id {repeated[0]!r} twice; give each its own")
    if unknown and given:
        line.faults.append(f"cited names {unknown[0]!r}, which is no id in passages ({', '.join(ids)})")
    passages = tuple(Passage(one, source="", path="", title="", text=text) for one, text in given)
    return Case(name, question, answer, passages, frozenset(cited))


async def measure(cases: Sequence[Case], parts: Parts) -> Measured:
    """Measure the look-back and the support check on labelled cases. Raises `ModelError` when the model fails."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> _Outcome:
        async with gate:
            return await _measure(case, parts)

    async with task_group() as tasks:
        running = [tasks.create_task(one(case)) for case in cases]
    return await asyncio.to_thread(_summed, [task.result() for task in running])


@dataclass(frozen=True, slots=True)
class _Outcome:
    look_back: Mapping[str, Counts]
    unchecked: Counts
    checked: Counts
    removed: Counts


def _summed(outcomes: Sequence[_Outcome]) -> Measured:
    ways = outcomes[0].look_back if outcomes else ()
    return Measured(
        len(outcomes),
        {way: score([one.look_back[way] for one in outcomes]) for way in ways},
        {
            "unchecked": score([one.unchecked for one in outcomes]),
            "checked": score([one.checked for one in outcomes]),
        },
        score([one.removed for one in outcomes]),
    )


async def _measure(case: Case, parts: Parts) -> _Outcome:
    text = _with_handles(case)
    bare = resolve(text, ()).text
    found = {"words": await parts.turns.aside(overlap_support, bare, case.passages, case.question)}
    if parts.model:
        found["model"] = await ask_model(parts.model, bare, case.passages, parts, Budget(parts.settings.budget))
    if not marks(text):
        everything = range(len(case.passages))
        text = mark_sentences(text, dict.fromkeys(range(len(sentences(text))), everything))
    given = {one.passage_id for one in resolve(text, case.passages).citations}
    check = await unsupported(text, case.passages, parts.library, _SECONDS, asked=case.question, turns=parts.turns)
    kept = {one.passage_id for one in resolve(text, case.passages, check.refused).citations}
    true = given & case.cited
    return _Outcome(
        {way: Counts.of(_ids(support, case), case.cited) for way, support in found.items()},
        Counts.of(given, true),
        Counts.of(kept, true),
        Counts.of(given - kept, given - true),
    )


def _ids(support: Mapping[int, Sequence[int]], case: Case) -> set[str]:
    return {case.passages[position].id for positions in support.values() for position in positions}


def _with_handles(case: Case) -> str:
    """Return the answer with the marks that the line knows, [p1], in place of the passages' own ids."""
    places = {passage.id: position for position, passage in enumerate(case.passages)}

    def handles(match: re.Match[str]) -> str:
        ids = [one.strip() for one in match[1].split(",")]
        known = all(one in places for one in ids)
        return f"[{', '.join(handle(places[one]) for one in ids)}]" if known else match[0]

    return _IDS.sub(handles, case.answer)


async def citations(settings: Settings, data: Path, *, as_json: bool, plot: Path | None = None) -> int:
    """Measure the look-back and the support check. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_case, FORM)
    async with open_app(settings) as app:
        measured = await measure(cases, app.parts)
    rows = {f"look-back, {way}": scores for way, scores in measured.look_back.items()}
    rows |= {f"citations, {way}": scores for way, scores in measured.citations.items()}
    rows["removals"] = measured.removals
    if plot:
        await save(score_charts(rows), plot)
    if as_json:
        print_json(citations_as_json(measured))
        return 0
    print_lines([title(measured.cases), *score_table(rows)])
    return 0


def citations_as_json(measured: Measured) -> Mapping[str, Any]:
    """Return the object that `kimas eval citations --json` prints (a contract)."""
    return {
        "kind": "citations",
        "cases": measured.cases,
        "level": LEVEL,
        "look_back": {way: scores_as_json(scores) for way, scores in measured.look_back.items()},
        "citations": {way: scores_as_json(scores) for way, scores in measured.citations.items()},
        "removals": scores_as_json(measured.removals),
    }
