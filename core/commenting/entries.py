"""Entries of feeds as posts: nothing can be replied to, so that the comment names what it is about above itself."""

from __future__ import annotations

import re
from dataclasses import replace

from core.types import Message

# In a post's reference: the feed it is from, its title and link, and why it is too late for it, if it is.
FEED, TITLE, LINK, LATE = "feed", "title", "link", "late"

LONGEST_TITLE = 200
_WORD_JOINER = "\u2060"
_MARKUP = re.compile(r"([\\`*_\[\]<>()~#|!&{}+])")
# In running text a number in brackets is a citation, and what follows an @ may be somebody.
_MEANT = re.compile(r"\[(?=\d)|@(?=\S)")
_NO_ADDRESS = re.compile(r"[\x00-\x20\x7f<>\\`]")


def feed_of(post: Message) -> str:
    """Return the name of the feed that a post is an entry of, "" for any other post."""
    return str(post.reference.get(FEED, ""))


def alone(post: Message) -> Message:
    """Return an entry as a sink is to see it: in no thread of its chat, for there is none before the comment."""
    return replace(post, key=replace(post.key, thread=""))


def heading_of(post: Message) -> str:
    """Return what stands above the comment on an entry, as Markdown: its title, linked; "" for any other post.

    Whatever the feed wrote there is text: no markup, no mention, no citation.
    """
    if not feed_of(post):
        return ""
    link = _NO_ADDRESS.sub(lambda found: f"%{ord(found[0]):02X}", str(post.reference.get(LINK, "")))
    title = " ".join(str(post.reference.get(TITLE, "")).split()) or link or post.author
    title = title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE].rstrip()}…"
    safe = _MARKUP.sub(r"\\\1", _MEANT.sub(lambda found: found[0] + _WORD_JOINER, title))
    # An ampersand would begin an entity.
    address = link.replace("&", "\\&")
    return f"**[{safe}](<{address}>)**\n\n" if link else f"**{safe}**\n\n"
