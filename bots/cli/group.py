"""`kimas chat --group`: a simulated group in the terminal."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from bots.common.open_storage import read_states
from bots.common.terminal import make_console
from bots.console.adapter import POLL_INTERVAL_S, ConsoleGroupAdapter
from bots.console.convert import PLATFORM
from bots.console.sink import OutcomePrinter, with_terminal_owner
from bots.daemon.bootstrap import (
    make_dispatcher,
    make_inbox,
    make_live_settings,
    open_app,
    require_knowledge,
)
from core.errors import StoreError, UsageError
from core.messaging.inbox import Inbox
from core.observability.metrics import MetricsRecorder
from core.runtime.locks import group_lock
from core.runtime.tasks import task_group
from core.settings import Settings
from core.storage.engine import Database
from core.storage.messages import Journal
from core.types import Message, SkipReason, SourceState, skip
from knowledge.stores import require_ingested

# How long the next line waits for the reply to this one: lines from a file come faster than anybody types.
REPLY_WAIT_S = 2.0
# The first pause between checks for unfinished messages; it doubles up to POLL_INTERVAL_S.
FIRST_POLL_S = 0.002
# The time that an answer may take beyond its budget.
GRACE_S = 5.0
WELCOME = """\
A group in which {name} is. `Ben: text` is said by Ben, any other line by you. `@kimas` means the bot, and what begins \
with ^ replies to what was said last.
`Ben (in release): text` stands in a thread, `Ben (alone): text` is for the bot alone, `Robot (bot): text` comes from \
another bot.
`Ben: /good`, `/bad` and `/again` are about the last answer; `/edit text` and `/delete` change what Ben said last. \
/mode auto lets the bot speak unprompted.
{kept}"""
EDITED = "(edited)"
EDITED_LATE = "(too late: it is being answered, or settled already)"


async def run_group_chat(settings: Settings, file_descriptor: int | None = None, folder: Path | None = None) -> int:
    """Simulate a group until the input (standard input or a file descriptor) ends; return 1 when answers are missing.

    A `folder` keeps the journal; the next run continues from it. Raises `StoreError`, `StoreLocked` while it is used.
    """
    await require_ingested(settings)
    settings = with_terminal_owner(settings)
    out = make_console()
    async with AsyncExitStack() as stack:
        data_dir = _open_data_dir(folder, stack)
        outcome_printer = OutcomePrinter(out)
        journal = GroupJournal(await Database.open(data_dir / "group.db"), outcome_printer, out)
        stack.push_async_callback(journal.close)
        live = make_live_settings(settings, journal.database)
        app = await stack.enter_async_context(open_app(settings, database=journal.database, live=live))
        require_knowledge(app)
        out.print(_format_welcome(settings, folder), style="dim", markup=False, soft_wrap=True)
        input_descriptor = sys.stdin.fileno() if file_descriptor is None else file_descriptor
        adapter = ConsoleGroupAdapter(input_descriptor, out, journal.complete_deleted)
        library = app.deps.library
        dispatcher = make_dispatcher(live, journal, refresher=ReadOnlySourceRefresher(settings), library=library)
        inbox = make_inbox(journal, app.answer, dispatcher, library=library, service=app.answer_service)
        stack.push_async_callback(inbox.drain, 0)
        async with task_group() as tasks:
            tasks.create_task(app.warm_up())
            receive = inbox.handler_for(adapter)

            async def process_message(message: Message) -> None:
                await receive(message)
                await wait_until_idle(inbox, REPLY_WAIT_S)

            await inbox.resume(adapter)
            await adapter.listen(process_message)
            # At the end of input, wait for the remaining replies, including those that first leave time to people.
            # Questions in one conversation wait for each other, so no fixed total would suit any number of them.
            max_wait_s = settings.gate.wait_s + settings.budget.deadline_s + GRACE_S
            await wait_until_idle(inbox, max_wait_s, lambda: outcome_printer.count - inbox.in_flight)
            pending_count = len(await journal.get_pending(PLATFORM))
        if pending_count:
            out.print(f"({pending_count} not answered: the play is over)", style="dim", markup=False, soft_wrap=True)
    return 1 if pending_count else 0


def _open_data_dir(folder: Path | None, stack: AsyncExitStack) -> Path:
    """Return the journal's folder, locked until the stack closes. Raises `StoreError`, `StoreLocked`."""
    if folder is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kimas-group-")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"--keep {folder} cannot be used: {error.strerror or error}; choose a folder that you may write to"
        ) from error
    # Two processes would both resume the pending messages, and answer them twice.
    stack.enter_context(group_lock(folder))
    return folder


def _format_welcome(settings: Settings, folder: Path | None) -> str:
    storage_note = f"What is said is kept in {folder}." if folder else "Nothing of this is kept."
    return WELCOME.format(name=settings.name, kept=storage_note)


async def wait_until_idle(inbox: Inbox, max_wait_s: float, progress: Callable[[], int] = int) -> int:
    """Wait until no message is in flight; return how many are left after `max_wait_s` without progress."""
    last_progress = progress()
    deadline = time.monotonic() + max_wait_s
    pause_s = FIRST_POLL_S
    while inbox.in_flight and time.monotonic() < deadline:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_INTERVAL_S)
        if progress() != last_progress:
            last_progress = progress()
            deadline = time.monotonic() + max_wait_s
    return inbox.in_flight


class GroupJournal(Journal):
    """A journal that prints whether an edit came in time, and at once skips messages deleted before their answer."""

    def __init__(self, database: Database, metrics_recorder: MetricsRecorder, out: Console) -> None:
        super().__init__(database, metrics_recorder)
        self._out = out
        self._posting_ids: set[str] = set()

    async def mark_posting(self, message: Message) -> None:
        """Record that the reply is about to be shown."""
        # Before any await: a reply checks right before this whether its question was deleted.
        self._posting_ids.add(message.id)
        await super().mark_posting(message)

    async def record_edit(self, message: Message) -> bool:
        """Record an edit, and print whether it came in time. False when it is too late."""
        is_accepted = await super().record_edit(message)
        self._out.print(EDITED if is_accepted else EDITED_LATE, style="dim", markup=False, soft_wrap=True)
        return is_accepted

    async def complete_deleted(self, message_id: str) -> bool:
        """Skip a message that was deleted before its answer: no later run resumes it.

        False when it was done already.
        """
        pending_messages = [
            message for message, _ in await self.get_pending(PLATFORM) if message.question_id == message_id
        ]
        unposted_messages = [message for message in pending_messages if message.id not in self._posting_ids]
        for message in unposted_messages:
            await self.mark_skipped(message, skip(SkipReason.DELETED))
        return bool(unposted_messages)


class ReadOnlySourceRefresher:
    """Implements `core.ports.SourceRefresher` without refreshing: a simulated group only reads states."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def states(self) -> Sequence[SourceState]:
        """Return the state of every stored source, in the order of the configuration. Raises `StoreError`."""
        return list((await read_states(self._settings)).values())

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Raise `UsageError`."""
        raise UsageError("I cannot refresh sources here. Use `kimas run`, or `kimas ingest` by hand.")

    async def pause(self, name: str) -> None:
        """Raise `UsageError`."""
        raise _pause_not_supported()

    async def resume(self, name: str) -> None:
        """Raise `UsageError`."""
        raise _pause_not_supported()


def _pause_not_supported() -> UsageError:
    return UsageError("I do not refresh sources here. `kimas sources pause NAME` and `resume NAME` do the same.")
