"""From an update to a message: who is meant, what is left of the text, and what is none of the bot's business."""

from __future__ import annotations

from typing import Any

import pytest

from bots.common.events import IgnoredEvent
from bots.telegram.convert import merge_albums, to_message
from core.types import ConversationKey, Message
from tests.support.peers.telegram_text import find_entities, units
from tests.support.telegram_helpers import CLIENT, ME, convert

GROUP = {"id": -100, "type": "supergroup", "title": "Team"}
ANN = {"id": 7, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
BOT = {"id": 42, "is_bot": True, "first_name": "KIMAs", "username": "kimas_bot"}


def event(text: str | None = "hello", **extra_fields: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"message_id": 5, "date": 1_760_000_000, "chat": GROUP, "from": ANN, **extra_fields}
    if text is not None:
        result |= {"text": text, "entities": extra_fields.get("entities", find_entities(text))}
    return {key: value for key, value in result.items() if value is not None}


def convert_text(text: str | None = "hello", **extra_fields: Any) -> Message:
    message = convert(event(text, **extra_fields))
    assert isinstance(message, Message), message
    return message


def ignored(raw: dict[str, Any], kind: str = "message") -> str:
    result = convert(raw, kind)
    assert isinstance(result, IgnoredEvent), result
    return result.reason


def test_a_private_chat_is_always_addressed() -> None:
    message = convert_text("how does it work?", chat={"id": 7, "type": "private", "first_name": "Ann"})
    assert (message.private, message.addressed, message.text) == (True, True, "how does it work?")
    assert message.key == ConversationKey("telegram", "7")
    assert (message.chat_title, convert_text().chat_title) == ("", "Team")
    assert (message.author_id, message.author, message.id) == ("7", "Ann Lee", "5")
    assert message.sent_at.timestamp() == 1_760_000_000
    assert message.reference == {"chat_id": 7, "message_id": 5, "thread_id": None, "username": "ann"}


@pytest.mark.parametrize(
    ("text", "expected_text", "is_addressed"),
    [
        ("just chatting", "just chatting", False),
        ("@kimas_bot what is it?", "what is it?", True),
        ("@KIMAS_BOT, what is it?", "what is it?", True),
        ("hey @kimas_bot what is it?", "hey what is it?", True),
        ("what is it, @kimas_bot?", "what is it, ?", True),
        ("🦊👩‍👩‍👧 @kimas_bot was ist ein Käse? 🧀", "🦊👩‍👩‍👧 was ist ein Käse? 🧀", True),
        ("@kimas_bot", "", True),
        ("@kimas_bots what is it?", "@kimas_bots what is it?", False),
        ("mail me@kimas_bot.org", "mail me@kimas_bot.org", False),
        ("@kimas_bot and @kimas_bot: hm", "and : hm", True),
    ],
)
def test_mentions_in_a_group(text: str, expected_text: str, is_addressed: bool) -> None:
    message = convert_text(text)
    assert (message.text, message.addressed, message.command) == (expected_text, is_addressed, "")


def test_a_mention_inside_code_is_no_mention() -> None:
    text = "print('@kimas_bot')"
    message = convert_text(text, entities=[{"type": "code", "offset": 0, "length": units(text)}])
    assert (message.addressed, message.text) == (False, text)


def test_a_mention_by_id() -> None:
    entity = {"type": "text_mention", "offset": 3, "length": 5, "user": BOT}
    message = convert_text("🦊 KIMAs tell me", entities=[entity])
    assert (message.addressed, message.text) == (True, "🦊 tell me")
    other = {**entity, "user": ANN}
    assert not convert_text("🦊 KIMAs tell me", entities=[other]).addressed


@pytest.mark.parametrize(
    ("text", "command", "arguments", "is_addressed"),
    [
        ("/ask what is it?", "ask", "what is it?", True),
        ("/ask@kimas_bot what is it?", "ask", "what is it?", True),
        ("/ASK@Kimas_Bot\nwhat is it?", "ask", "what is it?", True),
        ("@kimas_bot /ask what?", "ask", "what?", True),
        ("/ask", "ask", "", True),
        ("/help", "help", "", True),
        ("/start payload", "start", "payload", True),
        ("/roll 20", "roll", "20", False),
        ("/roll@kimas_bot 20", "roll", "20", True),
        ("use /ask for that", "", "use /ask for that", False),
        ("see /etc/passwd", "", "see /etc/passwd", False),
    ],
)
def test_commands_in_a_group(text: str, command: str, arguments: str, is_addressed: bool) -> None:
    message = convert_text(text)
    assert (message.command, message.text, message.addressed) == (command, arguments, is_addressed)


def test_a_command_for_another_bot_is_not_ours() -> None:
    assert ignored(event("/ask@other_bot what is it?")) == "a command for another bot"


def test_a_reply_to_the_bot_is_addressed_and_quotes() -> None:
    message = convert_text("and on Windows?", reply_to_message=event("Run make.", **{"message_id": 4, "from": BOT}))
    assert (message.addressed, message.reply_to, message.quoted) == (True, "4", "Run make.")
    assert message.quoted_authors == (str(BOT["id"]),)


def test_a_reply_to_somebody_else_only_quotes() -> None:
    assert convert_text("why?", reply_to_message=event("Run make.", message_id=4)).quoted_authors == ()
    answered_event = event(None, message_id=4, caption="a picture of cheese")
    message = convert_text("what is that?", reply_to_message=answered_event)
    assert (message.addressed, message.reply_to, message.quoted) == (False, "4", "a picture of cheese")


def test_the_picked_passage_is_what_is_quoted() -> None:
    quote = {"text": "make", "position": 4}
    message = convert_text("why?", reply_to_message=event("Run make.", message_id=4), quote=quote)
    assert message.quoted == "make"


def test_topics_are_threads_and_their_opening_is_no_reply() -> None:
    opening = event(None, message_id=9, forum_topic_created={"name": "Help", "icon_color": 1}, **{"from": BOT})
    message = convert_text("hello", message_thread_id=9, is_topic_message=True, reply_to_message=opening)
    assert message.key == ConversationKey("telegram", "-100", "9")
    assert (message.addressed, message.reply_to, message.reference["thread_id"]) == (False, "", 9)


def test_a_thread_of_replies_outside_of_a_forum_is_no_topic() -> None:
    message = convert_text("hello", message_thread_id=9)
    assert (message.key.thread, message.reference["thread_id"]) == ("", None)


def test_captions_count() -> None:
    caption = "@kimas_bot what is this?"
    message = convert_text(None, caption=caption, caption_entities=find_entities(caption), photo=[])
    assert (message.text, message.addressed) == ("what is this?", True)


def test_an_edit_is_marked() -> None:
    message = convert(event("@kimas_bot what is it, again?", edit_date=1_760_000_100), "edited_message")
    assert isinstance(message, Message)
    assert message.is_edit
    assert not convert_text().is_edit


COMMAND = "/admins add 1003"
ORIGIN = {"type": "hidden_user", "sender_user_name": "Eve", "date": 1_700_000_000}
OTHER_BOT = {"id": 9, "is_bot": True, "first_name": "Other"}


@pytest.mark.parametrize(
    "relayed",
    [
        {"forward_origin": ORIGIN},
        {"via_bot": OTHER_BOT},
        {"sender_business_bot": OTHER_BOT},
        {"is_automatic_forward": True},
        {"forward_origin": ORIGIN, "media_group_id": "1"},
    ],
    ids=["forwarded", "an inline result", "by a bot for a business", "of the linked channel", "an album"],
)
@pytest.mark.parametrize("is_caption", [False, True], ids=["text", "caption"])
def test_no_command_is_taken_from_words_of_others(relayed: dict[str, Any], is_caption: bool) -> None:
    fields: dict[str, Any] = {}
    if is_caption:
        photo = {"file_id": "p", "file_unique_id": "p", "width": 9, "height": 9}
        fields = {"caption": COMMAND, "caption_entities": find_entities(COMMAND), "photo": [photo]}
    message = convert_text(None if is_caption else COMMAND, **fields, **relayed)
    assert (message.command, message.text, message.is_forwarded) == ("", COMMAND, True)
    own_message = convert_text(None if is_caption else COMMAND, **fields)
    assert (own_message.command, own_message.text, own_message.is_forwarded) == ("admins", "add 1003", False)


@pytest.mark.parametrize("kind", ["blockquote", "expandable_blockquote", "code", "pre"])
def test_a_command_that_is_quoted_within_a_text_is_not_given(kind: str) -> None:
    text = f"{COMMAND}\nWhat does this do?"
    shown = {"type": kind, "offset": 0, "length": units(COMMAND)}
    message = convert_text(text, entities=[shown, *find_entities(text)])
    assert (message.command, message.text) == ("", text)
    quoted_first = convert_text(f"So:\n{COMMAND}", entities=[{**shown, "offset": 4}, *find_entities(COMMAND)])
    assert quoted_first.command == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"from": {"id": 8, "is_bot": True, "first_name": "Other"}}, "written by a bot"),
        ({"from": BOT}, "written by a bot"),
        ({"from": None}, "without a sender"),
        ({"chat": {"id": -9, "type": "channel", "title": "News"}}, "a channel post"),
        ({"direct_messages_topic": {"topic_id": 4, "user": ANN}}, "a direct message to a channel"),
    ],
)
def test_what_is_not_for_us(changes: dict[str, Any], reason: str) -> None:
    assert ignored(event("@kimas_bot hello", **changes)) == reason


