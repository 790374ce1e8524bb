"""Questions as people type them: the English ones of `quoted_answers` with one or two typing errors, and without.

The errors are made by a fixed seed for each question, three times: in one or two of its words of content, two
neighbouring letters change places, or one letter is doubled, is missing, or is its neighbour's on the keyboard; seldom
the first one. What corrects them was made with other projects.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import App, open_app
from core.answering.agents.spelling import correct_spelling
from core.language.lexicon import get_words
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Question
from tests.lab.quality import quoted_answers
from tests.lab.quality._retrieval import first_rank, hit, mrr
from tests.lab.quality.figures import Figure
from tests.lab.quality.new_projects import share
from tests.lab.quality.quoted_answers import QuotedQuestion, judge, read_questions
from tests.lab.quality.repository_questions import CUTOFF

REPOSITORIES = quoted_answers.REPOSITORIES
VERSIONS = ("", "b", "c")
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
    """What became of one question: whether it was changed, the rank of the right file, and what its answer is worth."""

    is_changed: bool
    rank: int
    is_useful: bool


def build(mirror: Path, data: Path) -> None:
    (data / "mirror").write_text(str(mirror.resolve()), "utf-8")


def measure(data: Path) -> list[Figure]:
    """Ask every English question as it was written, and with typing errors."""
    outcomes = asyncio.run(ask_all(data))
    figures = [Figure("clean questions that are changed", share([item.is_changed for item in outcomes["clean"]]))]
    for name, group in outcomes.items():
        ranks = [item.rank for item in group]
        figures.append(Figure(f"{name}: hit@{CUTOFF}", hit(ranks, CUTOFF)))
        figures.append(Figure(f"{name}: MRR", mrr(ranks)))
        figures.append(Figure(f"{name}: useful answers", share([item.is_useful for item in group])))
    return figures


async def ask_all(data: Path) -> Mapping[str, list[Outcome]]:
    """Return what becomes of all questions, clean and mistyped, of bots that know the guides."""
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    mirror = Path((data / "mirror").read_text("utf-8"))
    questions = [item for item in read_questions() if item.language == "en" and item.facts]
    for repository in REPOSITORIES:
        async with open_app(_keep_guide(quoted_answers.make_settings(repository, mirror, data))) as app:
            result = await app.refresh()
            assert not result.failures, result.failures
            for item in questions:
                if item.repository == repository:
                    outcomes["clean"].append(await _ask(item, item.question, app))
                    mistyped = [mistype(item.question, f"{item.id}{version}") for version in VERSIONS]
                    outcomes["mistyped"] += [await _ask(item, text, app) for text in mistyped]
    return outcomes


def _keep_guide(settings: Settings) -> Settings:
    return settings.model_copy(update={"sources": {"guide": settings.sources["guide"]}})


async def _ask(item: QuotedQuestion, typed: str, app: App) -> Outcome:
    is_changed = await correct_spelling(typed, app.library, Budget(app.settings.budget)) != typed
    reply = await app.answer(Question(typed), SilentSink())
    return Outcome(is_changed, first_rank(reply.passages, [item.file]), judge(item, reply).is_useful)
