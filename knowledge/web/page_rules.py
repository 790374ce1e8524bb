"""What a page asks of robots: `X-Robots-Tag`, and `<meta name="robots">` or with our own name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from core.runtime.retry_after import parse_date

# Our name in robots.txt, in headers and in pages.
ROBOT_NAME = "KIMAs"
# More of a rule is not looked at.
MAX_RULE_CHARS = 2000

_NOINDEX = frozenset({"noindex", "none"})
_NOFOLLOW = frozenset({"nofollow", "none"})
# Rules with a value; other names before a colon are those of robots.
_VALUED_RULES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_ROBOT = re.compile(r"[\w-]{1,100}")
_WEEKDAY = re.compile(r"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageRules:
    """Whether a page may be stored and its links followed; until when, in seconds since 1970, or None for always."""

    is_indexable: bool = True
    has_followable_links: bool = True
    expires_at: float | None = None

    def combine(self, other: PageRules) -> PageRules:
        """Return the stricter of both."""
        times = [time for time in (self.expires_at, other.expires_at) if time is not None]
        return PageRules(
            self.is_indexable and other.is_indexable,
            self.has_followable_links and other.has_followable_links,
            min(times, default=None),
        )


def parse_page_rules(lines: Iterable[str], robot: str) -> PageRules:
    """Return what these lines ask of a robot: those without a name, and those with its name.

    >>> parse_page_rules(["otherbot: noindex", "NoFollow, noarchive"], "KIMAs")
    PageRules(is_indexable=True, has_followable_links=False, expires_at=None)
    """
    rules: dict[str, str] = {}
    for line in lines:
        target = ""
        # The comma behind a weekday separates no rules.
        for part in _WEEKDAY.sub("", line[:MAX_RULE_CHARS]).lower().split(","):
            name, _, value = map(str.strip, part.partition(":"))
            if value and name not in _VALUED_RULES and _ROBOT.fullmatch(name):
                target = name
                name, _, value = map(str.strip, value.partition(":"))
            if target in ("", robot.lower()):
                rules[name] = value
    expires_at = parse_date(rules.get("unavailable_after", ""))
    return PageRules(_NOINDEX.isdisjoint(rules), _NOFOLLOW.isdisjoint(rules), expires_at)
