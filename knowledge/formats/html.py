"""The content of a web page: its main text as Markdown, its title, its own address, and where it links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from knowledge.formats.html_markdown import iter_texts, render_markdown
from knowledge.formats.main_content import find_main_content, is_hidden
from knowledge.formats.tabs import find_tab_labels

HTML_TYPES = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class WebPage:
    """One page. `links` are absolute, without fragments. A page that asks not to be indexed has no text.

    `plain_text` is all that can be read on it, for what is too short to have a main text.
    """

    text: str
    title: str
    canonical: str
    links: tuple[str, ...]
    plain_text: str = ""


def read_page(html: bytes, url: str) -> WebPage:
    """Read a page; blocks, for a thread. Navigation, scripts and frames are left out. Never raises for any bytes."""
    from lxml import etree, html as parser

    try:
        # Comments are no text, and a walk takes a time that grows with the square of their number.
        page_parser = parser.HTMLParser(encoding=_detect_charset(html), remove_comments=True, remove_pis=True)
        tree = parser.document_fromstring(html or b"<html/>", parser=page_parser)
    except (etree.LxmlError, ValueError):
        return WebPage("", "", "", ())
    robots_rules = " ".join(tree.xpath("//meta[translate(@name,'ROBTS','robts')='robots']/@content")).lower()
    base = _join(url, next(iter(tree.xpath("//base/@href")), "")) or url
    links = (
        ()
        if "nofollow" in robots_rules
        else _resolve_links(tree.xpath("//a[not(contains(@rel,'nofollow'))]/@href"), base)
    )
    text = "" if "noindex" in robots_rules else render_markdown(*find_main_content(tree), find_tab_labels(tree))
    title = " ".join(" ".join(tree.xpath("(//h1)[1]//text()") or tree.xpath("(//title)[1]//text()")).split())
    canonical = next(iter(tree.xpath("//link[@rel='canonical']/@href")), "")
    own_url = _keep_same_host(_join(url, canonical), url) if canonical else ""
    return WebPage(text, title[:300], own_url, links, _extract_plain_text(tree))


def _extract_plain_text(tree: Any) -> str:
    bodies = tree.iter("body")
    parts = (part for body in bodies for part in iter_texts(body, _is_unreadable))
    return "\n".join(filter(None, (" ".join(part.split()) for part in parts)))


def _is_unreadable(element: Any) -> bool:
    return element.tag in ("script", "style", "template") or is_hidden(element)


def _join(base: str, href: str) -> str:
    """Return an address in full; nothing for what cannot be one."""
    try:
        return urljoin(base, href)
    except ValueError:
        return ""


def _resolve_links(hrefs: list[str], base: str) -> tuple[str, ...]:
    links: dict[str, None] = {}
    for href in hrefs:
        try:
            url, _ = urldefrag(urljoin(base, href.strip()))
        except ValueError:
            continue
        if url.startswith(("http://", "https://")):
            links[url] = None
    return tuple(links)


def _keep_same_host(canonical: str, url: str) -> str:
    """Return an address that the page gives itself, unless it claims to be somebody else's."""
    try:
        return canonical if urlsplit(canonical).netloc == urlsplit(url).netloc else ""
    except ValueError:
        return ""


def _detect_charset(html: bytes) -> str | None:
    """Return UTF-8 where the bytes are, so that a page that does not say so is read rightly."""
    try:
        html.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return "utf-8"
