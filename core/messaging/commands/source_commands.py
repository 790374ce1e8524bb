"""The commands that change the whole deployment: its sources, its limits, its configuration."""

from __future__ import annotations

import time
from collections.abc import Sequence

from core.errors import ConfigurationError, UsageError
from core.messaging.commands.context import Office
from core.messaging.commands.form import Request
from core.messaging.policy.command_table import AS_CONFIGURED, LIMITS
from core.settings import Settings
from core.storage.answer_cache import forget_replies
from core.storage.audit import Outcome, entry
from core.storage.overrides import EVERYWHERE, NONE, limit_key, off_key, scale_key
from core.storage.usage import Consumed, Ledger, Spent
from core.text.formatting import code, span, today
from core.types import Question

SHOWN_FAULTS = 10


async def refresh(office: Office, request: Request) -> str:
    """Ask for a refresh of one source or all; not more often than configured."""
    if office.upkeep is None:
        raise UsageError("I cannot refresh sources here: `kimas run` does, and `kimas ingest` by hand.")
    name = request.given.get("source", "")
    if name:
        office.known_source(name)
    now, pause_s = time.monotonic(), office.settings.administration.refresh_minutes * 60
    last = max(office.asked_for.get(one, -float("inf")) for one in {name, ""})
    if now - last < pause_s:
        raise UsageError(
            f"That was asked for {span(now - last)} ago. Again in {span(pause_s - (now - last))} "
            "(administration.refresh_minutes)."
        )
    office.asked_for[name] = now
    try:
        await office.upkeep.refresh((name,) if name else ())
    except BaseException:
        office.asked_for.pop(name, None)
        raise
    await office.audit.record(entry(request.message, "changed", f"refresh {name or 'all sources'}"))
    return f"I refresh {code(name) if name else 'all sources'} now. `/sources` shows how it goes."


async def pause(office: Office, request: Request) -> str:
    """Refresh a source only when asked, until it is resumed; what it knows stays in use."""
    name, changed = await _plan(office, request, paused=True)
    told = "from now on" if changed else "already"
    return f"{code(name)} is refreshed only when asked {told}: `/refresh {name}`. `/resume {name}` ends that."


async def resume(office: Office, request: Request) -> str:
    """Refresh a source by its plan again."""
    name, changed = await _plan(office, request, paused=False)
    if not changed:
        return f"{code(name)} was not paused."
    return f"{code(name)} is refreshed by its plan again; what was missed comes once, now."


async def switch(office: Office, request: Request) -> str:
    """Switch a source on or off, or say what its passages weigh."""
    action, factor = request.given["action"], request.given.get("factor")
    name = request.given.get("source")
    if not name:
        raise UsageError(f"Which source? Write it as `/sources {action} NAME`.")
    office.known_source(name)
    steering = office.steering
    if action == "scale":
        if not factor:
            raise UsageError("How much? Write it as `/sources scale NAME X`; 1 is the normal weight.")
        value = f"{float(factor):g}"
        await steering.change(request.message, EVERYWHERE, scale_key(name), None if value == "1" else value, before="1")
        told = f"Passages of {code(name)} now weigh {value}."
    else:
        off = "off" if action == "off" else None
        await steering.change(request.message, EVERYWHERE, off_key(name), off, before="on")
        told = f"{code(name)} is {'no longer used for answers' if off else 'used for answers'} from now on."
    # Earlier answers were made from other knowledge.
    await forget_replies(office.journal.database, time.time())
    return told


