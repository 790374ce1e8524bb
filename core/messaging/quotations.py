"""The message that a question quotes, as turns of its conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.catalogue import messages_for
from core.errors import UsageError
from core.language.follow_ups import get_author_turns
from core.messaging.journaling import JournaledDelivery
from core.settings import AnswerSettings
from core.settings.audience import ALL_OPEN
from core.storage.message_rows import History
from core.storage.messages import Journal, StoredPart
from core.types import Message, Turn
from core.types.messages import MAX_QUESTION_CHARS

MAX_QUOTED_CHARS = 1000


async def get_quoted_turns(
    journal: Journal, message: Message, history: Sequence[Turn], visible_labels: frozenset[str] | None
) -> History:
    """Return the quoted message as conversation turns. They have no author, so they count as the asker's.

    An answer from sources without `visible_labels` is left out. One of ours is known by its id, also where a platform
    tells nothing of its words, as Telegram of rich text.
    """
    answer = await _get_answer(journal, message, visible_labels)
    if answer is None:
        return History([Turn("user", _truncate(message.quoted))] if message.quoted else [], [])
    # Where a network only says what stands above, that is no more the asker's than the rest of the thread.
    known_turns = get_author_turns(history, message.author_id) if message.quoted else history
    if all(turn in known_turns for turn in answer.turns):
        return History([], answer.numbers)
    return History([Turn(turn.role, _truncate(turn.text)) for turn in answer.turns], answer.numbers)


async def _get_answer(journal: Journal, message: Message, visible_labels: frozenset[str] | None) -> History | None:
    """Return the answer of ours that a message replies to, or None where it quotes somebody else.

    Of words of ours that the journal does not have, such as the second part of a long answer or the beginning of a
    thread, nobody knows what they were made from: where sources are closed, they are left out.
    """
    answer = await journal.get_answer_by_reply(message, visible_labels)
    return History([], []) if answer is None and _may_quote_closed(message, visible_labels) else answer


def _may_quote_closed(message: Message, visible_labels: frozenset[str] | None) -> bool:
    return message.quotes_bot and visible_labels is not None and ALL_OPEN not in visible_labels


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]} …"


def watch_history(message: Message, history: History, delivery: JournaledDelivery) -> None:
    """Let an answer not be shown once somebody else whose words are in its conversation was forgotten.

    Their words may stand in earlier answers to the same person.
    """
    delivery.brought_parts = tuple(_list_brought(message))
    delivery.conversation = {*delivery.conversation, *history.numbers}


def _list_brought(message: Message) -> Iterator[StoredPart]:
    """Yield what a message brings, which may be somebody else's."""
    if message.quoted:
        yield "quoted"
    if message.attachments:
        yield "attachments"
    if message.is_forwarded and message.text:
        yield "text"


def watch_delivery(message: Message, delivery: JournaledDelivery) -> None:
    """Let a recorded answer not be shown once somebody whose words it has was forgotten.

    Some platforms show with it what its question brings, as it was when the question came.
    """
    delivery.brought_parts = ("delivery", *_list_brought(message))


async def with_history(
    journal: Journal,
    message: Message,
    text: str,
    limits: AnswerSettings,
    visible_labels: frozenset[str] | None,
    *,
    is_spoken: bool = False,
) -> tuple[str, History]:
    """Return the text of a question, and the conversation before it, with what the message replies to.

    A message without words asks what it replies to, unless they are spoken. Answers from sources without
    `visible_labels` are left out. Raises `UsageError` for a message without words that replies to one of those.
    """
    max_age_s = 3600 * limits.history_hours
    history = await journal.get_history(
        message.key,
        limits.history_turns,
        max_age_s,
        visible_labels=visible_labels,
        reader=message,
    )
    if not (text.strip() or is_spoken):
        answer = await _get_answer(journal, message, visible_labels)
        if answer is not None and not answer.turns:
            # The platform shows the answer; the bot does not take it up again.
            raise UsageError(messages_for("").question_unclear)
        # With the answer, words of a closed one may be quoted, as where somebody shares it in the same thread.
        if answer is not None and _may_quote_closed(message, visible_labels):
            return answer.turns[-1].text[:MAX_QUESTION_CHARS], history
        return message.quoted[:MAX_QUESTION_CHARS], history
    quoted = await get_quoted_turns(journal, message, history.turns, visible_labels)
    return text, History([*history.turns, *quoted.turns], [*history.numbers, *quoted.numbers])
