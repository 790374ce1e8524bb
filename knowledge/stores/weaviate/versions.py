"""Which versions of the server can be used."""

from __future__ import annotations

import re

from core.errors import StoreError
from core.observability.logs import get_logger

_log = get_logger(__name__)

MIN_VERSION = (1, 33)  # the first with the filter "none of these"
# Older ones miss words of the last minute: the blocks of their memory tables count as worthless when a search is cut.
RECOMMENDED_VERSION = (1, 38, 3)


def _join(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


TOO_OLD_HINT = f"it needs version {_join(MIN_VERSION)} or newer"


def require_version(version: str, store_name: str) -> None:
    """Raise `StoreError` for a server that is too old."""
    version_numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if version_numbers < MIN_VERSION:
        raise StoreError(f"{store_name} is version {version}: {TOO_OLD_HINT}")
    if version_numbers < RECOMMENDED_VERSION:
        _log.info("store.server_outdated", version=version, wanted=_join(RECOMMENDED_VERSION))
