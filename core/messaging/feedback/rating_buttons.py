"""The buttons below an answer, to rate it or to stop it: their choices, their data, and a press as a message.

A press is a message with the command `thumbs`. Its text is the choice, `reply_to` the id of the question. It goes
through the same inbox and journal as all messages, but in a thread of its own: so it does not wait for answers, and
does not count as part of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.catalogue import messages_for
from core.types import DOWN, DROP, POST, RATING_COMMAND, RETRY, STOP, UP, Button, Message, Reply, ReplyOptions

THREAD = "thumbs"
REASONS = ("wrong", "outdated", "other", "unclear")
DRAFT_CHOICES = (POST, DROP)
CHOICES = (UP, DOWN, *REASONS, RETRY, STOP, *DRAFT_CHOICES)

# The limit of Discord. Telegram takes 64 bytes, but its ids are short numbers.
_PREFIX = "thumb"
_MAX_DATA_BYTES = 100

# The emoji that rate an answer, with their names in Slack.
REACTIONS = {"👍": UP, "👎": DOWN, "+1": UP, "-1": DOWN, "thumbsup": UP, "thumbsdown": DOWN}
_ADDED = "on"
_REMOVED = "off"


def get_rating_buttons(message: Message, reply: Reply) -> tuple[Button, ...]:
    """Return the buttons below the answer to a message; none where it is not to be rated.

    Below a draft are those that decide about it.
    """
    if message.origin.purpose == "draft":
        labels = messages_for(message.language).draft_buttons
        return make_buttons(message.id, [(choice, labels[choice]) for choice in DRAFT_CHOICES])
    return make_rating_buttons(message.id) if message.reply_options.has_rating_buttons and has_rating(reply) else ()


def has_rating(reply: Reply) -> bool:
    """Return whether a reply can be rated: that to a greeting answers no question, and one that was stopped is none."""
    is_small_talk = reply.trace.strategy == "none" and bool(reply.trace.query)
    return not (is_small_talk or reply.is_stopped)


def make_rating_buttons(question_id: str) -> tuple[Button, ...]:
    """Return the two thumbs for the answer to a question."""
    return make_buttons(question_id, ((UP, "👍"), (DOWN, "👎")))


def make_buttons(question_id: str, choices: Sequence[tuple[str, str]]) -> tuple[Button, ...]:
    """Return the buttons for choices and their labels; none where a button cannot name the question."""
    buttons = tuple(Button(f"{_PREFIX}:{choice}:{question_id}", label) for choice, label in choices)
    return buttons if all(len(button.data.encode()) <= _MAX_DATA_BYTES for button in buttons) else ()


def get_buttons(message: Message) -> tuple[Button, ...]:
    """Return the buttons to offer with the answer to a press."""
    return message.reply_options.buttons


def with_buttons(message: Message, buttons: Sequence[Button]) -> Message:
    """Return a press whose sink offers these buttons."""
    return replace(message, reply_options=ReplyOptions(buttons=tuple(buttons)))


def with_answer_buttons(message: Message, language: str, *, has_ratings: bool) -> Message:
    """Return a question whose sink offers to stop the answer while it is written, and thumbs below it in the end."""
    stop_button = next(iter(make_buttons(message.id, ((STOP, messages_for(language).stop_button),))), None)
    options = ReplyOptions(has_rating_buttons=has_ratings, stop_button=stop_button, language=language)
    return replace(message, reply_options=options)


def read_button(data: object) -> tuple[str, str] | None:
    """Return the choice and the question's id behind a button, or None for what is no button of ours."""
    if not isinstance(data, str) or len(data.encode("utf-8", "replace")) > _MAX_DATA_BYTES:
        return None
    prefix, _, remainder = data.partition(":")
    choice, _, question_id = remainder.partition(":")
    return (choice, question_id) if prefix == _PREFIX and choice in CHOICES and question_id else None


def is_below_note(choice: str) -> bool:
    """Return whether the button of a choice is below the note that answered a thumb, and not below an answer."""
    return choice in (*REASONS, RETRY)


def to_press(message: Message, choice: str, question_id: str) -> Message:
    """Return a message as the press of a button. Its id is the same whenever the platform delivers this press."""
    key = replace(message.key, thread=THREAD)
    return replace(message, key=key, text=choice, addressed=True, command=RATING_COMMAND, reply_to=question_id)


def to_reaction(message: Message, emoji: str, reply_id: str, *, is_removed: bool = False) -> Message | None:
    """Return a message as an emoji below one of the bot's replies, or its removal; None for one that rates nothing.

    It counts like a press of that thumb, and nothing answers it.
    """
    # The colour of the skin follows the emoji, or in Slack its name.
    choice = REACTIONS.get(emoji[:1]) or REACTIONS.get(emoji.partition("::")[0])
    return to_press(message, f"{choice} {_REMOVED if is_removed else _ADDED}", reply_id) if choice else None


def read_reaction(message: Message) -> tuple[str, bool] | None:
    """Return the choice of a reaction, and whether it is to hold from now on; None for any other message."""
    choice, _, state = message.text.partition(" ")
    return (choice, state == _ADDED) if is_press(message) and state in (_ADDED, _REMOVED) else None


def is_press(message: Message) -> bool:
    """Return whether a message is a press. What people write never is: no platform has a thread of this name."""
    return message.command == RATING_COMMAND and message.key.thread == THREAD
