"""One reply over HTTP: a callback when it is begun, for its states where they are wanted, and for its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bots.common.delivery_retry import Patience, announced
from bots.common.live_preview import Showing
from bots.http.client import Client, Pace, RetryLater, Unreachable, key_of
from bots.http.idempotency import Deletions
from core.errors import MessageGone
from core.messaging.auto_comment.guarded_sink import MOST
from core.messaging.feedback.escalation import called
from core.observability.logs import logger
from core.types import Citation, Message, Reply

if TYPE_CHECKING:
    from core.ports import Delivery

State = Literal["started", "partial", "final", "failed"]


@dataclass(frozen=True, slots=True)
class Shared:
    """What all replies have in common."""

    client: Client
    deletions: Deletions
    pace: Pace
    partials: bool


class HttpSink:
    """Writes the reply to one message.

    Every callback carries the whole state, and a key that keeps the network from showing it twice. States while the
    reply is being written that cannot be sent in time are skipped.
    """

    def __init__(self, shared: Shared, message: Message, delivery: Delivery, previous: str = "") -> None:
        self._client, self._pace = shared.client, shared.pace
        self._deletions = shared.deletions
        self._delivery = delivery
        self._key = message.key
        self._event = str(message.reference.get("event", message.id))
        # A question that is answered once more has an id of its own.
        self._id = message.id
        self._called = called(message)
        self._most = message.reference.get(MOST)
        self._reply_id = previous or key_of(message.key.chat, self._id, "reply")
        self._posted = bool(previous)
        self._partials = shared.partials
        self._number = 0
        self._showing = Showing(f"http reply {self._event}")
        self._patience = Patience("http", shared.pace)

    async def open(self) -> None:
        """Tell the network that a reply is being written; a network that misses it gets the reply all the same."""
        if self._partials:
            self._showing.begin(lambda: self._showing.each_state(self._show))
        try:
            await self._client.send(self._payload("started"), self._key_of("started"))
        except (Unreachable, RetryLater) as failure:
            logger(__name__).debug("http.start_not_told", error=str(failure))

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to send the states before."""
        self._showing.tell(text)

    async def finish(self, reply: Reply) -> None:
        """Send the final reply with its sources."""
        await self._conclude("final", reply.text, reply.citations)

    async def fail(self, text: str) -> None:
        """Send the text in place of the reply."""
        await self._conclude("failed", text, ())

    async def _show(self) -> float:
        """Send the newest state; return for how long not to send another one."""
        self._number += 1
        payload = self._payload("partial", self._showing.text)
        try:
            await self._put(payload, self._key_of("partial", self._number))
        except RetryLater as failure:
            return max(failure.seconds, self._pace.partial_s)
        except Unreachable as failure:
            logger(__name__).debug("http.state_skipped", error=str(failure))
        return self._pace.partial_s

    async def _conclude(self, state: State, text: str, citations: Sequence[Citation]) -> None:
        await self._showing.ended()
        payload = self._payload(state, text, citations)
        await self._patience.insist(lambda: self._put(payload, self._key_of(state)))

    async def _put(self, payload: Mapping[str, Any], key: str) -> None:
        if (self._key.chat, self._event) in self._deletions:
            raise MessageGone("the question was deleted")
        if self._posted:
            await self._client.send({**payload, "reply_id": self._reply_id}, key)
        else:
            await self._patience.to_the_end(announced(self._delivery, lambda: self._post(payload, key)))

    async def _post(self, payload: Mapping[str, Any], key: str) -> str:
        given = await self._client.send(payload, key)
        self._reply_id, self._posted = given or self._reply_id, True
        return self._reply_id

    def _payload(self, state: State, text: str = "", citations: Sequence[Citation] = ()) -> dict[str, Any]:
        return {
            "event_id": self._event,
            "chat": self._key.chat,
            "thread": self._key.thread,
            "state": state,
            "text": text,
            "citations": [
                {"n": one.n, "source": one.source, "title": one.title, "path": one.path, "url": one.url}
                for one in citations
            ],
            "reply_id": self._reply_id,
            **({"mentions": list(self._called)} if self._called else {}),
            **({"bot_replies_below": self._most} if self._most and state in ("partial", "final") else {}),
        }

    def _key_of(self, state: State, number: int = 0) -> str:
        return key_of(self._key.chat, self._id, state, number)
