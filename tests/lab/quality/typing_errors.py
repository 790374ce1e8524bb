"""Questions as people type them: English ones of the three unseen sets with one or two typing errors, and without.

The errors are made by a fixed seed for each question: in one or two of its words of content, two neighbouring letters
change places, or one letter is doubled, is missing, or is its neighbour's on the keyboard; seldom the first one. The
questions are divided by the hash of their id; only the development half was looked at while the correction was made.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import App, open_app
from core.answering.agents.spelling import correct_spelling
from core.language.lexicon import get_words
from core.runtime.budget import Budget
from core.types import Question
from tests.lab.quality import second_unseen_projects, third_unseen_projects, unseen_projects
from tests.lab.quality._retrieval import RememberingEmbedder, first_rank, hit, mrr
from tests.lab.quality.figures import Figure
from tests.lab.quality.new_projects import share
from tests.lab.quality.quoted_answers import QuotedQuestion, judge
from tests.lab.quality.repository_questions import CUTOFF, Case, clone, make_settings, read_cases

SETS = (unseen_projects, second_unseen_projects, third_unseen_projects)
# Those whose sources have no code: that would take most of the time.
PROJECTS = {
    name: project
    for part in SETS
    for name, project in part.PROJECTS.items()
    if project.sources.keys() <= {"docs", "configuration"}
}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())
TWO_ERRORS = 0.4
FIRST_LETTER = 0.05
MIN_LETTERS = 4
NEIGHBOURS = {
    letter: row[max(0, place - 1) : place] + row[place + 1 : place + 2]
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for place, letter in enumerate(row)
}
_WORD = re.compile(rf"(?<![\w./\\@:#$%<>`'’-])[A-Za-z][a-z]{{{MIN_LETTERS - 1},}}(?![\w/\\@<>`'’(-]|[.:]\S)")


def mistype(text: str, seed: str) -> str:
    """Return a question with one or two typing errors, the same for the same seed."""
    randomness = random.Random(seed)
    usual = get_words("en", "function_words", "grammar_words", "query_words")
    places = [match.span() for match in _WORD.finditer(text) if match[0].lower() not in usual]
    count = 2 if randomness.random() < TWO_ERRORS else 1
    for start, end in sorted(randomness.sample(places, min(count, len(places))), reverse=True):
        text = text[:start] + _mistype_word(text[start:end], randomness) + text[end:]
    return text


def _mistype_word(word: str, randomness: random.Random) -> str:
    place = 0 if randomness.random() < FIRST_LETTER else randomness.randrange(1, len(word))
    kind = randomness.choice(("swapped", "doubled", "missing", "neighbour"))
    head, letter, tail = word[:place], word[place], word[place + 1 :]
    if kind == "swapped":
        head, letter, tail = (head, tail[0] + letter, tail[1:]) if tail else (head[:-1], letter + head[-1], "")
    elif kind == "doubled":
        letter *= 2
    elif kind == "missing":
        letter = ""
    else:
        letter = randomness.choice(NEIGHBOURS[letter.lower()])
    mistyped = head + letter + tail
    return mistyped if mistyped != word else word[:-1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question: whether it was changed, the rank of a right file, and what its answer is worth."""

    case: Case
    is_changed: bool
    rank: int
    is_useful: bool | None = None
    is_helped: bool | None = None


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    """Ask every English question as it was written, and with typing errors."""
    outcomes = asyncio.run(ask_all(data))
    figures = [Figure("clean questions that are changed", share([item.is_changed for item in outcomes["clean"]]))]
    for name, group in outcomes.items():
        for half, held_out in (("development", False), ("held out", True)):
            chosen = [item for item in group if item.case.is_held_out is held_out]
            figures += _make_figures(f"{name}, {half}", chosen)
    return figures


def _make_figures(name: str, outcomes: Sequence[Outcome]) -> list[Figure]:
    ranks = [item.rank for item in outcomes]
    return [
        Figure(f"{name}: hit@{CUTOFF}", hit(ranks, CUTOFF)),
        Figure(f"{name}: MRR", mrr(ranks)),
        Figure(f"{name}: useful answers", share([item.is_useful for item in outcomes if item.is_useful is not None])),
        Figure(
            f"{name}: useful answers, or a right page named",
            share([item.is_helped for item in outcomes if item.is_helped is not None]),
        ),
    ]


async def ask_all(data: Path) -> Mapping[str, list[Outcome]]:
    """Return what becomes of all questions, clean and mistyped."""
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    embedder = await RememberingEmbedder.open(data)
    try:
        for part in SETS:
            records = {
                record["id"]: record for record in map(json.loads, part.QUESTIONS.read_text("utf-8").splitlines())
            }
            for name in part.PROJECTS.keys() & PROJECTS.keys():
                cases = [case for case in read_cases(part.QUESTIONS) if (case.project, case.kind) == (name, "English")]
                async with open_app(make_settings(data, name, PROJECTS[name]), embedder=embedder) as app:
                    result = await app.refresh()
                    assert not result.failures, result.failures
                    for case in cases:
                        text = case.question.text
                        for kind, typed in (("clean", text), ("mistyped", mistype(text, case.id))):
                            outcomes[kind].append(await _ask(case, typed, records[case.id], app))
    finally:
        await embedder.close()
    return outcomes


async def _ask(case: Case, typed: str, record: Mapping[str, Any], app: App) -> Outcome:
    is_changed = await correct_spelling(typed, app.library, Budget(app.settings.budget)) != typed
    reply = await app.answer(Question(typed), SilentSink())
    rank = first_rank(reply.passages, case.files)
    if not record["facts"]:
        return Outcome(case, is_changed, rank)
    question = QuotedQuestion(case.id, "", "", case.language, typed, "", tuple(record["facts"]), record["topic"])
    judgement = judge(question, reply)
    return Outcome(case, is_changed, rank, judgement.is_useful, judgement.is_helped(case.files))
