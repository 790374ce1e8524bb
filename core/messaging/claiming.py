"""Work that several daemons share: claims messages from the journal for the inbox of this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from core.errors import StoreError
from core.messaging.journaling import bot_log_context, choose_adapter
from core.observability.logs import get_logger
from core.ports import Adapter
from core.runtime.tasks import wait_for
from core.storage.claims import Claim, ClaimRepository, MessageIdentity, get_identity
from core.storage.messages import UNCERTAIN_REASON, Journal
from core.types import RATING_COMMAND, STOP, Message

_log = get_logger(__name__)

# How soon a message that another daemon received is noticed, and how many are claimed at once: the others take some.
POLL_S = 0.25
BATCH_SIZE = 4
Schedule = Callable[[Adapter, Message, str], asyncio.Task[None] | None]


class ClaimQueue:
    """Claims messages for as long as `run` runs, and hands them to `schedule`: as many as there are workers."""

    def __init__(self, journal: Journal, claims: ClaimRepository, workers: int, schedule: Schedule) -> None:
        self._journal = journal
        self._claims = claims
        self._free_workers = workers
        self._schedule = schedule
        self._adapters: dict[str, Sequence[Adapter]] = {}
        self._wake_event = asyncio.Event()
        self._begun: set[MessageIdentity] = set()

    def add(self, adapters: Sequence[Adapter]) -> None:
        """Claim the messages of a platform from now on: these are all its adapters, and they are open."""
        self._adapters[adapters[0].name] = adapters
        self.wake()

    def begin(self, message: Message) -> bool:
        """Note that this process works on a message; return False if it does already."""
        identity = get_identity(message)
        if identity in self._begun:
            return False
        self._begun.add(identity)
        return True

    def end(self, message: Message) -> None:
        """Note that a message is finished, or another daemon's: if that one dies, it may be ours again.

        A message that fails in a way that nobody expected is not ended: the next start tries it again.
        """
        self._begun.discard(get_identity(message))

    def wake(self) -> None:
        """Look now: there is a new message, or room for one."""
        self._wake_event.set()

    @contextmanager
    def free_worker(self) -> Iterator[None]:
        """Give the worker of a waiting message to another message, for the length of the block."""
        self._release_worker()
        try:
            yield
        finally:
            self._free_workers -= 1

    async def run(self) -> None:
        """Claim messages until cancelled."""
        while True:
            await wait_for(self._wake_event, POLL_S)
            self._wake_event.clear()
            try:
                await self._claim_all()
            except StoreError as error:
                _log.error("claims.failed", error=str(error))
                await asyncio.sleep(POLL_S)

    async def _claim_all(self) -> None:
        """Claim until nothing is left for us."""
        while self._adapters and (
            claims := await self._claims.claim(self._adapters, min(BATCH_SIZE, self._free_workers), self._begun)
        ):
            for claim in claims:
                await self._start(claim)
            # The other daemons look for work, too.
            await asyncio.sleep(0)

    async def _start(self, claim: Claim) -> None:
        message, adapters = claim.message, self._adapters[claim.message.key.platform]
        if claim.is_taken_over:
            key = message.key
            _log.info("message.taken_over", message=message.id, platform=key.platform, chat=key.chat)
        if claim.is_in_doubt and not adapters[0].can_resolve_doubt:
            await self._journal.mark_failed(message, UNCERTAIN_REASON)
        elif adapter := await choose_adapter(self._journal, adapters, message):
            with bot_log_context(adapter):
                if task := self._schedule(adapter, message, claim.reply_id):
                    self._free_workers -= 1
                    task.add_done_callback(self._release_worker)

    def _release_worker(self, _task: object = None) -> None:
        self._free_workers += 1
        self.wake()


def is_bound(adapter: Adapter, message: Message) -> bool:
    """Return whether only the process that received a message is to answer it; a message of the bot's own never is.

    A press that stops an answer is bound, too: it must not wait for one of the workers that write answers.
    """
    is_stop = message.command == RATING_COMMAND and message.text == STOP
    return not message.origin.purpose and (is_stop or bool(adapter.binding_references & message.reference.keys()))
