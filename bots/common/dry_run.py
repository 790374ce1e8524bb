"""The dry run: everything is read and decided as usual, but replies go to the log alone.

It works on a copy of the journal, made when it starts, so that a later run does not count a message as answered whose
reply nobody saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from bots.common.forwarding import ForwardingAdapter
from bots.common.open_storage import open_existing_database, open_journal
from bots.common.reply_sink import FinalTextSink
from core.errors import PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery, Sink
from core.settings import Settings
from core.types import Message, Reply
from core.types.forms import SettingsForm

if TYPE_CHECKING:
    from core.observability.metrics import MetricsRecorder
    from core.storage.messages import Journal

_log = get_logger(__name__)

JOURNAL_COPY_NAME = "dry-run.db"
DRY_RUN_REPLY_ID = "dry run"
Client = TypeVar("Client")


class DryRunAdapter(ForwardingAdapter):
    """An adapter that listens as another one does and posts nothing."""

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that writes into the log."""
        return LogSink(message, delivery)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show nothing."""
        return False

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest nothing."""
        return False


class LogSink(FinalTextSink):
    """Writes one reply into the log, once it is complete, and tells the journal as if it had been posted."""

    def __init__(self, message: Message, delivery: Delivery) -> None:
        self._message = message
        self._delivery = delivery

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        # A comment is checked for the last time here, and may still be suppressed.
        await self._delivery.mark_posting()
        sources = [citation.title for citation in reply.citations]
        message = self._message
        _log.info("reply.withheld", asked_by=message.author, asked=message.text, text=reply.text, sources=sources)
        await self._delivery.mark_posted(DRY_RUN_REPLY_ID)


async def copy_journal(data_dir: Path) -> Path:
    """Copy the current journal over an older copy, and return the path of the copy. Raises `StoreError`."""
    source = data_dir / "journal.db"
    copy = data_dir / JOURNAL_COPY_NAME
    await asyncio.to_thread(_copy_database, source, copy)
    return copy


async def open_daemon_journal(
    settings: Settings, stack: AsyncExitStack, metrics_recorder: MetricsRecorder, *, dry_run: bool
) -> Journal:
    """Open a daemon's journal, or the copy of it for a dry run; the stack closes it. Raises `StoreError`."""
    # A dry run that was killed leaves its copy behind.
    await remove_journal_copy(settings.data_dir)
    if dry_run:
        stack.push_async_callback(remove_journal_copy, settings.data_dir)
        journal = await open_journal_copy(settings, metrics_recorder)
    else:
        journal = await open_journal(settings, metrics_recorder)
    stack.push_async_callback(journal.close)
    return journal


async def open_journal_copy(settings: Settings, metrics_recorder: MetricsRecorder | None = None) -> Journal:
    """Copy the journal, and open the copy: a file also where the journal is on a server. Raises `StoreError`."""
    from core.storage.copying import copy_database
    from core.storage.engine import Database
    from core.storage.messages import Journal

    copy_path = settings.data_dir / JOURNAL_COPY_NAME
    if not settings.journal.url:
        await copy_journal(settings.data_dir)
        return Journal(await Database.open(copy_path), metrics_recorder)
    async with open_existing_database(settings) as database:
        copy = await Database.open(copy_path)
        if database:
            await copy_database(database, copy)
    return Journal(copy, metrics_recorder)


async def remove_journal_copy(data_dir: Path) -> None:
    """Remove the copy: nothing else would ever delete what people wrote from it."""
    await asyncio.to_thread(_remove_database, data_dir / JOURNAL_COPY_NAME)


def _remove_database(copy: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)


def _copy_database(source: Path, copy: Path) -> None:
    from core.storage.snapshots import copy_sqlite

    _remove_database(copy)
    if source.exists():
        copy_sqlite(source, copy)


class _ReadOnlyClient:
    def __init__(self, client: object, allowed_calls: Collection[str]) -> None:
        self._client = client
        self._allowed_calls = allowed_calls

    def __getattr__(self, name: str) -> Any:
        if name in self._allowed_calls:
            return getattr(self._client, name)

        async def refuse(*_: object, **__: object) -> None:
            raise PlatformError(f"a dry run shows nothing: {name} is not called")

        return refuse


def make_read_only(client: Client, allowed_calls: Collection[str]) -> Client:
    """Return the client with every call but `allowed_calls` refused by a `PlatformError`, before anything is sent.

    A call that is added to a client later is refused too, as long as it is not allowed here.
    """
    return cast(Client, _ReadOnlyClient(client, allowed_calls))
