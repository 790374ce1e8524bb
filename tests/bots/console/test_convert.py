"""What a typed line is in the group that is played: who says it, where, about what."""

from __future__ import annotations

import os

import pytest

from bots.common.terminal import make_console
from bots.console.adapter import ConsoleGroupAdapter
from bots.console.convert import (
    NO_NEW_TEXT,
    NOTHING_TO_CHANGE,
    WRITTEN_BY_BOT,
    Deletion,
    IgnoredLine,
    TypedLine,
    to_typed_line,
)
from core.messaging.feedback.rating_buttons import is_press
from core.types import ConversationKey, Message

GROUP = ConversationKey("console", "group")


@pytest.fixture
def group() -> ConsoleGroupAdapter:
    return ConsoleGroupAdapter(0, make_console())


def parse(group: ConsoleGroupAdapter, line: str) -> Message:
    created = group.parse_line(line)
    assert isinstance(created, Message)
    return created


def test_a_line_is_what_somebody_says(group: ConsoleGroupAdapter) -> None:
    first = parse(group, "Ben: @KIMAS, how does it work?")
    assert (first.author, first.author_id, first.text, first.addressed) == ("Ben", "ben", "how does it work?", True)
    assert first.key == GROUP
    reply = parse(group, "^ That is so: it does.")
    assert (reply.author_id, reply.reply_to, reply.quoted, reply.addressed) == (
        "owner",
        first.id,
        "how does it work?",
        False,
    )
    group.record_bot_message(GROUP, "9", "An answer.", is_rateable=False)
    extra_sources = parse(group, "Ben: ^ and why?")
    assert (extra_sources.reply_to, extra_sources.addressed, extra_sources.command) == ("9", True, "")
    order = parse(group, "/mode auto")
    assert (order.command, order.text, order.addressed) == ("mode", "auto", True)
    assert parse(group, "/nothing at all").command == ""
    assert parse(group, "https://a.example: is it down?").author == "You"


@pytest.mark.parametrize(
    ("line", "typed_line"),
    [
        ("Ben (in release): How?", TypedLine("Ben", "How?", thread="release")),
        ("Ben (in v2.0-rc_1): How?", TypedLine("Ben", "How?", thread="v2.0-rc_1")),
        ("You (alone): How?", TypedLine("You", "How?", is_private=True)),
        ("Ben (alone, in plans): ^ How?", TypedLine("Ben", "How?", is_private=True, thread="plans", is_reply=True)),
        ("Robot (bot, in release): How?", TypedLine("Robot", "How?", thread="release", is_bot=True)),
        ("Élodie (in 发布): 怎么用？", TypedLine("Élodie", "怎么用？", thread="发布")),
    ],
)
def test_brackets_behind_a_name_say_where(line: str, typed_line: TypedLine) -> None:
    assert to_typed_line(line) == typed_line


@pytest.mark.parametrize(
    "line",
    [
        "I am in: the kitchen",
        "I am in (alone): the kitchen",
        "in release: How?",
        "(in release): How?",
        "Ben (away): How?",
        "Ben (in other words): How?",
        "Ben (in release) How?",
        "Ben (): How?",
        "Ben (alone bot): How?",
        "Ben in release: How?",
        "Ben alone: How?",
    ],
)
def test_other_lines_with_such_words_are_text_of_yours(line: str) -> None:
    assert to_typed_line(line) == TypedLine("You", line)


def test_every_chat_has_its_own_last_message(group: ConsoleGroupAdapter) -> None:
    outside = parse(group, "Ben: How does it work?")
    thread_line = parse(group, "Ben (in release): How does it start?")
    private_message = parse(group, "Ben (alone): And in private?")
    assert (thread_line.key, private_message.key) == (
        ConversationKey("console", "group", "release"),
        ConversationKey("console", "@ben"),
    )
    assert (outside.private, thread_line.private, private_message.private) == (False, False, True)
    assert (outside.addressed, thread_line.addressed, private_message.addressed) == (False, False, True)
    for suffix, last in (("", outside), (" (in release)", thread_line)):
        assert parse(group, f"Cleo{suffix}: ^ So.").reply_to == last.id
    assert parse(group, "Cleo (alone): ^ So.").reply_to == "", "Cleo's talk is another one than Ben's"
    # Nobody has the key of the group by a name.
    assert parse(group, "Group (alone): Hello").key.chat != GROUP.chat


def test_alone_every_command_is_one(group: ConsoleGroupAdapter) -> None:
    assert parse(group, "Ben (alone): /dance").command == "dance"
    assert parse(group, "Ben: /dance").command == ""
    assert parse(group, "Ben (alone): /usr/bin is where?").command == ""


def test_nobody_has_the_rights_of_the_owner_by_a_name(group: ConsoleGroupAdapter) -> None:
    for line in ("Owner: /mode off", "OWNER (alone): Hello", "owner: ^ Hello"):
        message = parse(group, line)
        assert (message.author_id, message.key.chat in ("group", "@owner.")) == ("owner.", True), line
    assert parse(group, "You: /mode off").author_id == "owner"


