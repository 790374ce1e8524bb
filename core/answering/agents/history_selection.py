"""The context manager for the summarizer: which messages matter for a question, and what is wanted now (KIMAs 3.2.2).

The light model is asked at the very beginning, beside the rewrite and the search. Its reply is read as it is written:
the indices come first, so that they can be used before the analysis is complete. Whoever writes the answer takes what
is there when it could begin; a light model that is slower than everything else delays nothing beyond its share.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from core.answering.agents.conversation import numbered, speakers
from core.answering.context.dependencies import Parts
from core.errors import ServiceError
from core.grounding.evidence import defuse
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.json_repair import cleaned
from core.llm.structured_output import read
from core.observability.logs import logger
from core.ports import ChatModel
from core.runtime.budget import Budget, Why
from core.text.keywords import content_words
from core.types import Question, Turn

# After the indices the analysis is read for as long as it comes without such a pause: fast models lose nothing by it.
PAUSE_S = 0.015
# However late it is: the reply may be on its way, for instance when a client was opened for this very question.
LEAST_WAIT_S = 0.05
MAX_CHARS = 2000
INDICES, ANALYSIS = "indices_of_related_messages", "analysis"
SHAPE = Shape(
    "context",
    "Which messages of a conversation matter for the question, and what the asker wants",
    (
        Slot(
            INDICES,
            "ids",
            "list of the numbers of the related messages, as strings; empty when none is related",
            (
                *("indices", "related messages", "related", "messages", "message indices", "relevant messages", "ids"),
                *(
                    "related indices",
                    "numbers",
                    "index",
                    "相关消息",
                    "相关消息索引",
                    "索引",
                    "相关",
                    "编号",
                    "消息编号",
                ),
            ),
        ),
        Slot(
            ANALYSIS,
            "text",
            "what the asker wants now, in one short sentence",
            ("intent", "reason", "summary", "explanation", "understanding", "分析", "意图", "总结", "说明"),
        ),
    ),
)
_BARE = re.compile(
    r"(?i)(?=.*\d)(?:[\s\d,，、;；\-–\[\]()（）【】.。#第条和]|and|to|p(?=\d))+|\W*(?:none|no messages?|无|没有)\W*"
)
_NOTHING = re.compile(r"(?i)^\W*(?:none|no|无|没有)|^\W*0\W*$")
_COUNTED = re.compile(r"(?i)(?:messages?|turns?|numbers?|消息|第)\D{0,12}\d")
_PROSE = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Understood(Question):
    """A question as the summarizer gets it: its history is what matters of the conversation.

    `analysis` says what the asker wants now; empty where nobody has said it in time. `labels` are those of everybody in
    the whole conversation, so that people keep theirs.
    """

    analysis: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """What the light model said: positions of related messages (from 0, in order), and the analysis if it was there."""

    positions: tuple[int, ...]
    analysis: str = ""


class Selecting:
    """A selection on its way. Made by `begin`, which owns no task: the given group does."""

    def __init__(self, question: Question, budget: Budget) -> None:
        self._question = question
        self._budget = budget
        self._deadline = asyncio.get_running_loop().time() + budget.share("context")
        self._text = ""
        self._ended = False
        self._why: Why = "late"
        self._heard = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    def begin(
        cls, question: Question, parts: Parts, budget: Budget, tasks: asyncio.TaskGroup, *, plain: bool = False
    ) -> Selecting:
        """Ask the light model, where there is one, there is a conversation, and `context.select` is on.

        With `plain`, nobody is: greetings and the baseline do without.
        """
        selecting = cls(question, budget)
        if parts.model is not None and question.history and parts.settings.context.select and not plain:
            selecting._reading = tasks.create_task(selecting._read(parts.model, parts))
        return selecting

    async def _read(self, model: ChatModel, parts: Parts) -> None:
        request = (
            f"<conversation>\n{numbered(self._question, self._question.history)}\n</conversation>\n"
            f"<question{asked_by(self._question)}>\n{defuse(self._question.text)}\n</question>"
        )
        turns = [Turn("user", request)]
        pieces = model.stream(parts.prompts.fill("context"), turns, role="light", budget=self._budget, agent="context")
        try:
            with self._budget.timed("context"):
                async with aclosing(pieces):
                    async for piece in pieces:
                        self._text += piece
                        self._heard.set()
                        if len(self._text) > MAX_CHARS:
                            break
            self._why = "unreadable"
        except ServiceError as fault:
            self._why = "failed"
            logger(__name__).warning("stage.failed", stage="context", error=str(fault))
        finally:
            self._ended = True
            self._heard.set()

    async def understood(self) -> Question:
        """Return the question with the messages that matter and the analysis, or, when it is not there in time, as is.

        Waits until the indices are there, at most until the share `context` of the budget is over, counted from the
        question; where they are, the analysis is taken when it comes without a pause. May be asked again later: what
        has come in the meantime then counts.
        """
        if self._reading is None:
            return self._question
        clock = asyncio.get_running_loop().time
        deadline = max(self._deadline, clock() + LEAST_WAIT_S)
        while True:
            self._heard.clear()
            selection = self._selection()
            if self._ended or (selection is None and hopeless(self._text)):
                break
            wait = PAUSE_S if selection else deadline - clock()
            try:
                async with asyncio.timeout(max(0.0, wait)):
                    await self._heard.wait()
            except TimeoutError:
                break
        return self._with(self._selection())

    def so_far(self) -> Question:
        """Return the same without waiting."""
        return self._with(self._selection())

    def waiting(self) -> bool:
        """Say whether a selection is still to come."""
        return self._reading is not None and not self._ended and self._selection() is None

    def guessed(self) -> Question:
        """Return the same without waiting, by the rules' guess where nothing has come."""
        return self._with(self._selection() or Selection(related_by_rule(self._question)))

    def close(self, used: Question) -> None:
        """Stop reading. Notes the cut when the question that is `used` has no selection though one was asked for."""
        if self._reading is not None:
            self._reading.cancel()
            if not isinstance(used, Understood):
                self._budget.cut_off("context", "unreadable" if hopeless(self._text) else self._why)

    def _selection(self) -> Selection | None:
        return selection_of(self._text, len(self._question.history), ended=self._ended)

    def _with(self, selection: Selection | None) -> Question:
        if selection is None:
            return self._question
        one = self._question
        related = tuple(one.history[position] for position in selection.positions)
        asked = (one.text, related, one.id, one.author, one.author_id, one.key)
        return Understood(*asked, analysis=selection.analysis, labels=speakers(one))


