"""The content of a web page: its main text as Markdown, its title, its own address, and where it links."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

from core.markup.document import Block
from core.markup.writer import write_markdown
from knowledge.formats.html_markdown import iter_texts, read_html_blocks, render_markdown
from knowledge.formats.main_content import find_main_content, is_hidden
from knowledge.formats.tabs import find_tab_labels
from knowledge.parsing.limits import FormatError, map_parser_errors
from knowledge.web.addresses import get_site, is_web_address, normalize_url
from knowledge.web.charsets import decode_page
from knowledge.web.page_rules import ROBOT_NAME, PageRules, parse_page_rules

HTML_TYPES = ("text/html", "application/xhtml+xml")
# A page that leads elsewhere later than after so many seconds is there to be read.
MAX_REFRESH_S = 10.0
# Less text than this, beside scripts and the element that they fill, is no page without them.
MIN_STATIC_CHARS = 200

_REFRESH = re.compile(
    r"\s*+(\d{0,6}(?:\.\d{0,6})?)(?:\s++[;,]?|[;,])\s*+(?>(?:url\s*=\s*)?)[\"']?([^\"'\s;,][^\"']*)", re.IGNORECASE
)
# The texts of what is the title of a page, best first: a cell may hold a heading of its own.
_TITLES = ("(//h1[not(ancestor::td or ancestor::th)])[1]//text()", "(//title)[1]//text()", "(//h1)[1]//text()")
# The elements that frameworks fill, while nothing but a sign of waiting is in them.
_SCRIPT_ROOTS = "//*[@id='root' or @id='app' or @id='__next' or @id='__nuxt' or @id='svelte' or self::app-root]"
_EMPTY = "[string-length(normalize-space(.)) < 40]"


@dataclass(frozen=True, slots=True)
class WebPage:
    """One page. `links` are absolute, without fragments. A page that asks not to be indexed has no text.

    `plain_text` is all that can be read on it, for what is too short to have a main text. `refresh` is where the page
    leads by itself, `rules` what it asks of robots. `needs_scripts` is true where scripts make its content.
    """

    text: str
    title: str
    canonical: str
    links: tuple[str, ...]
    plain_text: str = ""
    refresh: str = ""
    rules: PageRules = field(default_factory=PageRules)
    needs_scripts: bool = False


def read_page(html: bytes, url: str, content_type: str = "") -> WebPage:
    """Read a page; blocks, for a thread. Navigation, scripts and frames are left out. Never raises for any bytes.

    `content_type` is its header, which may name the character set.
    """
    from lxml import etree, html as parser

    content = decode_page(html, content_type).encode("utf-8", "replace")
    try:
        # Comments are no text, and a walk takes a time that grows with the square of their number.
        page_parser = parser.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
        tree = parser.document_fromstring(content or b"<html/>", parser=page_parser)
    except (etree.LxmlError, ValueError):
        return WebPage("", "", "", ())
    rules = parse_page_rules(_find_meta(tree, "name", ("robots", ROBOT_NAME.lower())), ROBOT_NAME)
    base = _resolve(url, next(iter(tree.xpath("//base/@href")), "")) or url
    links = _find_links(tree, base) if rules.has_followable_links else ()
    host = urlsplit(url).hostname or ""
    text = render_markdown(*find_main_content(tree), find_tab_labels(tree), host) if rules.is_indexable else ""
    title = " ".join(" ".join(next(filter(None, map(tree.xpath, _TITLES)), ())).split())
    canonical = _resolve(base, next(iter(tree.xpath("//link[@rel='canonical']/@href")), ""))
    plain_text = _extract_plain_text(tree)
    return WebPage(
        text,
        title[:300],
        canonical if get_site(canonical) == get_site(url) else "",
        links,
        plain_text,
        _find_refresh(tree, base, url),
        rules,
        _needs_scripts(tree, plain_text),
    )


def _find_meta(tree: Any, attribute: str, values: tuple[str, ...]) -> list[str]:
    """Return the contents of the metadata whose attribute has one of these values, in any case."""
    elements = tree.xpath(f"//meta[@{attribute} and @content]")
    return [element.get("content") for element in elements if element.get(attribute).strip().lower() in values]


def _find_refresh(tree: Any, base: str, url: str) -> str:
    """Return where a page leads soon and by itself, if that is another page."""
    for content in _find_meta(tree, "http-equiv", ("refresh",)):
        refresh = _REFRESH.match(content)
        if refresh is not None and float(refresh[1].strip(".") or 0) <= MAX_REFRESH_S:
            target = _resolve(base, refresh[2])
            if target and target != _resolve(url, url):
                return target
    return ""


def _needs_scripts(tree: Any, plain_text: str) -> bool:
    has_scripts = len(plain_text) < MIN_STATIC_CHARS and bool(tree.xpath("//script[not(@type='application/ld+json')]"))
    return has_scripts and (not plain_text or bool(tree.xpath(_SCRIPT_ROOTS + _EMPTY)))


@map_parser_errors
def read_html(data: bytes) -> str:
    """Return the main text of a page. Raises `FormatError`."""
    page = read_page(data, "file:///")
    if not page.text:
        raise FormatError("it holds no text")
    has_heading = page.text.lstrip().startswith("#") or not page.title
    return page.text if has_heading else f"# {page.title}\n\n{page.text}"


@map_parser_errors
def read_fragment(html: str) -> str:
    """Return a piece of HTML as Markdown, all of it but what nobody sees. Raises `FormatError`."""
    return write_markdown(read_fragment_blocks(html))


def read_fragment_blocks(html: str) -> tuple[Block, ...]:
    """Return a piece of HTML as blocks without lines, all of it but what nobody sees."""
    from lxml import html as parser

    page_parser = parser.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    page = f"<html><body>{html}</body></html>".encode("utf-8", "replace")
    tree = parser.document_fromstring(page, parser=page_parser)
    for element in tree.iter("textarea"):
        # Its lines are those of its text, as those of code are.
        element.tag = "pre"
    return read_html_blocks(tree, [element for element in tree.iter() if _is_unreadable(element)])


def _extract_plain_text(tree: Any) -> str:
    bodies = tree.iter("body")
    parts = (part for body in bodies for part in iter_texts(body, _is_unreadable))
    return "\n".join(filter(None, (" ".join(part.split()) for part in parts)))


def _is_unreadable(element: Any) -> bool:
    return element.tag in ("script", "style", "template", "noscript") or is_hidden(element)


def _resolve(base: str, href: str) -> str:
    """Return a web address in full and in its one form; nothing for what is none."""
    try:
        url = urljoin(base, href.strip()) if href else ""
        return normalize_url(url) if is_web_address(url) else ""
    except ValueError:
        return ""


def _find_links(tree: Any, base: str) -> tuple[str, ...]:
    anchors = (
        anchor for anchor in tree.iter("a", "area") if "nofollow" not in (anchor.get("rel") or "").lower().split()
    )
    links = (_resolve(base, anchor.get("href") or "") for anchor in anchors)
    return tuple(dict.fromkeys(filter(None, links)))
