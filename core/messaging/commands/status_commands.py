"""The commands that only look: status, figures, sources, the audit, help."""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version

from core.messaging.commands.context import Office
from core.messaging.commands.form import Request
from core.messaging.policy.command_table import help_text
from core.storage import statistics as figures
from core.storage.audit import Entry
from core.storage.overrides import EVERYWHERE, scale_key
from core.text.formatting import age, code, cost_of, counted, span, today, until_words
from core.types import SourceState

DAYS, ENTRIES = 7, 10


async def status(office: Office, request: Request) -> str:
    """Show how the bot is: to owners in private of everything, else of this chat."""
    database, chat = office.journal.database, _chat(request)
    heard = await figures.last_heard(database, sorted(office.platforms))
    found = (await figures.days(database, today(), chat)).get(today(), figures.Day())
    waiting = await figures.pending(database, chat)
    platforms = ", ".join(
        f"{one} (heard {age(heard[one]) if one in heard else 'nothing yet'})" for one in sorted(office.platforms)
    )
    lines = [
        f"- Version {_version()}, running for {span(time.monotonic() - office.started)}",
        f"- Platforms: {platforms or 'none'}",
        f"- {await _health(office)}",
        f"- Today{_where(request)}: {found.states['answered']} answered, {found.states['silent']} silent, "
        f"{found.states['failed']} failed, {waiting} pending",
        f"- Tokens today: {found.tokens:,}, cost: {cost_of(found.cost)}",
        f"- This chat: {_speaking(office, request)}",
    ]
    return "\n".join(lines)


async def stats(office: Office, request: Request) -> str:
    """Show figures by day."""
    count = int(float(request.given.get("days", DAYS)))
    since = figures.first_of(count, today())
    found = await figures.days(office.journal.database, since, _chat(request))
    if not found:
        return f"Nothing happened{_where(request)} since {since}."
    rows = [
        f"| {day} | {sum(one.states.values())} | {one.states['answered']} | {one.states['silent']} | "
        f"{one.states['failed']} | {one.tokens:,} | {f'{one.cost:,.4f}' if one.cost else '-'} |"
        for day, one in found.items()
    ]
    head = "| day | messages | answered | silent | failed | tokens | cost |\n|---|---|---|---|---|---|---|\n"
    return f"Since {since}{_where(request)}:\n\n{head}" + "\n".join(rows)


async def sources(office: Office, request: Request) -> str:
    """List the knowledge with its amount and age."""
    configured = office.settings.sources
    if not configured:
        return "No sources are configured yet."
    states = {one.name: one for one in await office.upkeep.states()} if office.upkeep else {}
    lines = []
    for name, settings in configured.items():
        state = states.get(name)
        told = _state(state, failures=request.who != "everyone") if state else "asked live, or kept elsewhere"
        lines.append(f"- **{name}** ({settings.kind}): {told}{_steered(office, name)}")
    return "I answer from these sources:\n\n" + "\n".join(lines)


async def audit(office: Office, request: Request) -> str:
    """Show the newest entries: to owners in private all of them, else those of this chat."""
    count = int(float(request.given.get("entries", ENTRIES)))
    found = await office.audit.newest(count, chat=_chat(request))
    return "\n".join(_told(one, place=request.sees_all) for one in found) or "The audit is empty."


async def help_(office: Office, request: Request) -> str:
    """Show what the bot knows and what its author may say to it."""
    return help_text(office.settings, request.who)


def _told(one: Entry, *, place: bool) -> str:
    where = f" in {code(f'{one.platform}:{one.chat}')}" if place else ""
    change = f": {code(one.before)} → {code(one.after)}" if one.before or one.after else ""
    what = f", {code(one.what)}" if one.what else ""
    given = f"{code(one.author_id)}{where}, {code('/' + one.command)}"
    return f"- {one.at:%Y-%m-%d %H:%M} UTC, {given}: {one.outcome}{what}{change}"


async def _health(office: Office) -> str:
    if office.upkeep is None:
        return f"Sources: {len(office.settings.sources)} configured"
    states = await office.upkeep.states()
    broken = [one for one in states if one.error]
    passages = sum(one.passages for one in states)
    if not broken:
        return f"Sources: {len(states)} kept, all well, {counted(passages, 'passage')}"
    faults = "; ".join(f"{code(one.name)} {code(one.error)}" for one in broken)
    return f"Sources: {len(broken)} of {len(states)} failed at their last refresh: {faults}"


def _state(state: SourceState, *, failures: bool) -> str:
    parts = [f"{counted(state.passages, 'passage')} in {counted(state.documents, 'document')}"]
    parts.append(f"refreshed {age(state.last_success)}" if state.last_success else "never refreshed yet")
    if state.running:
        parts.append("being refreshed now")
    if state.error:
        parts.append(f"the last refresh failed: {code(state.error)}" if failures else "the last refresh failed")
    if state.paused:
        parts.append("refreshed only when asked")
    return ", ".join(parts)


def _steered(office: Office, name: str) -> str:
    off = ", **switched off**" if office.steering.is_off(name) else ""
    weighed = office.steering.is_set(EVERYWHERE, scale_key(name))
    return off + (f", weighs {office.steering.scale(name):g}" if weighed else "")


def _speaking(office: Office, request: Request) -> str:
    gate, chat = office.settings.gate, request.chat
    mode = office.steering.mode(chat) or gate.mode_of(chat, private=request.message.private)
    until = office.steering.paused(chat)
    return f"mode `{mode}`" + (f", paused {until_words(until)}" if until else "")


def _where(request: Request) -> str:
    return " in all chats" if request.sees_all else " in this chat"


def _chat(request: Request) -> tuple[str, str] | None:
    key = request.message.key
    return None if request.sees_all else (key.platform, key.chat)


def _version() -> str:
    try:
        return version("kimas")
    except PackageNotFoundError:
        return "unknown"
