"""From our Markdown to Slack's mrkdwn.

mrkdwn has no headings, tables or nested formatting of its own, and cannot escape its marks. Headings become bold,
tables are drawn in a code block, lists get bullets. `&`, `<` and `>` are the only characters that Slack reads as
anything but text, so that escaping them disarms every mention.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.common.markdown import WORD_JOINER, MarkdownRenderer, is_web_url
from bots.common.message_split import MarkdownSplitter
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# chat.update refuses more than 4,000 characters; chat.postMessage cuts off after 40,000 without a word.
MAX_CHARS = 3900
# One call of the stream methods takes 12,000 characters of Markdown; the rest of a long answer comes at its end.
MAX_STREAM_CHARS = 12000

FENCE = "```"
# What stays in one piece as long as it fits: links, escaped characters, inline code, words.
_SPLITTER = MarkdownSplitter(re.compile(r"<[^<>\n]*>|&\w{1,6};|`[^`\n]{1,200}`|[^\s<&`]+|\s+|."))

_RENDERED_LINK = re.compile(r"<(https?://[^|<>\n]*)\|([^<>\n]*)>")

_ZERO_WIDTH_SPACE = "\u200b"
# Marks are written as private characters first, an opening and a closing one each: what stands next to them decides
# whether Slack would see them.
_MARKS = dict(zip("\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007", "**__~~``", strict=True))
_MARK_PAIRS = {"strong": "\ue000\ue001", "em": "\ue002\ue003", "s": "\ue004\ue005"}
_OPENING = "\ue000\ue002\ue004\ue006"
_CLOSING = "\ue001\ue003\ue005\ue007"
# What hides a mark that touches it: all but spaces, ASCII punctuation and other marks. "（" is no punctuation to Slack.
_HIDING = rf"[^\s!-/:-@\[-^`{{-~{_ZERO_WIDTH_SPACE}\ue000-\ue007]"
_LITERAL_MARK = re.compile(r"(?<![^\W_])([*_~`])(?=[^\s*_~`](?:[^\n]{0,200}[^\s])?\1(?!\w))")
_BROADCAST_MENTION = re.compile(r"(?<!\w)@(?=(?:channel|here|everyone|group)\b)", re.IGNORECASE)
_REFERENCE = re.compile(r"<(?=[!@#]|https?:)")
# Where a link of Markdown has its address, or the name of one.
_LINK_TARGET = re.compile(r"\](?=[(\[:])")


def split_message(text: str, limit: int = MAX_CHARS) -> list[str]:
    """Split into parts of at most `limit` characters."""
    return _SPLITTER.split(text, limit)


def render(markdown: str, citations: Sequence[Citation] = ()) -> list[str]:
    """Return a reply as messages that Slack takes: mrkdwn, numbered sources at the end, at least one message."""
    return _MrkdwnRenderer(citations).render_reply(markdown, split_message)


def to_plain(text: str, max_chars: int = 0) -> list[str]:
    """Return mrkdwn with the addresses of its links written out, in pieces of at most `max_chars`."""
    written_out = _RENDERED_LINK.sub(lambda link: f"{link[2]} ({link[1]})" if link[1] != link[2] else link[1], text)
    return split_message(written_out, max_chars or MAX_CHARS)


def to_mrkdwn(markdown: str, citations: Sequence[Citation] = ()) -> str:
    """Return Markdown as mrkdwn. Nobody is notified by what it says."""
    return _MrkdwnRenderer(citations).render(markdown)


def quote_question(author: str, question: str) -> str:
    """Return a question as a quotation that says whose it is. Nobody is notified by it."""
    renderer = _MrkdwnRenderer()
    return renderer.quote(renderer.escape_text(renderer.sanitize(f"{author}: {question}")))


def get_streamable_prefix(markdown: str) -> str:
    """Return the part of an unfinished Markdown text that may be shown already, its mentions and links disarmed.

    What this returns for a text is the beginning of what it returns for any longer one. So no link can wait for its
    address to be compared with its text: the address is shown, until the reply is complete.
    """
    prefix = re.sub(r"(?:<\w{0,5}|<?@\w{0,12})\Z", "", _MrkdwnRenderer().sanitize(markdown))
    without_links = _LINK_TARGET.sub(f"]{WORD_JOINER}", _REFERENCE.sub(f"<{WORD_JOINER}", prefix))
    return _BROADCAST_MENTION.sub(f"@{WORD_JOINER}", without_links)


class _MrkdwnRenderer(MarkdownRenderer):
    """Writes a syntax tree as mrkdwn."""

    list_indent = "    "
    max_table_width = 84
    sources_heading = "*Sources*"

    def render(self, markdown: str) -> str:
        return _write_marks(super().render(markdown))

    def render_sources(self) -> str:
        return _write_marks(super().render_sources())

    def sanitize(self, text: str) -> str:
        # The characters of our marks must not come from outside.
        return re.sub("[\ue000-\ue007]", "", super().sanitize(text))

    def escape(self, text: str) -> str:
        # A fence of the text's own would end a code block, or begin one.
        escaped_text = (
            text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace(FENCE, f"``{WORD_JOINER}`")
        )
        return _BROADCAST_MENTION.sub(f"@{WORD_JOINER}", escaped_text)

    def escape_text(self, text: str) -> str:
        # A mark cannot be escaped, but with nothing that is seen behind it, it begins nothing.
        return _LITERAL_MARK.sub(lambda mark: f"{mark[0]}{_ZERO_WIDTH_SPACE}", self.escape(text))

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        # Bold within bold would end it.
        return "\ue000" + re.sub("[\ue000\ue001]", "", text) + "\ue001" if text.strip() else text

    def quote(self, text: str) -> str:
        return "\n".join(f"> {line}" for line in text.split("\n"))

    def code_block(self, code: str, language: str) -> str:
        body = self.escape(code.rstrip("\n"))
        return f"{FENCE}\n{body}\n{FENCE}" if body.strip() else ""

    def code_span(self, code: str, *, in_link: bool) -> str:
        # A backtick within code cannot be written.
        return f"\ue006{self.escape(code.replace('`', chr(0x2B9)))}\ue007"

    def list_item(self, item: SyntaxTreeNode, marker: str, depth: int) -> str:
        # The fence of a code block needs a line of its own.
        return re.sub(rf"\A( *\S+) (?={FENCE})", r"\1\n", super().list_item(item, marker, depth))

    def mark(self, node_type: str, text: str) -> str:
        marks = _MARK_PAIRS.get(node_type)
        return f"{marks[0]}{text}{marks[1]}" if marks and text.strip() else text

    def link(self, url: str, label: str) -> str:
        # A bar would end the address, a line break the link.
        escaped_url = re.sub(r"[\s|<>]", lambda match: f"%{ord(match[0]):02X}", url).replace("&", "&amp;")
        if label == self.escape(url):
            return f"<{escaped_url}>"
        return f"<{escaped_url}|{label.replace('|', '¦').replace(chr(10), ' ')}>"

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        if in_link or not is_web_url(url):
            return self.render_inline(node.children, in_link=in_link) or self.escape(node.content)
        label = self.render_inline(node.children, in_link=True) or self.escape(node.content)
        return self.link(url, label) if label.strip() and self.plain_text(node.children) != url else self.address(url)


def _write_marks(text: str) -> str:
    # Slack sees marks only where a word begins or ends.
    spaced_text = re.sub(rf"(?<={_HIDING})(?=[{_OPENING}])|(?<=[{_CLOSING}])(?={_HIDING})", _ZERO_WIDTH_SPACE, text)
    return re.sub("[\ue000-\ue007]", lambda match: _MARKS[match[0]], spaced_text)
