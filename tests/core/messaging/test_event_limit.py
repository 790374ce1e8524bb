"""What a person can do without writing a message is limited, and does not stay in the journal for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from core.messaging.event_limit import EVENTS_PER_MINUTE, MAX_EVENTS, EventLimit
from core.messaging.feedback.rating_buttons import to_press, to_reaction
from core.runtime.allowance import MAX_PEOPLE
from core.settings.base import OPERATOR_PLATFORM
from core.storage.messages import Journal
from core.storage.retention import delete_events
from core.types import UP, ConversationKey, Message, Origin, SkipReason, skip

CHAT = ConversationKey("telegram", "-100")
PRESSED = to_press(Message("1", CHAT, "42", "Ann", "", datetime(2026, 1, 2, tzinfo=UTC)), UP, "7")
OPENED = replace(
    PRESSED, key=ConversationKey("slack", "D1", "home:42"), command="help", origin=Origin(purpose="home"), text=""
)
TYPED = replace(PRESSED, key=CHAT, command="sources", text="")


async def ours(message: Message) -> bool:
    return message.reply_to == "7"


async def nothing(_command: Message) -> bool:
    return False


async def count_admitted(limit: EventLimit, message: Message, tries: int = 3 * MAX_EVENTS) -> int:
    return sum([await limit.admits(replace(message, id=str(number))) for number in range(tries)])


@pytest.mark.parametrize("event", [PRESSED, OPENED, TYPED], ids=["a button", "App Home", "a command"])
async def test_a_flood_of_events_is_cut_for_its_author_alone(event: Message) -> None:
    now = 1000.0
    limit = EventLimit(ours, nothing, lambda: now)
    assert await count_admitted(limit, event) == MAX_EVENTS
    assert await limit.admits(replace(event, author_id="43"))
    assert await limit.admits(replace(event, author_id=""))
    terminal = replace(event, key=ConversationKey(OPERATOR_PLATFORM, "terminal"))
    assert await count_admitted(EventLimit(ours, nothing), terminal) == 3 * MAX_EVENTS
    assert await limit.admits(replace(event, command="", text="How?")), "a message is no event"
    assert await limit.admits(replace(event, command="ask", text="How?"))
    now += 60
    assert await count_admitted(limit, event) == EVENTS_PER_MINUTE
    now += 86_400
    assert await count_admitted(limit, event) == MAX_EVENTS


@pytest.mark.parametrize("has_something", [False, True])
async def test_who_wants_to_be_forgotten_is_heard_as_long_as_there_is_anything(*, has_something: bool) -> None:
    async def has_something_of(_command: Message) -> bool:
        return has_something

    limit = EventLimit(ours, has_something_of)
    assert await count_admitted(limit, TYPED) == MAX_EVENTS
    assert await limit.admits(replace(TYPED, command="forget")) is has_something
    assert not await limit.admits(replace(TYPED, command="stats"))


async def test_many_people_take_no_more_room_than_some() -> None:
    limit = EventLimit(ours, nothing)
    for number in range(MAX_PEOPLE + 10):
        assert await limit.admits(replace(PRESSED, author_id=str(number)))
    assert len(limit._allowance) == MAX_PEOPLE


async def test_a_reaction_to_what_is_not_ours_is_not_kept() -> None:
    limit = EventLimit(ours, nothing)
    for reply_id, is_kept in (("7", True), ("8", False)):
        reaction = to_reaction(PRESSED, "👍", reply_id)
        assert reaction is not None
        assert await limit.admits(reaction) == is_kept
    command = replace(TYPED, command="escalate", text="log on", reply_to="8")
    assert await limit.admits(command), "words may end as the note of a reaction does"


async def test_settled_events_are_deleted_and_nothing_else(journal: Journal) -> None:
    events = [
        replace(message, id=f"{message.origin.purpose} {number}")
        for message in (PRESSED, OPENED)
        for number in range(150)
    ]
    other_messages = [
        replace(TYPED, id="typed"),
        replace(TYPED, id="asked", command="ask"),
        replace(PRESSED, id="pending"),
    ]
    for message in (*events, *other_messages):
        assert await journal.record_message(message)
        if message.id != "pending":
            await journal.mark_skipped(message, skip(SkipReason.NOTHING_TO_RATE))
    assert await delete_events(journal.database, datetime.now(UTC) - timedelta(days=1)) == 0
    assert await delete_events(journal.database, datetime.now(UTC) + timedelta(days=1)) == len(events)
    assert [await journal.record_message(message) for message in (*other_messages, events[0])] == [
        False,
        False,
        False,
        True,
    ]