@pytest.mark.parametrize(
    "service",
    [
        {"new_chat_members": [ANN]},
        {"migrate_to_chat_id": -100123},
        {"pinned_message": {"message_id": 1, "date": 0, "chat": GROUP}},
        {"forum_topic_closed": {}},
    ],
)
def test_service_messages(service: dict[str, Any]) -> None:
    assert ignored(event(None, **service)).startswith("without text")


def test_anonymous_administrators_and_channels_are_people() -> None:
    anonymous_admin = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    anonymous = convert_text("@kimas_bot hi", sender_chat=GROUP, author_signature="boss", **{"from": anonymous_admin})
    assert (anonymous.author_id, anonymous.author, anonymous.reference["username"]) == ("-100", "Team (boss)", "")
    channel = {"id": -55, "type": "channel", "title": "News"}
    assert convert_text("@kimas_bot hi", sender_chat=channel, **{"from": anonymous_admin}).author == "News"


def test_other_kinds_of_updates_are_unexpected() -> None:
    unknown = to_message(CLIENT.parse_update({"update_id": 1, "brand_new": {"x": 1}}), ME)
    assert unknown == IgnoredEvent("unknown kind of update", is_expected=False)


@pytest.mark.parametrize("offset", [-5, 3, 1000])
def test_entities_that_lie_outside_of_the_text_do_no_harm(offset: int) -> None:
    message = convert_text("hi", entities=[{"type": "mention", "offset": offset, "length": 10}])
    assert (message.text, message.addressed) == ("hi", False)


