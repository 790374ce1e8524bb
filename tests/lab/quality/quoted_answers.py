"""Answers without a model: is what is quoted useful, and is nothing quoted that was not asked for?

The questions are ours (`quoted_answers.jsonl`): each names the repository and the commit, the file that answers it, and
patterns that a useful answer contains (`facts`, all of them). A quote is irrelevant when it has neither a fact nor the
question's `topic`. An answer is useful when it has every fact and at most one irrelevant quote. A question is helped by
a useful answer, or by one that quotes nothing and names the right page. Questions without facts are about something
else: nothing should be quoted or named for them. Questions are divided by the hash of their id; only the
development half was looked at while the rules were made.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.types import Question, Reply
from tests.lab.quality.figures import Figure

QUESTIONS = Path(__file__).with_suffix(".jsonl")
REPOSITORIES = (
    "pallets/click",
    "scrapy/scrapy",
    "optuna/optuna",
    "InternLM/lmdeploy",
    "open-compass/opencompass",
    "open-mmlab/mmpose",
    "InternLM/xtuner",
    "InternLM/HuixiangDou",
)
# What a maintainer would give the bot: the guide, and the package's code where the guide refers to it.
DOCUMENTS = ["/README*.md", "/README.rst", "/docs/**/*.md", "/docs/**/*.rst", "/tutorial/**"]
CODE = {"pallets/click": "/src/click/*.py", "scrapy/scrapy": "/scrapy/**/*.py", "optuna/optuna": "/optuna/**/*.py"}
MAX_USEFUL_IRRELEVANT = 1
# Where a quotation ends: before the next one, and before the note that no model wrote the answer.
_END_OF_QUOTATION = re.compile(r"\n\n(?=> |\*[^*\n]+\*\Z)")
_MARK_AT_END = re.compile(r"\[\d+\]\Z")


@dataclass(frozen=True, slots=True)
class QuotedQuestion:
    """A question, and the patterns of `facts` and `topic` (see the module); none when it is about something else."""

    id: str
    repository: str
    commit: str
    language: str
    question: str
    file: str
    facts: tuple[str, ...]
    topic: str

    @property
    def is_held_out(self) -> bool:
        """Return whether the question was left alone while the rules were made."""
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 1


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is true of the answer to one question. `pages` are the files that it names in place of an answer."""

    question: QuotedQuestion
    text: str
    missing: tuple[str, ...]
    irrelevant: tuple[str, ...]
    pages: tuple[str, ...] = ()

    @property
    def is_useful(self) -> bool:
        """Return whether a reader is helped: every fact, and little besides."""
        return not self.missing and len(self.irrelevant) <= MAX_USEFUL_IRRELEVANT

    def is_helped(self, files: Collection[str]) -> bool:
        """Return whether the answer is useful, or names one of the files that answer the question."""
        return self.is_useful or not set(files).isdisjoint(self.pages)


def read_questions(file: Path = QUESTIONS) -> list[QuotedQuestion]:
    """Return the committed questions."""
    records = map(json.loads, file.read_text("utf-8").splitlines())
    return [QuotedQuestion(**record | {"facts": tuple(record["facts"])}) for record in records]


def make_settings(repository: str, mirror: Path, data: Path) -> Settings:
    """Return the configuration of a bot for one repository: no model, everything else as shipped."""
    url = str(mirror / repository.replace("/", "+") / "repo")
    sources = {"guide": {"kind": "git", "url": url, "include": DOCUMENTS}}
    if repository in CODE:
        sources["code"] = {"kind": "git", "url": url, "include": [CODE[repository]]}
    return Settings.model_validate(
        {"name": "Quality", "data_dir": data / repository.replace("/", "+"), "sources": sources}
    )


def build(mirror: Path, data: Path) -> None:
    """Read the repositories as the bot would, and name the questions whose facts are no longer in their file."""
    (data / "mirror").write_text(str(mirror.resolve()), "utf-8")
    for repository in REPOSITORIES:
        asyncio.run(_ingest(make_settings(repository, mirror.resolve(), data)))
    report_changes(read_questions(), mirror)


def report_changes(questions: Iterable[QuotedQuestion], mirror: Path) -> None:
    """Name the questions whose facts are no longer in the named file."""
    for question in questions:
        if question.facts:
            folder = mirror / question.repository.replace("/", "+") / "repo"
            command = ["git", "-C", str(folder), "show", f"HEAD:{question.file}"]
            text = subprocess.run(command, check=False, capture_output=True, text=True).stdout
            if any(not re.search(fact, text) for fact in question.facts):
                print(f"{question.id}: {question.file} has changed since {question.commit[:10]}")


