"""A key, read at the moment it is needed: by then its variable or file may be gone."""

from __future__ import annotations

import asyncio

from core.errors import SourceError
from core.settings.base import Secret


async def key_of(secret: Secret | None) -> str:
    """Return a key, or nothing where none is configured. Raises `SourceError` for one that is missing or empty."""
    if secret is None:
        return ""
    # A file may lie on a disk that is slow.
    return _read(secret) if secret.file is None else await asyncio.to_thread(_read, secret)


def _read(secret: Secret) -> str:
    try:
        value = secret.value()
    except (KeyError, OSError, UnicodeDecodeError) as fault:
        raise SourceError(f"api_key: {secret.missing() or 'it was missing a moment ago'}") from fault
    if not value:
        raise SourceError(f"api_key: {secret.missing()}")
    return value
