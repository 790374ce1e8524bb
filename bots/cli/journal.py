"""`kimas journal`: copies the journal between a file and a PostgreSQL database, and erases a person in it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bots.common.open_storage import open_existing_database
from bots.common.terminal import confirm, make_console, print_json
from bots.console.convert import PLATFORM
from core.errors import StoreLocked, UsageError
from core.formatting import pluralize, today
from core.runtime.data_dir import make_data_dir
from core.runtime.left_over import has_left_restores, remove_left_backups, remove_left_restores
from core.runtime.locks import daemon_lock
from core.settings import JournalSettings, Settings
from core.settings.chats import fold_person, parse_argument

if TYPE_CHECKING:
    from core.storage.erasure import PersonalRecords

# The names in a simulated group may be those of people.
KEPT_GROUPS = "a group that `kimas chat --group --keep FOLDER` keeps is no part of the journal: delete FOLDER/group.db"

# Nobody is forgotten there any more, and nothing is removed when its time has come.
LEFT_COPY = "{place} still has everything that people wrote: delete it as soon as you do not need it any more"

JournalKind = Literal["postgresql", "sqlite"]


async def copy_journal(settings: Settings, target_kind: JournalKind, *, as_json: bool) -> int:
    """Copy the journal into an empty one of the other kind. No daemon may run meanwhile.

    Raises `UsageError` when there is nothing to copy or the target holds rows, `StoreLocked`, `StoreError`.
    """
    if not settings.journal.url:
        raise UsageError("journal.url is not set: it names the PostgreSQL database, docs/scale.md says how")
    from core.storage.opening import JOURNAL_NAME

    await asyncio.to_thread(make_data_dir, settings.data_dir)
    with daemon_lock(settings.data_dir):
        counts = await _copy_between(settings, target_kind)
    if as_json:
        print_json({"to": target_kind, "rows": dict(counts)})
        return 0
    out = make_console()
    out.print(", ".join(f"{name}: {pluralize(count, 'row')}" for name, count in counts.items()), markup=False)
    if target_kind == "sqlite":
        out.print("to use it, remove journal.url", markup=False)
    left = settings.journal.url if target_kind == "sqlite" else settings.data_dir / JOURNAL_NAME
    out.print(LEFT_COPY.format(place=left), markup=False, soft_wrap=True)
    return 0


async def _copy_between(settings: Settings, target_kind: JournalKind) -> dict[str, int]:
    from core.storage.copying import copy_database
    from core.storage.opening import has_database, open_database

    file_journal = JournalSettings()
    server_journal = settings.journal
    if target_kind == "postgresql" and not await has_database(file_journal, settings.data_dir):
        raise UsageError(f"there is nothing to copy: {settings.data_dir} has no journal")
    async with AsyncExitStack() as stack:
        databases = []
        for journal in (file_journal, server_journal):
            databases.append(await open_database(journal, settings.data_dir))
            stack.push_async_callback(databases[-1].close)
        source, target = databases if target_kind == "postgresql" else reversed(databases)
        return dict(await copy_database(source, target))


async def forget(settings: Settings, user: str, *, is_confirmed: bool, as_json: bool) -> int:
    """Erase what a person said in all chats of a platform, and what the bot answered; a daemon may run meanwhile.

    `user` is `platform:user id`. Asks first at a terminal, unless `is_confirmed`. Raises `UsageError` when `user` names
    nobody, and `StoreError`.
    """
    from core.storage.erasure import PersonalRecords, count_on_platform, erase_on_platform, list_platforms

    person = fold_person(parse_argument(user, "PLATFORM:PERSON"))
    platform = person.platform
    records = PersonalRecords(0, 0)
    platforms = list[str]()
    async with open_existing_database(settings) as database:
        if database:
            records = await count_on_platform(database, platform, person.id)
            if records.finished_count and not is_confirmed and not confirm(_describe(records, user)):
                return 1
            records = await erase_on_platform(database, platform, person.id, today())
            platforms = await list_platforms(database)
    # A copy that a killed restore left has all of it; beside a daemon there is none.
    with suppress(StoreLocked):
        await asyncio.to_thread(_remove_left_copies, settings.data_dir)
    if as_json:
        print_json({"user": user, "erased": records.finished_count, "waiting": records.pending_count})
        return 0
    out = make_console()
    if records.finished_count:
        out.print(f"erased: {pluralize(records.finished_count, 'message')} of {user}", markup=False)
    else:
        names = f"; it has messages of {', '.join(platforms)}" if platforms and platform not in platforms else ""
        out.print(f"the journal has no messages of {user}{names}", markup=False)
    if platform == PLATFORM:
        out.print(KEPT_GROUPS, markup=False)
    if records.pending_count:
        waiting = pluralize(records.pending_count, "message")
        out.print(f"not yet answered, and still there: {waiting}; run this again later", markup=False)
    return 0


def _remove_left_copies(data_dir: Path) -> None:
    remove_left_backups(data_dir)
    if has_left_restores(data_dir):
        with daemon_lock(data_dir):
            remove_left_restores(data_dir)


def _describe(records: PersonalRecords, user: str) -> str:
    count = pluralize(records.finished_count, "message")
    return f"Erase {count} of {user} and the answers to them, in all chats? This cannot be undone."
