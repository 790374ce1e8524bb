"""Answering within the limits and on the record: who may ask now, and what the answer consumed in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Literal

from core.errors import StoreError, UsageError
from core.observability.logs import logger
from core.ports import CallBudget, ChatModel, Form, Role, Sink
from core.settings import LimitsSettings, Settings
from core.text.language import language_of
from core.text.messages import Notes, notes_in
from core.types import Question, Reply, Turn

if TYPE_CHECKING:
    from core.storage.overrides import Steering
    from core.storage.usage import Consumed, Ledger, Outcome, Spent

Whose = Literal["everybody", "this_chat", "you"]


@dataclass(frozen=True, slots=True, eq=False)
class _Reservation:
    """An answer in the making."""

    chat: tuple[str, str]
    user: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Use:
    """How much of one limit is used up: `used` by answers given, `underway` answers are in the making."""

    limit: str
    whose: Whose
    subject: tuple[str, str]
    allowed: float
    used: float
    underway: int
    usual: float

    @property
    def up(self) -> bool:
        return self.used + self.underway * self.usual >= self.allowed


class Limits:
    """The daily limits, those of `steering` before the configured ones.

    `at_first` is what an answer is taken to consume as long as the ledger holds none.
    """

    def __init__(
        self, settings: LimitsSettings, ledger: Ledger, at_first: Consumed, steering: Steering | None = None
    ) -> None:
        self._steering = steering
        self._settings = settings
        self._ledger = ledger
        self._at_first = at_first
        self._underway: set[_Reservation] = set()
        # By whoever reads the ledger just now: all that were underway at any moment of it.
        self._reading: dict[_Reservation, set[_Reservation]] = {}
        self._logged: tuple[date, set[tuple[str, tuple[str, str]]]] = (date.min, set())

    def adopt(self, settings: Settings) -> None:
        """Go by other limits from now on."""
        self._settings = settings.limits

    @asynccontextmanager
    async def admitted(self, question: Question) -> AsyncIterator[None]:
        """Let an answer be made in the block. Raises `UsageError` when a limit is used up, and says until when."""
        if self._steering:
            await self._steering.load()
        if all(self._allowed(name) is None for name in type(self._settings).model_fields):
            yield
            return
        reservation = await self._reserve(question)
        try:
            yield
        finally:
            self._underway.discard(reservation)

    async def _reserve(self, question: Question) -> _Reservation:
        platform, chat = (question.key.platform, question.key.chat) if question.key else ("", "")
        reservation = _Reservation((platform, chat), (platform, question.author_id))
        now = datetime.now().astimezone()
        # What is being made while the ledger is read may be written behind it: it is then counted nowhere else.
        underway = self._reading[reservation] = set(self._underway)
        try:
            spent = await self._ledger.spent(now.date(), question)
            usual = await self._ledger.usual() or self._at_first
        finally:
            del self._reading[reservation]
        for use in self._uses(reservation, underway, spent, usual):
            if use.up:
                self._log(use, now.date())
                raise UsageError(_refusal(use, now, notes_in(language_of(question.text))))
        self._underway.add(reservation)
        for seen in self._reading.values():
            seen.add(reservation)
        return reservation

    def _uses(self, asked: _Reservation, underway: set[_Reservation], spent: Spent, usual: Consumed) -> Iterator[_Use]:
        here = sum(one.chat == asked.chat for one in underway)
        mine = sum(one.user == asked.user for one in underway)
        groups: list[tuple[str, Whose, tuple[str, str], int | None, Consumed]] = [
            ("", "everybody", ("", ""), len(underway), spent.everybody),
            ("_per_chat", "this_chat", asked.chat, here if asked.chat[1] else None, spent.chat),
            ("_per_user", "you", asked.user, mine if asked.user[1] else None, spent.user),
        ]
        for suffix, whose, subject, count, used in groups:
            # In the terminal there is neither a chat nor a name.
            if count is None:
                continue
            for kind, amount, one in (("tokens", used.tokens, usual.tokens), ("cost", used.cost, usual.cost)):
                allowed = self._allowed(f"daily_{kind}{suffix}")
                if allowed is not None:
                    yield _Use(f"daily_{kind}{suffix}", whose, subject, allowed, amount, count, one)

    def _allowed(self, name: str) -> float | None:
        configured: float | None = getattr(self._settings, name)
        return self._steering.limit(name, configured) if self._steering else configured

    def _log(self, use: _Use, today: date) -> None:
        """Log a limit that is used up once a day: every question after that would say the same."""
        if self._logged[0] != today:
            self._logged = (today, set())
        if (use.limit, use.subject) in self._logged[1]:
            return
        self._logged[1].add((use.limit, use.subject))
        logger(__name__).warning(
            "limit.reached",
            limit=use.limit,
            subject=":".join(use.subject).strip(":"),
            allowed=use.allowed,
            used=use.used,
            underway=use.underway,
        )


def _refusal(use: _Use, now: datetime, notes: Notes) -> str:
    tokens = "tokens" in use.limit
    amount = f"{use.allowed:,.0f}" if tokens else f"{use.allowed:,g}"
    allowed = notes.tokens.format(amount=amount) if tokens else amount
    whose = getattr(notes, use.whose)
    if use.used < use.allowed:
        return notes.underway.format(whose=whose, allowed=allowed)
    midnight = datetime.combine(now.date() + timedelta(days=1), time()).astimezone()
    hours, minutes = divmod(max(1, round((midnight - now).total_seconds() / 60)), 60)
    wait = (notes.hours if hours else notes.minutes).format(hours=hours, minutes=minutes)
    return notes.used_up.format(whose=whose, allowed=allowed, midnight=f"{midnight:%Y-%m-%d %H:%M %Z}", wait=wait)


@dataclass(slots=True)
class MeteredModel:
    """A language model for one answer: it passes everything on and knows the budget that its calls are counted in.

    So what an answer consumed is known even when it fails.
    """

    model: ChatModel
    _budgets: dict[int, CallBudget] = field(default_factory=dict)

    def stream(
        self, system: str, turns: Sequence[Turn], *, role: Role, budget: CallBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Stream as the model does."""
        self._budgets[id(budget)] = budget
        return self.model.stream(system, turns, role=role, budget=budget, agent=agent)

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: Role,
        budget: CallBudget,
        form: Form | None = None,
        agent: str = "",
    ) -> str:
        """Complete as the model does."""
        self._budgets[id(budget)] = budget
        return await self.model.complete(system, turns, role=role, budget=budget, form=form, agent=agent)

    def consumed(self) -> Mapping[str, Consumed]:
        """Return what the calls consumed so far, by agent."""
        from core.storage.usage import by_agent

        tokens: Counter[str] = Counter()
        cost: defaultdict[str, float] = defaultdict(float)
        for budget in self._budgets.values():
            for name, count in budget.tokens.items():
                tokens[name] += count
            for name, amount in budget.cost.items():
                cost[name] += amount
        return by_agent(tokens, cost)


async def answer_on_record(
    question: Question,
    sink: Sink,
    model: ChatModel,
    make: Callable[[Question, Sink, ChatModel], Awaitable[Reply]],
    *,
    limits: Limits,
    ledger: Ledger,
) -> Reply:
    """Make an answer with the model when the limits allow it, and write down what it consumed, also when it fails.

    Raises `UsageError` when a limit is used up, and what `make` raises.
    """
    metered = MeteredModel(model)
    async with limits.admitted(question):
        outcome: Outcome = "failed"
        try:
            reply = await make(question, sink, metered)
            outcome = "answered"
        finally:
            agents = metered.consumed()
            if agents or outcome == "answered":
                await record(ledger, question, outcome, agents)
    return reply


async def record(ledger: Ledger, question: Question, outcome: Outcome, agents: Mapping[str, Consumed]) -> None:
    """Write one answer into the ledger. The answer is with the asker already: a ledger that refuses is logged."""
    try:
        await ledger.record(question, outcome, agents, datetime.now().astimezone().date())
    except StoreError as fault:
        logger(__name__).error("usage.not_recorded", error=str(fault))
