"""What people see of Slack's messages: blocks, attachments, and messages that were shared."""

from __future__ import annotations

from typing import Any

import pytest

from bots.common.events import IgnoredEvent
from bots.slack.commands import from_message_shortcut
from bots.slack.convert import Identity, from_event, to_thread_messages
from bots.slack.visible_text import get_visible_text
from core.messaging.feedback.handoff import ASK_SHORTCUT_ID, SHORTCUT_ID
from core.types import Message

ME = Identity("UBOT", "kimas", "T1", "Rocket", "BOWN")
SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*High load* on &lt;db-1&gt;"}}
SHARE: dict[str, Any] = {
    "is_share": True,
    "is_msg_unfurl": True,
    "author_name": "Ben",
    "text": "How do I reset the password?",
    "fallback": "[1 May] Ben: How do I reset it?",
    "footer": "Posted in #help",
}
CALL = {"type": "user", "user_id": "UBOT"}
LINK = {"type": "link", "url": "https://a.example", "text": "docs"}
RICH = {
    "type": "rich_text",
    "elements": [
        {"type": "rich_text_section", "elements": [CALL, {"type": "text", "text": "see <pre> in "}, LINK]},
        {
            "type": "rich_text_list",
            "style": "ordered",
            "elements": [
                {"type": "rich_text_section", "elements": [{"type": "channel", "channel_id": "C7"}]},
                {"type": "rich_text_section", "elements": [{"type": "usergroup", "usergroup_id": "S1"}]},
            ],
        },
        {"type": "rich_text_preformatted", "elements": [{"type": "date", "timestamp": 1785615300}]},
        {"type": "rich_text_quote", "elements": [{"type": "broadcast", "range": "here"}]},
    ],
}


def convert(**event: Any) -> Message | IgnoredEvent:
    full_event = {"type": "message", "channel": "D1", "user": "U1", "text": "", "ts": "1700000000.000100", **event}
    result = from_event({"type": "event_callback", "team_id": "T1", "event": full_event}, ME, ["C1"])
    assert isinstance(result, Message | IgnoredEvent)
    return result


def message(**event: Any) -> Message:
    result = convert(**event)
    assert isinstance(result, Message)
    return result


@pytest.mark.parametrize(
    ("payload", "visible_text"),
    [
        ({"blocks": [SECTION]}, "*High load* on <db-1>"),
        ({"text": "High load on &lt;db-1&gt;", "blocks": [SECTION]}, "High load on <db-1>"),
        ({"text": "New alert", "blocks": [SECTION]}, "New alert\n*High load* on <db-1>"),
        ({"blocks": [RICH]}, "see <pre> in docs (https://a.example)\n#C7\n@S1\n2026-08-01 20:15 UTC\n@here"),
        ({"text": "what is it?", "blocks": [RICH]}, "what is it?"),
        (
            {
                "blocks": [
                    {"type": "header", "text": {"type": "plain_text", "text": "Down"}},
                    {
                        "type": "section",
                        "fields": [{"type": "mrkdwn", "text": "*Host*"}, {"type": "mrkdwn", "text": "a"}],
                    },
                    {
                        "type": "context",
                        "elements": [{"type": "image", "alt_text": "red"}, {"type": "mrkdwn", "text": "b"}],
                    },
                    {"type": "not_invented_yet", "panel": {"body": [{"type": "plain_text", "text": "c"}]}},
                ]
            },
            "Down\n*Host*\na\nred\nb\nc",
        ),
        (
            {
                "blocks": [
                    {
                        "type": "table",
                        "rows": [[{"type": "raw_text", "text": "port"}, {"type": "raw_text", "text": "1"}]],
                    }
                ]
            },
            "port | 1",
        ),
        (
            {
                "blocks": [
                    {
                        "type": "actions",
                        "elements": [
                            {"type": "button", "text": {"type": "plain_text", "text": "Silence"}},
                            {
                                "type": "button",
                                "text": {"type": "plain_text", "text": "Graph"},
                                "url": "https://g.example",
                            },
                        ],
                    }
                ]
            },
            "Graph (https://g.example)",
        ),
        (
            {
                "attachments": [
                    {
                        "fallback": "Load on db-1",
                        "footer": "Monitor",
                        "fields": [{"title": "Host", "value": "db-1", "short": True}],
                        "text": "above 9",
                        "title": "Load",
                        "title_link": "https://g.example/1",
                        "pretext": "Alert",
                    }
                ]
            },
            "Alert\nLoad (https://g.example/1)\nabove 9\nHost: db-1\nMonitor",
        ),
        ({"attachments": [{"color": "d00", "blocks": [SECTION]}]}, "*High load* on <db-1>"),
        (
            {
                "attachments": [
                    {"is_msg_unfurl": True, "message_blocks": [{"team": "T1", "message": {"blocks": [SECTION]}}]}
                ]
            },
            "*High load* on <db-1>",
        ),
        ({"attachments": [{"is_share": True, "attachments": [{"text": "nested"}]}]}, "nested"),
        ({"attachments": "none", "blocks": {"type": "section"}}, ""),
    ],
)
def test_all_words_of_a_payload_are_seen(payload: dict[str, Any], visible_text: str) -> None:
    assert get_visible_text(payload, "UBOT") == visible_text


