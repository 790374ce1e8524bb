"""The commands that change one chat: when the bot speaks there, and who looks after it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from core.errors import UsageError
from core.messaging.commands.calibrate_command import fit_threshold
from core.messaging.commands.context import CommandContext
from core.messaging.commands.form import CommandRequest
from core.messaging.policy.command_table import AS_CONFIGURED, FITTED
from core.storage.overrides import admin_key
from core.text.formatting import INDEFINITELY, format_code, format_until

_USER = re.compile(r"<@!?([A-Za-z0-9]{1,64})(?:\|[^>]*)?>|([A-Za-z0-9]{1,64})")


async def pause(context: CommandContext, request: CommandRequest) -> str:
    """Silence the bot in the chat; commands still work."""
    minutes = request.arguments.get("minutes")
    until = INDEFINITELY
    if minutes:
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=float(minutes))
        until = moment.isoformat()
    await context.overrides.change(request.message, request.chat, "pause", until, before="not paused")
    duration_text = format_until(until)
    return f"I am silent in this chat {duration_text}. Commands still work; `/resume` ends it."


async def resume(context: CommandContext, request: CommandRequest) -> str:
    """Let the bot speak in the chat again."""
    if not context.overrides.paused_until(request.chat):
        return "I was not paused in this chat."
    await context.overrides.change(request.message, request.chat, "pause", None)
    return "I speak again in this chat."


async def change_mode(context: CommandContext, request: CommandRequest) -> str:
    """Show or set when the bot speaks in the chat."""
    gate, chat, private = context.settings.gate, request.chat, request.message.private
    configured = gate.get_mode(chat, private=private)
    current_mode, new_mode = context.overrides.mode(chat) or configured, request.arguments.get("mode")
    if not new_mode:
        return f"The mode of this chat is `{current_mode}`, in the configuration `{configured}`."
    value = None if new_mode == AS_CONFIGURED else new_mode
    await context.overrides.change(request.message, chat, "mode", value, before=configured)
    return f"The mode of this chat is now `{value or configured}`; it was `{current_mode}`."


async def change_threshold(context: CommandContext, request: CommandRequest) -> str:
    """Show or set how sure the bot must be to speak unasked in the chat."""
    chat = request.chat
    configured = context.settings.gate.get_threshold(chat)
    override = context.overrides.threshold(chat)
    current, new_value = configured if override is None else override, request.arguments.get("value")
    if not new_value:
        return f"The threshold of this chat is {current:g}, in the configuration {configured:g}."
    if new_value == FITTED:
        return await fit_threshold(context, request.message, current)
    value = None if new_value == AS_CONFIGURED else float(new_value)
    value_text = None if value is None else f"{value:g}"
    await context.overrides.change(request.message, chat, "threshold", value_text, before=f"{configured:g}")
    return f"The threshold of this chat is now {configured if value is None else value:g}; it was {current:g}."


async def change_admins(context: CommandContext, request: CommandRequest) -> str:
    """List, add or remove the people who look after the bot in the chat."""
    action, user = request.arguments.get("action", "list"), request.arguments.get("user", "")
    if action == "list":
        return _list_admins(context, request)
    if request.message.private:
        raise UsageError("Do that in the group: administrators belong to one chat.")
    match = _USER.fullmatch(user)
    user_id = (match[1] or match[2]) if match else ""
    # Every platform numbers its users, or gives them a code with figures in it; names change and can be taken over.
    if not re.search(r"\d", user_id):
        raise UsageError("Give me the user's id, a number or a code; a name can be taken over by somebody else.")
    is_admin = user_id in context.overrides.admins(request.chat)
    if action == "add":
        if is_admin:
            return f"{format_code(user_id)} is an administrator of mine in this chat already."
        await context.overrides.change(request.message, request.chat, admin_key(user_id), "added", before="not there")
        return f"{format_code(user_id)} may look after me in this chat now."
    if not is_admin:
        return f"{format_code(user_id)} is not an administrator of mine in this chat."
    await context.overrides.change(request.message, request.chat, admin_key(user_id), None)
    return f"{format_code(user_id)} may no longer look after me in this chat."


def _list_admins(context: CommandContext, request: CommandRequest) -> str:
    admin_names = ", ".join(map(format_code, context.overrides.admins(request.chat))) or "nobody"
    allows_platform_admins = context.settings.administration.platform_admins
    platform_text = (
        "may look after me too" if allows_platform_admins else "have no say (administration.platform_admins)"
    )
    owner_count = len(context.settings.administration.owners)
    return (
        f"- Named for this chat: {admin_names}\n"
        f"- The chat's own administrators {platform_text}\n"
        f"- Owners, by the configuration: {owner_count}"
    )
