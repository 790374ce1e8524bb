"""What the journal's database has on record: `kimas audit`, `usage`, `feedback` and `faq`.

These commands work beside a running daemon. They only read, except for a review; without a database there is nothing
to show.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bots.cli.console import make_table
from bots.common.open_storage import open_existing_database
from bots.common.terminal import make_console, print_json
from core.errors import UsageError
from core.formatting import strip_control_characters
from core.messaging.feedback.rating_buttons import REASONS
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.chats import parse_argument
from core.settings.loader import get_secret_values
from core.types import DOWN, UP

if TYPE_CHECKING:
    from core.storage.engine import Database
    from core.storage.feedback import DailyRatings, LabelledQuestion
    from core.storage.lessons import ReviewState, TaughtAnswer
    from core.storage.overrides import AuditEntry
    from core.storage.usage import AgentUsage, DailyUsage, HeadStartCount, TokenUsage

UNKNOWN_AUDIENCE = "not used: nobody knows who may see it; `kimas faq release {number}` says: everybody"
# Who reviews answers on the command line.
OPERATOR = "the operator"
_TOKEN_COLUMNS = ("tokens read", "written", "together", "cost")


async def audit(settings: Settings, limit: int, *, as_json: bool) -> int:
    """Show the newest entries of all chats. Raises `StoreError`."""
    from core.storage.overrides import Audit

    async with open_existing_database(settings) as database:
        entries = await Audit(database).get_newest(limit, chat=None) if database else ()
    if as_json:
        print_json({"entries": [_audit_entry_as_json(entry) for entry in entries]})
        return 0
    redact = make_redactor(get_secret_values(settings))
    for entry in entries:
        _print_line(redact(_format_audit_entry(entry)))
    if not entries:
        _print_line("the audit log is empty")
    return 0


async def usage(settings: Settings, days: int, *, as_json: bool) -> int:
    """Show what the answers of the last days consumed, by day and by agent. Raises `StoreError`."""
    from core.storage.usage import UsageRepository

    daily_usage: Sequence[DailyUsage] = ()
    agent_usage: Sequence[AgentUsage] = ()
    async with open_existing_database(settings) as database:
        if database:
            repository = UsageRepository(database)
            since = _start_of_period(days).date()
            daily_usage = await repository.get_daily_usage(since)
            agent_usage = await repository.get_agent_usage(since)
    if as_json:
        print_json(_usage_as_json(daily_usage, agent_usage))
    else:
        _print_usage(daily_usage, agent_usage)
    return 0


async def feedback(settings: Settings, days: int, *, as_json: bool, labels: bool, chat: str = "") -> int:
    """Show the ratings by day, or print labelled lines for `kimas eval gate`, of one chat or of all.

    Raises `StoreError`, and `UsageError` for a chat without `labels`: the days are those of all chats together.
    """
    from core.storage.feedback import FeedbackRepository

    if chat and not labels:
        raise UsageError("--chat chooses rated questions: give --labels or --calibrate with it")
    daily_ratings: Sequence[DailyRatings] = ()
    questions: Sequence[LabelledQuestion] = ()
    async with open_existing_database(settings) as database:
        if database:
            repository = FeedbackRepository(database)
            daily_ratings = await repository.get_daily_ratings(_start_of_period(days))
            questions = await repository.get_labelled_questions(None)
    if labels:
        for question in questions:
            question_chat = f"{question.platform}:{question.chat}"
            if chat in ("", question_chat):
                question_id = f"{question_chat}:{question.id}"
                _print_json_line({"id": question_id, "text": question.text, "should_answer": question.is_good})
    elif as_json:
        print_json({"days": [asdict(day) | {"day": str(day.day)} for day in daily_ratings]})
    elif daily_ratings:
        make_console().print(_make_ratings_table(daily_ratings))
    else:
        _print_line("nobody has said anything about answers in these days")
    return 0


async def list_answers(settings: Settings, state: ReviewState | None, *, as_json: bool) -> int:
    """Show the taught answers of a state, or all. Raises `StoreError`."""
    answers = await _read_taught_answers(settings, state)
    if as_json:
        print_json({"answers": [_taught_answer_as_json(answer) for answer in answers]})
        return 0
    for answer in answers:
        text = " ".join(answer.answer.split())
        note = "" if answer.closed_sources is not None else f"\n   {UNKNOWN_AUDIENCE.format(number=answer.number)}"
        _print_line(f"{answer.number}. [{answer.state}] {answer.question}\n   {answer.teacher}: {text}{note}")
    if not answers:
        _print_line("no answers wait for a review" if state == "pending" else "there are no such answers")
    return 0


async def review_answer(settings: Settings, number: int, state: ReviewState, *, as_json: bool) -> int:
    """Approve or reject a taught answer. Raises `UsageError` for an unknown number, and `StoreError`."""
    from core.storage.lessons import TaughtAnswerRepository

    async with open_existing_database(settings) as database:
        if database is None:
            raise UsageError("nobody has taught anything yet")
        repository = TaughtAnswerRepository(database)
        if number not in {answer.number for answer in await repository.list_answers(None, reader=None)}:
            raise UsageError(f"There is no answer {number}. `kimas faq list --state all` shows those that there are.")
        answer = await repository.decide(number, state, OPERATOR)
        await _refresh_taught(database, settings)
    if as_json:
        print_json(_taught_answer_as_json(answer))
    else:
        _print_line(f"answer {number} is {state}")
    return 0


async def release_answers(
    settings: Settings, numbers: Sequence[int], *, all_unknown: bool, chat: str, as_json: bool
) -> int:
    """Record that taught answers tell nothing that is closed to everybody, or to who sees what a chat sees.

    Raises `UsageError` for unknown numbers and chats, and `StoreError`.
    """
    from core.settings.audience import Audiences
    from core.storage.lessons import TaughtAnswerRepository

    if bool(numbers) == all_unknown:
        raise UsageError("give the numbers of answers, or --all for those of which nobody knows who may see them")
    closed_sources: frozenset[str] = frozenset()
    if chat:
        place = parse_argument(chat)
        audiences = Audiences.from_settings(settings)
        closed_sources = audiences.closed_labels(audiences.make_asker(place.platform, place.id))
    async with open_existing_database(settings) as database:
        if database is None:
            raise UsageError("nobody has taught anything yet")
        repository = TaughtAnswerRepository(database)
        known_numbers = {answer.number for answer in await repository.list_answers(None, reader=None)}
        if unknown := sorted(set(numbers) - known_numbers):
            raise UsageError(f"There is no answer {unknown[0]}: `kimas faq list --state all` shows all.")
        count = await repository.set_closed_sources(None if all_unknown else numbers, closed_sources)
        await _refresh_taught(database, settings)
    if as_json:
        print_json({"released": count, "closed_sources": sorted(label.partition("#")[0] for label in closed_sources)})
    else:
        readers = f"who sees what {chat} sees" if chat else "everybody"
        _print_line(f"{count} answers may be told to {readers}, from the next refresh on, which is due now")
    return 0


async def _refresh_taught(database: Database, settings: Settings) -> None:
    """Ask a running daemon to read the taught answers anew: it does so within a minute."""
    from core.storage.refresh_state import RefreshStateRepository

    names = [name for name, source in settings.sources.items() if source.kind == "learned"]
    await RefreshStateRepository(database).request_refresh(names)


async def export_answers(settings: Settings) -> int:
    """Print the approved answers as JSON Lines, which a source of the kind `faq` reads. Raises `StoreError`."""
    for answer in await _read_taught_answers(settings, "approved"):
        _print_json_line({"question": answer.question, "answer": answer.answer})
    return 0


async def _read_taught_answers(settings: Settings, state: ReviewState | None) -> Sequence[TaughtAnswer]:
    from core.storage.lessons import TaughtAnswerRepository

    async with open_existing_database(settings) as database:
        return await TaughtAnswerRepository(database).list_answers(state, reader=None) if database else ()


def _start_of_period(days: int) -> datetime:
    """Return the local midnight at which a period of so many days began, today included."""
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=days - 1)


def _audit_entry_as_json(entry: AuditEntry) -> Mapping[str, Any]:
    """Return an entry as `kimas audit --json` prints it (a contract)."""
    values = asdict(entry)
    subject = values.pop("subject")
    return {**values, "at": entry.at.isoformat(), "what": subject}


def _format_audit_entry(entry: AuditEntry) -> str:
    change = f": {entry.before} -> {entry.after}" if entry.before or entry.after else ""
    details = f", {entry.subject}" if entry.subject else ""
    command = " ".join(entry.command.split())
    chat = f"{entry.platform}:{entry.chat}"
    return f"{entry.at:%Y-%m-%d %H:%M} UTC  {entry.outcome:8} {entry.author_id} in {chat}  /{command}{details}{change}"


def _usage_as_json(daily_usage: Sequence[DailyUsage], agent_usage: Sequence[AgentUsage]) -> Mapping[str, Any]:
    """Return the object that `kimas usage --json` prints (a contract)."""
    days = [
        {
            "day": day.day,
            "answers": day.answers,
            "cached": day.cached,
            "failed": day.failed,
            **_tokens_as_json(day.usage),
            **_head_starts_as_json(day.head_starts),
            **({"second_opinions": day.second_opinions} if day.second_opinions else {}),
            **({"probes": day.probes} if day.probes else {}),
        }
        for day in daily_usage
    ]
    agents = [{"agent": agent.agent, "answers": agent.answers, **_tokens_as_json(agent.usage)} for agent in agent_usage]
    return {"days": days, "agents": agents}


def _tokens_as_json(usage: TokenUsage) -> Mapping[str, Any]:
    estimated = {"estimated": usage.estimated_tokens} if usage.estimated_tokens else {}
    cost = round(usage.cost, 6)
    return {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "cost": cost, **estimated}


def _print_usage(daily_usage: Sequence[DailyUsage], agent_usage: Sequence[AgentUsage]) -> None:
    """Print the days, newest first, and the agents, most tokens first."""
    out = make_console()
    if not daily_usage:
        out.print("nothing has been answered with a language model in these days")
        return
    table = make_table(["day"], ("answers", "cached", "failed", *_TOKEN_COLUMNS))
    for day in daily_usage:
        table.add_row(day.day, str(day.answers), str(day.cached), str(day.failed), *_format_tokens(day.usage))
    out.print(table)
    out.print()
    table = make_table(["agent"], ("answers", *_TOKEN_COLUMNS))
    for agent in agent_usage:
        table.add_row(strip_control_characters(agent.agent), str(agent.answers), *_format_tokens(agent.usage))
    out.print(table)
    estimated, total = (
        sum(getattr(day.usage, name) for day in daily_usage) for name in ("estimated_tokens", "total_tokens")
    )
    if estimated:
        out.print(f"\nestimated, for calls that were cancelled or broke off: {estimated:,} of {total:,} tokens")
    if started_count := sum(day.head_starts.started_count for day in daily_usage):
        used_count = sum(day.head_starts.used_count for day in daily_usage)
        out.print(f"\nhead starts: {started_count:,} begun, {used_count:,} kept ({used_count / started_count:.0%})")
    if second_opinions := sum(day.second_opinions for day in daily_usage):
        out.print(f"\nsecond opinions on speaking unprompted: {second_opinions:,}")
    if probes := sum(day.probes for day in daily_usage):
        out.print(f"\ncalls of kimas check --live: {probes:,}")


def _head_starts_as_json(count: HeadStartCount) -> Mapping[str, Any]:
    return {"head_starts": {"begun": count.started_count, "kept": count.used_count}} if count.started_count else {}


def _format_tokens(usage: TokenUsage) -> tuple[str, ...]:
    cost = f"{usage.cost:,.4f}" if usage.cost else "-"
    return f"{usage.prompt_tokens:,}", f"{usage.completion_tokens:,}", f"{usage.total_tokens:,}", cost


def _make_ratings_table(daily_ratings: Sequence[DailyRatings]) -> Table:
    """Return the days, newest first."""
    table = make_table(["day"], (UP, DOWN, *REASONS))
    for day in reversed(daily_ratings):
        table.add_row(str(day.day), *map(str, (day.up, day.down, *(day.reasons.get(name, 0) for name in REASONS))))
    return table


def _taught_answer_as_json(answer: TaughtAnswer) -> Mapping[str, Any]:
    """Return an answer as `kimas faq --json` prints it (a contract)."""
    return {
        "number": answer.number,
        "state": answer.state,
        "chat": f"{answer.platform}:{answer.chat}",
        "question": answer.question,
        "answer": answer.answer,
        "teacher": answer.teacher,
        "reviewer": answer.reviewer,
    }


def _print_line(text: str) -> None:
    make_console().print(strip_control_characters(text), markup=False, soft_wrap=True)


def _print_json_line(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
