"""What people see of a message of Slack's: its text, its blocks, what is attached, and what was shared with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from bots.common.visible_text import Walker, format_moment, join_texts

Json = Mapping[str, Any]

_REFERENCE = re.compile(r"<([^<>\n]*)>")
_USER = re.compile(r"@([UW][A-Z0-9]+)(?:\|(.*))?")
# In the order in which they are shown; `fallback` is for clients that show none of this.
_WORD_KEYS = (
    "pretext",
    "author_name",
    "title",
    "subtitle",
    "text",
    "body",
    "label",
    "alt_text",
    "description",
    "fields",
    "elements",
    "blocks",
    "message_blocks",
    "provider_name",
    "footer",
)
_HIDDEN_KEYS = frozenset(
    (
        "actions",
        "bot_profile",
        "confirm",
        "edited",
        "files",
        "icons",
        "metadata",
        "option_groups",
        "options",
        "placeholder",
        "reactions",
        "user_profile",
    )
)
_INLINE_PARENTS = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")
# The name in an element of a rich text, and the mark before it, by the element's type.
_REFERENCE_KEYS = {
    "usergroup": ("usergroup_id", "@"),
    "channel": ("channel_id", "#"),
    "broadcast": ("range", "@"),
    "color": ("value", ""),
}


def get_own_text(message: Json, bot_user_id: str) -> str:
    """Return what a message itself says, without what was attached to it: people's text, or blocks in its place."""
    text = to_plain_text(str(message.get("text") or ""), bot_user_id)
    blocks = _get_list(message, "blocks")
    if text and not message.get("bot_id"):
        # It holds what the rich text does; a bot's need not.
        blocks = [block for block in blocks if isinstance(block, Mapping) and block.get("type") != "rich_text"]
    return "\n".join(filter(None, (text, _join(blocks, bot_user_id, text))))


def get_attached_text(message: Json, bot_user_id: str) -> str:
    """Return what is shown below a message's own text: shared messages, alerts, previews of links."""
    return _join(_get_list(message, "attachments"), bot_user_id, get_own_text(message, bot_user_id))


def get_visible_text(message: Json, bot_user_id: str) -> str:
    """Return all that people see of a message."""
    texts = (get_own_text(message, bot_user_id), get_attached_text(message, bot_user_id))
    return "\n".join(filter(None, texts))


def get_shares(message: Json) -> list[Json]:
    """Return the messages that were shared with this one."""
    return [quotation for quotation in _get_quotations(message) if quotation.get("is_share")]


def get_brought(message: Json) -> list[Json]:
    """Return what a message brings that others may have written: messages, shared or shown for their links, and files.

    Slack says whose each is.
    """
    quotations = _get_quotations(message)
    files = [file for part in (message, *quotations) for file in _get_list(part, "files") if isinstance(file, Mapping)]
    return [*quotations, *files]


def to_plain_text(text: str, bot_user_id: str) -> str:
    """Return a text as people see it: references to people, channels and links in words, without our own mention."""
    # Linear: a run of spaces is tried at its beginning only, and a name ends where another reference begins.
    mention = rf"(?<! ) *<@{re.escape(bot_user_id)}(?:\|[^<>]*)?> *"
    text_without_mention = re.sub(mention, " ", text) if bot_user_id else text
    plain_text = unescape(_REFERENCE.sub(_render_reference, text_without_mention)).strip()
    # "@bot, what is this?" begins with the mention: its comma goes too.
    return (
        plain_text.lstrip(" ,:;")
        if plain_text and text_without_mention != text and text.lstrip().startswith("<@")
        else plain_text
    )


