"""One reply over HTTP: a callback when it is begun, for its states where they are wanted, and for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bots.http.client import Client, key_of
from bots.http.failures import RetryLater, Unreachable
from bots.http.memory import Deletions
from bots.http.pace import Pace
from core.commenting.held import MOST
from core.errors import KimasError, MessageGone, PlatformError
from core.logs import logger
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

    Every callback carries the whole state. States while the reply is being written are sent by one task, which belongs
    to the task that made the sink and ends with it at the latest; what cannot be sent in time is skipped. A callback
    that fails for good is raised by the next `update` or `finish`.
    """

    def __init__(self, shared: Shared, message: Message, delivery: Delivery, previous: str = "") -> None:
        self._client, self._pace = shared.client, shared.pace
        self._deletions = shared.deletions
        self._delivery = delivery
        self._key = message.key
        self._event = str(message.reference.get("event", message.id))
        self._most = message.reference.get(MOST)
        self._reply_id = previous or key_of(message.key.chat, self._event, "reply")
        self._posted = bool(previous)
        self._partials = shared.partials
        self._text = ""
        self._number = 0
        self._news, self._over = asyncio.Event(), asyncio.Event()
        self._streaming: asyncio.Task[None] | None = None
        self._failure: KimasError | None = None
        self._owner = asyncio.current_task()

    async def open(self) -> None:
        """Tell the network that a reply is being written; a network that misses it gets the reply all the same."""
        if self._partials:
            self._streaming = asyncio.create_task(self._stream(), name=f"http reply {self._event}")
            if self._owner is not None:
                self._owner.add_done_callback(lambda _: self._end())
        try:
            await self._client.send(self._payload("started"), self._key_of("started"))
        except (Unreachable, RetryLater) as failure:
            logger(__name__).debug("http.start_not_told", error=str(failure))

    async def update(self, text: str) -> None:
        """Note the reply so far. Raises what made it impossible to send the states before."""
        if self._failure is not None:
            raise self._failure
        self._text = text
        self._news.set()

    async def finish(self, reply: Reply) -> None:
        """Send the final reply with its sources."""
        await self._conclude("final", reply.text, reply.citations)

    async def fail(self, text: str) -> None:
        """Send the text in place of the reply."""
        await self._conclude("failed", text, ())

    def _halt(self) -> None:
        self._over.set()
        self._news.set()

    def _end(self) -> None:
        self._halt()
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self) -> None:
        try:
            while True:
                await self._news.wait()
                if self._over.is_set():
                    return
                self._news.clear()
                await self._pause_or_over(await self._show())
        except KimasError as failure:
            self._failure = failure

    async def _pause_or_over(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    async def _show(self) -> float:
        """Send the newest state; return for how long not to send another one."""
        self._number += 1
        payload = self._payload("partial", self._text)
        try:
            await self._put(payload, self._key_of("partial", self._number))
        except RetryLater as failure:
            return max(failure.seconds, self._pace.partial_s)
        except Unreachable as failure:
            logger(__name__).debug("http.state_skipped", error=str(failure))
        return self._pace.partial_s

    async def _conclude(self, state: State, text: str, citations: Sequence[Citation]) -> None:
        self._halt()
        if self._streaming is not None:
            # Not cancelled: a state on its way must still report its outcome.
            await asyncio.wait({self._streaming})
        if self._failure is not None:
            raise self._failure
        payload = self._payload(state, text, citations)
        await self._insist(lambda: self._put(payload, self._key_of(state)))

    async def _put(self, payload: Mapping[str, Any], key: str) -> None:
        if (self._key.chat, self._event) in self._deletions:
            raise MessageGone("the question was deleted")
        if self._posted:
            await self._client.send({**payload, "reply_id": self._reply_id}, key)
        else:
            await self._to_the_end(self._post(payload, key))

    async def _post(self, payload: Mapping[str, Any], key: str) -> None:
        await self._delivery.posting()
        try:
            given = await self._client.send(payload, key)
        except Unreachable:
            # It may have arrived all the same.
            raise
        except PlatformError:
            await self._delivery.refused()
            raise
        self._reply_id, self._posted = given or self._reply_id, True
        await self._delivery.posted(self._reply_id)

    async def _to_the_end(self, call: Coroutine[None, None, None]) -> None:
        """Make a call whose outcome must be known: when cancelled, wait for it a little before giving it up."""
        task = asyncio.create_task(call, name=f"http reply {self._event}: post")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=self._pace.parting_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def _insist(self, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call until it is done, within the pace's patience; its key keeps the network from showing it twice."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._pace.patience_s
        failures = 0
        while True:
            failures += 1
            refused: PlatformError
            try:
                await call()
            except RetryLater as failure:
                wait_s, refused = failure.seconds, failure
            except Unreachable as failure:
                wait_s, refused = self._pace.backoff(failures), failure
            else:
                return
            if loop.time() + wait_s > deadline:
                raise refused
            logger(__name__).info("http.reply_delayed", wait_s=round(wait_s, 2), error=str(refused))
            await asyncio.sleep(wait_s)

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
            **({"bot_replies_below": self._most} if self._most and state in ("partial", "final") else {}),
        }

    def _key_of(self, state: State, number: int = 0) -> str:
        return key_of(self._key.chat, self._event, state, number)
