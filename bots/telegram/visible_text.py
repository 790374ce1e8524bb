"""What people see of a message of Telegram's: its text with the addresses behind it, and what it holds in its place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bots.common.visible_text import Walker, join_paragraphs, join_texts

if TYPE_CHECKING:
    from aiogram.types import ExternalReplyInfo, Message as TelegramMessage, MessageEntity, RichMessage

Json = Mapping[str, Any]

# What holds words in the place of a text, or tells who added which; a venue has its location itself.
_PARTS = (
    "poll",
    "poll_option_added",
    "checklist",
    "checklist_tasks_added",
    "contact",
    "venue",
    "game",
    "invoice",
    "giveaway",
    "giveaway_winners",
)
# In the order in which they are shown.
_WORD_KEYS = (
    "title",
    "question",
    "address",
    "description",
    "prize_description",
    "option_text",
    "text",
    "options",
    "tasks",
)
_HIDDEN_KEYS = frozenset(
    (
        "added_by_chat",
        "added_by_user",
        "animation",
        "chat",
        "chats",
        # What somebody adds to it is said of it; it was there before.
        "checklist_message",
        "media",
        "photo",
        "poll_message",
        "winners",
    )
)
# The fields of rich messages that hold rich texts.
_RICH_TEXT_FIELDS = ("summary", "text", "expression", "caption", "credit")


def get_text(message: TelegramMessage) -> str:
    """Return the text of a message, its caption, or its rich text."""
    text, _ = get_text_and_entities(message)
    return text or get_rich_text(message.rich_message)


def get_text_and_entities(message: TelegramMessage) -> tuple[str, Sequence[MessageEntity]]:
    """Return the text or caption of a message, addresses written out, and its entities there."""
    entities = message.entities or message.caption_entities or []
    return _write_addresses(message.text or message.caption or "", entities)


def get_held_text(message: TelegramMessage | ExternalReplyInfo) -> str:
    """Return the words of a poll, a checklist, a contact, a place and the like."""
    parts = [getattr(message, name, None) for name in _PARTS]
    if message.venue is None:
        parts.append(message.location)
    return join_texts(Walker(_WORD_KEYS, _HIDDEN_KEYS, _render, str).iter_texts(_to_node(parts)))


def get_visible_text(message: TelegramMessage) -> str:
    """Return all words that people see of a message."""
    emoji = message.sticker.emoji if message.sticker is not None else ""
    return "\n".join(filter(None, (get_text(message), get_held_text(message), emoji)))


def get_quoted_text(message: TelegramMessage, replied_message: TelegramMessage | None) -> str:
    """Return what a message is about: the passage that was picked for quoting, or all that was replied to.

    That may stand in another chat. What the message holds besides its text follows.
    """
    if message.quote is not None:
        quoted_text, _ = _write_addresses(message.quote.text, message.quote.entities or [])
    elif replied_message is not None:
        quoted_text = get_visible_text(replied_message)
    else:
        quoted_text = get_held_text(message.external_reply) if message.external_reply is not None else ""
    # To send nothing but a point on a map asks nothing.
    return join_paragraphs(quoted_text, "" if is_bare_place(message) else get_held_text(message))


def is_bare_place(message: TelegramMessage) -> bool:
    """Return whether a message is a point on a map that has no name."""
    return message.location is not None and message.venue is None


def get_rich_text(message: RichMessage | None) -> str:
    """Return the text of a rich message, a line per block."""
    return "\n".join(line for block in message.blocks for line in _iter_lines(block)) if message is not None else ""


def _to_node(value: object) -> object:
    """Return an object of the API as plain lists and mappings."""
    if isinstance(value, list):
        return [_to_node(item) for item in value]
    names = getattr(type(value), "model_fields", None)
    return {name: _to_node(getattr(value, name)) for name in names} if names else value


def _render(node: Json) -> str | None:
    """Return the text of an object that is read as a whole; None for one that is walked into."""
    if "latitude" in node:
        return f"{node['latitude']}, {node['longitude']}"
    if "phone_number" in node:
        return " ".join(filter(None, (node["first_name"], node["last_name"], node["phone_number"])))
    if "completion_date" in node:
        return f"[{'x' if node['completion_date'] else ' '}] {node['text']}"
    return None


def _write_addresses(text: str, entities: Sequence[MessageEntity]) -> tuple[str, Sequence[MessageEntity]]:
    """Return a text with the addresses of its links behind them, and its entities moved. They count in UTF-16 units."""
    encoded_text = text.encode("utf-16-le", "surrogatepass")
    links = list[tuple[int, bytes]]()
    for entity in entities:
        end = min(entity.offset + entity.length, len(encoded_text) // 2)
        label = encoded_text[2 * entity.offset : 2 * end].decode("utf-16-le", "replace")
        if entity.type == "text_link" and entity.url and label not in entity.url:
            links.append((end, f" ({entity.url})".encode("utf-16-le", "surrogatepass")))
    if not links:
        return text, entities
    links.sort()
    ends = [end for end, _ in links]
    shifts = [0, *accumulate(len(address) // 2 for _, address in links)]
    pieces = [encoded_text[: 2 * ends[0]]]
    for (end, address), next_end in zip(links, [*ends[1:], len(encoded_text) // 2], strict=True):
        pieces += (address, encoded_text[2 * end : 2 * next_end])
    moved_entities: list[MessageEntity] = []
    for entity in entities:
        offset = entity.offset + shifts[bisect_right(ends, entity.offset)]
        end = entity.offset + entity.length
        length = end + shifts[bisect_left(ends, end)] - offset
        moved_entities.append(entity.model_copy(update={"offset": offset, "length": length}))
    return b"".join(pieces).decode("utf-16-le", "replace"), moved_entities


def _iter_lines(block: object) -> Iterator[str]:
    """Yield the lines of a block, an item or a row, and of what is in it, whatever its kind."""
    for name in getattr(type(block), "model_fields", ()):
        value = getattr(block, name)
        if name == "cells":
            for row in value:
                yield " | ".join(_join_spans(cell.text) for cell in row)
        elif name in _RICH_TEXT_FIELDS and (isinstance(value, str | list) or hasattr(value, "type")):
            yield _with_address(_join_spans(value), getattr(block, "url", None))
        else:
            for child in value if isinstance(value, list) else [value]:
                yield from _iter_lines(child)


def _join_spans(text: object) -> str:
    """Return the plain text of a rich text: a string, a list of such, or a span around one."""
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        return "".join(map(_join_spans, text))
    span = getattr(text, "button", text)
    names = ("text", "expression", "alternative_text")
    inner_text = next((value for name in names if (value := getattr(span, name, None))), None)
    return _with_address(_join_spans(inner_text), getattr(span, "url", None)) if inner_text else ""


def _with_address(label: str, url: str | None) -> str:
    return f"{label} ({url})" if url and label not in url else label
