"""The context manager for the summarizer: which messages matter for a question, and what is wanted now (KIMAs 3.2).

The light model is called at the very beginning, at the same time as the rewrite and the search. The answer waits for
its whole reply, by no more than the share of the budget of the stage. The indices come first: a reply that is cut off
has said which messages count.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, fields

from core.answering.agents.conversation import format_numbered_turns, label_speakers
from core.answering.context import AnswerDependencies
from core.errors import ServiceError
from core.evidence.rendering import escape_delimiters
from core.language.tokens import estimate_tokens
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.reasoning import append_visible
from core.llm.reply_parsing import strip_reasoning
from core.llm.structured_output import parse_structured_reply
from core.observability.logs import get_logger
from core.ports import ChatModel
from core.runtime.budget import Budget, DegradeReason
from core.settings.answering import ContextSettings
from core.types import Question, Turn

_log = get_logger(__name__)

# The least wait even when the share is used up: the first reply over a new connection comes late.
MIN_WAIT_S = 0.05
MAX_REPLY_CHARS = 2000
INDICES_FIELD = "indices_of_related_messages"
ANALYSIS_FIELD = "analysis"
SCHEMA = DecisionSchema(
    "context",
    "Which messages of a conversation matter for the question, and what the asker wants",
    (
        SchemaField(
            INDICES_FIELD,
            "ids",
            "list of the numbers of the related messages, as strings; empty when none is related",
            (
                "indices",
                "related messages",
                "related",
                "messages",
                "message indices",
                "relevant messages",
                "ids",
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
        SchemaField(
            ANALYSIS_FIELD,
            "text",
            "what the asker wants now, in one short sentence",
            ("intent", "reason", "summary", "explanation", "understanding", "分析", "意图", "总结", "说明"),
        ),
    ),
)
_INDEX_LINE = re.compile(
    r"(?i)(?=.*\d)(?:[\s\d,，、;；\-–\[\]()（）【】.。#第条和]|and|to|p(?=\d))+|\W*(?:none|no messages?|无|没有)\W*"
)
_NONE = re.compile(r"(?i)^\W*(?:none|no|无|没有)|^\W*0\W*$")
_MESSAGE_NUMBER = re.compile(r"(?i)(?:messages?|turns?|numbers?|消息|第)\D{0,12}\d")
_PROSE_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class ContextualQuestion(Question):
    """A question as the summarizer gets it: its history holds only the messages that matter.

    `analysis` says what the asker wants now; it is empty when it did not come in time. `speaker_labels` are the labels
    of everybody in the whole conversation, so that people keep theirs.
    """

    analysis: str = ""
    speaker_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistorySelection:
    """The light model's selection: positions of related messages (from 0, in order), and the analysis, if any."""

    positions: tuple[int, ...]
    analysis: str = ""


class HistorySelector:
    """A selection that is under way. `start` makes one; the task group that it gets owns the task."""

    def __init__(self, question: Question, budget: Budget) -> None:
        self._question = question
        self._budget = budget
        self._deadline = asyncio.get_running_loop().time() + budget.share("context")
        self._reply_text = ""
        self._is_complete = False
        self._degrade_reason: DegradeReason = "late"
        self._text_received = asyncio.Event()
        self._read_task: asyncio.Task[None] | None = None

    @classmethod
    def start(
        cls,
        question: Question,
        deps: AnswerDependencies,
        budget: Budget,
        tasks: asyncio.TaskGroup,
        *,
        skip: bool = False,
    ) -> HistorySelector:
        """Call the light model if there is one, and the conversation is worth it (`context`).

        With `skip` it is not called: greetings and the baseline need no selection.
        """
        selector = cls(question, budget)
        if deps.model is not None and needs_selection(question, deps.settings.context) and not skip:
            selector._read_task = tasks.create_task(selector._read_reply(deps.model, deps))
        return selector

    async def _read_reply(self, model: ChatModel, deps: AnswerDependencies) -> None:
        request = (
            f"<conversation>\n{format_numbered_turns(self._question, self._question.history)}\n</conversation>\n"
            f"<question{to_asked_by_attribute(self._question)}>\n{escape_delimiters(self._question.text)}\n</question>"
        )
        turns = [Turn("user", request)]
        chunks = model.stream(deps.prompts.fill("context"), turns, role="light", budget=self._budget, agent="context")
        try:
            with self._budget.timed("context"):
                async with aclosing(chunks):
                    async for chunk in chunks:
                        self._reply_text = append_visible(self._reply_text, chunk)
                        self._text_received.set()
                        if len(self._reply_text) > MAX_REPLY_CHARS:
                            break
            self._degrade_reason = "unreadable"
        except ServiceError as error:
            self._degrade_reason = "failed"
            _log.warning("stage.failed", stage="context", error=str(error))
        finally:
            self._is_complete = True
            self._text_received.set()

    async def wait_for_question(self) -> Question:
        """Return the question with the messages that matter and the analysis; unchanged when they come too late.

        Waits for the whole reply until the share `context` of the budget, counted from the question, is used up. Then
        indices count without the analysis behind them.
        """
        if self._read_task is None:
            return self._question
        # What has come when the time is up is used.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(max(self._deadline, asyncio.get_running_loop().time() + MIN_WAIT_S)):
                while not self._is_complete and (not is_unparseable(self._reply_text) or self._parse_selection()):
                    self._text_received.clear()
                    await self._text_received.wait()
        return self._to_question(self._parse_selection())

    @property
    def is_needed(self) -> bool:
        """Return whether messages are selected at all."""
        return self._read_task is not None

    def close(self, used_question: Question) -> None:
        """Stop reading. The stage is degraded when `used_question` has no selection although one was requested."""
        if self._read_task is not None:
            self._read_task.cancel()
            if not isinstance(used_question, ContextualQuestion):
                self._budget.degrade(
                    "context", "unreadable" if is_unparseable(self._reply_text) else self._degrade_reason
                )

    def _parse_selection(self) -> HistorySelection | None:
        return parse_selection(self._reply_text, len(self._question.history), is_complete=self._is_complete)

    def _to_question(self, selection: HistorySelection | None) -> Question:
        if selection is None:
            return self._question
        question = self._question
        related_turns = tuple(question.history[position] for position in selection.positions)
        values = {base_field.name: getattr(question, base_field.name) for base_field in fields(Question)} | {
            "history": related_turns
        }
        return ContextualQuestion(**values, analysis=selection.analysis, speaker_labels=label_speakers(question))


