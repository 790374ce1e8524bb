"""The commands that only look: status, figures, sources, the audit, help."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping

from core.answering.introduction import describe_agents, list_agents, suggest_questions
from core.catalogue import Messages
from core.formatting import format_age, format_code, format_cost, format_duration, format_until, today
from core.messaging.commands.context import DEFAULT_DAYS, CommandContext, CommandRequest, format_source_hits
from core.messaging.policy.command_table import help_text
from core.storage.overrides import GLOBAL_SCOPE, AuditEntry, override_key
from core.storage.reports import ReportRepository
from core.storage.usage import DailyStatistics, StatisticsRepository, first_day
from core.types import SourceState
from core.version import get_version

DEFAULT_ENTRIES = 10
# What the audit says of a source: its name.
_SOURCE_SUBJECT = re.compile(r"(?:off\.|scale\.|refresh (?:of )?)([a-z0-9_-]+)")


async def show_status(context: CommandContext, request: CommandRequest) -> str:
    """Show how the bot is: to owners in private of everything, else of this chat."""
    repository = StatisticsRepository(context.journal.database)
    chat = request.chat_filter
    last_received = await repository.get_last_received(sorted(context.platforms))
    today_statistics = (await repository.get_daily_statistics(today(), chat)).get(today(), DailyStatistics())
    pending_count = await repository.count_pending(chat, besides=request.message)
    texts = request.texts
    counts = today_statistics.states
    platforms = ", ".join(
        texts.status_platform.format(
            platform=platform,
            age=format_age(last_received[platform], texts) if platform in last_received else texts.status_not_heard,
        )
        for platform in sorted(context.platforms)
    )
    running_s = time.monotonic() - context.started_at
    mode = context.live.mode(request.chat, private=request.message.private)
    lines = [
        texts.status_version.format(version=get_version(), duration=format_duration(running_s, texts)),
        texts.status_platforms.format(platforms=platforms or texts.none),
        await _format_health(context, request),
        texts.status_today.format(
            chat=request.scope_text,
            answered=counts["answered"],
            silent=counts["silent"],
            failed=counts["failed"],
            pending=pending_count,
        ),
        texts.status_cost.format(tokens=f"{today_statistics.tokens:,}", cost=format_cost(today_statistics.cost, texts)),
        *await format_source_hits(context, request, first_day(DEFAULT_DAYS, today())),
        *_format_moderation(context, request),
        texts.status_chat.format(mode=mode) + _format_pause(context, request),
    ]
    return "\n".join(lines)


async def show_statistics(context: CommandContext, request: CommandRequest) -> str:
    """Show figures by day."""
    count = int(float(request.arguments.get("days", DEFAULT_DAYS)))
    since = first_day(count, today())
    repository = StatisticsRepository(context.journal.database)
    statistics = await repository.get_daily_statistics(since, request.chat_filter)
    if not statistics:
        return request.texts.statistics_none.format(chat=request.scope_text, day=since)
    rows = [
        f"| {day} | {sum(day_statistics.states.values())} | {day_statistics.states['answered']} | "
        f"{day_statistics.states['silent']} | "
        f"{day_statistics.states['failed']} | {day_statistics.tokens:,} | "
        f"{f'{day_statistics.cost:,.4f}' if day_statistics.cost else '-'} |"
        for day, day_statistics in statistics.items()
    ]
    title = request.texts.statistics_since.format(day=since, chat=request.scope_text)
    return "\n".join([f"{title}\n", request.texts.statistics_header, "|---|---|---|---|---|---|---|", *rows])


async def show_sources(context: CommandContext, request: CommandRequest) -> str:
    """List the knowledge with its amount and age."""
    settings = context.visible_settings(request)
    sources = settings.sources
    texts = request.texts
    if not sources:
        return texts.sources_none
    states = {state.name: state for state in await context.visible_states(request)}
    lines = []
    for name, source_settings in sources.items():
        state = states.get(name)
        state_text = (
            _format_state(state, texts, show_errors=request.role != "everyone") if state else texts.source_unknown_state
        )
        description = settings.describe_source(name)
        title = f"- **{name}** ({source_settings.kind})" + (f", {description}" if description else "")
        lines.append(f"{title}: {state_text}{_format_overrides(context, name, texts)}")
    return f"{texts.sources_listed}\n\n" + "\n".join(lines)


async def show_audit(context: CommandContext, request: CommandRequest) -> str:
    """Show the newest entries: to owners in private all of them, else those of this chat."""
    count = int(float(request.arguments.get("entries", DEFAULT_ENTRIES)))
    entries = [
        entry
        for entry in await context.audit.get_newest(count, chat=request.chat_filter)
        if request.can_see_all_chats or not _is_about_hidden_source(context, entry, request)
    ]
    titles = None
    if request.can_see_all_chats:
        titles = await ReportRepository(context.journal.database).get_chat_titles()
    return "\n".join(_format_entry(entry, request.texts, titles) for entry in entries) or request.texts.audit_empty


async def show_help(context: CommandContext, request: CommandRequest) -> str:
    """Show what the bot knows and what its author may say to it; to a group that it was added to, in a few words.

    Where somebody only begins to write, questions are suggested instead.
    """
    adapter = request.adapter
    texts = request.texts
    settings = context.visible_settings(request)
    spell = request.spell
    if request.message.origin.purpose == "prompts":
        if adapter:
            await adapter.show_prompts(
                request.message, texts.prompts_title, suggest_questions(settings.retrieval_agents(), texts)
            )
        return ""
    if request.message.origin.purpose != "welcome":
        return help_text(settings, request.role, texts, spell, context.library)
    sources = describe_agents(list_agents(settings, context.library), texts)
    how_to_ask = texts.help_how_to_ask.format(ask=spell("ask"))
    paragraphs = [texts.greeting.format(name=settings.name, sources=sources), how_to_ask]
    if setting := adapter.privacy_setting if adapter else "":
        paragraphs.append(texts.welcome_privacy.format(setting=setting))
    return "\n\n".join([*paragraphs, f"{spell('help')}: {texts.command_summaries['help']}"])


def _is_about_hidden_source(context: CommandContext, entry: AuditEntry, request: CommandRequest) -> bool:
    """Return whether an entry names a source that is not to be told of; one that is gone may have been closed."""
    match = _SOURCE_SUBJECT.fullmatch(entry.subject)
    is_gone = match is not None and match[1] not in context.settings.sources
    return is_gone or context.names_hidden_source(f"{entry.command} {entry.subject}", request)


def _format_entry(entry: AuditEntry, texts: Messages, titles: Mapping[tuple[str, str], str] | None) -> str:
    """Return the line of an entry; its chat is in it where the titles of chats are given."""
    chat_text = ""
    if titles is not None:
        chat = format_code(f"{entry.platform}:{entry.chat}")
        title = titles.get((entry.platform, entry.chat), "")
        chat_text = texts.audit_chat.format(chat=f"{chat} ({format_code(title)})" if title else chat)
    change = f": {format_code(entry.before)} → {format_code(entry.after)}" if entry.before or entry.after else ""
    subject = f", {format_code(entry.subject)}" if entry.subject else ""
    origin = f"{format_code(entry.author_id)}{chat_text}, {format_code('/' + entry.command)}"
    return f"- {entry.at:%Y-%m-%d %H:%M} UTC, {origin}: {texts.audit_outcomes[entry.outcome]}{subject}{change}"


async def _format_health(context: CommandContext, request: CommandRequest) -> str:
    texts = request.texts
    if context.refresher is None:
        return texts.status_sources.format(count=len(context.visible_settings(request).sources))
    states = await context.visible_states(request)
    failed_states = [state for state in states if state.error]
    passages = _format_count(sum(state.passages for state in states), texts.passage_count_one, texts.passage_count)
    errors = "; ".join(f"{format_code(state.name)} {format_code(state.error)}" for state in failed_states)
    lines = [
        texts.status_sources_failed.format(failed=len(failed_states), count=len(states), errors=errors)
        if failed_states
        else texts.status_sources_well.format(count=len(states), passages=passages)
    ]
    if unfilled_count := sum(state.unfilled for state in states):
        error = next((state.fill_error for state in states if state.fill_error), "")
        template = texts.status_unfilled_because if error else texts.status_unfilled
        lines.append(template.format(count=f"{unfilled_count:,}", error=format_code(error)))
    # Their passages are counted when they have been read once.
    new_states = [state for state in states if state.running and not state.last_success]
    lines += [f"- {format_code(state.name)}: {_format_progress(state, texts)}" for state in new_states]
    return "\n".join(lines)


def _format_moderation(context: CommandContext, request: CommandRequest) -> list[str]:
    """Return a line on the moderation of answers, if there is one; after a failure, what becomes of them.

    Only who sees all chats reads why.
    """
    if context.moderator is None:
        return []
    texts = request.texts
    settings = context.moderator.settings
    platforms = ", ".join(settings.platforms)
    if not context.moderator.problem:
        return [texts.status_moderation.format(platforms=platforms)]
    withheld = ", ".join(name for name in settings.platforms if settings.withholds_unjudged(name))
    passed = ", ".join(name for name in settings.platforms if not settings.withholds_unjudged(name))
    # What was judged was said in any chat, and the endpoint may repeat it.
    error = format_code(context.moderator.problem) if request.can_see_all_chats else texts.reason_in_log
    return [
        texts.status_moderation_failed.format(error=error, withheld=withheld or texts.none, passed=passed or texts.none)
    ]


def _format_state(state: SourceState, texts: Messages, *, show_errors: bool) -> str:
    age = texts.source_refreshed.format(age=format_age(state.last_success, texts)) if state.last_success else ""
    parts = [
        texts.source_amount.format(
            passages=_format_count(state.passages, texts.passage_count_one, texts.passage_count),
            documents=_format_count(state.documents, texts.document_count_one, texts.document_count),
        ),
    ]
    if state.unfilled:
        template = texts.source_unfilled_because if show_errors and state.fill_error else texts.source_unfilled
        parts.append(template.format(count=f"{state.unfilled:,}", error=format_code(state.fill_error)))
    parts.append(age or texts.source_never_refreshed)
    if state.running:
        parts.append(_format_progress(state, texts))
    if state.seconds_left is not None:
        parts.append(texts.time_left.format(duration=format_duration(math.ceil(state.seconds_left), texts)))
    if state.error:
        template = texts.source_failed_because if show_errors else texts.source_failed
        parts.append(template.format(error=format_code(state.error)))
    if state.paused:
        parts.append(texts.source_on_request)
    return ", ".join(parts)


def _format_progress(state: SourceState, texts: Messages) -> str:
    if not state.documents_to_read:
        return texts.source_refreshing
    return texts.source_reading.format(done=f"{state.documents_read:,}", total=f"{state.documents_to_read:,}")


def _format_count(count: int, singular: str, plural: str) -> str:
    return singular if count == 1 else plural.format(count=f"{count:,}")


def _format_overrides(context: CommandContext, name: str, texts: Messages) -> str:
    off_text = texts.source_switched_off if context.overrides.is_off(name) else ""
    if not context.overrides.is_set(GLOBAL_SCOPE, override_key("scale", name)):
        return off_text
    return off_text + texts.source_weight.format(factor=f"{context.overrides.scale(name):g}")


def _format_pause(context: CommandContext, request: CommandRequest) -> str:
    until = context.overrides.paused_until(request.chat)
    return request.texts.status_paused.format(until=format_until(until, request.texts)) if until else ""
