"""Proposals for labelled lines: from the knowledge, from ratings, from unanswered questions, from a chat's messages."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bots.daemon.bootstrap import App
from core.errors import ModelError, UsageError
from core.evidence.rendering import escape_delimiters
from core.formatting import pluralize
from core.llm.prompts import Prompts
from core.llm.reply_parsing import extract_json
from core.observability.logs import get_logger
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.settings import Settings
from core.storage.labelling import JournaledQuestion, LabellingRepository
from core.types import Passage, Turn

_log = get_logger(__name__)

ORIGINS = ("knowledge", "ratings", "unanswered")
TEST_SHARE = 0.3
MAX_PASSAGE_CHARS = 4_000
# Of the messages that are looked at, many were proposed before.
SCANNED_PER_PROPOSAL = 50
_SEED = 20
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested proposals: from where, from which chat (its platform and id; None: all), how many of each origin.

    `known_ids` were accepted or refused before.
    """

    origins: tuple[str, ...]
    chat: tuple[str, str] | None
    known_ids: frozenset[str]
    count: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A line to be accepted, and what a person should know who decides: where it is from, and the text behind it."""

    line: Line
    origin: str
    context: str = ""


def choose_split(line_id: str) -> str:
    """Return the split of a line. It depends on the id alone: a line proposed again stays in its split.

    >>> choose_split("telegram:1:7") == choose_split("telegram:1:7")
    True
    """
    share = int(hashlib.sha256(line_id.encode()).hexdigest()[:8], 16) / 0x1_0000_0000
    return "test" if share < TEST_SHARE else "fit"


async def propose_from_knowledge(
    app: App, settings: Settings, wish: Wish, reasons: list[str]
) -> AsyncGenerator[Proposal]:
    """Yield questions that a model writes for passages drawn at random; add to `reasons` why there are none.

    Raises `UsageError` without a model.
    """
    model = app.models.general
    if model is None:
        raise UsageError("--from knowledge needs a language model that writes the questions: set models.main")
    prompts = Prompts.read(settings.prompts)
    proposal_count = 0
    passage_count = 0
    new_count = 0
    async for passage in _draw_passages(app, settings):
        line_id = f"knowledge:{hashlib.sha256(passage.text.encode()).hexdigest()[:12]}"
        passage_count += 1
        if line_id in wish.known_ids:
            continue
        new_count += 1
        question, answer = await _write_question(model, prompts, passage, settings)
        if question and answer:
            document = f"{passage.source}: {passage.path}"
            line = {"id": line_id, "question": question, "reference": answer, "relevant": [document]}
            yield Proposal({**line, "split": choose_split(line_id)}, document, passage.text)
            proposal_count += 1
        if proposal_count == wish.count:
            return
    if not passage_count:
        reasons.append("your sources have no passages: kimas ingest reads them")
    elif not new_count:
        reasons.append(f"each of {pluralize(passage_count, 'passage')} has been proposed")
    elif not proposal_count:
        reasons.append(f"the model wrote no question that can be used, for any of {pluralize(new_count, 'passage')}")


async def _draw_passages(app: App, settings: Settings) -> AsyncIterator[Passage]:
    """Yield passages of all stored sources in random order, the same in every run: the nearest to drawn vectors.

    Of a source with very many, those of a sample.
    """
    candidates = []
    for source in settings.sources:
        vectors = await app.store.vectors(source)
        candidates += [(source, vector) for vector in vectors]
    for index in np.random.default_rng(_SEED).permutation(len(candidates)):
        source, vector = candidates[int(index)]
        passages = await app.store.search("", vector, [source], 1)
        if passages:
            yield passages[0]


async def _write_question(model: ChatModel, prompts: Prompts, passage: Passage, settings: Settings) -> tuple[str, str]:
    """Return a question and its answer; empty texts when the passage is good for none."""
    request = f"<passage>\n{escape_delimiters(passage.text[:MAX_PASSAGE_CHARS])}\n</passage>"
    try:
        reply = await model.complete(
            prompts.fill("make_question"),
            [Turn("user", request)],
            role="main",
            budget=Budget(settings.budget),
            agent="make_question",
        )
    except ModelError as error:
        _log.warning("proposal.failed", document=passage.path, error=str(error))
        return "", ""
    values: Mapping[Any, Any] = next((value for value in extract_json(reply) if isinstance(value, Mapping)), {})
    return _to_text(values.get("question")), _to_text(values.get("answer"))


def _to_text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


async def propose_from_journal(repository: LabellingRepository, wish: Wish) -> Sequence[Proposal]:
    """Return liked answers with what they cited, and questions that found no good answer, each newest first."""
    limit = wish.count * SCANNED_PER_PROPOSAL
    proposals: list[Proposal] = []
    if "ratings" in wish.origins:
        proposals += _to_proposals(await repository.get_liked_answers(wish.chat, limit), "ratings", wish)
    if "unanswered" in wish.origins:
        proposals += _to_proposals(await repository.get_unanswered_questions(wish.chat, limit), "unanswered", wish)
    return proposals


def _to_proposals(questions: Sequence[JournaledQuestion], origin: str, wish: Wish) -> list[Proposal]:
    proposals = []
    for question in [question for question in questions if question.id not in wish.known_ids][: wish.count]:
        line: Line = {"id": question.id, "question": question.text}
        if origin == "ratings":
            line |= {"reference": question.reply, "relevant": list(question.documents)}
        proposals.append(Proposal({**line, "split": choose_split(question.id)}, origin, question.reply))
    return proposals


async def propose_gate_lines(repository: LabellingRepository, wish: Wish) -> Sequence[Proposal]:
    """Return messages of a chat, newest first, with what the bot did as the proposed label."""
    if wish.chat is None:
        return []
    messages = await repository.get_messages(wish.chat, wish.count * SCANNED_PER_PROPOSAL)
    lines: list[Line] = [
        {
            "id": message.id,
            "text": message.text,
            "should_answer": message.is_answered,
            "split": choose_split(message.id),
        }
        for message in messages
        if message.id not in wish.known_ids
    ]
    return [Proposal(line, "history") for line in lines[: wish.count]]