def test_a_post_of_the_linked_channel_is_a_post() -> None:
    post = {"is_automatic_forward": True, "sender_chat": {"id": -5, "type": "channel", "title": "News"}}
    message = convert_text("@kimas_bot We have released 2.0!", **post)
    assert message.is_post is True
    assert not message.addressed


def album_part(number: int, caption: str = "") -> Message:
    sizes = [{"file_id": str(number), "file_unique_id": str(number), "width": 9, "height": 9}]
    fields = {"message_id": number, "media_group_id": "1", "photo": sizes, "caption": caption}
    start = caption.find("@")
    entities = [{"type": "mention", "offset": start, "length": len("@Kimas_Bot")}] if start >= 0 else []
    message = convert(event(None, **fields, caption_entities=entities))
    assert isinstance(message, Message)
    return message


@pytest.mark.parametrize(
    ("captions", "expected_id", "expected_text", "is_addressed"),
    [
        (["before", "after it: @Kimas_Bot what is wrong?"], 2, "before\nafter it: what is wrong?", True),
        (["@Kimas_Bot what is wrong?", "", ""], 1, "what is wrong?", True),
        (["", "@Kimas_Bot", "what is wrong?"], 2, "what is wrong?", True),
        (["the same", "the same"], 1, "the same", False),
        (["", "after it"], 2, "after it", False),
    ],
)  # fmt: skip
def test_an_album_has_the_captions_of_all_its_parts(
    captions: list[str], expected_id: int, expected_text: str, is_addressed: bool
) -> None:
    parts = [album_part(number, caption) for number, caption in enumerate(captions, 1)]
    message, *others = sorted(merge_albums(parts, None), key=lambda item: item is None)
    assert isinstance(message, Message)
    assert (message.id, message.text, message.addressed) == (str(expected_id), expected_text, is_addressed)
    assert len(message.attachments) == len(captions)
    assert others == [None] * (len(captions) - 1)
