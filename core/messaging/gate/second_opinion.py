"""The second opinion: before the bot speaks unprompted, a language model judges the message in one call.

It sees the message, what was written before it, and the best passages. Messages far below the threshold are never
judged so: chatter costs nothing. Those far above it are: a question about another product may share all of its words
with the knowledge, and the answer costs more than the call. The call has the share `second_opinion` of a budget of
its own; it is on record as any other, and within the daily limits. When it cannot be made, fails or is late, the
learned decision counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.answering.agents.conversation import MAX_HISTORY_TURNS, format_numbered_turns
from core.answering.context import AnswerDependencies
from core.answering.masking import mask_question
from core.answering.quota import QuotaLimiter, record_usage
from core.errors import QuotaExceeded, StoreError
from core.evidence.rendering import escape_delimiters, render_to_budget
from core.language.languages import detect_language
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import CallBudget, DecisionRequest, decide
from core.observability.logs import get_logger
from core.runtime.budget import Budget
from core.settings import Settings
from core.storage.chat_history import HistoryMessage
from core.storage.usage import UsageRepository, group_by_agent
from core.types import Message, Passage, Question, Turn

if TYPE_CHECKING:
    from core.storage.overrides import LiveSettings

_log = get_logger(__name__)

STAGE = "second_opinion"
WINDOW_S = 3600.0
# The expected usage of a call, in usual answers.
CALL_WEIGHT = 0.25
# How far below the threshold a message may be.
DOUBT_WIDTH = 0.25
# A message needs no long context: this bounds what one call costs.
MAX_EVIDENCE_TOKENS = 1200
MAX_MESSAGE_CHARS = 2000
MAX_REASON_CHARS = 160
SCHEMA = DecisionSchema(
    "gate",
    "Whether the bot should speak",
    (
        SchemaField("reason", "text", "the reason, in a few words", ("why", "because", "理由", "原因")),
        SchemaField(
            "action",
            "choice",
            "answer or silent",
            ("decision", "verdict", "choice", "决定", "选择"),
            {
                "answer": ("speak", "reply", "yes", "true", "回答", "是"),
                "silent": ("silence", "ignore", "no", "false", "stay silent", "沉默", "否"),
            },
        ),
    ),
    main="action",
)


@dataclass(frozen=True, slots=True)
class Opinion:
    """The model's decision, and its reason in a few words; `made_of` are the numbers of the messages that it saw."""

    should_speak: bool
    reason: str
    made_of: Collection[int] = ()


class SecondOpinion:
    """Asks the light model about messages in doubt, at most `limits.second_opinions_per_hour` times an hour."""

    def __init__(
        self, live: LiveSettings, deps: AnswerDependencies, quota_limiter: QuotaLimiter, usage: UsageRepository
    ) -> None:
        self._live = live
        self._deps = deps
        self._quota_limiter = quota_limiter
        self._usage_repository = usage
        self._calls: deque[float] = deque()

    async def ask(
        self, message: Message, passages: Sequence[Passage], recent_messages: Sequence[HistoryMessage]
    ) -> Opinion | None:
        """Return the model's decision; None when the learned one counts. The recent messages are of the same thread."""
        deps = self._deps.for_chat(message.key)
        if deps.model is None:
            return None
        if not self._try_take_call():
            _log.info("gate.second_opinions_used_up")
            return None
        question = mask_question(_to_question(message, recent_messages), self._live.settings, deps.mask_key)
        budget = Budget(self._live.settings.budget)
        try:
            # Nobody is told of a refusal, so it is nobody's.
            async with self._quota_limiter.reserve(replace(question, author_id=""), budget, CALL_WEIGHT):
                return await self._ask(question, passages, deps, budget)
        except QuotaExceeded:
            # Its first refusal is logged.
            return None
        except StoreError as error:
            _log.warning("gate.limits_unavailable", error=str(error))
            return None

    async def _ask(
        self, question: Question, passages: Sequence[Passage], deps: AnswerDependencies, budget: Budget
    ) -> Opinion | None:
        deps = replace(deps, prompts=deps.prompts.for_language(detect_language(question.text)))
        request = DecisionRequest(
            STAGE,
            STAGE,
            SCHEMA,
            deps.prompts.fill("gate"),
            [Turn("user", _format_request(question, passages, deps.settings))],
            # One call: an unreadable reply is not worth a second.
            call_budget=CallBudget(1),
        )
        try:
            opinion = await decide(request, _accept, None, deps, budget)
        finally:
            usage = group_by_agent(budget.tokens, budget.cost)
            await record_usage(self._usage_repository, question, "second_opinion", usage)
        if opinion:
            _log.info("gate.second_opinion", speak=opinion.should_speak)
        return opinion

    def _try_take_call(self) -> bool:
        now = time.monotonic()
        while self._calls and now - self._calls[0] >= WINDOW_S:
            self._calls.popleft()
        if len(self._calls) >= self._live.settings.limits.second_opinions_per_hour:
            return False
        self._calls.append(now)
        return True


def is_in_doubt(probability: float, threshold: float) -> bool:
    """Return whether a model judges: the bot would speak, or nearly so."""
    return probability >= threshold - DOUBT_WIDTH


def _accept(parsed_reply: ParsedReply) -> Opinion | None:
    action = parsed_reply.get_choice("action")
    reason = parsed_reply.get_text("reason")[:MAX_REASON_CHARS]
    return Opinion(action == "answer", reason or action) if action else None


def _to_question(message: Message, recent_messages: Sequence[HistoryMessage]) -> Question:
    """Return the message with what people wrote there before it."""
    turns = [
        Turn("user", other.text, other.author, other.author_id)
        for other in recent_messages
        if not other.is_later and other.text.strip()
    ]
    return Question(
        message.text[:MAX_MESSAGE_CHARS],
        tuple(turns[-MAX_HISTORY_TURNS:]),
        id=message.id,
        author=message.author,
        author_id=message.author_id,
        key=message.key,
    )


def _format_request(question: Question, passages: Sequence[Passage], settings: Settings) -> str:
    evidence = render_to_budget(passages, min(MAX_EVIDENCE_TOKENS, settings.evidence_tokens("light")))
    conversation = format_numbered_turns(question, question.history)
    return "\n".join(
        [
            f"<evidence>\n{evidence}\n</evidence>",
            *([f"<conversation>\n{conversation}\n</conversation>"] if conversation else []),
            f"<said>\n{escape_delimiters(question.text)}\n</said>",
        ]
    )
