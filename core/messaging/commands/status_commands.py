"""The commands that only look: status, figures, sources, the audit, help."""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version

from core.messaging.commands.context import CommandContext
from core.messaging.commands.form import CommandRequest
from core.messaging.policy.command_table import help_text
from core.storage.overrides import GLOBAL_SCOPE, AuditEntry, scale_key
from core.storage.usage import DailyStatistics, StatisticsRepository, first_day
from core.text.formatting import format_age, format_code, format_cost, format_duration, format_until, pluralize, today
from core.types import SourceState

DEFAULT_DAYS, DEFAULT_ENTRIES = 7, 10


async def show_status(context: CommandContext, request: CommandRequest) -> str:
    """Show how the bot is: to owners in private of everything, else of this chat."""
    repository, chat = StatisticsRepository(context.journal.database), _chat_filter(request)
    last_received = await repository.get_last_received(sorted(context.platforms))
    today_statistics = (await repository.get_daily_statistics(today(), chat)).get(today(), DailyStatistics())
    pending_count = await repository.count_pending(chat)
    platforms = ", ".join(
        f"{platform} (heard {format_age(last_received[platform]) if platform in last_received else 'nothing yet'})"
        for platform in sorted(context.platforms)
    )
    lines = [
        f"- Version {_version()}, running for {format_duration(time.monotonic() - context.started_at)}",
        f"- Platforms: {platforms or 'none'}",
        f"- {await _format_health(context)}",
        f"- Today{_chat_text(request)}: {today_statistics.states['answered']} answered, "
        f"{today_statistics.states['silent']} silent, "
        f"{today_statistics.states['failed']} failed, {pending_count} pending",
        f"- Tokens today: {today_statistics.tokens:,}, cost: {format_cost(today_statistics.cost)}",
        f"- This chat: {_format_mode(context, request)}",
    ]
    return "\n".join(lines)


async def show_statistics(context: CommandContext, request: CommandRequest) -> str:
    """Show figures by day."""
    count = int(float(request.arguments.get("days", DEFAULT_DAYS)))
    since = first_day(count, today())
    repository = StatisticsRepository(context.journal.database)
    statistics = await repository.get_daily_statistics(since, _chat_filter(request))
    if not statistics:
        return f"Nothing happened{_chat_text(request)} since {since}."
    rows = [
        f"| {day} | {sum(day_statistics.states.values())} | {day_statistics.states['answered']} | "
        f"{day_statistics.states['silent']} | "
        f"{day_statistics.states['failed']} | {day_statistics.tokens:,} | "
        f"{f'{day_statistics.cost:,.4f}' if day_statistics.cost else '-'} |"
        for day, day_statistics in statistics.items()
    ]
    header = "| day | messages | answered | silent | failed | tokens | cost |\n|---|---|---|---|---|---|---|\n"
    return f"Since {since}{_chat_text(request)}:\n\n{header}" + "\n".join(rows)


async def show_sources(context: CommandContext, request: CommandRequest) -> str:
    """List the knowledge with its amount and age."""
    configured = context.settings.sources
    if not configured:
        return "No sources are configured yet."
    states = {state.name: state for state in await context.refresher.states()} if context.refresher else {}
    lines = []
    for name, source_settings in configured.items():
        state = states.get(name)
        state_text = (
            _format_state(state, show_errors=request.role != "everyone") if state else "asked live, or kept elsewhere"
        )
        lines.append(f"- **{name}** ({source_settings.kind}): {state_text}{_format_overrides(context, name)}")
    return "I answer from these sources:\n\n" + "\n".join(lines)


async def show_audit(context: CommandContext, request: CommandRequest) -> str:
    """Show the newest entries: to owners in private all of them, else those of this chat."""
    count = int(float(request.arguments.get("entries", DEFAULT_ENTRIES)))
    entries = await context.audit.get_newest(count, chat=_chat_filter(request))
    return (
        "\n".join(_format_entry(entry, show_chat=request.can_see_all_chats) for entry in entries)
        or "The audit is empty."
    )


async def show_help(context: CommandContext, request: CommandRequest) -> str:
    """Show what the bot knows and what its author may say to it."""
    return help_text(context.settings, request.role)


def _format_entry(entry: AuditEntry, *, show_chat: bool) -> str:
    chat_text = f" in {format_code(f'{entry.platform}:{entry.chat}')}" if show_chat else ""
    change = f": {format_code(entry.before)} → {format_code(entry.after)}" if entry.before or entry.after else ""
    subject = f", {format_code(entry.what)}" if entry.what else ""
    origin = f"{format_code(entry.author_id)}{chat_text}, {format_code('/' + entry.command)}"
    return f"- {entry.at:%Y-%m-%d %H:%M} UTC, {origin}: {entry.outcome}{subject}{change}"


async def _format_health(context: CommandContext) -> str:
    if context.refresher is None:
        return f"Sources: {len(context.settings.sources)} configured"
    states = await context.refresher.states()
    failed_states = [state for state in states if state.error]
    passages = sum(state.passages for state in states)
    if not failed_states:
        return f"Sources: {len(states)} kept, all well, {pluralize(passages, 'passage')}"
    errors = "; ".join(f"{format_code(state.name)} {format_code(state.error)}" for state in failed_states)
    return f"Sources: {len(failed_states)} of {len(states)} failed at their last refresh: {errors}"


def _format_state(state: SourceState, *, show_errors: bool) -> str:
    parts = [f"{pluralize(state.passages, 'passage')} in {pluralize(state.documents, 'document')}"]
    parts.append(f"refreshed {format_age(state.last_success)}" if state.last_success else "never refreshed yet")
    if state.running:
        parts.append("being refreshed now")
    if state.error:
        parts.append(
            f"the last refresh failed: {format_code(state.error)}" if show_errors else "the last refresh failed"
        )
    if state.paused:
        parts.append("refreshed only when asked")
    return ", ".join(parts)


def _format_overrides(context: CommandContext, name: str) -> str:
    off_text = ", **switched off**" if context.overrides.is_off(name) else ""
    has_weight = context.overrides.is_set(GLOBAL_SCOPE, scale_key(name))
    return off_text + (f", weighs {context.overrides.scale(name):g}" if has_weight else "")


def _format_mode(context: CommandContext, request: CommandRequest) -> str:
    gate, chat = context.settings.gate, request.chat
    mode = context.overrides.mode(chat) or gate.get_mode(chat, private=request.message.private)
    until = context.overrides.paused_until(chat)
    return f"mode `{mode}`" + (f", paused {format_until(until)}" if until else "")


def _chat_text(request: CommandRequest) -> str:
    return " in all chats" if request.can_see_all_chats else " in this chat"


def _chat_filter(request: CommandRequest) -> tuple[str, str] | None:
    key = request.message.key
    return None if request.can_see_all_chats else (key.platform, key.chat)


def _version() -> str:
    try:
        return version("kimas")
    except PackageNotFoundError:
        return "unknown"
