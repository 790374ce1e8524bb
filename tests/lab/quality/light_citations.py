"""The citation check of `whole_prompts` with a light model, which decides the marks that words cannot.

There is no light model here, so somebody played it: who wrote `whole_prompts/light_replies.jsonl` saw the requests of
ten answers of each held-out project, as the product sends them, and neither the answers' marks nor what is true. One
request an answer has the sentences that are in doubt in any of its three variants. Each line has the `id` of an answer,
and for each of its sentences in doubt the positions of the passages that were named, from 0.

    python -m tests.lab.quality.light_citations requests FOLDER     write FOLDER/requests.md, to be played
    python -m tests.lab.quality.light_citations replies FOLDER      put FOLDER/replies.md into the set

In both files `=== ID` precedes a request and its reply.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.answering.agents.look_back import find_support, get_known_text, judge_doubts
from core.answering.context import AnswerDependencies
from core.citations.check import CitationCheck, check_citations
from core.llm.prompts import Prompts
from core.ports import ChatModel
from core.ports.models import ModelRole, RequestBudget
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import ResponseSchema, Turn
from tests.lab.quality import whole_prompts
from tests.lab.quality.figures import Figure
from tests.lab.quality.whole_prompts import FOLDER, LANGUAGES, Answer, Outcome, Variant, read_answers
from tests.support.fixtures import InMemoryLibrary, OrderKeeper

REPLIES = FOLDER / "light_replies.jsonl"
REPOSITORIES = whole_prompts.REPOSITORIES
VARIANTS: tuple[Variant, ...] = ("true", "random", "next best")
ANSWERS_PER_PROJECT = 10
MAX_LOST = 0.01
MIN_FOUND = 0.9
_SETTINGS = Settings.model_validate({"sources": {}})
_REPLY = re.compile(r"^=== (\S+)\n(.*?)(?=^=== \S+$|\Z)", re.MULTILINE | re.DOTALL)


@dataclass
class PlayedModel:
    """A light model with one reply. It keeps what it was asked."""

    reply: str = "none"
    requests: list[str] = field(default_factory=list)

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply."""
        yield await self.complete(system, turns, role=role, budget=budget, agent=agent)

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: ModelRole,
        budget: RequestBudget,
        response_schema: ResponseSchema | None = None,
        agent: str = "",
    ) -> str:
        """Return the reply."""
        self.requests.append(f"{system}\n\n{turns[-1].text}")
        return self.reply


def build(mirror: Path, data: Path) -> None:
    """Build the answers of `whole_prompts`."""
    whole_prompts.build(mirror, data)


def measure(data: Path) -> list[Figure]:
    """Check the drawn answers with their own marks, and with moved ones; the light model decides what is in doubt."""
    outcomes = asyncio.run(check_all(read_drawn_answers(data)))
    figures = []
    for language, name in LANGUAGES.items():
        own = [item for item in outcomes if item.answer.language == language]
        true = [item for item in own if item.variant == "true"]
        lost_share = sum(item.is_lost for item in true) / max(1, len(true))
        wrong_share = sum(item.is_moved and not item.is_right for item in true) / max(1, len(true))
        figures.append(Figure(f"true marks lost, {name}", lost_share, MAX_LOST, lower_is_better=True))
        figures.append(Figure(f"true marks moved to a wrong passage, {name}", wrong_share, lower_is_better=True))
        for variant in VARIANTS[1:]:
            false = [item for item in own if item.variant == variant]
            found_share = sum(item.is_lost or item.is_right for item in false) / max(1, len(false))
            title = f"false marks ({variant}) removed or moved to a right passage, {name}"
            figures.append(Figure(title, found_share, MIN_FOUND))
    return figures


def read_drawn_answers(data: Path) -> list[Answer]:
    """Return some held-out answers of each project, drawn by chance, in the order of the data."""
    answers = [answer for answer in read_answers(data) if answer.is_held_out]
    drawn_ids: set[str] = set()
    for project in sorted({answer.project_name for answer in answers}):
        ids = [answer.id for answer in answers if answer.project_name == project]
        drawn_ids.update(random.Random(project).sample(ids, ANSWERS_PER_PROJECT))
    return [answer for answer in answers if answer.id in drawn_ids]


