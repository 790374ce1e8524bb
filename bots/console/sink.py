"""What is printed: replies with what may be said about them, and what is told to who said it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from bots.common.terminal import printable
from bots.console.convert import typed
from bots.console.render import ConsoleSink
from core.errors import MessageGone
from core.messaging.feedback.escalation import called
from core.messaging.feedback.rating_buttons import Offer, offered, read_button, thumbs
from core.types import ConversationKey, Message, Reply

if TYPE_CHECKING:
    from rich.console import Console

    from core.ports import Delivery


class Place(Protocol):
    """What a reply needs to know of the group, and tells it."""

    def next_id(self) -> str:
        """Return the id of what is said next."""
        ...

    def is_deleted(self, message: Message) -> bool:
        """Say whether a message was deleted."""
        ...

    def said(self, key: ConversationKey, number: str, text: str, *, rated: bool) -> None:
        """Note what the bot has said, and whether people may say what it is worth."""
        ...


class ReplySink:
    """Prints one reply, whole: somebody may be typing meanwhile."""

    def __init__(self, place: Place, out: Console, message: Message, delivery: Delivery) -> None:
        self._place = place
        self._out = out
        self._message = message
        self._delivery = delivery

    async def open(self) -> None:
        """Show nothing yet."""

    async def update(self, text: str) -> None:
        """Show nothing yet."""

    async def finish(self, reply: Reply) -> None:
        """Print the reply. Raises `MessageGone`."""
        await self._show(reply, thumbs(self._message, reply), failed=False)

    async def fail(self, text: str) -> None:
        """Print what went wrong. Raises `MessageGone`."""
        await self._show(Reply(text), (), failed=True)

    async def _show(self, reply: Reply, buttons: Sequence[Offer], *, failed: bool) -> None:
        message = self._message
        if self._place.is_deleted(message):
            raise MessageGone(f"message {message.id} was deleted")
        number = self._place.next_id()
        await self._delivery.posting()
        self._out.print(f"kimas{_where(message)}:", style="bold", markup=False, soft_wrap=True)
        if names := " ".join(f"@{one}" for one in called(message)):
            self._out.print(printable(names), style="bold", markup=False, soft_wrap=True)
        sink = ConsoleSink(self._out)
        await (sink.fail(reply.text) if failed else sink.finish(reply))
        self._out.print()
        if buttons:
            _print_offers(self._out, buttons)
        self._place.said(message.key, number, reply.text, rated=bool(buttons))
        await self._delivery.posted(number)


class NoteSink:
    """Tells somebody what became of what they said about an answer."""

    def __init__(self, out: Console, press: Message) -> None:
        self._out = out
        self._press = press

    async def open(self) -> None:
        """Show nothing yet."""

    async def update(self, text: str) -> None:
        """Show nothing yet."""

    async def finish(self, reply: Reply) -> None:
        """Print what is known now, and what may follow."""
        self._print(reply.text)
        if following := offered(self._press):
            _print_offers(self._out, following)

    async def fail(self, text: str) -> None:
        """Print why nothing was changed."""
        self._print(text)

    def _print(self, text: str) -> None:
        told = f"(to {self._press.author}: {text})"
        self._out.print(printable(told), style="dim", markup=False, soft_wrap=True)


def _where(message: Message) -> str:
    """Return where a reply stands, as its question was written."""
    alone = [f"alone with {message.author}"] if message.private else []
    places = [*alone, *([f"in {message.key.thread}"] if message.key.thread else [])]
    return f" ({', '.join(places)})" if places else ""


def _print_offers(out: Console, buttons: Sequence[Offer]) -> None:
    """Print how each button is typed."""
    choices = [(read[0], one.label) for one in buttons if (read := read_button(one.data))]
    shown = " · ".join(f"{typed(choice)}: {label}" for choice, label in choices)
    out.print(shown, style="dim", markup=False, soft_wrap=True)
