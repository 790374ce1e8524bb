"""The text of a status, which servers send as HTML, as people read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lxml import etree, html as parser

# Marks where the bot is mentioned. HTML cannot hold this character.
BOT_MENTION = "\x00"
# The HTML of the longest status: other servers may send any length.
MAX_HTML_CHARS = 200_000
_PARAGRAPHS = ("p", "blockquote", "pre", "ul", "ol")
_LINES = ("br", "li")


def get_text(status: Mapping[str, Any], bot_id: str) -> str:
    """Return a status as text, its content warning first, with `BOT_MENTION` where it mentions the bot.

    Addresses are whole: servers hide parts of them. Others are mentioned by their names with their servers.
    """
    mentions = {
        str(mention.get("url")): BOT_MENTION if str(mention.get("id")) == bot_id else f"@{mention.get('acct')}"
        for mention in status.get("mentions") or ()
    }
    text = html_to_text(str(status.get("content") or "")[:MAX_HTML_CHARS], mentions)
    options = [f"- {option.get('title')}" for option in (status.get("poll") or {}).get("options") or ()]
    parts = (str(status.get("spoiler_text") or ""), text, "\n".join(options))
    return "\n\n".join(part.strip(" \n") for part in parts if part.strip(" \n"))


def html_to_text(html: str, mentions: Mapping[str, str]) -> str:
    r"""Return the text of HTML: a line for each line, links as their addresses, mentions as given by their address.

    >>> html_to_text("<p>a</p><p>b<br>c</p>", {})
    'a\n\nb\nc'
    """
    try:
        html_parser = parser.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
        content = f"<div>{html.replace(BOT_MENTION, '')}</div>".encode("utf-8", "replace")
        root = parser.fromstring(content, parser=html_parser)
    except (etree.LxmlError, ValueError):
        return ""
    pieces: list[str] = []
    link: Any = None
    for event, node in etree.iterwalk(root, events=("start", "end")):
        is_start = event == "start"
        if link is None:
            is_link = is_start and node.tag == "a"
            pieces.append(_get_break(node.tag, is_start=is_start))
            pieces.append(_render_link(node, mentions) if is_link else (node.text or "") * is_start)
            link = node if is_link else None
        if not is_start and link in (None, node):
            link = None
            pieces.append(node.tail or "")
    return re.sub(r"\n{3,}", "\n\n", "".join(pieces)).strip("\n")


def _get_break(tag: str, *, is_start: bool) -> str:
    if tag in _PARAGRAPHS and not is_start:
        return "\n\n"
    return "\n" if tag in _LINES and is_start else ""


def _render_link(node: Any, mentions: Mapping[str, str]) -> str:
    address = str(node.get("href") or "")
    text = node.xpath("string()")
    kinds = str(node.get("class") or "").split()
    if "mention" in kinds or "hashtag" in kinds:
        return mentions.get(address, text)
    return address if address.startswith(("http://", "https://")) else text
