"""Numbers of things, in words."""

from __future__ import annotations

from datetime import UTC, date, datetime

LONGEST = 200


def code(text: str, longest: int = LONGEST) -> str:
    """Return a text as inline code, on one line and cut to a length: nothing in it counts as markup or a mention."""
    line = " ".join(text.replace("`", "'").split())
    return f"`{line[:longest]}{' …' if len(line) > longest else ''}`" if line else "(nothing)"


def age(moment: datetime) -> str:
    """Return how long ago a moment was, or how far ahead it is: `3 h ago`, `in 5 min`."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = (datetime.now(UTC) - zoned).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def span(seconds: float) -> str:
    """Return a length of time in its largest fitting unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "min" and seconds >= length):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def until_words(until: str) -> str:
    """Return the end of a pause in words."""
    return until if until == FOR_GOOD else f"until {datetime.fromisoformat(until):%Y-%m-%d %H:%M} UTC"


def cost_of(amount: float) -> str:
    """Return a cost in the currency of the configured prices."""
    return f"{amount:,.4f}" if amount else "none recorded"


def today() -> date:
    """Return the local date: limits and usage count by it."""
    return datetime.now().astimezone().date()


def counted(number: int, thing: str) -> str:
    """Return a number with the name of what is counted, in the singular for one: "1 passage", "2,000 passages"."""
    return f"{number:,} {thing if number == 1 else f'{thing}s'}"


HEAD = "The attached picture shows:"


def with_seen(text: str, seen: str) -> str:
    """Return a message's words together with what its pictures show, every line of that quoted."""
    if not seen:
        return text
    quoted = "\n".join(f"> {line}" for line in seen.splitlines())
    return f"{text.strip()}\n\n{HEAD}\n{quoted}".strip()


FOR_GOOD = "until /resume"
