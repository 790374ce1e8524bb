"""A key, read at the moment it is needed: by then its variable or file may be gone."""

from __future__ import annotations

import asyncio

from core.errors import SourceError
from core.settings.base import Secret


async def resolve_secret(secret: Secret | None) -> str:
    """Return a key, or nothing where none is configured. Raises `SourceError` for one that is missing or empty."""
    if secret is None:
        return ""
    # A file may lie on a disk that is slow.
    return _read_secret(secret) if secret.file is None else await asyncio.to_thread(_read_secret, secret)


def _read_secret(secret: Secret) -> str:
    try:
        value = secret.value()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"api_key: {secret.missing_reason() or 'it was missing a moment ago'}") from error
    if not value:
        raise SourceError(f"api_key: {secret.missing_reason()}")
    return value
