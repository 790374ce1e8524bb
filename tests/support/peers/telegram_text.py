"""How Telegram reads text: its HTML parse mode, strictly, and the entities it finds by itself. UTF-16 everywhere."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

LIMIT = 4096
RAW_LIMIT = 1 << 15

Entity = dict[str, Any]

_KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_ATTRIBUTES = {"a": {"href"}, "code": {"class"}, "blockquote": {"expandable"}}
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)((?:\s+[a-zA-Z-]+(?:=\"[^\"<>]*\")?)*)\s*>")
_ATTRIBUTE = re.compile(r"([a-zA-Z-]+)(?:=\"([^\"]*)\")?")
_REFERENCE = re.compile(r"&(?:lt|gt|amp|quot|#\d{1,7}|#x[0-9a-fA-F]{1,6});")
_AUTOMATIC_ENTITY = re.compile(
    r"(?P<url>https?://\S+)|(?<![\w@])(?P<mention>@[A-Za-z]\w{3,31})"
    r"|(?<![\w/@])(?P<bot_command>/[A-Za-z0-9_]{1,32}(?:@[A-Za-z]\w{3,31})?)"
)


class ParseError(ValueError):
    """Markup that Telegram rejects, in its words."""


def units(text: str) -> int:
    """Return the length as Telegram counts it."""
    return len(text.encode("utf-16-le")) // 2


def find_entities(text: str) -> list[Entity]:
    """Find what Telegram finds in plain text: addresses, mentions and commands."""
    return [
        {"type": results.lastgroup, "offset": units(text[: results.start()]), "length": units(results[0])}
        for results in _AUTOMATIC_ENTITY.finditer(text)
    ]


def parse_html(html: str) -> tuple[str, list[Entity]]:
    """Return the text and the entities of HTML as the Bot API takes it. Raises `ParseError`."""
    text: list[str] = []
    entities: list[Entity] = []
    stack: list[tuple[str, dict[str, str], int]] = []
    length = 0
    position = 0
    while position < len(html):
        at = len(html[:position].encode())
        if html[position] == "<":
            results = _TAG.match(html, position)
            if results is None:
                raise ParseError(f"Unclosed or malformed start tag at byte offset {at}")
            position = results.end()
            if results[1]:
                for entity in _close(stack, results[2].lower(), length, at):
                    if entity["type"] == "pre" and entities and entities[-1] == {**entity, **_get_code(entities[-1])}:
                        # Code with a language that fills a block is the block's language.
                        entity.update(language=entities.pop().get("language", ""))
                    entities.append(entity)
            else:
                stack.append((*_open_tag(results, stack, at), length))
            continue
        reference = _REFERENCE.match(html, position)
        piece = unescape(reference[0]) if reference else html[position]
        text.append(piece)
        length += units(piece)
        position += len(reference[0]) if reference else 1
    if stack:
        raise ParseError(f'Can\'t find end tag corresponding to start tag "{stack[-1][0]}"')
    return "".join(text), sorted(entities, key=lambda entry: (entry["offset"], -entry["length"]))


def _open_tag(
    results: re.Match[str], stack: list[tuple[str, dict[str, str], int]], at: int
) -> tuple[str, dict[str, str]]:
    tag = results[2].lower()
    if tag not in _KINDS:
        raise ParseError(f'Unsupported start tag "{tag}" at byte offset {at}')
    attributes = {name.lower(): unescape(value) for name, value in _ATTRIBUTE.findall(results[3])}
    if set(attributes) - _ATTRIBUTES.get(tag, set()):
        raise ParseError(f'Unexpected attributes of "{tag}" at byte offset {at}: {sorted(attributes)}')
    if tag == "a" and not attributes.get("href", "").startswith(("http://", "https://")):
        raise ParseError(f"A link without an http address at byte offset {at}")
    open_tags = [name for name, _, _ in stack]
    if tag == "blockquote" and tag in open_tags:
        raise ParseError(f"Nested blockquote at byte offset {at}")
    if tag in ("pre", "a") and tag in open_tags:
        raise ParseError(f'Nested "{tag}" at byte offset {at}')
    if open_tags and open_tags[-1] == "code":
        raise ParseError(f'"{tag}" within code at byte offset {at}')
    if tag != "code" and "pre" in open_tags:
        raise ParseError(f'"{tag}" within pre at byte offset {at}')
    return tag, attributes


def _get_code(entity: Entity) -> Entity:
    return {"type": "code", **({"language": entity["language"]} if "language" in entity else {})}


def _close(stack: list[tuple[str, dict[str, str], int]], tag: str, length: int, at: int) -> list[Entity]:
    if not stack:
        raise ParseError(f"Unexpected end tag at byte offset {at}")
    open_tag, attributes, start = stack.pop()
    if open_tag != tag:
        raise ParseError(f'Unmatched end tag at byte offset {at}, expected "</{open_tag}>", found "</{tag}>"')
    entity: Entity = {"type": _KINDS[tag], "offset": start, "length": length - start}
    if tag == "a":
        entity["url"] = attributes["href"]
    if tag == "code" and "class" in attributes:
        entity["language"] = attributes["class"].removeprefix("language-")
    return [entity] if length > start else []
