"""Who changed what by a command, and who was refused, as `kimas audit` shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.common.terminal import console, print_json, printable
from bots.daemon.bootstrap import open_database
from core.observability.logs import redactor
from core.settings import Settings
from core.settings.loader import secret_values

if TYPE_CHECKING:
    from core.storage.audit import Entry


async def audit(settings: Settings, entries: int, *, as_json: bool) -> int:
    """Show the newest entries of all chats. Works beside a running daemon. Raises `StoreError`."""
    found = await _read(settings, entries)
    if as_json:
        print_json({"entries": [_as_json(one) for one in found]})
        return 0
    out, hide = console(), redactor(secret_values(settings))
    for one in found:
        out.print(printable(hide(_line(one))), markup=False, soft_wrap=True)
    if not found:
        out.print("the audit is empty")
    return 0


async def _read(settings: Settings, entries: int) -> Sequence[Entry]:
    from core.storage.audit import Audit

    # Looking makes nothing: before the first command there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        return []
    database = await open_database(settings)
    try:
        return await Audit(database).newest(entries)
    finally:
        await database.close()


def _as_json(one: Entry) -> Mapping[str, Any]:
    return {
        "at": one.at.isoformat(),
        "platform": one.platform,
        "chat": one.chat,
        "author_id": one.author_id,
        "outcome": one.outcome,
        "command": one.command,
        "what": one.what,
        "before": one.before,
        "after": one.after,
    }


def _line(one: Entry) -> str:
    change = f": {one.before} -> {one.after}" if one.before or one.after else ""
    what = f", {one.what}" if one.what else ""
    given = " ".join(one.command.split())
    place = f"{one.platform}:{one.chat}"
    return f"{one.at:%Y-%m-%d %H:%M} UTC  {one.outcome:8} {one.author_id} in {place}  /{given}{what}{change}"
