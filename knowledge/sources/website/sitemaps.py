"""The sitemaps of a site: XML, feeds and lists of lines, packed or not, and those that lead to others."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from core.errors import SourceError
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser
from knowledge.web.addresses import is_web_address
from knowledge.web.packed import UNPACK_ERRORS, unpack

if TYPE_CHECKING:
    # Worker processes load this module, and fetch nothing.
    from knowledge.web.client import Request, WebClient

MAX_SITEMAP_KB = 51_200  # the protocol's own limit
MAX_URL_CHARS = 2048
MAX_SITEMAPS = 50
# Of all sitemaps of one visit together.
MAX_SITEMAPS_BYTES = 200 << 20
NO_SITEMAP = "it is no sitemap"

# An ampersand that begins no reference of XML: common, and an address in which it is lost leads elsewhere.
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});)")
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "RDF"})
# What an address leads to, by the names of the element that holds it and of its own.
_KINDS = {("url", "loc"): "page", ("item", "link"): "page", ("entry", "link"): "page", ("sitemap", "loc"): "sitemap"}


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What one sitemap names: other sitemaps and pages, and what is wrong with it."""

    sitemaps: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class SitemapPages:
    """The pages that all sitemaps of a site list, and by address why a sitemap could not be read, or not to its end.

    `unread_count` is the number of sitemaps that were not asked for.
    """

    urls: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    unread_count: int = 0


async def read_sitemaps(
    client: WebClient, parser: Parser, request: Request, sitemap_urls: Sequence[str], *, limit: int, deadline: float
) -> SitemapPages:
    """Read all sitemaps of a site. At most `limit` pages are taken of each one, and not many more in all.

    `request` is one for the site's first page. No sitemap is asked for after `deadline`, on the clock of
    `time.monotonic`.
    """
    default_url = urljoin(request.url, "/sitemap.xml")
    queue = deque(urljoin(request.url, url) for url in sitemap_urls) or deque([default_url])
    bytes_left = MAX_SITEMAPS_BYTES
    seen_urls: set[str] = set()
    pages: dict[str, None] = {}
    result = SitemapPages()
    while queue and len(seen_urls) < MAX_SITEMAPS and len(pages) < limit and bytes_left > 0:
        if time.monotonic() >= deadline:
            break
        url = queue.popleft()
        if url in seen_urls:
            continue
        seen_urls.add(url)
        try:
            response = await client.fetch(replace(request, url=url))
            if response.status >= 400:
                # Nobody has promised the usual place.
                if sitemap_urls or response.status >= 500:
                    result.problems[url] = f"status {response.status}"
                continue
            bytes_left -= len(response.content)
            sitemap = await parser.run(parse_sitemap, response.content, response.url, limit)
        except (SourceError, FormatError) as error:
            result.problems[url] = str(error)
            continue
        is_missing = url == default_url and not sitemap_urls and sitemap.problem == NO_SITEMAP
        if sitemap.problem and not is_missing:
            result.problems[url] = sitemap.problem
        queue.extend(sitemap.sitemaps)
        pages |= dict.fromkeys(sitemap.pages)
    result.urls = list(pages)
    result.unread_count = len(set(queue) - seen_urls)
    return result


def parse_sitemap(content: bytes, url: str, limit: int) -> Sitemap:
    """Return what a sitemap at this address names, at most `limit` sitemaps and pages. Never raises for any bytes."""
    from w3lib.encoding import read_bom

    try:
        content = unpack(content, MAX_SITEMAP_KB * 1024)
    except UNPACK_ERRORS as error:
        return Sitemap(problem=f"it cannot be unpacked ({type(error).__name__})")
    charset, bom = read_bom(content)
    if charset is not None and bom is not None:
        content = content[len(bom) :].decode(charset, "replace").encode()
    content = content.strip()
    if not content.startswith(b"<"):
        lines = content.decode("utf-8", "replace").splitlines()
        urls = [line.strip() for line in lines if is_web_address(line.strip())]
        return Sitemap(pages=tuple(urls[:limit]), problem="" if urls else NO_SITEMAP)
    return _parse_xml(content, url, limit, "utf-8" if charset is not None else None)


def _parse_xml(content: bytes, url: str, limit: int, encoding: str | None) -> Sitemap:
    from lxml import etree

    target = _SitemapTarget(url, limit)
    parser = etree.XMLParser(target=target, encoding=encoding, resolve_entities=False, no_network=True, recover=True)
    problem = ""
    try:
        parser.feed(_BARE_AMPERSAND.sub(b"&amp;", content))
        parser.close()
    except (etree.XMLSyntaxError, ValueError) as error:
        problem = f"it is damaged ({type(error).__name__})"
    if target.root not in _ROOTS:
        problem = NO_SITEMAP
    elif target.left_out_count:
        problem = f"{target.left_out_count} of its addresses are left out"
    elif parser.feed_error_log:
        fault = parser.feed_error_log[0]
        problem = f"it is damaged from line {fault.line} on ({fault.message[:100].strip()})"
    return Sitemap(tuple(target.urls["sitemap"]), tuple(target.urls["page"]), problem)


class _SitemapTarget:
    """Collects the addresses of a sitemap while it is parsed: of its own namespace, and below an entry of its own."""

    def __init__(self, url: str, limit: int) -> None:
        self.root = ""
        self.urls: dict[str, list[str]] = {"sitemap": [], "page": []}
        self.left_out_count = 0
        self._url = url
        self._limit = limit
        self._tags: list[str] = []
        self._text: list[str] = []
        self._kind = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        namespace, _, name = tag.rpartition("}")
        parent_namespace, _, parent = (self._tags[-1] if self._tags else "").rpartition("}")
        self.root = self.root if self._tags else name
        self._tags.append(tag)
        self._kind = _KINDS.get((parent, name), "") if namespace == parent_namespace else ""
        is_page = attributes.get("rel", "alternate") == "alternate"
        self._text = [attributes.get("href", "") if is_page else ""]

    def data(self, text: str) -> None:
        if self._kind:
            self._text.append(text)

    def end(self, _tag: str) -> None:
        # An escape of an escape is a slip; no address holds one.
        address = "".join(self._text).strip().replace("&amp;", "&") if self._kind else ""
        if 0 < len(address) <= MAX_URL_CHARS:
            self._add(self._kind, address)
        self._kind = ""
        self._tags.pop()

    def close(self) -> None:
        """Nothing is left to be done."""

    def _add(self, kind: str, address: str) -> None:
        urls = self.urls[kind]
        if len(urls) >= self._limit:
            self.left_out_count += 1
            return
        try:
            urls.append(urljoin(self._url, address))
        except ValueError:
            self.left_out_count += 1
