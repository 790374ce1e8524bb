"""What `kimas init` and `kimas check --live` learn about an account; nothing is changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bots.common.connection import NotAllowed, Refused
from bots.common.diagnosis import Diagnosis, Problem, Scope
from bots.mastodon.adapter import HOME, connect
from bots.mastodon.client import MastodonClient
from bots.mastodon.connection import MastodonIntervals
from bots.mastodon.convert import MENTIONS_CHAT
from core.errors import MessageDeleted
from core.settings import MastodonSettings

SCOPES_PAGE = "the account's preferences, Development; a new scope needs a new token"
POLICY_PAGE = "the account's preferences, Notifications, Manage notifications from: choose Accept"


async def diagnose(settings: MastodonSettings, scope: Scope) -> Diagnosis:
    """Return what is known of the account and its timelines. Raises `PlatformError` for a token that does not work."""
    client = await connect(settings, MastodonIntervals())
    try:
        me = await client.get_identity()
        problems = [
            *await _try_scope("read:notifications", "mentions do not arrive", lambda: client.get_notifications(None)),
            *await _try_scope("read:statuses", "threads cannot be read", lambda: client.get_timeline(HOME)),
            *await _try_scope("write:statuses", "the bot cannot answer", client.try_empty_post),
            *await _check_policy(client),
        ]
        for timeline in scope.chats:
            if timeline not in (MENTIONS_CHAT, HOME):
                problems += await _check_timeline(client, timeline)
    finally:
        await client.close()
    handle = me.to_handle(me.username)
    return Diagnosis(f"@{handle}, whose server takes {me.max_chars} characters", f"mention @{handle}", tuple(problems))


async def _try_scope(name: str, loss: str, call: Callable[[], Awaitable[object]]) -> list[Problem]:
    try:
        await call()
    except NotAllowed:
        return [Problem(f"the scope {name} is missing, so {loss}: add it in {SCOPES_PAGE}")]
    except Refused:
        # An empty post, from who may post.
        return []
    return []


async def _check_policy(client: MastodonClient) -> list[Problem]:
    """Return which notifications the server holds back; servers of old hold back none, and know no policy."""
    try:
        policy = await client.get_notification_policy()
    except (MessageDeleted, NotAllowed):
        return []
    return [
        Problem(f"notifications {name.replace('_', ' ')} are not delivered ({action}): {POLICY_PAGE}", is_error=False)
        for name, action in policy.items()
        if name.startswith("for_") and action != "accept"
    ]


async def _check_timeline(client: MastodonClient, timeline: str) -> list[Problem]:
    try:
        await client.get_timeline(timeline)
    except (MessageDeleted, NotAllowed) as error:
        return [Problem(f"the timeline {timeline} cannot be read: {error}")]
    return []
