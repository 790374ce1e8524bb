"""How well citations are found (look-back, KIMAs 3.4) and how well false ones are (support check)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.agents.look_back import ask_model
from core.budget import Budget
from core.citations import mark_sentences, marks, resolve, sentences
from core.evaluation.lines import Line
from core.evaluation.scores import Counts, Scores, score
from core.evidence import handle
from core.parts import Parts
from core.support import overlap_support
from core.support_check import unsupported
from core.tasks import task_group
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
