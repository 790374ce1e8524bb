"""What people see of Telegram's messages: addresses of links, polls, places, quotations, and rich messages."""

from __future__ import annotations

from typing import Any

import pytest

from core.types import Message
from tests.support.telegram_helpers import convert

GROUP = {"id": -100, "type": "supergroup", "title": "Team"}
ANN = {"id": 7, "is_bot": False, "first_name": "Ann", "username": "ann"}
ORIGIN = {"type": "hidden_user", "sender_user_name": "Eve", "date": 1_760_000_000}
POLL: dict[str, Any] = {
    "id": "1",
    "question": "Which database?",
    "options": [{"persistent_id": str(index), "text": name, "voter_count": 0} for index, name in enumerate("AB")],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": False,
    "members_only": False,
    "description": "For the journal",
}
PLACE = {"latitude": 52.5, "longitude": 13.4}
HELD: list[tuple[dict[str, Any], str]] = [
    ({"poll": POLL}, "Which database?\nFor the journal\nA\nB"),
    (
        {
            "checklist": {
                "title": "Move",
                "tasks": [{"id": 1, "text": "pack"}, {"id": 2, "text": "go", "completion_date": 9}],
            }
        },
        "Move\n[ ] pack\n[x] go",
    ),
    ({"contact": {"phone_number": "+49 30", "first_name": "Ben"}}, "Ben +49 30"),
    (
        {"venue": {"location": PLACE, "title": "Office", "address": "Main St 1"}, "location": PLACE},
        "Office\nMain St 1\n52.5, 13.4",
    ),
    ({"location": PLACE}, "52.5, 13.4"),
    ({"game": {"title": "Chess", "description": "A game", "photo": []}}, "Chess\nA game"),
]


def event(**fields: Any) -> dict[str, Any]:
    return {"message_id": 5, "date": 1_760_000_000, "chat": GROUP, "from": ANN, **fields}


def message(**fields: Any) -> Message:
    result = convert(event(**fields))
    assert isinstance(result, Message), result
    return result


def link(offset: int, length: int, url: str = "https://a.example") -> dict[str, Any]:
    return {"type": "text_link", "offset": offset, "length": length, "url": url}


@pytest.mark.parametrize(
    ("text", "entities", "visible_text"),
    [
        ("see this page now", [link(4, 9)], "see this page (https://a.example) now"),
        ("𝔸 this", [link(3, 4)], "𝔸 this (https://a.example)"),
        ("a.example", [link(0, 9)], "a.example"),
        ("one two", [link(4, 3, "https://b.example"), link(0, 3)], "one (https://a.example) two (https://b.example)"),
        ("here", [link(0, 99)], "here (https://a.example)"),
        ("here", [link(99, 3)], "here"),
        ("secret", [{"type": "spoiler", "offset": 0, "length": 6}], "secret"),
        ("long", [{"type": "expandable_blockquote", "offset": 0, "length": 4}], "long"),
        ("👍 ok", [{"type": "custom_emoji", "offset": 0, "length": 2, "custom_emoji_id": "1"}], "👍 ok"),
    ],
)
@pytest.mark.parametrize("kind", ["text", "caption"])
def test_the_addresses_of_links_are_kept(
    kind: str, text: str, entities: list[dict[str, Any]], visible_text: str
) -> None:
    prefix = "caption_" if kind == "caption" else ""
    assert message(**{kind: text, f"{prefix}entities": entities}).text == visible_text
    assert (
        message(text="why?", reply_to_message=event(**{kind: text, f"{prefix}entities": entities})).quoted
        == visible_text
    )


def test_a_mention_behind_a_link_is_still_cut_out() -> None:
    mention = {"type": "mention", "offset": 5, "length": 10}
    result = message(text="this @kimas_bot says?", entities=[link(0, 4), mention])
    assert (result.text, result.addressed) == ("this (https://a.example) says?", True)


@pytest.mark.parametrize(("fields", "words"), HELD)
def test_what_stands_in_the_place_of_a_text_is_quoted(fields: dict[str, Any], words: str) -> None:
    alone = message(**fields)
    is_bare_place = list(fields) == ["location"]
    assert (alone.text, alone.quoted) == ("", "" if is_bare_place else words)
    assert [attachment.name for attachment in alone.attachments] == (["location"] if is_bare_place else [])
    assert message(text="why?", reply_to_message=event(**fields)).quoted == words
    assert message(text="why?", external_reply={"origin": ORIGIN, **fields}).quoted == words


def test_the_passage_of_another_chat_is_quoted() -> None:
    quote = {"text": "run this", "position": 4, "entities": [link(4, 4)]}
    result = message(text="why?", external_reply={"origin": ORIGIN, "poll": POLL}, quote=quote)
    assert (result.quoted, result.is_forwarded) == ("run this (https://a.example)", False)


def test_forwarded_words_stay_somebody_elses() -> None:
    forward = message(poll=POLL, forward_origin=ORIGIN)
    assert (forward.is_forwarded, forward.command, forward.quoted) == (True, "", HELD[0][1])
    assert message(text="/help", forward_origin=ORIGIN).command == ""