async def check_all(answers: Sequence[Answer]) -> list[Outcome]:
    """Return what the product's check and the light model's replies do to every mark of every variant of answers."""
    replies = {record["id"]: record["support"] for record in map(json.loads, REPLIES.read_text("utf-8").splitlines())}
    outcomes = []
    for answer in answers:
        for variant in VARIANTS:
            text, positions = answer.move_marks(variant)
            check = _check(answer, text)
            changes = await _decide(answer, check, replies.get(answer.id, {}))
            outcomes += [
                Outcome(answer, variant, mark, position, changes.get((mark.index, position), position))
                for mark in answer.marks
                if (position := positions.get(mark.index)) is not None
            ]
    return outcomes


def _check(answer: Answer, text: str) -> CitationCheck:
    return check_citations(text, answer.passages, known=get_known_text(answer.question, _SETTINGS))


async def _decide(
    answer: Answer, check: CitationCheck, support: Mapping[str, Sequence[int]]
) -> Mapping[tuple[int, int], int | None]:
    """Return the changes of a check as the product makes them of the light model's reply."""
    if not check.doubts:
        return check.changes
    sentences = dict.fromkeys(check.doubts.values())
    lines = [
        f"{number}: {', '.join(f'p{position + 1}' for position in support[sentence])}"
        for number, sentence in enumerate(sentences, 1)
    ]
    model = PlayedModel("\n".join(lines))
    return await judge_doubts(model, check, answer.passages, _make_deps(model), Budget(_SETTINGS.budget))


def _make_deps(model: ChatModel) -> AnswerDependencies:
    return AnswerDependencies(_SETTINGS, InMemoryLibrary(), OrderKeeper(), model, Prompts.read(), {})


def list_sentences(answer: Answer) -> list[str]:
    """Return the sentences of an answer that are in doubt in any of its variants."""
    texts = [answer.move_marks(variant)[0] for variant in VARIANTS]
    return sorted({sentence for text in texts for sentence in _check(answer, text).doubts.values()})


async def write_requests(answers: Sequence[Answer], folder: Path) -> None:
    """Write what the light model is asked about each answer, the rules once."""
    lines: list[str] = []
    for answer in answers:
        if sentences := list_sentences(answer):
            model = PlayedModel()
            budget = Budget(_SETTINGS.budget)
            await find_support(model, sentences, answer.passages, _make_deps(model), budget)
            rules, request = model.requests[0].split("\n\n<evidence>", 1)
            lines = lines or [rules, ""]
            lines += [f"=== {answer.id}", f"<evidence>{request}", ""]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requests.md").write_text("\n".join(lines), "utf-8")


async def write_replies(answers: Sequence[Answer], folder: Path) -> None:
    """Write what was replied, as the product reads it. Raises `ValueError` for an answer that has no reply."""
    replies = dict(_REPLY.findall((folder / "replies.md").read_text("utf-8")))
    lines = []
    for answer in answers:
        if sentences := list_sentences(answer):
            if answer.id not in replies:
                raise ValueError(f"{answer.id} has no reply")
            model = PlayedModel(replies[answer.id])
            budget = Budget(_SETTINGS.budget)
            found = await find_support(model, sentences, answer.passages, _make_deps(model), budget)
            support = {sentence: found.get(number, []) for number, sentence in enumerate(sentences)}
            lines.append(json.dumps({"id": answer.id, "support": support}, ensure_ascii=False))
    REPLIES.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def main() -> None:
    """Run a command of the module's description."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=("requests", "replies"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    data = Path(__file__).resolve().parents[3] / ".cache/quality/light_citations"
    answers = read_drawn_answers(data)
    write = write_requests if arguments.command == "requests" else write_replies
    asyncio.run(write(answers, arguments.folder))


if __name__ == "__main__":
    main()
