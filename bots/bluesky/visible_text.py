"""The text of a post as people read it, with whole addresses, which clients shorten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

# Marks where the bot is mentioned. Posts lose this character.
BOT_MENTION = "\x00"
MAX_FACETS = 100
MAX_TEXT_CHARS = 10_000


def get_text(record: Json, bot_did: str) -> str:
    """Return the text of a post with `BOT_MENTION` where it mentions the bot, and what it links to by a card."""
    content = str(record.get("text") or "").replace(BOT_MENTION, " ")[:MAX_TEXT_CHARS].encode("utf-8", "replace")
    pieces = []
    position = 0
    for start, end, features in _list_facets(record):
        # Whoever wrote the post says where a facet stands: it may be nowhere, or in another one.
        if position <= start < end <= len(content) and (shown := _render_facet(features, bot_did)):
            pieces += [content[position:start], shown.encode("utf-8", "replace")]
            position = end
    text = b"".join([*pieces, content[position:]]).decode("utf-8", "ignore")
    card = str(((record.get("embed") or {}).get("external") or {}).get("uri") or "")
    return f"{text}\n\n{card}".strip() if card not in text else text


def mentions(record: Json, did: str) -> bool:
    """Return whether a post mentions somebody."""
    return any(feature.get("did") == did for _, _, features in _list_facets(record) for feature in features)


def get_quoted(view: Json) -> Json:
    """Return the post that a post quotes, as the server shows it: its author, and its record as the value; or {}."""
    quoted = (view.get("embed") or {}).get("record") or {}
    # Beside pictures it stands one level deeper.
    quoted = quoted if "value" in quoted else quoted.get("record") or {}
    return quoted if isinstance(quoted.get("value"), Mapping) else {}


def _list_facets(record: Json) -> list[tuple[int, int, Sequence[Json]]]:
    """Return the facets of a post in their order: where they begin and end, and what they are."""
    facets = [
        (int(facet["index"]["byteStart"]), int(facet["index"]["byteEnd"]), facet["features"])
        for facet in (record.get("facets") or ())[:MAX_FACETS]
    ]
    return sorted(facets, key=lambda facet: facet[:2])


def _render_facet(features: Sequence[Json], bot_did: str) -> str:
    """Return what stands for a facet, or "" if its text does."""
    for feature in features:
        if feature.get("did") == bot_did:
            return BOT_MENTION
        if str(feature.get("uri") or "").startswith(("http://", "https://")):
            return str(feature["uri"])
    return ""
