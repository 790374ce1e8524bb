"""Parses what a site says about itself: its sitemaps and its robots.txt. Run these functions by a `Parser`."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from typing import Any
from urllib.robotparser import RobotFileParser

MAX_SITEMAP_KB = 51_200  # the protocol's own limit
MAX_URL_CHARS = 2048
# Of robots.txt, rules beyond these are ignored: each one is tried for every page.
MAX_RULES = 1_000
MAX_RULE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class RobotRules:
    """The rules that a robots.txt holds for one robot, as lines of a robots.txt; `delay_s` is 0 where it wants none."""

    lines: tuple[str, ...]
    delay_s: float
    sitemaps: tuple[str, ...]


def parse_sitemap(content: bytes, limit: int) -> tuple[list[str], list[str]]:
    """Return the sitemaps and the pages that a sitemap names, at most `limit` of each; nothing for what is none."""
    from lxml import etree

    urls: list[str] = []
    try:
        elements = etree.iterparse(
            io.BytesIO(_decompress(content)), resolve_entities=False, no_network=True, huge_tree=False, recover=True
        )
        for _, element in elements:
            if etree.QName(element).localname == "loc" and len(urls) < limit:
                urls.append((element.text or "").strip()[:MAX_URL_CHARS])
            # Read once, it only takes memory: 50 MB of empty elements would be a gigabyte.
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
        root = elements.root
    except (etree.XMLSyntaxError, ValueError, OSError, EOFError, zlib.error):
        return [], []
    if root is None:
        return [], []
    return (urls, []) if etree.QName(root).localname == "sitemapindex" else ([], urls)


def _decompress(content: bytes) -> bytes:
    """Return a sitemap that is gzipped as a file unpacked, up to its allowed size."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    with gzip.open(io.BytesIO(content)) as file:
        return file.read(MAX_SITEMAP_KB * 1024)


def parse_robots(text: str, robot: str) -> RobotRules:
    """Return the rules of a robots.txt for one robot."""
    # Its list of entries is not in the types of the standard library.
    robots: Any = RobotFileParser()
    robots.parse(text.splitlines())
    entries = [entry for entry in robots.entries if entry.applies_to(robot)] or [robots.default_entry]
    rules = [
        f"{'Allow' if rule.allowance else 'Disallow'}: {rule.path}"
        for entry in entries[:1]
        if entry
        for rule in entry.rulelines
        if len(rule.path) <= MAX_RULE_CHARS
    ]
    delay = robots.crawl_delay(robot)
    return RobotRules(("User-agent: *", *rules[:MAX_RULES]), float(delay or 0), tuple((robots.site_maps() or [])[:50]))
