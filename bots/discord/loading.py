"""Loading discord.py: its voice part, which is never used here, imports a deprecated module."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

# Several bots load at once, each in its own thread, and warning filters apply to all threads.
_LOAD_LOCK = threading.Lock()


def load_client() -> type[DiscordClient]:
    """Return the client's class. Takes half a second the first time: for a worker thread."""
    with _LOAD_LOCK:
        if "discord" not in sys.modules:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
                import discord  # noqa: F401
        from bots.discord.client import DiscordClient

        return DiscordClient
