"""The commands that change the whole deployment: its sources, its limits, its configuration."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from core.catalogue import Messages
from core.errors import ConfigurationError, KimasError, UsageError
from core.formatting import NO_LIMIT, format_code, format_duration, today
from core.messaging.commands.context import CommandContext, CommandRequest
from core.messaging.policy.command_table import CONFIGURED_VALUE
from core.observability.logs import get_logger
from core.ports import SourceRefresher
from core.settings import Settings
from core.settings.audience import OWNERS
from core.settings.limits import AUTO, DAILY_LIMITS
from core.storage.answer_cache import delete_replies
from core.storage.overrides import GLOBAL_SCOPE, Reloaded, new_entry, override_key
from core.storage.usage import UsageRepository, UsageTotals
from core.types import Question

_log = get_logger(__name__)

MAX_SHOWN_ERRORS = 10
# Behind the file and the line of a fault.
_SECTION = re.compile(r":\d+: ([a-z_]+)")


async def refresh(context: CommandContext, request: CommandRequest) -> str:
    """Ask for a refresh of one source or all; not more often than `administration.refresh_minutes` allow.

    One that failed may be tried again at once: whoever asks has mended the cause, and waits for the result.
    """
    if context.refresher is None:
        raise UsageError(request.texts.refresh_unavailable)
    context.require_named(request)
    name = request.arguments.get("source", "")
    if name:
        context.require_source(name, request)
    now = time.monotonic()
    last_request_at = max(context.last_refresh_requests.get(source, -float("inf")) for source in {name, ""})
    least_wait_s = 60 * context.settings.administration.refresh_minutes
    is_too_soon = now - last_request_at < least_wait_s
    if is_too_soon and not await _has_failed(context.refresher, name):
        raise UsageError(
            request.texts.refresh_too_soon.format(
                elapsed=format_duration(now - last_request_at, request.texts),
                wait=format_duration(least_wait_s - (now - last_request_at), request.texts),
            )
        )
    context.last_refresh_requests[name] = now
    try:
        await context.refresher.refresh((name,) if name else ())
    except BaseException:
        context.last_refresh_requests.pop(name, None)
        raise
    await context.audit.record(new_entry(request.message, "changed", f"refresh {name or 'all sources'}"))
    return request.texts.refreshing.format(source=format_code(name) if name else request.texts.all_sources)


async def _has_failed(refresher: SourceRefresher, name: str) -> bool:
    """Return whether the last refresh of a source failed, by default of any, and none of them is going on."""
    states = [state for state in await refresher.states() if name in ("", state.name)]
    return any(state.error for state in states) and not any(state.running for state in states)


async def pause(context: CommandContext, request: CommandRequest) -> str:
    """Refresh a source only when asked, until it is resumed; what it knows stays in use."""
    name, is_changed = await _set_paused(context, request, paused=True)
    template = request.texts.source_paused if is_changed else request.texts.source_paused_already
    return template.format(source=format_code(name), name=name)


async def resume(context: CommandContext, request: CommandRequest) -> str:
    """Refresh a source by its plan again."""
    name, is_changed = await _set_paused(context, request, paused=False)
    template = request.texts.source_resumed if is_changed else request.texts.source_not_paused
    return template.format(source=format_code(name))


async def switch(context: CommandContext, request: CommandRequest) -> str:
    """Switch a source on or off, or say what its passages weigh."""
    action = request.arguments["action"]
    factor = request.arguments.get("factor")
    name = request.arguments.get("source")
    texts = request.texts
    if not name:
        raise UsageError(texts.source_missing.format(action=action))
    context.require_source(name, request)
    overrides = context.overrides
    if action == "scale":
        if not factor:
            raise UsageError(texts.factor_missing)
        value = f"{float(factor):g}"
        await overrides.change(
            request.message, GLOBAL_SCOPE, override_key("scale", name), None if value == "1" else value, before="1"
        )
        reply = texts.source_weighs.format(source=format_code(name), factor=value)
    else:
        off_value = "off" if action == "off" else None
        await overrides.change(request.message, GLOBAL_SCOPE, override_key("off", name), off_value, before="on")
        reply = (texts.source_off if off_value else texts.source_on).format(source=format_code(name))
    # Earlier answers were made from other knowledge.
    await delete_replies(context.journal.database, time.time())
    return reply


async def quota(context: CommandContext, request: CommandRequest) -> str:
    """Show the daily limits with what is used of them, or set one."""
    name = request.arguments.get("limit")
    value = request.arguments.get("value")
    if name is None:
        return await _format_limits(context, request)
    configured_limit = context.settings.get_daily_limit(name)
    if value is None:
        raise UsageError(request.texts.limit_missing.format(name=name))
    if value not in (NO_LIMIT, CONFIGURED_VALUE):
        number = float(value)
        if number <= 0 or ("tokens" in name and not number.is_integer()):
            raise UsageError(request.texts.limit_invalid)
        value = str(int(number)) if "tokens" in name else repr(number)
    new_value = None if value == CONFIGURED_VALUE else value
    previous_text = NO_LIMIT if configured_limit is None else f"{configured_limit:.10g}"
    await context.overrides.change(
        request.message, GLOBAL_SCOPE, override_key("limit", name), new_value, before=previous_text
    )
    return f"- {_format_limit(context, name, request.texts)}"


async def reload(context: CommandContext, request: CommandRequest) -> str:
    """Read the configuration again: take over what can be changed live, and name what needs a restart."""
    if context.reload_settings is None:
        raise UsageError(request.texts.reload_unavailable)
    # It takes no words: the audit, which outlives what people forget, has none.
    given = replace(request.message, text="")
    try:
        new_settings = await context.reload_settings()
    except ConfigurationError as error:
        await context.audit.record(new_entry(given, "failed", f"{len(error.errors)} faults"))
        _log.warning("configuration.invalid", errors=error.errors)
        error_lines = "\n".join(f"- {line}" for line in _format_errors(error.errors, request))
        return f"{request.texts.configuration_invalid}\n\n{error_lines}"
    try:
        result = await context.reload(new_settings)
    except KimasError as error:
        # Its text may name what the chat must not read.
        await context.audit.record(new_entry(given, "failed", type(error).__name__))
        raise
    subject = f"changed: {_format_names(result.live)}; restart needed: {_format_names(result.restart)}"
    await context.audit.record(new_entry(given, "changed", subject))
    texts = request.texts
    is_changed = result.live or result.restart
    # What still waits for a restart is told again until it had one.
    paragraphs = [
        texts.configuration_reloaded if is_changed else texts.configuration_unchanged,
        "\n".join(_format_reloaded(result, context, request)),
        texts.reloaded_elsewhere if await context.live.overrides.has_other_daemons() else "",
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _format_reloaded(result: Reloaded, context: CommandContext, request: CommandRequest) -> Sequence[str]:
    """Return what became of a reload, one line each. In a group only sources are named that its members may see."""
    texts = request.texts
    sources = context.visible_settings(request).sources
    audiences = context.live.audiences.by_source
    owners_alone = [name for name in result.kept_closed if frozenset({OWNERS}) in audiences.get(name, ())]
    parts = [
        (texts.sources_added, result.added),
        (texts.sources_missing, result.missing),
        (texts.restart_replaced, result.replaced),
        (texts.restart_secrets, result.with_new_secrets),
        (texts.kept_for_owners, owners_alone),
        (texts.kept_closed, [name for name in result.kept_closed if name not in owners_alone]),
    ]
    named_parts = [
        (texts.changed_now, result.live),
        (texts.restart_needed, result.restart),
        *((text, [name for name in names if request.message.private or name in sources]) for text, names in parts),
    ]
    lines = [text.format(names=_format_names(names)) for text, names in named_parts if names]
    is_named = request.message.private or sources.keys() >= set(result.kept_closed)
    return lines if is_named else [*lines, texts.restart_unnamed]


def _format_errors(errors: Sequence[str], request: CommandRequest) -> Sequence[str]:
    """Return the faults of a configuration; in a group their sections only: a line may name a source that it closes."""
    if request.message.private:
        return [format_code(error) for error in errors[:MAX_SHOWN_ERRORS]]
    sections = {match[1] for error in errors if (match := _SECTION.search(error)) and match[1] in Settings.model_fields}
    return [*map(format_code, sorted(sections)), request.texts.reason_in_log]


async def _set_paused(context: CommandContext, request: CommandRequest, *, paused: bool) -> tuple[str, bool]:
    """Pause or resume the refreshes of a source, and return its name and whether that changed anything."""
    if context.refresher is None:
        raise UsageError(request.texts.pause_unavailable)
    context.require_named(request)
    name = context.require_source(request.arguments["source"], request)
    was_paused = {state.name: state.paused for state in await context.refresher.states()}
    await (context.refresher.pause if paused else context.refresher.resume)(name)
    labels = {True: "only when asked", False: "by its plan"}
    change = (labels[was_paused.get(name, False)], labels[paused])
    await context.audit.record(new_entry(request.message, "changed", f"refresh of {name}", *change))
    return name, change[0] != change[1]


async def _format_limits(context: CommandContext, request: CommandRequest) -> str:
    message = request.message
    question = Question("", author_id=message.author_id, key=message.key)
    usage = await UsageRepository(context.journal.database).get_totals(today(), question)
    lines = [
        f"- {_format_limit(context, name, request.texts)}{_format_usage(name, usage, request.texts)}"
        for name in DAILY_LIMITS
        if request.can_see_all_chats or name.endswith(("_per_chat", "_per_user"))
    ]
    return f"{request.texts.limits_listed}\n\n" + "\n".join(lines)


def _format_limit(context: CommandContext, name: str, texts: Messages) -> str:
    limit = context.live.limit(name)
    origin = ""
    if context.overrides.is_set(GLOBAL_SCOPE, override_key("limit", name)):
        origin = texts.set_by_command
    elif limit is not None and getattr(context.settings.limits, name) == AUTO:
        origin = texts.default_for_paid_model
    return f"`{name}`: {texts.no_limit if limit is None else f'{limit:,.10g}'}{origin}"


def _format_usage(name: str, usage: UsageTotals, texts: Messages) -> str:
    scope_usage = usage.overall
    template = texts.used_overall
    if name.endswith("_per_chat"):
        scope_usage = usage.chat
        template = texts.used_in_chat
    elif name.endswith("_per_user"):
        scope_usage = usage.user
        template = texts.used_by_you
    amount = f"{scope_usage.total_tokens:,}" if "tokens" in name else f"{scope_usage.cost:,.4f}"
    return template.format(amount=amount)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
