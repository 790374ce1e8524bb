"""Slack's payloads as messages: the text as people see it, who was meant, and what is none of our business."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from bots.common.events import IgnoredEvent, MessageDeletion
from bots.slack.convert import Identity, from_command, from_event, is_for_other_user, is_from_other_workspace
from bots.slack.visible_text import to_plain_text
from core.types import ConversationKey, Message, PlatformName
from tests.support.fixtures import settings as make_settings

SECRETS = {"bot_token": {"env": "SLACK"}, "app_token": {"env": "SLACK_APP"}}
ME = Identity("UBOT", "kimas", "T1", "Rocket")


def convert(**event: Any) -> Message | MessageDeletion | IgnoredEvent:
    full_event = {"type": "message", "channel": "C1", "user": "U1", "text": "hi", "ts": "1700000000.000100", **event}
    values = {name: value for name, value in full_event.items() if value is not None}
    return from_event({"type": "event_callback", "team_id": "T1", "event": values}, ME)


def message(**event: Any) -> Message:
    result = convert(**event)
    assert isinstance(result, Message)
    return result


@pytest.mark.parametrize(
    ("sent_text", "visible_text"),
    [
        ("<@UBOT> what is it?", "what is it?"),
        ("<@UBOT|kimas>, what is it?", "what is it?"),
        ("hey <@UBOT> what is it?", "hey what is it?"),
        ("what is it <@UBOT>", "what is it"),
        ("ask <@U2> or <@U3|bob>", "ask @U2 or @bob"),
        ("in <#C2|general> and <#C3>", "in #general and #C3"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @team today"),
        ("<#C4|> <!subteam^S1> <!date^1785615300^{date}> <!date^x^{date}>", "#C4 @S1 2026-08-01 20:15 UTC"),
        ("see <https://a.example/x?a=1&amp;b=2>", "see https://a.example/x?a=1&b=2"),
        ("see <https://a.example|the docs>", "see the docs (https://a.example)"),
        ("<http://a.example|a.example>", "http://a.example"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("a <= b, x < y", "a <= b, x < y"),
        ("<@UBOT>", ""),
    ],
)
def test_the_text_is_what_people_see(sent_text: str, visible_text: str) -> None:
    assert to_plain_text(sent_text, ME.user_id) == visible_text


def test_a_mention_opens_a_thread_of_its_own() -> None:
    result = message(text="<@UBOT> hi", user_profile={"display_name": "Ann"})
    assert result.key == ConversationKey("slack", "C1", "1700000000.000100")
    assert (result.addressed, result.private, result.author, result.bot) == (True, False, "Ann", "UBOT")
    assert result.reference == {
        "channel": "C1",
        "ts": "1700000000.000100",
        "thread_ts": "1700000000.000100",
        "user": "U1",
        "team": "T1",
    }
    assert result.thread_state.in_main_chat
    assert result.sent_at.timestamp() == pytest.approx(1_700_000_000.0001)


def test_both_events_of_one_mention_are_the_same_message() -> None:
    assert message(text="<@UBOT> hi") == message(text="<@UBOT> hi", type="app_mention", channel_type="channel")


def test_a_thread_of_a_direct_conversation_is_one_of_its_own() -> None:
    assert message(channel="D1").key == ConversationKey("slack", "D1", "")
    assert message(channel="D1").reference["thread_ts"] is None
    thread_message = message(channel="D1", thread_ts="1.0")
    assert (thread_message.key.thread, thread_message.reference["thread_ts"], thread_message.addressed) == (
        "1.0",
        "1.0",
        True,
    )


def test_a_reply_below_our_answer_to_a_command_may_go_on_with_us() -> None:
    thread_message = message(thread_ts="1700000000.5", parent_user_id="UBOT")
    assert (
        thread_message.addressed,
        thread_message.thread_state.is_shared,
        thread_message.thread_state.started_at,
    ) == (
        False,
        True,
        1_700_000_000.5,
    )
    assert message(thread_ts="1.0", parent_user_id="UBOT", text="<@U2> look").thread_state.is_shared is False
    assert message(thread_ts="1.0", parent_user_id="U2").thread_state.started_at is None


def test_only_what_stands_in_the_channel_itself_is_marked_so() -> None:
    assert [
        message(**changes).thread_state.in_main_chat for changes in ({}, {"thread_ts": "1.0"}, {"channel": "D1"})
    ] == [
        True,
        False,
        False,
    ]
    edited_message = message(thread_ts=message().id)
    assert edited_message.thread_state.in_main_chat, "what others reply to gets its own timestamp as its thread"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"bot_id": "B9"}, "written by a bot"),
        ({"subtype": "bot_message"}, "written by a bot"),
        ({"user": "UBOT"}, "written by ourselves"),
        ({"subtype": "channel_join"}, "a notice (channel_join)"),
        ({"text": ""}, "without text"),
        ({"user": None}, "without a sender"),
        ({"type": "reaction_added"}, "an event of type reaction_added"),
    ],
)
def test_what_is_none_of_our_business(event: dict[str, Any], reason: str) -> None:
    assert convert(**event) == IgnoredEvent(reason)


@pytest.mark.parametrize("subtype", ["file_share", "thread_broadcast", "me_message"])
def test_some_subtypes_are_written_by_people(subtype: str) -> None:
    assert message(subtype=subtype).text == "hi"


def test_edits_and_deletions() -> None:
    inner = {"type": "message", "user": "U1", "text": "new", "ts": "5.000001", "edited": {"user": "U1", "ts": "6.0"}}
    result = message(subtype="message_changed", message=inner, channel_type="im", user=None, text=None)
    assert (result.id, result.text, result.private, result.is_edit) == ("5.000001", "new", True, True)
    assert convert(subtype="message_deleted", deleted_ts="5.0") == MessageDeletion("C1", "5.0")
    tombstone = {"subtype": "tombstone", "ts": "5.0", "text": "This message was deleted."}
    assert convert(subtype="message_changed", message=tombstone) == MessageDeletion("C1", "5.0")
    assert convert(subtype="message_changed", message={**inner, "bot_id": "B1"}) == IgnoredEvent("written by a bot")


@pytest.mark.parametrize("event", [{"ts": None}, {"ts": "noon"}, {"channel": 5}, {"subtype": "message_changed"}])
def test_malformed_events_are_refused(event: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is missing|could not convert|without the message"):
        convert(**event)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask What is it?", ("ask", "What is it?")),
        ("What is it?", ("ask", "What is it?")),
        ("ASK x &amp; y", ("ask", "x & y")),
        ("help", ("help", "")),
        ("", ("help", "")),
        ("helpful hints?", ("ask", "helpful hints?")),
    ],
)
def test_commands(text: str, expected: tuple[str, str]) -> None:
    values = {
        "channel_id": "C1",
        "user_id": "U1",
        "trigger_id": "t.1",
        "response_url": "https://a.example",
        "text": text,
    }
    results = from_command(values, ME)
    assert (results.command, results.text) == expected
    assert (results.id, results.key, results.addressed) == ("t.1", ConversationKey("slack", "C1", "command:U1"), True)
    names = ("team", "directmessage", "mpdm-ann--ben--cleo-1")
    titles = [from_command({**values, "channel_name": name}, ME).chat_title for name in names]
    assert titles == ["#team", "", ""], "the name of a group conversation is made of those of its members"
    with pytest.raises(ValueError, match="response_url is missing"):
        from_command({**values, "response_url": None}, ME)


def test_who_a_message_is_for() -> None:
    assert is_for_other_user(" <@U2> can you?", ME)
    assert not is_for_other_user("<@UBOT> can you?", ME)
    assert not is_for_other_user("ask <@U2>", ME)


@pytest.mark.parametrize(
    ("payload", "is_elsewhere"),
    [
        ({"command": "/kimas", "team_id": "T1"}, False),
        ({"command": "/kimas", "team_id": "T2"}, True),
        ({"command": "/kimas", "team_id": "T2", "is_enterprise_install": "true"}, False),
        ({"authorizations": [{"team_id": "T1"}]}, False),
        ({"authorizations": [{"team_id": "T2"}]}, True),
        ({"authorizations": [{"team_id": "T2", "is_enterprise_install": True}]}, False),
        ({"type": "message_action", "team": {"id": "T1"}}, False),
        ({"type": "message_action", "team": {"id": "T2"}}, True),
        ({"type": "view_submission", "team": {"id": "T2"}}, True),
        ({"type": "view_submission", "team": {"id": "T2"}, "is_enterprise_install": True}, False),
        ({"type": "view_submission", "team": None}, False),
        # In a channel that two workspaces share, the other one's people speak and rate.
        ({"type": "block_actions", "team": {"id": "T2"}}, False),
        ({"team_id": "T2", "authorizations": [{"team_id": "T1"}]}, False),
        ({"team_id": "T2"}, False),
        ({}, False),
    ],
)
def test_another_workspace_that_installed_the_app_is_not_ours(payload: dict[str, Any], is_elsewhere: bool) -> None:
    assert is_from_other_workspace(payload, Identity("UBOT", team_id="T1")) == is_elsewhere
    assert not is_from_other_workspace(payload, Identity("UBOT"))


@pytest.mark.parametrize("fields", [{"team": "T1"}, {"user_team": "T2", "source_team": "T2", "team": "T2"}])
def test_who_and_where_are_the_same_whichever_workspace_says_so(fields: dict[str, str]) -> None:
    """A channel that two workspaces share has one id in both, and so have its people: they are no namesakes."""
    result = message(text="<@UBOT> hi", **fields)
    assert (result.key.platform, result.key.chat, result.author_id) == ("slack", "C1", "U1")
    assert PlatformName("slack", result.author_id).network == "slack"
    assert result.reference["team"] == fields["team"]


@pytest.mark.parametrize("entry", ["slack:U1@T2", "slack:C1@T2", "slack:U1@shop"])
def test_nobody_has_a_workspace_in_a_name(entry: str) -> None:
    """What is no id of Slack's cannot be taken for one: neither in an audience nor among owners."""
    with pytest.raises(ValidationError, match="slack"):
        make_settings(slack=SECRETS, administration={"owners": [entry]})
    sources = {"docs": {"kind": "faq", "path": "faq.yaml", "audience": [entry]}}
    with pytest.raises(ValidationError, match=r"no (?:such )?chat"):
        make_settings(slack=SECRETS, sources=sources)


