"""Feeds for tests."""

from __future__ import annotations

import time
from email.utils import formatdate

from tests.support.peers.web import Page

DAY = 86_400


def rss(*items: tuple[str, str, int]) -> Page:
    """Write a feed of (title, HTML, age in days)."""
    entries = "".join(
        f"<item><title>{title}</title><link>https://blog.example.org/{title}</link><guid>{title}</guid>"
        f"<description><![CDATA[{text}]]></description><pubDate>{formatdate(time.time() - age * DAY)}</pubDate></item>"
        for title, text, age in items
    )
    return Page(f"<?xml version='1.0'?><rss version='2.0'><channel><title>Blog</title>{entries}</channel></rss>")