async def quota(office: Office, request: Request) -> str:
    """Show the daily limits with what is used of them, or set one."""
    name, value = request.given.get("limit"), request.given.get("value")
    if name is None:
        return await _limits(office, request)
    configured = getattr(office.settings.limits, name)
    if value is None:
        raise UsageError(f"How much? Write it as `/quota {name} NUMBER`, or `none`, or `default`.")
    if value not in (NONE, AS_CONFIGURED):
        number = float(value)
        if number <= 0 or ("tokens" in name and not number.is_integer()):
            raise UsageError("A limit is more than 0, of tokens a whole number. `none` takes it away.")
        value = str(int(number)) if "tokens" in name else repr(number)
    new = None if value == AS_CONFIGURED else value
    before = NONE if configured is None else f"{configured:g}"
    await office.steering.change(request.message, EVERYWHERE, limit_key(name), new, before=before)
    return f"- {_limit(office, name)}"


async def reload(office: Office, request: Request) -> str:
    """Read the configuration again: take over what can be changed live, and name what needs a restart."""
    if office.reread is None:
        raise UsageError("I cannot read my configuration again here; start me anew.")
    try:
        new = await office.reread()
    except ConfigurationError as fault:
        await _note(office, request, "failed", f"{len(fault.faults)} faults")
        faults = "\n".join(f"- {code(one)}" for one in fault.faults[:SHOWN_FAULTS])
        return f"Nothing was changed, for the configuration has faults:\n\n{faults}"
    old = office.settings
    changed = [name for name in Settings.model_fields if getattr(new, name) != getattr(old, name)]
    live = [name for name in changed if name in office.adopters]
    others = [name for name in changed if name not in office.adopters]
    # What needs a restart stays as it is, as a whole: half of it would be neither the old nor the new.
    office.settings = old.model_copy(update={name: getattr(new, name) for name in live})
    for name in live:
        office.adopters[name](office.settings)
    await _note(office, request, "changed", f"changed: {_names(live)}; restart needed: {_names(others)}")
    if not changed:
        return "The configuration has not changed. What a command has set stays in force above it."
    lines = [f"- changed now: {_names(live)}"] if live else []
    lines += [f"- restart needed: {_names(others)}"] if others else []
    return "The configuration is read again.\n\n" + "\n".join(lines)


async def _plan(office: Office, request: Request, *, paused: bool) -> tuple[str, bool]:
    """Pause or resume the refreshes of a source, and return its name and whether that changed anything."""
    if office.upkeep is None:
        raise UsageError("I do not refresh sources here: `kimas sources pause NAME` and `resume NAME` do the same.")
    name = office.known_source(request.given["source"])
    before = {one.name: one.paused for one in await office.upkeep.states()}
    await (office.upkeep.pause if paused else office.upkeep.resume)(name)
    words = {True: "only when asked", False: "by its plan"}
    told = (words[before.get(name, False)], words[paused])
    await office.audit.record(entry(request.message, "changed", f"refresh of {name}", *told))
    return name, told[0] != told[1]


async def _note(office: Office, request: Request, outcome: Outcome, what: str) -> None:
    await office.audit.record(entry(request.message, outcome, what))


async def _limits(office: Office, request: Request) -> str:
    message = request.message
    question = Question("", author_id=message.author_id, key=message.key)
    spent = await Ledger(office.journal.database).spent(today(), question)
    lines = [
        f"- {_limit(office, name)}{_used(name, spent)}"
        for name in LIMITS
        if request.sees_all or name.endswith(("_per_chat", "_per_user"))
    ]
    return "Daily limits, and what is used of them today:\n\n" + "\n".join(lines)


def _limit(office: Office, name: str) -> str:
    allowed = office.steering.limit(name, getattr(office.settings.limits, name))
    by_command = " (set by a command)" if office.steering.is_set(EVERYWHERE, limit_key(name)) else ""
    return f"`{name}`: {'no limit' if allowed is None else f'{allowed:,g}'}{by_command}"


def _used(name: str, spent: Spent) -> str:
    whose: Consumed = spent.everybody
    where = ""
    if name.endswith("_per_chat"):
        whose, where = spent.chat, " in this chat"
    elif name.endswith("_per_user"):
        whose, where = spent.user, " by you"
    amount = f"{whose.tokens:,} used" if "tokens" in name else f"{whose.cost:,.4f} used"
    return f", {amount}{where}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
