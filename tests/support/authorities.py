"""The authorities that certifi knows, read once per process: aiogram reads them for each client, in 25 ms."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import Any

import certifi
import pytest


def share_authorities(patch: pytest.MonkeyPatch) -> None:
    """Let all clients that trust exactly these authorities share one context."""
    make_context = ssl.create_default_context
    read_once = lru_cache(make_context)

    def create_context(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        is_known = not args and kwargs == {"cafile": certifi.where()}
        return read_once(**kwargs) if is_known else make_context(*args, **kwargs)

    patch.setattr(ssl, "create_default_context", create_context)