def _render_reference(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    user = _USER.fullmatch(match[1])
    if user is not None:
        return f"@{user[2] or user[1]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or _render_special(target[1:].split("^"))
    return _render_link(target.removeprefix("mailto:"), label)


def _render_special(parts: list[str]) -> str:
    """Return what stands for a group, a date or a call for all, where it has no label."""
    argument = parts[1] if len(parts) > 1 else ""
    if parts[0] == "date":
        return format_moment(argument)
    return f"@{argument if parts[0] == 'subteam' and argument else parts[0]}"


def _render_link(url: str, label: str) -> str:
    return f"{label} ({url})" if label and label not in url else url


def _join(nodes: list[Any], bot_user_id: str, already_shown: str) -> str:
    walker = Walker(
        _WORD_KEYS,
        _HIDDEN_KEYS,
        lambda node: _render(node, bot_user_id),
        lambda text: to_plain_text(text, bot_user_id),
    )
    return join_texts(walker.iter_texts([_prepare(node) for node in nodes]), already_shown)


def _prepare(attachment: object) -> object:
    """Return an attachment with its title as a link, and without who wrote it: a quotation holds the words alone."""
    if not isinstance(attachment, Mapping):
        return attachment
    unseen_keys = ("author_name", "footer") if _is_quotation(attachment) else ()
    prepared = {name: value for name, value in attachment.items() if name not in unseen_keys}
    if isinstance(prepared.get("title_link"), str) and isinstance(prepared.get("title"), str):
        prepared["title"] = f"<{prepared['title_link']}|{prepared['title']}>"
    return prepared


def _render(node: Json, bot_user_id: str) -> str | None:
    """Return the text of an object that is read as a whole; None for one that is walked into."""
    kind = node.get("type")
    if kind in _INLINE_PARENTS:
        return _render_line(node, bot_user_id)
    if kind == "table":
        return "\n".join(_render_row(row, bot_user_id) for row in _get_list(node, "rows"))
    if kind == "button":
        # What is pressed says nothing; a link leads somewhere.
        text = node.get("text")
        label = text.get("text") if isinstance(text, Mapping) else text
        return _render_link(str(node["url"]), str(label or "")) if node.get("url") else ""
    value = node.get("value")
    title = node.get("title")
    if isinstance(value, str) and isinstance(title, str):
        return to_plain_text(f"{title}: {value}" if title else value, bot_user_id)
    return None


def _render_row(row: object, bot_user_id: str) -> str:
    """Return a row of a table: a cell holds a text, or the lines of a rich text."""
    cells = row if isinstance(row, list) else []
    return " | ".join(_render_cell(cell, bot_user_id) for cell in cells if isinstance(cell, Mapping))


def _render_cell(cell: Json, bot_user_id: str) -> str:
    lines = [_render_line(line, bot_user_id) for line in _get_list(cell, "elements")]
    return " ".join((str(cell.get("text") or ""), *lines)).strip()


def _render_line(node: object, bot_user_id: str) -> str:
    elements = _get_list(node, "elements")
    return "".join(_render_inline(element, bot_user_id) for element in elements if isinstance(element, Mapping))


def _render_inline(element: Json, bot_user_id: str) -> str:
    """Return one element of a rich text."""
    label = str(element.get("text") or element.get("fallback") or "")
    match element.get("type"):
        case "link":
            return _render_link(str(element.get("url") or ""), label)
        case "user":
            return f"@{element.get('user_id')}" if element.get("user_id") != bot_user_id else ""
        case "emoji":
            return f":{element.get('name')}:"
        case "date":
            return label or format_moment(str(element.get("timestamp") or ""))
        case kind:
            key, mark = _REFERENCE_KEYS.get(str(kind), ("", ""))
            return f"{mark}{element[key]}" if element.get(key) else label


def _get_quotations(message: Json) -> list[Json]:
    attachments = _get_list(message, "attachments")
    return [attachment for attachment in attachments if isinstance(attachment, Mapping) and _is_quotation(attachment)]


def _is_quotation(attachment: Json) -> bool:
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))


def _get_list(node: object, name: str) -> list[Any]:
    value = node.get(name) if isinstance(node, Mapping) else None
    return value if isinstance(value, list) else []
