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
from knowledge.web.client import USER_AGENT, Request, WebClient

ROBOT_NAME = USER_AGENT.split("/", maxsplit=1)[0]
MAX_SITEMAP_KB = 51_200  # the protocol's own limit
MAX_SITEMAPS = 50
MAX_DELAY_S = 10.0


@dataclass(frozen=True, slots=True)
class Robots:
    """A site's rules for us: `delay_s` between two requests, and where its sitemaps are."""

    rules: RobotFileParser
    delay_s: float
    sitemaps: tuple[str, ...]

    def can_fetch(self, url: str) -> bool:
        """Say whether a page may be fetched."""
        return self.rules.can_fetch(ROBOT_NAME, url)


async def read_robots(client: WebClient, site_url: str, timeout_s: float) -> Robots:
    """Read a site's robots.txt; a site without one allows everything.

    Raises `SourceError` when it cannot be told: a site that fails is not to be fetched (RFC 9309, 2.3.1.4).
    """
    response = await client.fetch(Request(urljoin(site_url, "/robots.txt"), timeout_s=timeout_s, max_kb=512))
    if response.status >= 500:
        raise SourceError(f"{urljoin(site_url, '/robots.txt')} answered with status {response.status}")
    rules = RobotFileParser()
    rules.parse(response.text().splitlines() if response.status < 400 else [])
    crawl_delay = rules.crawl_delay(ROBOT_NAME)
    delay_s = min(float(crawl_delay), MAX_DELAY_S) if crawl_delay else 0.0
    return Robots(rules, delay_s, tuple(rules.site_maps() or ()))


async def read_sitemaps(
    client: WebClient, site_url: str, sitemap_urls: Sequence[str], timeout_s: float, *, limit: int, deadline: float
) -> list[str]:
    """Return the pages that a site's sitemaps list, at most `limit`; none when there is no usable sitemap.

    No sitemap is asked for after `deadline`, on the clock of `time.monotonic`.
    """
    queue = list(sitemap_urls) or [urljoin(site_url, "/sitemap.xml")]
    seen_urls: set[str] = set()
    pages: dict[str, None] = {}
    while queue and len(seen_urls) < MAX_SITEMAPS and len(pages) < limit and time.monotonic() < deadline:
        url = queue.pop(0)
        if url in seen_urls:
            continue
        seen_urls.add(url)
        try:
            response = await client.fetch(Request(url, timeout_s=timeout_s, max_kb=MAX_SITEMAP_KB))
        except SourceError:
            # A site without a usable sitemap is crawled.
            continue
        if response.status < 400:
            nested_sitemaps, page_urls = _parse_sitemap(response.content)
            queue += nested_sitemaps
            pages |= dict.fromkeys(page_urls)
    return list(pages)[:limit]


def _parse_sitemap(content: bytes) -> tuple[list[str], list[str]]:
    """Return the sitemaps and the pages that a sitemap names; nothing for what is none."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(_decompress(content), parser)
    except (etree.XMLSyntaxError, ValueError, OSError, EOFError, zlib.error):
        return [], []
    if root is None:
        return [], []
    urls = [(element.text or "").strip() for element in root.iter("{*}loc")]
    return (urls, []) if etree.QName(root).localname == "sitemapindex" else ([], urls)


def _decompress(content: bytes) -> bytes:
    """Return a sitemap that is gzipped as a file unpacked, up to its allowed size."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    with gzip.open(io.BytesIO(content)) as file:
        return file.read(MAX_SITEMAP_KB * 1024)