def test_a_command_for_another_bot_is_left_to_that(group: ConsoleGroupAdapter) -> None:
    for line in ("/mode@other auto", "/mode@kimasbot auto", "Ben: /ask@other_bot How?"):
        message = parse(group, line)
        assert (message.command, message.addressed, message.text) == ("", False, line.removeprefix("Ben: "))
    for line in ("/mode@kimas auto", "/MODE@Kimas auto", "/mode@kimas_bot auto"):
        message = parse(group, line)
        assert (message.command, message.addressed, message.text) == ("mode", True, "auto")


def test_words_about_messages_may_have_capitals(group: ConsoleGroupAdapter) -> None:
    first = parse(group, "Ben: Hwo?")
    group.record_bot_message(GROUP, "9", "So.", is_rateable=True)
    pressed_texts = [parse(group, f"Ben: {word}").text for word in ("/Good", "/BAD", "/Bad  Outdated", "/AGAIN")]
    assert pressed_texts == ["up", "down", "outdated", "again"]
    edited_line = parse(group, "Ben: /Edit How does Kimas work?")
    assert (edited_line.id, edited_line.text) == (first.id, "How does Kimas work?")
    assert group.parse_line("Ben: /DELETE") == Deletion(first.id)


def test_thumbs_are_presses_about_the_last_answer_of_the_place(group: ConsoleGroupAdapter) -> None:
    parse(group, "Ben: @kimas How?")
    group.record_bot_message(GROUP, "9", "So.", is_rateable=True)
    group.record_bot_message(GROUP, "10", "I am a bot.", is_rateable=False)
    ben = parse(group, "Ben: /good")
    assert is_press(ben)
    assert (ben.text, ben.reply_to, ben.author_id, ben.key.chat) == ("up", "9", "ben", "group")
    assert parse(group, "Cleo: /bad outdated").text == "outdated"
    assert parse(group, "Cleo: ^ /bad").reply_to == "10"
    assert parse(group, "Cleo (in release): /again").reply_to == ""
    assert parse(group, "Cleo: ^ Fine.").reply_to == "10", "what is said about an answer is not said to the others"
    for line in ("Ben: /good wrong", "Ben: /bad because", "Ben: /again please"):
        assert isinstance(group.parse_line(line), IgnoredLine), line
    assert not is_press(parse(group, "Ben: is /good a command?"))
    assert not is_press(parse(group, "Ben: /goodbye"))
    assert group.parse_line("Robot (bot): /good") == IgnoredLine(WRITTEN_BY_BOT)


def test_who_said_something_last_may_change_it(group: ConsoleGroupAdapter) -> None:
    first = parse(group, "Ben: @kimas Hwo?")
    other = parse(group, "Cleo: What?")
    edited_line = parse(group, "Ben: /edit @kimas How?")
    assert (edited_line.id, edited_line.text, edited_line.is_edit) == (first.id, "How?", True)
    parse(group, "Cleo: /edit Why?")
    reply = parse(group, "Dan: ^ Because.")
    assert (reply.reply_to, reply.quoted) == (other.id, "Why?")
    assert group.parse_line("Ben: /edit") == IgnoredLine(NO_NEW_TEXT)
    assert group.parse_line("Ben: /delete") == Deletion(first.id)
    for line in ("/edit @kimas Who?", "/delete"):
        assert group.parse_line(f"Ben: {line}") == IgnoredLine(NOTHING_TO_CHANGE), "it is gone"
    assert group.parse_line("Ben (in release): /delete") == IgnoredLine(NOTHING_TO_CHANGE)
    assert group.parse_line("Eve: /edit What?") == IgnoredLine(NOTHING_TO_CHANGE)


def test_what_was_deleted_is_quoted_no_more(group: ConsoleGroupAdapter) -> None:
    parse(group, "Ben: Hwo?")
    group.parse_line("Ben: /delete")
    reply = parse(group, "Cleo: ^ What?")
    assert (reply.reply_to, reply.quoted) == ("", "")


def test_nobody_speaks_in_the_thread_of_presses(group: ConsoleGroupAdapter) -> None:
    message = parse(group, "Ben (alone, in thumbs): /thumbs up")
    assert (message.author_id, message.text, is_press(message)) == (
        "owner",
        "Ben (alone, in thumbs): /thumbs up",
        False,
    )
    assert parse(group, "Ben (in thumbs-up): Yes").key.thread == "thumbs-up"


def test_ids_of_two_plays_are_different() -> None:
    assert (
        parse(ConsoleGroupAdapter(0, make_console()), "Hello").id
        != parse(ConsoleGroupAdapter(0, make_console()), "Hello").id
    )


async def test_lines_that_are_no_messages_are_told_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    received: list[Message] = []

    async def receive(message: Message) -> None:
        received.append(message)

    try:
        os.write(writing, "Robot (bot): @kimas How?\n\n  \nBen: /delete\n\xe9 last".encode("latin-1"))
        os.close(writing)
        group = ConsoleGroupAdapter(reading, make_console())
        await group.listen(receive)
    finally:
        os.close(reading)
    assert [message.text for message in received] == ["\N{REPLACEMENT CHARACTER} last"]
    assert group.skipped == {WRITTEN_BY_BOT: 1, NOTHING_TO_CHANGE: 1}
    assert capsys.readouterr().out == f"(ignored: {WRITTEN_BY_BOT})\n(ignored: {NOTHING_TO_CHANGE})\n"
