"""Numbers of things, in words."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """Return a number with the name of what is counted, in the singular for one: "1 passage", "2,000 passages"."""
    return f"{number:,} {thing if number == 1 else f'{thing}s'}"
