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
_RE = re.compile(r"^(?:re:\s*)+", re.IGNORECASE)


def get_text(status: Mapping[str, Any], bot_id: str) -> str:
    """Return a status as text, its content warning first, with `BOT_MENTION` where it mentions the bot."""
    return join_warning(get_warning(status), get_words(status, bot_id))


def get_warning(status: Mapping[str, Any]) -> str:
    """Return the content warning of a status, "" for none."""
    return str(status.get("spoiler_text") or "").replace(BOT_MENTION, "").strip(" \n")


def is_taken_over(status: Mapping[str, Any], parent: Mapping[str, Any] | None) -> bool:
    """Return whether the content warning of a status may be that of the one that it replies to.

    Apps put that into the reply, some with "re: " before it: its author has not written it. Nobody knows of a reply to
    what is not shown.
    """
    if not status.get("in_reply_to_id"):
        return False
    return parent is None or _RE.sub("", get_warning(status)) == _RE.sub("", get_warning(parent))


def join_warning(warning: str, words: str) -> str:
    """Return a content warning with what stands behind it."""
    return "\n\n".join(filter(None, (warning, words)))


def get_words(status: Mapping[str, Any], bot_id: str) -> str:
    """Return what a status says behind its content warning, with `BOT_MENTION` where it mentions the bot.

    Addresses are whole: servers hide parts of them. Others are mentioned by their names with their servers.
    """
    mentions = {
        str(mention.get("url")): BOT_MENTION if str(mention.get("id")) == bot_id else f"@{mention.get('acct')}"
        for mention in status.get("mentions") or ()
    }
    text = html_to_text(str(status.get("content") or "")[:MAX_HTML_CHARS], mentions)
    options = [f"- {option.get('title')}" for option in (status.get("poll") or {}).get("options") or ()]
    parts = (text, "\n".join(options))
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
