"""Beginners' questions about projects that the rules of quoted answers were not made with, without a model.

The questions (`beginner_questions.jsonl`) are ours, written from what the guides of the projects are about, before
anything was asked; they have the form of `quoted_answers.py` and are judged as there. Of failures, only those of the
development half were looked at. Every project is also asked about something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.types import Question
from tests.lab.quality import quoted_answers
from tests.lab.quality.figures import Figure
from tests.lab.quality.quoted_answers import Judgement, judge, read_questions
from tests.lab.quality.repository_questions import read_off_topic

QUESTIONS = Path(__file__).with_suffix(".jsonl")
# What a maintainer would give the bot of each repository: its guide.
GUIDES: dict[str, tuple[str, ...]] = {
    "pallets/flask": ("/README.md", "/docs/**"),
    "encode/starlette": ("/README.md", "/docs/**"),
    "celery/celery": ("/README.rst", "/docs/**"),
    "caddyserver/website": ("/src/docs/markdown/**",),
    "vitejs/docs-cn": ("/guide/**", "/config/**", "/plugins/**"),
    "halo-dev/docs": ("/docs/**",),
    "vuejs/pinia": ("/README.md", "/packages/docs/**"),
}
# The same guide in another language.
EXCLUDED = ["/packages/docs/zh/**"]
REPOSITORIES = tuple(GUIDES)


@dataclass(slots=True)
class Answers:
    """The judgements on the answers, and what happened to each question about something else."""

    judgements: list[Judgement] = field(default_factory=list)
    off_topic_quoted: list[bool] = field(default_factory=list)
    off_topic_with_pages: list[bool] = field(default_factory=list)


def make_settings(repository: str, mirror: Path, data: Path) -> Settings:
    """Return the configuration of a bot for one repository: no model, everything else as shipped."""
    name = repository.replace("/", "+")
    source = {
        "kind": "git",
        "url": str(mirror / name / "repo"),
        "include": list(GUIDES[repository]),
        "exclude": EXCLUDED,
    }
    return Settings.model_validate({"name": "Quality", "data_dir": data / name, "sources": {"guide": source}})


def build(mirror: Path, data: Path) -> None:
    """Read the guides as the bot would."""
    (data / "mirror").write_text(str(mirror.resolve()), "utf-8")
    for repository in REPOSITORIES:
        asyncio.run(_ingest(make_settings(repository, mirror.resolve(), data)))
    quoted_answers.report_changes(read_questions(QUESTIONS), mirror)


async def _ingest(settings: Settings) -> None:
    async with open_app(settings, with_answers=False) as app:
        await app.refresh()


def measure(data: Path) -> list[Figure]:
    """Ask every question of the real pipeline and judge what it quotes."""
    answers = asyncio.run(_ask_all(data))
    quoted_answers.write_report(data / "answers.md", answers.judgements)
    halves = {
        "": answers.judgements,
        ", development": [item for item in answers.judgements if not item.question.is_held_out],
        ", held out": [item for item in answers.judgements if item.question.is_held_out],
        ", English": [item for item in answers.judgements if item.question.language == "en"],
        ", Chinese": [item for item in answers.judgements if item.question.language == "zh"],
    }
    return [
        *(Figure(f"useful answers{name}", _share([item.is_useful for item in half])) for name, half in halves.items()),
        Figure(
            "useful answers, or a right page named",
            _share([item.is_helped([item.question.file]) for item in answers.judgements]),
        ),
        Figure("answers with an irrelevant quote", _share([bool(item.irrelevant) for item in answers.judgements])),
        Figure("off-topic questions quoted", _share(answers.off_topic_quoted), 0.1, lower_is_better=True),
        Figure("off-topic questions that get pages", _share(answers.off_topic_with_pages), 0.1, lower_is_better=True),
    ]


async def _ask_all(data: Path) -> Answers:
    mirror = Path((data / "mirror").read_text("utf-8"))
    answers = Answers()
    questions = read_questions(QUESTIONS)
    off_topic = read_off_topic()
    for repository in REPOSITORIES:
        async with open_app(make_settings(repository, mirror, data)) as app:
            for question in questions:
                if question.repository == repository:
                    reply = await app.answer(Question(question.question), SilentSink())
                    answers.judgements.append(judge(question, reply))
            for text in off_topic:
                reply = await app.answer(Question(text), SilentSink())
                answers.off_topic_quoted.append(bool(reply.citations))
                answers.off_topic_with_pages.append(bool(reply.nearest_pages))
    return answers


def _share(values: Sequence[bool]) -> float:
    return sum(values) / max(1, len(values))
