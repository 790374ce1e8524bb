"""How a reply is shown, and what is recorded of its posting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from core.types import Question, Reply


class Sink(Protocol):
    """Shows one reply while it is written. Implementations throttle their updates; callers need not.

    The order of calls is `open`, any number of `update`, then exactly one of `finish` or `fail`. All raise
    `PlatformError`; `MessageDeleted` when the question was deleted. A sink has `judges_updates = True` if it asks
    `Delivery.require_rights` right before it shows anything of an update, and if `update` raises what that has raised.
    """

    async def open(self) -> None:
        """Show that an answer is coming: a typing indicator or a placeholder."""
        ...

    async def update(self, text: str) -> None:
        """Show the reply so far, as Markdown: the whole text, not the increment."""
        ...

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its citations."""
        ...

    async def fail(self, text: str) -> None:
        """Show the asker that the answer failed, with this text."""
        ...


# Answers a question; the sink shows the reply.
AnswerFunction = Callable[[Question, Sink], Awaitable[Reply]]


class Delivery(Protocol):
    """Receives what a sink reports about the first part of its reply, so that a crash leads to no second reply."""

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the last run ended while posting the first part: it may be there, under an unknown id."""
        ...

    @property
    def parts(self) -> Mapping[int, str]:
        """The ids of the further parts, counted from 1; "" for one that may be posted or not."""
        ...

    async def require_rights(self) -> None:
        """Raise `UsageError` where the reply may not be shown any more, `MessageDeleted` if its asker was forgotten."""
        ...

    async def require_claim(self) -> None:
        """Raise `ClaimLost` where another daemon has taken the message over: it shows the reply now."""
        ...

    async def mark_part(self, number: int, part_id: str) -> None:
        """Record that a further part is posted under an id; "": that it is about to be posted."""
        ...

    async def mark_posting(self) -> None:
        """Record that the first part is about to be posted."""
        ...

    async def mark_rejected(self) -> None:
        """Record that the platform rejected it; `mark_posting` is called again before a retry."""
        ...

    async def mark_posted(self, reply_id: str) -> None:
        """Record that the platform posted it with this id."""
        ...
