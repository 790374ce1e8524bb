"""What is said over HTTP to who rated a reply: one callback that repeats what is known, and what may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bots.common.delivery_retry import Patience
from bots.http.client import Client, key_of
from core.messaging.feedback.rating_buttons import Offer, offered, read_button
from core.types import Message, Reply

if TYPE_CHECKING:
    from bots.http.client import Pace


class PressSink:
    """Answers one event of the kind `feedback`."""

    def __init__(self, client: Client, message: Message, pace: Pace) -> None:
        self._client = client
        self._message = message
        self._patience = Patience("http", pace)

    async def open(self) -> None:
        """Do nothing: the event was confirmed already."""

    async def update(self, text: str) -> None:
        """Do nothing: it is said once."""

    async def finish(self, reply: Reply) -> None:
        """Tell the network what is known now."""
        await self._send("noted", reply.text)

    async def fail(self, text: str) -> None:
        """Tell the network why nothing was changed."""
        await self._send("failed", text)

    async def _send(self, state: str, text: str) -> None:
        event, chat = self._message.id, self._message.key.chat
        payload = {
            **{"event_id": event, "chat": chat, "thread": "", "state": state, "text": text},
            **{"citations": [], "reply_id": "", "offers": [_offer(one) for one in offered(self._message)]},
        }
        await self._patience.insist(lambda: self._client.send(payload, key_of(chat, event, state)))


def _offer(button: Offer) -> dict[str, str]:
    read = read_button(button.data)
    return {"text": read[0] if read else "", "label": button.label}
