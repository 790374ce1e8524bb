"""The gateway through discord.py: identify, heartbeat, resume and decompression are the library's.

The library makes no models of the events: a payload that they do not expect would end the connection, and with it the
session. Events are handed on as plain JSON, in order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import discord

from bots.common.connection import TokenRefused, Unreachable
from bots.discord.connection import INTERRUPTED, DiscordIntervals, GatewayRefused, IntentRefused
from bots.discord.http import DiscordHttp
from core.errors import PlatformError

OnEvent = Callable[[str, dict[str, Any]], None]

CLOSE_TIMEOUT_S = 3.0

# Close codes after which connecting again is useless.
_CLOSE_CODES: dict[int | None, tuple[type[PlatformError], str]] = {
    4004: (TokenRefused, "discord.token was refused by the gateway: it was reset in the developer portal"),
    4010: (GatewayRefused, "the gateway refuses our shard"),
    4011: (GatewayRefused, "the bot is in more servers (2,500) than one connection may serve: remove it from some"),
    4012: (GatewayRefused, "the gateway no longer speaks this version of the protocol: update KIMAs"),
    4013: (GatewayRefused, "the gateway does not know our intents: update KIMAs"),
    4014: (IntentRefused, "the message content intent is not granted to the bot"),
}


class _GatewayClient(discord.Client):
    """A client that keeps the connection and does nothing else: no cache, no models, no tasks."""

    def __init__(
        self, http: DiscordHttp, intents: discord.Intents, on_event: OnEvent, intervals: DiscordIntervals
    ) -> None:
        # The library would warn that it cannot speak.
        discord.VoiceClient.warn_nacl = False
        discord.VoiceClient.warn_dave = False
        super().__init__(
            intents=intents,
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            enable_debug_events=True,
        )
        self.http = http
        self._on_event = on_event
        self._intervals = intervals
        self._connection.parsers.clear()

    def dispatch(self, event: str, /, *arguments: Any, **_: Any) -> None:
        """Call `on_event` with each event before the library handles it, and when the connection is lost."""
        if event == "disconnect":
            self._on_event(INTERRUPTED, {})
        if event != "socket_raw_receive":
            return
        try:
            payload = json.loads(arguments[0])
        except ValueError:
            # The library fails on it as well, and with it this session: the next one catches up.
            return
        if isinstance(payload, dict) and payload.get("op") == 0 and isinstance(payload.get("d"), dict):
            self._on_event(str(payload.get("t")), payload["d"])

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Pause before a new session, as Discord asks."""
        if not initial:
            await asyncio.sleep(self._intervals.identify_delay_s)


async def run_session(
    http: DiscordHttp, token: str, on_event: OnEvent, intervals: DiscordIntervals, *, can_read_all: bool
) -> None:
    """Run one session until it cannot be resumed; another call begins a new one.

    Raises `TokenRefused`, `IntentRefused`, `GatewayRefused`, or `Unreachable` for everything that may pass, a payload
    that makes no sense included.
    """
    intents = discord.Intents(
        guilds=True,
        guild_messages=True,
        guild_typing=True,
        dm_messages=True,
        message_content=can_read_all,
        guild_reactions=True,
        dm_reactions=True,
    )
    session = _GatewayClient(http, intents, on_event, intervals)
    await session._async_setup_hook()
    try:
        await http.static_login(token)
        # With reconnect=True the library would wait up to a quarter of an hour between two tries.
        await session.connect(reconnect=False)
    except discord.ConnectionClosed as error:
        error_class, meaning = _CLOSE_CODES.get(
            error.code, (Unreachable, f"the gateway closed the connection ({error.code})")
        )
        raise error_class(meaning) from error
    except discord.LoginFailure as error:
        raise TokenRefused(_CLOSE_CODES[4004][1]) from error
    except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unreachable(f"the gateway cannot be reached: {_describe_error(error, token)}") from error
    except Exception as error:
        # The library's own errors over a payload can be of any type.
        raise Unreachable(f"the gateway sent what makes no sense: {_describe_error(error, token)}") from error
    finally:
        await _close(session)
    raise Unreachable("the gateway closed the connection")


async def _close(session: _GatewayClient) -> None:
    """Close the connection, without waiting long for the server's answer."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await session.close()
    except (TimeoutError, OSError, aiohttp.ClientError):
        # The rest of it is closed with the HTTP client.
        return


def _describe_error(error: Exception, token: str) -> str:
    return (str(error) or type(error).__name__).replace(token, "<token>")[:300]
