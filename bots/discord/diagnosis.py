"""What `kimas init` and `kimas check --live` learn about a Discord bot; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bots.common.connection import NotAllowed
from bots.common.diagnosis import Diagnosis, Problem, Scope
from bots.discord.adapter import connect
from bots.discord.connection import DiscordIntervals
from core.errors import PlatformError
from core.settings import DiscordSettings

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

ADMINISTRATOR = 1 << 3
NEEDED_PERMISSIONS = {
    "View Channels": 1 << 10,
    "Send Messages": 1 << 11,
    "Read Message History": 1 << 16,
    "Send Messages in Threads": 1 << 38,
}
INVITATION = (
    "https://discord.com/oauth2/authorize?client_id={application}&scope=bot+applications.commands"
    f"&permissions={sum(NEEDED_PERMISSIONS.values())}"
)
PORTAL = "https://discord.com/developers/applications"


async def diagnose(settings: DiscordSettings, scope: Scope) -> Diagnosis:
    """Return what is known of the bot and its channels. Raises `PlatformError` for a token that does not work."""
    client = await connect(settings, DiscordIntervals())
    try:
        me = await client.get_identity()
        application = await client.get_application()
        invitation = INVITATION.format(application=me.application_id)
        problems = [
            Problem(f"channel {chat}: {reason}")
            for chat in scope.chats
            if (reason := await _find_obstacle(client, chat, me.id, invitation))
        ]
    finally:
        await client.close()
    if not me.can_read_all and (scope.reads_all or settings.follow_threads):
        problems.append(Problem(_intent_text(me.application_id, reads_all=scope.reads_all), is_error=False))
    if application.get("interactions_endpoint_url"):
        page = f"{PORTAL}/{me.application_id}/information"
        problems.append(Problem(f"slash commands go to another address: empty Interactions Endpoint URL at {page}"))
    return Diagnosis(me.name, invitation, tuple(problems))


async def _find_obstacle(client: DiscordClient, channel_id: str, bot_id: str, invitation: str) -> str:
    """Return why the bot cannot answer in a channel, with the way out; empty where it can."""
    try:
        channel = await client.get_channel(channel_id)
        guild_id = str(channel.get("guild_id") or "")
        if not guild_id:
            return ""
        guild = await client.get_guild(guild_id)
        member = await client.get_member(guild_id, bot_id)
        # A thread has the permissions of its channel.
        if channel.get("parent_id") and "thread_metadata" in channel:
            channel = await client.get_channel(str(channel["parent_id"]))
    except NotAllowed:
        missing_permissions = ["View Channels"]
    except PlatformError as error:
        return f"{error}; invite the bot by {invitation}, and compare the id (right-click the channel, Copy Link)"
    else:
        permissions = compute_permissions(guild, member, channel)
        missing_permissions = [name for name, bit in NEEDED_PERMISSIONS.items() if not permissions & bit]
    if not missing_permissions:
        return ""
    hint = "in the channel's settings, Permissions, add the bot and allow them, or invite it again by"
    return f"the bot lacks {', '.join(missing_permissions)}: {hint} {invitation}"


def compute_permissions(guild: Mapping[str, Any], member: Mapping[str, Any], channel: Mapping[str, Any]) -> int:
    """Return a member's permissions in a channel, as Discord computes them: roles, then the channel's overwrites."""
    guild_id = str(guild["id"])
    role_ids = {str(role) for role in member.get("roles", ())}
    permissions = 0
    for role in guild.get("roles", ()):
        if str(role["id"]) in {guild_id, *role_ids}:
            permissions |= int(role["permissions"])
    if permissions & ADMINISTRATOR:
        return sum(NEEDED_PERMISSIONS.values()) | permissions
    overwrites = {str(overwrite["id"]): overwrite for overwrite in channel.get("permission_overwrites") or ()}
    bot_id = str((member.get("user") or {}).get("id"))
    for identifiers in ({guild_id}, role_ids, {bot_id}):
        matching_overwrites = [overwrites[identifier] for identifier in identifiers if identifier in overwrites]
        permissions &= ~_join_bits(matching_overwrites, "deny")
        permissions |= _join_bits(matching_overwrites, "allow")
    return permissions


def _join_bits(overwrites: Iterable[Mapping[str, Any]], name: str) -> int:
    bits = 0
    for overwrite in overwrites:
        bits |= int(overwrite[name])
    return bits


def _intent_text(application_id: str, *, reads_all: bool) -> str:
    needed_by = "gate.mode or auto_comment" if reads_all else "follow-ups without a mention in threads"
    return (
        f"the message content intent is off, and {needed_by} need it: {PORTAL}/{application_id}/bot, Privileged "
        "Gateway Intents, switch on Message Content Intent, and save"
    )
