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

from bots.discord.connection import INTERRUPTED, GatewayRefused, IntentRefused, Pace, TokenRefused, Unreachable
from bots.discord.http import Http
from core.errors import PlatformError

Take = Callable[[str, dict[str, Any]], None]

CLOSING_S = 3.0

# Codes with which the gateway closes for good.
_REFUSALS: dict[int | None, tuple[type[PlatformError], str]] = {
    4004: (TokenRefused, "discord.token was refused by the gateway: it was reset in the developer portal"),
    4010: (GatewayRefused, "the gateway refuses our shard"),
    4011: (GatewayRefused, "the bot is in more servers (2,500) than one connection may serve: remove it from some"),
    4012: (GatewayRefused, "the gateway no longer speaks this version of the protocol: update KIMAs"),
    4013: (GatewayRefused, "the gateway does not know our intents: update KIMAs"),
    4014: (IntentRefused, "the message content intent is not granted to the bot"),
}


class _Session(discord.Client):
    """A client that keeps the connection and does nothing else: no cache, no models, no tasks of its own."""

    def __init__(self, http: Http, intents: discord.Intents, take: Take, pace: Pace) -> None:
        # The library would warn that it cannot speak.
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
        super().__init__(
            intents=intents,
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            enable_debug_events=True,
        )
        self.http = http
        self._take = take
        self._pace = pace
        self._connection.parsers.clear()

    def dispatch(self, event: str, /, *arguments: Any, **_: Any) -> None:
        """Hand on what came in, before the library looks at it, and that the connection is gone."""
        if event == "disconnect":
            self._take(INTERRUPTED, {})
        if event != "socket_raw_receive":
            return
        try:
            payload = json.loads(arguments[0])
        except ValueError:
            # The library fails on it as well, and with it this session: the next one catches up.
            return
        if isinstance(payload, dict) and payload.get("op") == 0 and isinstance(payload.get("d"), dict):
            self._take(str(payload.get("t")), payload["d"])

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Pause before a session is begun anew, as Discord asks."""
        if not initial:
            await asyncio.sleep(self._pace.identify_s)


async def connect(http: Http, token: str, take: Take, pace: Pace, *, reads_all: bool) -> None:
    """Hold a session until it cannot be resumed; then begin another one with another call.

    Raises `TokenRefused`, `IntentRefused`, `GatewayRefused`, or `Unreachable` for everything that may pass, a payload
    that makes no sense included.
    """
    intents = discord.Intents(
        guilds=True, guild_messages=True, guild_typing=True, dm_messages=True, message_content=reads_all
    )
    session = _Session(http, intents, take, pace)
    await session._async_setup_hook()
    try:
        await http.static_login(token)
        # With reconnect=True the library would wait up to a quarter of an hour between two tries.
        await session.connect(reconnect=False)
    except discord.ConnectionClosed as error:
        kind, meaning = _REFUSALS.get(error.code, (Unreachable, f"the gateway closed the connection ({error.code})"))
        raise kind(meaning) from error
    except discord.LoginFailure as error:
        raise TokenRefused(_REFUSALS[4004][1]) from error
    except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unreachable(f"the gateway cannot be reached: {_said(error, token)}") from error
    except Exception as error:
        # The library's own mistakes over a payload come as anything.
        raise Unreachable(f"the gateway sent what makes no sense: {_said(error, token)}") from error
    finally:
        await _close(session)
    raise Unreachable("the gateway closed the connection")


async def _close(session: _Session) -> None:
    """Close the connection; a server that does not answer the farewell is not waited for long."""
    try:
        async with asyncio.timeout(CLOSING_S):
            await session.close()
    except (TimeoutError, OSError, aiohttp.ClientError):
        # What is left of it is closed with the HTTP client.
        return


def _said(error: Exception, token: str) -> str:
    return (str(error) or type(error).__name__).replace(token, "<token>")[:300]