async def _ingest(settings: Settings) -> None:
    async with open_app(settings, with_answers=False) as app:
        await app.refresh()


def measure(data: Path) -> list[Figure]:
    """Ask every question of the real pipeline and judge what it quotes."""
    judgements = asyncio.run(answer_all(data, read_questions()))
    write_report(data / "answers.md", judgements)
    on_topic = [judgement for judgement in judgements if judgement.question.facts]
    off_topic = [judgement for judgement in judgements if not judgement.question.facts]
    return [
        Figure("useful answers", _share(judgement.is_useful for judgement in on_topic), goal=0.7),
        *(
            Figure(
                f"useful answers, {name}",
                _share(judgement.is_useful for judgement in on_topic if judgement.question.is_held_out is held_out),
            )
            for name, held_out in (("development", False), ("held out", True))
        ),
        *(
            Figure(
                f"useful answers, {name}",
                _share(judgement.is_useful for judgement in on_topic if judgement.question.language == language),
            )
            for name, language in (("English", "en"), ("Chinese", "zh"))
        ),
        Figure(
            "useful answers, or a right page named", _share(item.is_helped([item.question.file]) for item in on_topic)
        ),
        Figure("answers with an irrelevant quote", _share(bool(item.irrelevant) for item in on_topic)),
        Figure(
            "off-topic questions quoted", _share(bool(item.irrelevant) for item in off_topic), 0.1, lower_is_better=True
        ),
        Figure(
            "off-topic questions that get pages",
            _share(bool(item.pages) for item in off_topic),
            0.1,
            lower_is_better=True,
        ),
    ]


async def answer_all(data: Path, questions: Sequence[QuotedQuestion]) -> list[Judgement]:
    """Return the judgements on the answers to all questions, repository by repository."""
    mirror = Path((data / "mirror").read_text("utf-8"))
    judgements: list[Judgement] = []
    for repository in REPOSITORIES:
        async with open_app(make_settings(repository, mirror, data)) as app:
            for question in questions:
                if question.repository == repository:
                    reply = await app.answer(Question(question.question), SilentSink())
                    judgements.append(judge(question, reply))
    return judgements


def judge(question: QuotedQuestion, reply: Reply) -> Judgement:
    """Return which facts are missing in a reply, and which of its quotes have nothing to do with the question."""
    quotes = split_quotes(reply.text) if reply.citations else []
    relevant = re.compile("|".join([*question.facts, question.topic]) or r"(?!)", re.IGNORECASE)
    missing_facts = tuple(fact for fact in question.facts if not any(re.search(fact, quote) for quote in quotes))
    irrelevant = tuple(quote for quote in quotes if not relevant.search(quote))
    return Judgement(question, reply.text, missing_facts, irrelevant, tuple(page.path for page in reply.nearest_pages))


def split_quotes(text: str) -> list[str]:
    """Return the quotes of an answer. The first quotation of each has its mark; what follows without one belongs to it.

    >>> split_quotes("> One. [1]\\n\\n```\\na\\n```\\n\\n> More.\\n\\n> Two. [2]\\n\\n*Quoted.*")
    ['> One. [1]\\n\\n```\\na\\n```\\n\\n> More.', '> Two. [2]']
    """
    quotes: list[str] = []
    for piece in _END_OF_QUOTATION.split(text.strip())[:-1]:
        if quotes and not _MARK_AT_END.search(piece.partition("\n\n")[0]):
            quotes[-1] += f"\n\n{piece}"
        else:
            quotes.append(piece)
    return quotes


def write_report(file: Path, judgements: Iterable[Judgement]) -> None:
    """Write the answers with their judgements, for people to read; of the held-out half the judgement alone."""
    file.write_text("\n\n".join(map(_to_report, judgements)), "utf-8")


def _to_report(judgement: Judgement) -> str:
    if judgement.question.is_held_out:
        return f"# {judgement.question.id} (held out): {judgement.is_useful}"
    summary = "useful" if judgement.is_useful else f"missing {judgement.missing}, irrelevant {judgement.irrelevant}"
    return f"# {judgement.question.id}: {judgement.question.question}\n{summary}\n\n{judgement.text}"


def _share(values: Iterable[bool]) -> float:
    value_list = list(values)
    return sum(value_list) / max(1, len(value_list))
