"""A site's robots.txt, by RFC 9309."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import urljoin

from protego import Protego

from core.errors import SourceError
from knowledge.web.client import Request, WebClient
from knowledge.web.page_rules import ROBOT_NAME

# What a crawler has to read at least (RFC 9309, 2.5); more is ignored.
MAX_ROBOTS_KB = 512
# Each rule is tried for every page.
MAX_LINES = 20_000
MAX_LINE_CHARS = 2_000
MAX_DELAY_S = 10.0

_USER_AGENT = re.compile(r"[ \t]*user[- ]?agent(?:[ \t]*:|[ \t])[ \t]*(\*(?=[ \t]*(?:#|$))|[a-z_-]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Robots:
    """A site's rules for us: `delay_s` between two requests, and where its sitemaps are."""

    rules: Protego
    delay_s: float
    sitemaps: tuple[str, ...]

    def can_fetch(self, url: str) -> bool:
        """Return whether a page may be fetched."""
        return self.rules.can_fetch(url, ROBOT_NAME)


async def read_robots(client: WebClient, site_url: str, timeout_s: float) -> Robots:
    """Read a site's robots.txt; a site without one, or that refuses it, allows everything.

    Raises `SourceError` when it cannot be told: a site that fails is not to be fetched (RFC 9309, 2.3.1.4).
    """
    url = urljoin(site_url, "/robots.txt")
    response = await client.fetch(Request(url, timeout_s=timeout_s, max_kb=MAX_ROBOTS_KB, is_cut=True))
    if response.status >= 500:
        raise SourceError(f"{url} answered with status {response.status}")
    content = response.content.decode("utf-8-sig", "replace") if response.status < 300 else ""
    return await asyncio.to_thread(parse_robots, content, ROBOT_NAME)


def parse_robots(text: str, robot: str) -> Robots:
    """Return the rules of a robots.txt for one robot."""
    lines = (_name_group(line[:MAX_LINE_CHARS], robot) for line in text.splitlines()[:MAX_LINES])
    rules = Protego.parse("\n".join(lines))
    return Robots(rules, min(rules.crawl_delay(robot) or 0.0, MAX_DELAY_S), tuple(rules.sitemaps)[:50])


def _name_group(line: str, robot: str) -> str:
    """Return a line with the product token alone, and one name for all other robots.

    Protego takes the start of a name for the name, and gives every robot of a group a copy of its rules.
    """
    agent = _USER_AGENT.match(line)
    if agent is None:
        return line
    is_ours = agent[1] == "*" or agent[1].lower() == robot.lower()
    return f"User-agent: {agent[1] if is_ours else 'another robot'}"