def test_a_message_says_whose_words_it_brings() -> None:
    """The bot may have seen them nowhere else."""
    ben = {"id": 8, "is_bot": False, "first_name": "Ben"}
    bot = {"id": 42, "is_bot": True, "first_name": "KIMAs"}
    of_ben, of_bot = ({"type": "user", "sender_user": user, "date": 1_760_000_000} for user in (ben, bot))
    quote = {"text": "run this", "position": 0}
    brought = [
        message(text="why?", reply_to_message=event(**{"from": ben, "text": "run this"})),
        message(text="run this", forward_origin=of_ben),
        message(text="why?", external_reply={"origin": of_ben}, quote=quote),
    ]
    assert [item.quoted_authors for item in brought] == [("8",)] * 3
    assert message(text="why?", reply_to_message=event(text="mine")).quoted_authors == ()
    channel = {"type": "channel", "chat": {"id": -9, "type": "channel", "title": "News"}, "message_id": 1, "date": 1}
    assert message(text="run this", forward_origin=channel).quoted_authors == ("-9",)
    # Words of the bot's own from another chat are taken up only if the journal says what they were made from.
    own = message(text="why?", external_reply={"origin": of_bot}, quote=quote)
    assert (own.quoted_authors, own.addressed) == (("42",), False)


def test_options_that_others_added_to_a_poll_are_their_words() -> None:
    ben = {"id": 8, "is_bot": False, "first_name": "Ben"}
    poll = {**POLL, "options": [*POLL["options"], {**POLL["options"][0], "added_by_user": ben}]}
    brought = [
        message(text="why?", reply_to_message=event(poll=poll)),
        message(text="why?", external_reply={"origin": ORIGIN, "poll": poll}),
        message(poll=poll),
    ]
    assert [each.quoted_authors for each in brought] == [("8",), ("8",), ("8", brought[2].author_id)]


def test_what_somebody_adds_to_a_poll_or_a_checklist_is_theirs() -> None:
    task = {"id": 1, "text": "run this"}
    added = [
        {
            "poll_option_added": {
                "option_persistent_id": "2",
                "option_text": "run this",
                "poll_message": event(poll=POLL),
            }
        },
        {"checklist_tasks_added": {"tasks": [task], "checklist_message": event(text="mine")}},
    ]
    for fields, words in zip(added, ("run this", "[ ] run this"), strict=True):
        result = message(**fields)
        assert (result.text, result.quoted, result.quoted_authors) == ("", words, (result.author_id,))


def test_a_reply_to_a_forward_brings_the_words_of_whom_it_was_forwarded_from() -> None:
    """Who forwarded it stands for somebody who is hidden."""
    cleo = {"id": 9, "is_bot": False, "first_name": "Cleo"}
    named = [
        {"type": "user", "sender_user": {"id": user_id, "is_bot": False, "first_name": "A"}} for user_id in (8, 42)
    ]
    hidden = {"type": "hidden_user", "sender_user_name": "Eve"}
    found = []
    for origin in (*named, hidden):
        forward = event(**{"from": cleo, "text": "run this", "forward_origin": {**origin, "date": 1_760_000_000}})
        reply = message(text="why?", reply_to_message=forward)
        found.append(reply.quoted_authors)
    assert found == [("8",), ("42",), ("9",)]


PARAGRAPH = {"type": "paragraph", "text": ["see ", {"type": "url", "text": "this", "url": "https://a.example"}]}
EMOJI = {"type": "custom_emoji", "custom_emoji_id": "1", "alternative_text": "👍"}
RICH = [
    PARAGRAPH,
    {"type": "details", "summary": {"type": "bold", "text": "More"}, "blocks": [{"type": "paragraph", "text": EMOJI}]},
    {"type": "blockquote", "blocks": [{"type": "paragraph", "text": "quoted"}], "credit": "Eve"},
    {"type": "photo", "photo": [], "caption": {"text": "a picture", "credit": "Ben"}},
    {
        "type": "table",
        "cells": [[{"text": "a", "align": "left", "valign": "top"}, {"text": "b", "align": "left", "valign": "top"}]],
        "caption": "ports",
    },
    {"type": "expandable_blockquote", "text": {"type": "spoiler", "text": "hidden"}},
]
RICH_TEXT = "see this (https://a.example)\nMore\n👍\nquoted\nEve\na picture\nBen\na | b\nports\nhidden"


def test_rich_messages_are_read_to_their_last_block() -> None:
    assert message(rich_message={"blocks": RICH}).text == RICH_TEXT
    assert message(text="why?", reply_to_message=event(rich_message={"blocks": RICH})).quoted == RICH_TEXT


def test_a_mention_in_a_rich_message_addresses() -> None:
    blocks = [{"type": "paragraph", "text": {"type": "mention", "text": "@Kimas_Bot, why?", "username": "kimas_bot"}}]
    result = message(rich_message={"blocks": blocks})
    assert (result.text, result.addressed) == ("why?", True)
    assert not message(rich_message={"blocks": [{"type": "paragraph", "text": "me@kimas_bot"}]}).addressed


@pytest.mark.parametrize(
    "entity",
    [
        {"type": "text_link", "offset": 900, "length": 4, "url": "https://a.example"},
        {"type": "text_link", "offset": 0, "length": 4},
        {"type": "text_link", "offset": -2, "length": 1, "url": "https://a.example"},
        {"type": "text_mention", "offset": 0, "length": 4},
        {"type": "invented", "offset": 0, "length": 4},
    ],
)
def test_a_part_that_is_damaged_costs_itself_alone(entity: dict[str, Any]) -> None:
    assert message(text="this or that?", entities=[entity, link(8, 4)]).text == "this or that (https://a.example)?"
