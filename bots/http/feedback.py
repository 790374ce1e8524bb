"""The answer to a rating over HTTP: one callback that confirms it and names the buttons that may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bots.common.delivery_retry import DeliveryRetry
from bots.common.reply_sink import FinalTextSink
from bots.http.client import CallbackClient, make_idempotency_key
from core.messaging.feedback.rating_buttons import get_buttons, read_button
from core.types import Button, Message, Reply

if TYPE_CHECKING:
    from bots.http.client import HttpIntervals


class HttpRatingSink(FinalTextSink):
    """Answers one event of the kind `feedback`."""

    def __init__(self, client: CallbackClient, message: Message, intervals: HttpIntervals) -> None:
        self._client = client
        self._message = message
        self._retry = DeliveryRetry("http", intervals)

    async def finish(self, reply: Reply) -> None:
        """Send the confirmation."""
        await self._send("noted", reply.text)

    async def fail(self, text: str) -> None:
        """Send why nothing was changed."""
        await self._send("failed", text)

    async def _send(self, state: str, text: str) -> None:
        event_id, chat = self._message.id, self._message.key.chat
        payload = {
            **{"event_id": event_id, "chat": chat, "thread": "", "state": state, "text": text},
            **{
                "citations": [],
                "reply_id": "",
                "offers": [_to_button_payload(button) for button in get_buttons(self._message)],
            },
        }
        await self._retry.run(lambda: self._client.send(payload, make_idempotency_key(chat, event_id, state)))


def _to_button_payload(button: Button) -> dict[str, str]:
    choice_and_question = read_button(button.data)
    return {"text": choice_and_question[0] if choice_and_question else "", "label": button.label}
