"""The text of a post: whole addresses, the mention of the bot, and facets that lie."""

from __future__ import annotations

from typing import Any

import pytest

from bots.bluesky.visible_text import BOT_MENTION, get_text

BOT = "did:plc:bot"


def facet(start: int, end: int, **feature: str) -> dict[str, Any]:
    return {"index": {"byteStart": start, "byteEnd": end}, "features": [feature]}


@pytest.mark.parametrize(
    ("text", "facets", "expected"),
    [
        ("see e.org/a… now", [facet(4, 13, uri="https://e.org/a/long")], "see https://e.org/a/long now"),
        ("你好 @bot 怎么", [facet(7, 11, did=BOT)], f"你好 {BOT_MENTION} 怎么"),
        ("@ann how?", [facet(0, 4, did="did:plc:ann")], "@ann how?"),
        # Beside the text, within another facet, the wrong way round, in the middle of a character.
        ("how?", [facet(0, 99, did=BOT)], "how?"),
        ("@bot how?", [facet(0, 4, did=BOT), facet(2, 4, uri="https://e.org")], f"{BOT_MENTION} how?"),
        ("how?", [facet(3, 1, did=BOT), facet(-2, 3, did=BOT)], "how?"),
        ("你好", [facet(1, 3, did=BOT)], f"{BOT_MENTION}好"),
        ("how?", [facet(0, 3, uri="javascript:alert(1)")], "how?"),
        ("a\x00b", [], "a b"),
    ],
)
def test_facets_stand_for_their_bytes(text: str, facets: list[dict[str, Any]], expected: str) -> None:
    assert get_text({"text": text, "facets": facets}, BOT) == expected


def test_the_address_of_a_card_is_a_part_of_what_was_said() -> None:
    record = {"text": "what is this?", "embed": {"external": {"uri": "https://e.org/a", "title": "A"}}}
    assert get_text(record, BOT) == "what is this?\n\nhttps://e.org/a"
    assert get_text({**record, "text": "https://e.org/a"}, BOT) == "https://e.org/a"
