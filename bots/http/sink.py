"""One reply over HTTP: callbacks when it begins, for its states where the settings ask for them, and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bots.common.caches import BoundedDict
from bots.common.connection import RetryLater, Unreachable
from bots.common.delivery_retry import DeliveryRetry
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import FinalTextSink, LivePreview, cut_reply
from bots.http.client import CallbackClient, HttpIntervals, make_idempotency_key
from bots.http.signing import EventKey
from core.errors import MessageDeleted, PlatformUnavailable
from core.formatting import strip_control_characters
from core.messaging.feedback.handoff import mentioned_users
from core.messaging.feedback.rating_buttons import get_buttons, read_button
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Button, Citation, Message, Reply

_log = get_logger(__name__)

# A network gets the whole reply in one callback.
MAX_CHARS = 100_000
State = Literal["started", "partial", "final", "failed"]


@dataclass(frozen=True, slots=True)
class HttpSinkContext:
    """The common context of all replies."""

    client: CallbackClient
    deletions: BoundedDict[EventKey, None]
    intervals: HttpIntervals
    partials: bool


class HttpSink:
    """Writes the reply to one message.

    Every callback carries the whole state, and a key that keeps the network from showing it twice. States while the
    reply is being written that cannot be sent in time are skipped.
    """

    judges_updates = True

    def __init__(
        self, context: HttpSinkContext, message: Message, delivery: Delivery, previous_reply_id: str = ""
    ) -> None:
        self._client = judge_calls(context.client, delivery)
        self._intervals = context.intervals
        self._deletions = context.deletions
        self._delivery = delivery
        self._message = message
        self._conversation = message.key
        self._event_id = str(message.reference.get("event", message.id))
        # A second answer to a question has a different id.
        self._message_id = message.id
        self._mentions = mentioned_users(message)
        self._max_bot_replies = message.reply_options.max_bot_replies
        self._reply_id = previous_reply_id or make_idempotency_key(message.key.chat, self._message_id, "reply")
        self._is_posted = bool(previous_reply_id)
        self._partials = context.partials
        self._sequence = 0
        self._preview = LivePreview(f"http reply {self._event_id}", delivery)
        self._retry = DeliveryRetry("http", delivery, context.intervals)

    async def open(self) -> None:
        """Tell the network that a reply is being written; a network that misses it gets the reply all the same."""
        self._preview.start(self._run_preview)

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to send the states before."""
        self._preview.push(text[:MAX_CHARS])

    async def finish(self, reply: Reply) -> None:
        """Send the final reply with its sources."""
        text, citations = cut_reply(self._message, reply, MAX_CHARS)
        await self._send_final("final", text, citations)

    async def fail(self, text: str) -> None:
        """Send the text in place of the reply."""
        await self._send_final("failed", text, ())

    async def _run_preview(self) -> None:
        try:
            await self._client.send(self._payload("started"), self._make_idempotency_key("started"))
        except PlatformUnavailable as error:
            _log.debug("http.start_not_sent", error=str(error))
        if self._partials:
            await self._preview.run_updates(self._send_partial)

    async def _send_partial(self) -> float:
        """Send the newest state; return for how long not to send another one."""
        self._sequence += 1
        payload = self._payload("partial", self._preview.text)
        self._check_not_deleted()
        try:
            reply_id = await self._client.send(payload, self._make_idempotency_key("partial", self._sequence))
        except RetryLater as error:
            return max(error.seconds, self._intervals.partial_s)
        except Unreachable as error:
            _log.debug("http.state_skipped", error=str(error))
        else:
            if not self._is_posted:
                # A post in doubt does no harm: the final state replaces it, whatever its id.
                self._reply_id = reply_id or self._reply_id
                self._is_posted = True
                await self._delivery.mark_posted(self._reply_id)
        return self._intervals.partial_s

    async def _send_final(self, state: State, text: str, citations: Sequence[Citation]) -> None:
        await self._preview.join(lambda: False)
        payload = self._payload(state, text, citations)
        await self._retry.run(lambda: self._send_state(payload, self._make_idempotency_key(state)))

    async def _send_state(self, payload: Mapping[str, Any], idempotency_key: str) -> None:
        self._check_not_deleted()
        if self._is_posted:
            await self._client.send({**payload, "reply_id": self._reply_id}, idempotency_key)
        else:
            await self._retry.post(lambda: self._post(payload, idempotency_key))

    def _check_not_deleted(self) -> None:
        if (self._conversation.chat, self._event_id) in self._deletions:
            raise MessageDeleted("the question was deleted")

    async def _post(self, payload: Mapping[str, Any], idempotency_key: str) -> str:
        reply_id = await self._client.send(payload, idempotency_key)
        self._reply_id = reply_id or self._reply_id
        self._is_posted = True
        return self._reply_id

    def _payload(self, state: State, text: str = "", citations: Sequence[Citation] = ()) -> dict[str, Any]:
        return {
            "event_id": self._event_id,
            "chat": self._conversation.chat,
            "thread": self._conversation.thread,
            "state": state,
            "text": strip_control_characters(text),
            "citations": [
                {
                    "n": citation.n,
                    "source": citation.source,
                    "title": strip_control_characters(citation.title),
                    "path": strip_control_characters(citation.path),
                    "url": citation.url,
                }
                for citation in citations
            ],
            "reply_id": self._reply_id,
            **({"mentions": list(self._mentions)} if self._mentions else {}),
            **({"private": True} if self._message.private else {}),
            **(
                {"bot_replies_below": self._max_bot_replies}
                if self._max_bot_replies and state in ("partial", "final")
                else {}
            ),
        }

    def _make_idempotency_key(self, state: State, sequence: int = 0) -> str:
        return make_idempotency_key(self._conversation.chat, self._message_id, state, sequence)


class HttpRatingSink(FinalTextSink):
    """Answers one event of the kind `feedback`."""

    def __init__(self, client: CallbackClient, message: Message, delivery: Delivery, intervals: HttpIntervals) -> None:
        self._client = judge_calls(client, delivery)
        self._message = message
        self._retry = DeliveryRetry("http", delivery, intervals)

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        event_id = self._message.id
        chat = self._message.key.chat
        state = "failed" if is_error else "noted"
        buttons = [_to_button_payload(button) for button in get_buttons(self._message)]
        payload = {
            "event_id": event_id,
            "chat": chat,
            "thread": "",
            "state": state,
            "text": reply.text,
            "citations": [],
            "reply_id": "",
            "offers": buttons,
            **({"private": True} if self._message.private else {}),
        }
        await self._retry.run(lambda: self._client.send(payload, make_idempotency_key(chat, event_id, state)))


def _to_button_payload(button: Button) -> dict[str, str]:
    choice_and_question = read_button(button.data)
    return {"text": choice_and_question[0] if choice_and_question else "", "label": button.label}