def test_a_shared_message_is_quoted_and_not_its_sharers_words() -> None:
    shared = message(text="can you answer this one?", attachments=[SHARE])
    assert (shared.text, shared.quoted) == ("can you answer this one?", "How do I reset the password?")
    assert shared.is_forwarded


def test_a_shared_message_without_a_comment_is_no_empty_one() -> None:
    shared = message(attachments=[SHARE])
    assert (shared.text, shared.quoted, shared.addressed) == ("", "How do I reset the password?", True)


def test_the_files_of_a_shared_message_come_with_it() -> None:
    file = {"id": "F1", "name": "a.png", "title": "The error", "mimetype": "image/png", "size": 9}
    [attachment] = message(attachments=[{**SHARE, "files": [file]}]).attachments
    assert (attachment.kind, attachment.name, attachment.reference) == ("picture", "The error", {"file": "F1"})


def test_who_wrote_what_a_message_brings_is_said() -> None:
    """A link to a message shows it, and a file may be shared again: who is forgotten is so there, too."""
    linked = {**SHARE, "is_share": False, "author_id": "U3", "files": [{"id": "F1", "user": "U4"}]}
    brings = message(user="U1", attachments=[linked], files=[{"id": "F2", "user": "U5"}, {"id": "F3", "user": "U1"}])
    assert (brings.quoted_authors, brings.is_forwarded) == (("U3", "U5", "U4"), False)


@pytest.mark.parametrize(("shortcut", "authors"), [(ASK_SHORTCUT_ID, ("U2", "U3")), (SHORTCUT_ID, ("U2",))])
def test_a_shortcut_on_a_shared_message_says_whose_words_it_brings(shortcut: str, authors: tuple[str, ...]) -> None:
    """What was shared is asked about, and teaches nothing."""
    command = from_message_shortcut(
        {
            "callback_id": shortcut,
            "trigger_id": "1",
            "channel": {"id": "C1"},
            "user": {"id": "U1", "name": "ann"},
            "response_url": "https://a.example",
            "message_ts": "1.2",
            "message": {"ts": "1.2", "user": "U2", "text": "Look.", "attachments": [{**SHARE, "author_id": "U3"}]},
        },
        ME,
    )
    assert isinstance(command, Message)
    assert (SHARE["text"] in command.quoted, command.quoted_authors) == (len(authors) > 1, authors)


def test_a_preview_of_a_link_is_quoted_but_the_words_remain_ones_own() -> None:
    linked = message(text="see <https://a.example>", attachments=[{"from_url": "https://a.example", "text": "A page"}])
    assert (linked.text, linked.quoted, linked.is_forwarded) == ("see https://a.example", "A page", False)


def test_an_alert_is_what_its_bot_says() -> None:
    alert = message(channel="C1", bot_id="B9", attachments=[{"title": "Load", "text": "above 9"}])
    assert (alert.text, alert.quoted, alert.is_by_bot) == ("Load\nabove 9", "", True)
    relayed = message(channel="C1", bot_id="B9", text="look", attachments=[SHARE])
    assert (relayed.text, relayed.quoted, relayed.is_forwarded) == ("look", "How do I reset the password?", True)


def test_a_message_without_any_word_is_still_ignored() -> None:
    assert convert(attachments=[{"fallback": "no preview", "color": "d00"}]) == IgnoredEvent("without text")


@pytest.mark.parametrize(
    "part", [{"blocks": [SECTION]}, {"attachments": [{"blocks": [SECTION]}]}, {"attachments": [SHARE]}]
)
def test_a_thread_begins_with_what_is_seen(part: dict[str, Any]) -> None:
    [own_root] = to_thread_messages([{"bot_id": ME.bot_id, "subtype": "bot_message", "text": "It is numbat."}], ME)
    assert own_root.author_ids == (ME.bot_id,), "the answer to a slash command names no user"
    [root, reply] = to_thread_messages([{"bot_id": "B9", "text": "", **part}, {"text": "", "attachments": [SHARE]}], ME)
    assert root.text == get_visible_text(part, "UBOT")
    assert reply.text == "How do I reset the password?"


def test_depth_is_bounded() -> None:
    node: dict[str, Any] = {"text": "deep"}
    for _ in range(900):
        node = {"blocks": [node]}
    assert get_visible_text({"text": "shallow", "attachments": [node]}, "UBOT") == "shallow"


@pytest.mark.parametrize(
    "damaged",
    [
        {"type": "rich_text", "elements": None},
        {"type": "section", "text": {"type": "mrkdwn", "text": 7}, "fields": [None, 3]},
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "date"}, "x", {}]}]},
        None,
        [],
    ],
)
def test_a_part_that_is_damaged_costs_itself_alone(damaged: object) -> None:
    for payload in (
        {"blocks": [damaged, SECTION]},
        {"attachments": [{"blocks": [damaged]}, damaged, {"text": "db-1"}]},
    ):
        assert message(**payload).quoted or message(**payload).text
        assert "db-1" in get_visible_text(payload, ME.user_id)