def needs_selection(question: Question, settings: ContextSettings) -> bool:
    """Return whether messages are selected: a short conversation of the asker alone has little to leave out."""
    has_others = any(
        turn.role == "user" and turn.author_id not in ("", question.author_id) for turn in question.history
    )
    is_long = sum(estimate_tokens(turn.text) for turn in question.history) >= settings.select_min_tokens
    return settings.select and bool(question.history) and (has_others or is_long)


def parse_selection(reply: str, message_count: int, *, is_complete: bool) -> HistorySelection | None:
    """Return the selection among `message_count` messages that a reply holds, complete or not; None for no selection.

    It reads the two lines that the prompt requests, JSON, brackets and `key: value` lines, in English or Chinese. Of an
    incomplete reply it takes only indices that are certainly complete, and no analysis. Never raises.
    """
    text = strip_reasoning(reply) if is_complete else reply.lstrip()
    first_line, newline, rest = text.partition("\n")
    index_line = _INDEX_LINE.fullmatch(first_line.strip())
    if index_line and (newline or is_complete):
        positions = _parse_positions(first_line, message_count)
        return None if positions is None else HistorySelection(positions, _clean_analysis(rest) if is_complete else "")
    if not is_complete and not ("]" in text or ("\n" in text and "{" not in text)):
        return None

    def accept(parsed_reply: ParsedReply) -> HistorySelection | None:
        raw_indices = parsed_reply.values.get(INDICES_FIELD)
        # A sentence holds numbers of other things: a version, a port.
        if (
            isinstance(raw_indices, str)
            and len(_PROSE_WORD.findall(raw_indices)) > 2
            and not _MESSAGE_NUMBER.search(raw_indices)
        ):
            return None
        positions = (
            ()
            if raw_indices is not None and _NONE.match(str(raw_indices))
            else parsed_reply.get_ids(INDICES_FIELD, message_count)
        )
        if positions is None or INDICES_FIELD not in parsed_reply.values:
            return None
        return HistorySelection(
            tuple(sorted(set(positions))), parsed_reply.get_text(ANALYSIS_FIELD) if is_complete else ""
        )

    return parse_structured_reply(text, SCHEMA, accept)


def is_unparseable(text: str) -> bool:
    """Return whether a reply, complete or not, is prose: it begins with a word that is neither a key nor `none`."""
    word = re.match(r"\W*([A-Za-z]{2,})", text)
    if not word or text.lstrip().startswith(("<", "`")):
        return False
    first_word = word[1].lower()
    keys = [name.split("_")[0].split()[0] for slot in SCHEMA.fields for name in (slot.name, *slot.aliases)]
    return not any(
        key.startswith(first_word) or first_word.startswith(key) for key in (*keys, "none", "no", "json", "the")
    )


def get_speaker_labels(question: Question) -> Mapping[str, str]:
    """Return the labels of everybody in the conversation of a question, also when its history is only a part of it."""
    return question.speaker_labels if isinstance(question, ContextualQuestion) else label_speakers(question)


def to_asked_by_attribute(question: Question) -> str:
    """Return the attribute that names the asker, if the platform gives a name."""
    label = get_speaker_labels(question).get(question.author_id or question.author, "")
    return f' asked_by="{label}"' if label else ""


def _parse_positions(line: str, message_count: int) -> tuple[int, ...] | None:
    if _NONE.match(line):
        return ()
    numbers: set[int] = set()
    for low, high in re.findall(r"(\d{1,3})(?:\s*(?:[-–]|to)\s*(\d{1,3}))?", line):
        numbers |= set(range(int(low), min(int(high or low), message_count) + 1))
    positions = tuple(sorted(number - 1 for number in numbers if 1 <= number <= message_count))
    return positions or None


def _clean_analysis(text: str) -> str:
    line = re.sub(r"(?i)^\W*(?:analysis|分析)\s*[:：]\s*", "", " ".join(text.split()))
    return line.strip("\"'`*“” ")[:400]
