"""The commands that change one chat: when the bot speaks there, and who looks after it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from core.errors import UsageError
from core.messaging.commands.calibrate_command import fit_threshold
from core.messaging.commands.context import Office
from core.messaging.commands.form import Request
from core.messaging.policy.command_table import AS_CONFIGURED, FITTED
from core.storage.overrides import admin_key
from core.text.formatting import FOR_GOOD, code, until_words

_USER = re.compile(r"<@!?([A-Za-z0-9]{1,64})(?:\|[^>]*)?>|([A-Za-z0-9]{1,64})")


async def pause(office: Office, request: Request) -> str:
    """Silence the bot in the chat; commands still work."""
    minutes = request.given.get("minutes")
    until = FOR_GOOD
    if minutes:
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=float(minutes))
        until = moment.isoformat()
    await office.steering.change(request.message, request.chat, "pause", until, before="not paused")
    how_long = until_words(until)
    return f"I am silent in this chat {how_long}. Commands still work; `/resume` ends it."


async def resume(office: Office, request: Request) -> str:
    """Let the bot speak in the chat again."""
    if not office.steering.paused(request.chat):
        return "I was not paused in this chat."
    await office.steering.change(request.message, request.chat, "pause", None)
    return "I speak again in this chat."


async def mode(office: Office, request: Request) -> str:
    """Show or set when the bot speaks in the chat."""
    gate, chat, private = office.settings.gate, request.chat, request.message.private
    configured = gate.mode_of(chat, private=private)
    now, wanted = office.steering.mode(chat) or configured, request.given.get("mode")
    if not wanted:
        return f"The mode of this chat is `{now}`, in the configuration `{configured}`."
    value = None if wanted == AS_CONFIGURED else wanted
    await office.steering.change(request.message, chat, "mode", value, before=configured)
    return f"The mode of this chat is now `{value or configured}`; it was `{now}`."


async def threshold(office: Office, request: Request) -> str:
    """Show or set how sure the bot must be to speak unasked in the chat."""
    chat = request.chat
    configured = office.settings.gate.threshold_of(chat)
    set_here = office.steering.threshold(chat)
    now, wanted = configured if set_here is None else set_here, request.given.get("value")
    if not wanted:
        return f"The threshold of this chat is {now:g}, in the configuration {configured:g}."
    if wanted == FITTED:
        return await fit_threshold(office, request.message, now)
    value = None if wanted == AS_CONFIGURED else float(wanted)
    shown = None if value is None else f"{value:g}"
    await office.steering.change(request.message, chat, "threshold", shown, before=f"{configured:g}")
    return f"The threshold of this chat is now {configured if value is None else value:g}; it was {now:g}."


async def admins(office: Office, request: Request) -> str:
    """List, add or remove the people who look after the bot in the chat."""
    action, user = request.given.get("action", "list"), request.given.get("user", "")
    if action == "list":
        return _who(office, request)
    if request.message.private:
        raise UsageError("Do that in the group: administrators belong to one chat.")
    found = _USER.fullmatch(user)
    number = (found[1] or found[2]) if found else ""
    # Every platform numbers its users, or gives them a code with figures in it; names change and can be taken over.
    if not re.search(r"\d", number):
        raise UsageError("Give me the user's id, a number or a code; a name can be taken over by somebody else.")
    known = number in office.steering.admins(request.chat)
    if action == "add":
        if known:
            return f"{code(number)} is an administrator of mine in this chat already."
        await office.steering.change(request.message, request.chat, admin_key(number), "added", before="not there")
        return f"{code(number)} may look after me in this chat now."
    if not known:
        return f"{code(number)} is not an administrator of mine in this chat."
    await office.steering.change(request.message, request.chat, admin_key(number), None)
    return f"{code(number)} may no longer look after me in this chat."


def _who(office: Office, request: Request) -> str:
    named = ", ".join(map(code, office.steering.admins(request.chat))) or "nobody"
    allowed = office.settings.administration.platform_admins
    platform = "may look after me too" if allowed else "have no say (administration.platform_admins)"
    owners = len(office.settings.administration.owners)
    return (
        f"- Named for this chat: {named}\n"
        f"- The chat's own administrators {platform}\n"
        f"- Owners, by the configuration: {owners}"
    )
