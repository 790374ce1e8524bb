"""Which version of KIMAs runs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def get_version() -> str:
    """Return the version of the installed package; "unknown" where the code runs without being installed."""
    try:
        return version("kimas")
    except PackageNotFoundError:
        return "unknown"
