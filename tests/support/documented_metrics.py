"""The metrics that the guide lists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    """Return type and labels by name, from the table in docs/operate.md."""
    text = (ROOT / "docs/operate.md").read_text("utf-8")
    rows = re.findall(r"^\| `(kimas_\w+)` \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
