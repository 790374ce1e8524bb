"""What a site says about itself: which pages may be fetched (robots.txt), and which there are (sitemaps)."""

from __future__ import annotations

import gzip
import io
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

from core.errors import SourceError
from knowledge.web.client import AGENT, Request, WebClient

ROBOT = AGENT.split("/", maxsplit=1)[0]
SITEMAP_KB = 51_200  # the protocol's own limit
MOST_SITEMAPS = 50
LONGEST_DELAY_S = 10.0


@dataclass(frozen=True, slots=True)
class Robots:
    """A site's rules for us: `delay_s` between two requests, and where its sitemaps are."""

    rules: RobotFileParser
    delay_s: float
    sitemaps: tuple[str, ...]

    def allow(self, url: str) -> bool:
        """Say whether a page may be fetched."""
        return self.rules.can_fetch(ROBOT, url)


async def read_robots(client: WebClient, site: str, timeout_s: float) -> Robots:
    """Read a site's robots.txt; a site without one allows everything.

    Raises `SourceError` when it cannot be told: a site that fails is not to be fetched (RFC 9309, 2.3.1.4).
    """
    reply = await client.fetch(Request(urljoin(site, "/robots.txt"), timeout_s=timeout_s, kb=512))
    if reply.status >= 500:
        raise SourceError(f"{urljoin(site, '/robots.txt')} answered with status {reply.status}")
    rules = RobotFileParser()
    rules.parse(reply.text().splitlines() if reply.status < 400 else [])
    delay = rules.crawl_delay(ROBOT)
    seconds = min(float(delay), LONGEST_DELAY_S) if delay else 0.0
    return Robots(rules, seconds, tuple(rules.site_maps() or ()))


async def read_sitemaps(
    client: WebClient, site: str, named: Sequence[str], timeout_s: float, *, most: int, ends: float
) -> list[str]:
    """Return the pages that a site's sitemaps list, at most `most`; none when there is no usable sitemap.

    No sitemap is asked for after `ends`, on the clock of `time.monotonic`.
    """
    waiting = list(named) or [urljoin(site, "/sitemap.xml")]
    seen: set[str] = set()
    pages: dict[str, None] = {}
    while waiting and len(seen) < MOST_SITEMAPS and len(pages) < most and time.monotonic() < ends:
        url = waiting.pop(0)
        if url in seen:
            continue
        seen.add(url)
        try:
            reply = await client.fetch(Request(url, timeout_s=timeout_s, kb=SITEMAP_KB))
        except SourceError:
            # A site without a usable sitemap is crawled.
            continue
        if reply.status < 400:
            inner, found = _entries(reply.content)
            waiting += inner
            pages |= dict.fromkeys(found)
    return list(pages)[:most]


def _entries(content: bytes) -> tuple[list[str], list[str]]:
    """Return the sitemaps and the pages that a sitemap names; nothing for what is none."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(_unpacked(content), parser)
    except (etree.XMLSyntaxError, ValueError, OSError, EOFError, zlib.error):
        return [], []
    if root is None:
        return [], []
    places = [(element.text or "").strip() for element in root.iter("{*}loc")]
    return (places, []) if etree.QName(root).localname == "sitemapindex" else ([], places)


def _unpacked(content: bytes) -> bytes:
    """Return a sitemap that is gzipped as a file unpacked, up to its allowed size."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    with gzip.open(io.BytesIO(content)) as file:
        return file.read(SITEMAP_KB * 1024)
