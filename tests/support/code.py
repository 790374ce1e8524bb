"""The source text of a platform's package, for the tests which see that the guides quote it rightly."""

from __future__ import annotations

from pathlib import Path

BOTS = Path(__file__).parents[2] / "bots"


def get_code(platform: str) -> str:
    """Return the platform's modules, and the ones that all platforms share with its name filled in."""
    shared = _modules("common").replace("{self._platform}", platform)
    return _modules(platform) + shared


def _modules(package: str) -> str:
    return "".join(path.read_text("utf-8") for path in sorted((BOTS / package).glob("*.py")))
