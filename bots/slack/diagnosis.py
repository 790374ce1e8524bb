"""What `kimas init` and `kimas check --live` learn about a Slack app; nothing is changed."""

from __future__ import annotations

from bots.common.connection import NotAllowed
from bots.common.diagnosis import Diagnosis, Problem, Scope
from bots.slack.adapter import connect
from bots.slack.connection import INVITE, MethodUnavailable, SlackIntervals
from core.settings import SlackSettings

# Scopes and what is missing without them. Without those of the first group nobody gets an answer.
REQUIRED_SCOPES = {"chat:write": "the bot cannot answer", "app_mentions:read": "mentions do not arrive"}
USEFUL_SCOPES = {
    "channels:history": "follow-ups without a mention in public channels are not seen",
    "groups:history": "follow-ups without a mention in private channels are not seen",
    "im:history": "direct messages do not arrive",
    "commands": "there is no /kimas",
    "files:read": "pictures cannot be looked at",
    "users:read": "App Home stays empty, and administrators of the workspace are not known",
    "reactions:write": "the bot posts a placeholder in place of a reaction",
}
SCOPES_PAGE = "api.slack.com/apps, OAuth & Permissions, Bot Token Scopes; then Reinstall to Workspace"


async def diagnose(settings: SlackSettings, scope: Scope) -> Diagnosis:
    """Return what is known of the app and its channels. Raises `PlatformError` for a token that does not work."""
    client = await connect(settings, SlackIntervals())
    try:
        me = await client.get_identity()
        scopes = await client.get_scopes()
        if settings.app_token is not None:
            # The address is good for one use, and nobody uses it.
            await client.get_socket_url()
        problems = []
        for channel in scope.chats:
            try:
                await client.read_newest(channel)
            except NotAllowed as error:
                text = str(error).replace(INVITE, f"write /invite @{me.name} there")
                problems.append(Problem(f"channel {channel}: {text}"))
            except MethodUnavailable:
                continue  # The scope that it lacks is named below.
    finally:
        await client.close()
    if scopes:
        missing_scopes = {
            name: text for name, text in {**REQUIRED_SCOPES, **USEFUL_SCOPES}.items() if name not in scopes
        }
        problems += [
            Problem(f"the scope {name} is missing, so {text}: add it at {SCOPES_PAGE}", name in REQUIRED_SCOPES)
            for name, text in missing_scopes.items()
        ]
    return Diagnosis(f"{me.name} in {me.team}", f"in a channel, write: /invite @{me.name}", tuple(problems))
