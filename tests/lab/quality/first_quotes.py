"""First quotes: does the first quote of an answer without a model hold the answer?

The questions (`first_quotes.jsonl`) are ours, 14 about each of seven guides, written from reading them before any bot
was asked. Many have a general answer beside special cases, or stand in one part of a long page. `answers` are
alternatives; each is a list of patterns, all of which a right first quote contains, and which no other part of the page
has. How quotes are chosen was made with these questions in view: no half is held out.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.types import Question, Reply
from tests.lab.quality.figures import Figure
from tests.lab.quality.quoted_answers import split_quotes

QUESTIONS = Path(__file__).with_suffix(".jsonl")
# What a maintainer would give the bot of each repository: its guide.
GUIDES: dict[str, tuple[str, ...]] = {
    "pytest-dev/pytest": ("/doc/en/**", "/README.rst"),
    "casey/just": ("/README.md", "/book/**"),
    "withastro/starlight": ("/docs/src/content/docs/**",),
    "honojs/website": ("/docs/**", "/examples/**"),
    "micronaut-projects/micronaut-core": ("/src/main/docs/guide/**",),
    "nushell/nushell.github.io": ("/book/**", "/cookbook/**"),
    "dask/dask": ("/docs/source/**", "/README.rst"),
}
REPOSITORIES = tuple(GUIDES)


@dataclass(frozen=True, slots=True)
class FirstQuoteQuestion:
    """A question, the files that answer it, and the alternatives of what a right first quote contains."""

    id: str
    repository: str
    commit: str
    question: str
    files: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    right: str

    def is_answered_by(self, text: str) -> bool:
        """Return whether a text has all patterns of an alternative."""
        return any(all(re.search(pattern, text) for pattern in patterns) for patterns in self.answers)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was quoted for a question, quote by quote."""

    question: FirstQuoteQuestion
    quotes: tuple[str, ...]

    @property
    def is_first_right(self) -> bool:
        """Return whether the first quote holds the answer."""
        return self.question.is_answered_by(self.quotes[0] if self.quotes else "")

    @property
    def is_any_right(self) -> bool:
        """Return whether one of the quotes holds the answer."""
        return any(map(self.question.is_answered_by, self.quotes))


def read_questions() -> list[FirstQuoteQuestion]:
    """Return the committed questions."""
    records = map(json.loads, QUESTIONS.read_text("utf-8").splitlines())
    return [
        FirstQuoteQuestion(
            **record | {"files": tuple(record["files"]), "answers": tuple(map(tuple, record["answers"]))}
        )
        for record in records
    ]


def make_settings(repository: str, mirror: Path, data: Path) -> Settings:
    """Return the configuration of a bot for one repository: no model, everything else as shipped."""
    name = repository.replace("/", "+")
    source = {"kind": "git", "url": str(mirror / name / "repo"), "include": list(GUIDES[repository])}
    return Settings.model_validate({"name": "Quality", "data_dir": data / name, "sources": {"guide": source}})


def build(mirror: Path, data: Path) -> None:
    """Read the guides as the bot would."""
    (data / "mirror").write_text(str(mirror.resolve()), "utf-8")
    for repository in REPOSITORIES:
        asyncio.run(_ingest(make_settings(repository, mirror.resolve(), data)))


async def _ingest(settings: Settings) -> None:
    async with open_app(settings, with_answers=False) as app:
        await app.refresh()


def measure(data: Path) -> list[Figure]:
    """Ask every question of the real pipeline and look at what it quotes."""
    outcomes = asyncio.run(_ask_all(data))
    answers = ["\n\n".join((f"# {item.question.id}: {item.question.question}", *item.quotes)) for item in outcomes]
    (data / "answers.md").write_text("\n\n".join(answers), "utf-8")
    return [
        Figure("the first quote holds the answer", _share(item.is_first_right for item in outcomes)),
        Figure("a quote holds the answer", _share(item.is_any_right for item in outcomes)),
    ]


async def _ask_all(data: Path) -> list[Outcome]:
    mirror = Path((data / "mirror").read_text("utf-8"))
    outcomes: list[Outcome] = []
    for repository in REPOSITORIES:
        async with open_app(make_settings(repository, mirror, data)) as app:
            for question in read_questions():
                if question.repository == repository:
                    reply = await app.answer(Question(question.question), SilentSink())
                    outcomes.append(Outcome(question, _get_quotes(reply)))
    return outcomes


def _get_quotes(reply: Reply) -> tuple[str, ...]:
    return tuple(split_quotes(reply.text)) if reply.citations else ()


def _share(values: Iterable[bool]) -> float:
    items = list(values)
    return sum(items) / max(1, len(items))
