"""What people see of Discord's messages: embeds, components, polls, stickers, and what was forwarded."""

from __future__ import annotations

from typing import Any

import pytest

from bots.common.events import IgnoredEvent
from bots.discord.convert import Identity, Location, to_message
from bots.discord.visible_text import Reader
from core.types import Message

ME = Identity("5001", "kimas", "5002")
CHANNEL = Location("30", "30", "", "7")
NAMES = {"55": "general"}
EMBED = {
    "type": "rich",
    "url": "https://g.example",
    "title": "High load",
    "description": "on <#55>, says <@1002>",
    "fields": [{"name": "Host", "value": "db-1", "inline": True}],
    "author": {"name": "Monitor", "icon_url": "https://g.example/i"},
    "footer": {"text": "Rule 7"},
}
EMBED_TEXT = "Monitor\nHigh load (https://g.example)\non #general, says @Bea\nHost: db-1\nRule 7"
POLL = {
    "question": {"text": "Which database?"},
    "answers": [
        {"answer_id": 1, "poll_media": {"text": "SQLite", "emoji": {"name": "🪶"}}},
        {"answer_id": 2, "poll_media": {"text": "PostgreSQL"}},
    ],
}
COMPONENTS = [
    {
        "type": 17,
        "components": [
            {"type": 10, "content": "# Down since <t:1785615300:R>"},
            {"type": 9, "components": [{"type": 10, "content": "db-1"}], "accessory": {"type": 11, "media": {}}},
            {"type": 1, "components": [{"type": 2, "style": 5, "label": "Graph", "url": "https://g.example"}]},
            {"type": 1, "components": [{"type": 2, "style": 1, "label": "Silence", "custom_id": "s"}]},
            {"type": 99, "panel": {"blocks": [{"content": "not invented yet"}]}},
        ],
    }
]
COMPONENTS_TEXT = "# Down since 2026-08-01 20:15 UTC\ndb-1\nGraph (https://g.example)\nnot invented yet"


def convert(content: str = "", **extra_fields: Any) -> Message | IgnoredEvent:
    author = {"id": "1001", "username": "ann", "global_name": "Ann"}
    mentions = [{"id": "1002", "username": "bea", "global_name": "Bea"}]
    event = {"id": "1573575587795042305", "type": 0, "author": author, "content": content, "mentions": mentions}
    return to_message({**event, **extra_fields}, ME, CHANNEL, names=NAMES, include_bots=True)


def message(content: str = "", **extra_fields: Any) -> Message:
    result = convert(content, **extra_fields)
    assert isinstance(result, Message)
    return result


@pytest.mark.parametrize(
    ("payload", "visible_text"),
    [
        ({"embeds": [EMBED], "mentions": [{"id": "1002", "username": "Bea"}]}, EMBED_TEXT),
        ({"content": "High load", "embeds": [{"title": "**High load**", "description": "now"}]}, "High load\nnow"),
        (
            {"embeds": [{"title": "Down", "url": "https://a.example/1"}, {"title": "Up"}]},
            "Down (https://a.example/1)\nUp",
        ),
        ({"poll": POLL}, "Which database?\nSQLite\nPostgreSQL"),
        ({"components": COMPONENTS}, COMPONENTS_TEXT),
        ({"sticker_items": [{"id": "1", "name": "Wave", "format_type": 1}]}, "Wave"),
        (
            {
                "content": "see",
                "message_snapshots": [{"message": {"content": "the error", "embeds": [{"title": "E42"}]}}],
            },
            "see\n\nthe error\nE42",
        ),
        ({"embeds": "none", "components": {"type": 10}, "poll": None}, ""),
    ],
)
def test_all_words_of_a_payload_are_seen(payload: dict[str, Any], visible_text: str) -> None:
    assert Reader("5001", names=NAMES).get_visible_text(payload) == visible_text


@pytest.mark.parametrize(
    ("payload", "quoted"),
    [
        ({"embeds": [EMBED], "mentions": [{"id": "1002", "username": "Bea"}]}, EMBED_TEXT),
        ({"components": COMPONENTS}, COMPONENTS_TEXT),
        ({"poll": POLL}, "Which database?\nSQLite\nPostgreSQL"),
        ({"message_snapshots": [{"message": {"content": "the error"}}]}, "the error"),
    ],
)
def test_a_reply_quotes_what_is_seen(payload: dict[str, Any], quoted: str) -> None:
    reply = message("<@5001> why?", type=19, referenced_message={"id": "4", "author": {"id": "8"}, **payload})
    assert (reply.text, reply.quoted, reply.is_forwarded) == ("why?", quoted, False)


def test_the_words_of_a_forward_are_not_the_forwarders() -> None:
    snapshot = {"message": {"content": "", "embeds": [{"description": "/help"}], "mentions": []}}
    forward = message(message_snapshots=[snapshot])
    assert (forward.text, forward.quoted, forward.command, forward.is_forwarded) == ("", "/help", "", True)


def test_ones_own_poll_and_preview_are_quoted() -> None:
    voting = message("help me vote", poll=POLL)
    assert (voting.quoted, voting.quoted_authors) == ("Which database?\nSQLite\nPostgreSQL", (voting.author_id,))
    linked = message("see https://a.example", embeds=[{"type": "link", "description": "A page"}])
    assert (linked.text, linked.quoted, linked.is_forwarded) == ("see https://a.example", "A page", False)
    sticker = message(sticker_items=[{"id": "1", "name": "Wave", "format_type": 1}])
    assert (sticker.quoted, sticker.attachments[0].name) == ("", "Wave")


def test_an_alert_is_what_its_bot_says() -> None:
    alert = message(author={"id": "8", "username": "mon", "bot": True}, embeds=[{"title": "Down"}])
    assert (alert.text, alert.quoted, alert.is_by_bot) == ("Down", "", True)


def test_a_message_without_any_word_is_still_ignored() -> None:
    result = convert(embeds=[{"type": "image", "thumbnail": {"url": "https://a.example/i.png"}}])
    assert isinstance(result, IgnoredEvent)


@pytest.mark.parametrize(
    "payload",
    [
        {"embeds": [None, {"fields": [None, {"name": None, "value": 7}], "author": "x", "footer": []}, EMBED]},
        {"components": [{"type": 17, "components": None}, {"type": 10, "content": None}, *COMPONENTS]},
        {"message_snapshots": [None, {"message": None}, {"message": {"content": "db-1"}}]},
        {"content": "db-1 <@> <#999999999999999999999> <t:99999999999999999999:R> </x:1"},
        {"content": "db-1", "poll": {"question": None, "answers": [None, {}]}, "sticker_items": [{}]},
    ],
)
def test_a_part_that_is_damaged_costs_itself_alone(payload: dict[str, Any]) -> None:
    result = message(**payload)
    assert "db-1" in result.text + result.quoted
