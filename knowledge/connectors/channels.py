"""What channels have in common as knowledge: the consent of their members, and threads without anybody's name."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.connectors.source import Content
from knowledge.formats.posts import write_thread
from knowledge.web.values import to_line

# Members read it in the topic or the description of a channel, and may remove it.
CONSENT = "#kimas-knowledge"
CONSENT_MISSING = f"neither its topic nor its description says {CONSENT}"
# Why a message is not read. It stays in the list: an empty one deletes nothing.
OPTED_OUT = "somebody marked it with 🚫"
# A channel that is made private keeps its id, and the bot stays in it.
PRIVATE = "it is private: if this source is for its members alone, name it under private_channels, too"
DAY_S = 86_400.0
# An edit of a reply leaves no mark at its thread.
MAX_EDIT_AGE_S = 7 * DAY_S
MAX_REPLIES = 1000
# A shorter message that nobody replied to is small talk.
MIN_CHARS = 120
MAX_TITLE_CHARS = 80


def find_missing_consent(words: str) -> str:
    """Return why the topic and description of a channel do not let us read it, "" where they do."""
    return "" if CONSENT in words.split() else CONSENT_MISSING


def make_content(title: str, url: str, texts: Sequence[str]) -> Content:
    """Return a thread; without a title, its first message is that."""
    title = to_line(title or (texts[0] if texts else ""), MAX_TITLE_CHARS)
    return Content(title, url, write_thread, (list(texts),))
