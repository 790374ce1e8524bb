"""What `kimas init` and `kimas check --live` learn about an account; nothing is changed."""

from __future__ import annotations

import asyncio
import re

from bots.bluesky.adapter import UNREADABLE_MESSAGE, connect
from bots.bluesky.client import BlueskyClient, Identity
from bots.bluesky.connection import BlueskyIntervals
from bots.bluesky.convert import is_bot
from bots.common.adapter import read_secret
from bots.common.connection import Refused
from bots.common.diagnosis import Diagnosis, Problem, Scope
from core.errors import MessageDeleted
from core.settings import BlueskySettings

_APP_PASSWORD = re.compile(r"[a-z0-9]{4}(?:-[a-z0-9]{4}){3}")


async def diagnose(settings: BlueskySettings, scope: Scope) -> Diagnosis:
    """Return what is known of the account and its lists. Raises `PlatformError` for a password that does not work."""
    password = await asyncio.to_thread(read_secret, settings.app_password, UNREADABLE_MESSAGE)
    problems = []
    if not _APP_PASSWORD.fullmatch(password):
        text = "bluesky.app_password looks like the account's own password: make an app password, which can be revoked"
        problems.append(Problem(text, is_error=False))
    client = await connect(settings, BlueskyIntervals())
    try:
        me = await client.get_identity()
        problems += [*await _check_label(client, me), *await _check_comments(client, settings, scope)]
    finally:
        await client.close()
    return Diagnosis(f"@{me.handle} ({me.did})", f"mention @{me.handle}", tuple(problems))


async def _check_label(client: BlueskyClient, me: Identity) -> list[Problem]:
    if any(is_bot(profile) for profile in await client.get_profiles([me.did])):
        return []
    text = "the account does not say that it is a bot: choose the label in its settings (docs/bluesky.md)"
    return [Problem(text, is_error=False)]


async def _check_comments(client: BlueskyClient, settings: BlueskySettings, scope: Scope) -> list[Problem]:
    problems = []
    keys = [chat.removeprefix("list/") for chat in scope.chats if chat.startswith("list/")]
    for key in keys:
        try:
            await client.get_list_feed(key, "", 1)
        except (MessageDeleted, Refused) as error:
            problems.append(Problem(f"the list {key} cannot be read: {error}"))
    if (keys or "home" in scope.chats) and not settings.comment_below:
        problems.append(Problem("bluesky.comment_below is empty, so no post gets a comment", is_error=False))
    return problems
