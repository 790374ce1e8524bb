"""A press of a button under an answer: what can be pressed, what stands behind a button, and the press as a message.

A press is a message with the command `thumbs`: its text is the choice, `reply_to` the id of the question whose answer
it is about. It goes through the same intake and journal as all messages, in a thread of its own, so that it neither
waits for answers nor counts as something that was said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from core.types import AGAIN, DOWN, RATING_COMMAND, UP, ConversationKey, Message, Reply

THREAD = "thumbs"
REASONS = ("wrong", "outdated", "other", "unclear")
CHOICES = (UP, DOWN, *REASONS, AGAIN)
# In the reference of what a sink is made for: that its answer may be rated; the buttons to offer below a press; and,
# of an answer made once more, what was wrong with the one before.
RATED, OFFERS, UNSATISFYING = "rated", "offers", "unsatisfying"

# What Discord takes; Telegram takes 64 bytes, and numbers its messages.
_PREFIX, _LONGEST = "thumb", 100


@dataclass(frozen=True, slots=True)
class Offer:
    """A button: what stands behind it, and what it says."""

    data: str
    label: str


def thumbs(message: Message, reply: Reply) -> tuple[Offer, ...]:
    """Return the buttons below the answer to a message; none where it is not to be rated."""
    # A greeting that is returned answers no question.
    chatted = reply.trace.strategy == "none" and bool(reply.trace.query)
    if not message.reference.get(RATED) or chatted:
        return ()
    return thumb_buttons(message.id)


def thumb_buttons(question: str) -> tuple[Offer, ...]:
    """Return the two thumbs for the answer to a question."""
    return offers(question, ((UP, "👍"), (DOWN, "👎")))


def offers(question: str, choices: Sequence[tuple[str, str]]) -> tuple[Offer, ...]:
    """Return the buttons for choices and their labels; none where a button cannot name the question."""
    made = tuple(Offer(f"{_PREFIX}:{choice}:{question}", label) for choice, label in choices)
    return made if all(len(one.data.encode()) <= _LONGEST for one in made) else ()


def offered(message: Message) -> tuple[Offer, ...]:
    """Return the buttons to offer with the answer to a press."""
    return tuple(Offer(str(data), str(label)) for data, label in message.reference.get(OFFERS, ()))


def offering(message: Message, buttons: Sequence[Offer]) -> Message:
    """Return a press whose sink offers these buttons."""
    listed = [[one.data, one.label] for one in buttons]
    return replace(message, reference={**message.reference, OFFERS: listed})


def rated(message: Message) -> Message:
    """Return a message whose sink offers thumbs below the answer."""
    return replace(message, reference={**message.reference, RATED: True})


def read_button(data: object) -> tuple[str, str] | None:
    """Return the choice and the question's id behind a button, or None for what is no button of ours."""
    if not isinstance(data, str) or len(data.encode("utf-8", "replace")) > _LONGEST:
        return None
    prefix, _, rest = data.partition(":")
    choice, _, question = rest.partition(":")
    return (choice, question) if prefix == _PREFIX and choice in CHOICES and question else None


def press(
    choice: str,
    question: str,
    *,
    number: str,
    platform: str,
    chat: str,
    author_id: str,
    author: str,
    at: datetime,
    reference: Mapping[str, Any],
    bot: str = "",
    private: bool = False,
) -> Message:
    """Return a press as a message. `number` is its id, the same whenever the platform delivers this press."""
    return Message(
        id=number,
        key=ConversationKey(platform, chat, THREAD),
        author_id=author_id,
        author=author,
        text=choice,
        sent_at=at,
        private=private,
        addressed=True,
        command=RATING_COMMAND,
        reply_to=question,
        bot=bot,
        reference=reference,
    )


def is_press(message: Message) -> bool:
    """Say whether a message is a press. What people write never is: the thread of presses is none of theirs."""
    return message.command == RATING_COMMAND and message.key.thread == THREAD