@pytest.mark.parametrize(
    ("text", "is_fetched"), [("<@UBOT> what does she say?", False), ("<@UBOT>", False), ("", True)]
)
def test_a_voice_message_that_words_ask_about_is_not_fetched(text: str, is_fetched: bool) -> None:
    clip = {"id": "F1", "mimetype": "video/mp4", "subtype": "slack_audio"}
    picture = {"id": "F2", "mimetype": "image/png"}
    own = {"id": "F3", "mimetype": "audio/ogg"}
    shared = [{"is_share": True, "author_id": "UBEA", "files": [clip, picture]}]
    result = message(text=text, channel="D1", attachments=shared, files=[own])
    assert [(item.kind, bool(item.reference)) for item in result.attachments] == [
        ("voice", True),
        ("voice", is_fetched),
        ("picture", True),
    ]


SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "<@UBOT> how?"}}
LINE = {
    "type": "rich_text_section",
    "elements": [{"type": "user", "user_id": "UBOT"}, {"type": "text", "text": "how?"}],
}
RICH_TEXT = {"type": "rich_text", "elements": [LINE]}


@pytest.mark.parametrize(
    ("event", "is_addressed", "expected_text"),
    [
        ({"text": "", "blocks": [RICH_TEXT]}, True, "how?"),
        ({"text": "A form", "blocks": [SECTION]}, True, "A form\nhow?"),
        ({"text": "<@U2> how?"}, False, "@U2 how?"),
        ({"text": "how?", "attachments": [{"is_share": True, "text": "<@UBOT> how?"}]}, False, "how?"),
    ],
)
def test_a_mention_counts_wherever_people_see_it(event: dict[str, Any], is_addressed: bool, expected_text: str) -> None:
    result = message(**event)
    assert (result.addressed, result.text) == (is_addressed, expected_text)