def related_by_rule(question: Question) -> tuple[int, ...]:
    """Return the positions of the exchanges (a message with its answers) that share words with a question."""
    wanted = set(content_words(question.text))
    exchanges: list[list[int]] = []
    for position, turn in enumerate(question.history):
        if turn.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(position)
    said = [(one, {word for at in one for word in content_words(question.history[at].text)}) for one in exchanges]
    return tuple(position for one, words in said if wanted & words for position in one)


def selection_of(reply: str, count: int, *, ended: bool) -> Selection | None:
    """Read a selection among `count` messages out of a reply, or out of what has come of it; None when it says none.

    Two lines as asked for, JSON, brackets, `key: value` lines, in English or Chinese. Before the reply has ended, only
    indices that are certainly complete count, and no analysis does. Never raises.
    """
    text = cleaned(reply) if ended else reply.lstrip()
    first, newline, rest = text.partition("\n")
    bare = _BARE.fullmatch(first.strip())
    if bare and (newline or ended):
        positions = _positions(first, count)
        return None if positions is None else Selection(positions, _one_line(rest) if ended else "")
    if not ended and not ("]" in text or ("\n" in text and "{" not in text)):
        return None

    def accept(record: Record) -> Selection | None:
        said = record.values.get(INDICES)
        # A sentence holds numbers that are none of messages: a version, a port.
        if isinstance(said, str) and len(_PROSE.findall(said)) > 2 and not _COUNTED.search(said):
            return None
        positions = () if said is not None and _NOTHING.match(str(said)) else record.ids(INDICES, count)
        if positions is None or INDICES not in record.values:
            return None
        return Selection(tuple(sorted(set(positions))), record.text(ANALYSIS) if ended else "")

    return read(text, SHAPE, accept)


def hopeless(text: str) -> bool:
    """Say whether what has come of a reply is talk: it begins with a word that is no key and no `none`."""
    word = re.match(r"\W*([A-Za-z]{2,})", text)
    if not word or text.lstrip().startswith(("<", "`")):
        return False
    begun = word[1].lower()
    keys = [name.split("_")[0].split()[0] for slot in SHAPE.slots for name in (slot.name, *slot.keys)]
    return not any(key.startswith(begun) or begun.startswith(key) for key in (*keys, "none", "no", "json", "the"))


def labels_of(question: Question) -> Mapping[str, str]:
    """Return the labels of everybody in the conversation of a question, also where only a part of it is left."""
    return question.labels if isinstance(question, Understood) else speakers(question)


def asked_by(question: Question) -> str:
    """Return the attribute that says who asks, where the platform says it."""
    label = labels_of(question).get(question.author_id or question.author, "")
    return f' asked_by="{label}"' if label else ""


def _positions(line: str, count: int) -> tuple[int, ...] | None:
    if _NOTHING.match(line):
        return ()
    numbers: set[int] = set()
    for low, high in re.findall(r"(\d{1,3})(?:\s*(?:[-–]|to)\s*(\d{1,3}))?", line):
        numbers |= set(range(int(low), min(int(high or low), count) + 1))
    positions = tuple(sorted(number - 1 for number in numbers if 1 <= number <= count))
    return positions or None


def _one_line(text: str) -> str:
    line = re.sub(r"(?i)^\W*(?:analysis|分析)\s*[:：]\s*", "", " ".join(text.split()))
    return line.strip("\"'`*“” ")[:400]
