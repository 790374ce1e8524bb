"""Who changed what by a command, and who was refused, as `kimas audit` shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.common.open_storage import open_database
from bots.common.terminal import make_console, print_json, strip_control_characters
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.loader import get_secret_values

if TYPE_CHECKING:
    from core.storage.overrides import AuditEntry


async def audit(settings: Settings, limit: int, *, as_json: bool) -> int:
    """Show the newest entries of all chats. Works beside a running daemon. Raises `StoreError`."""
    audit_entries = await _read_entries(settings, limit)
    if as_json:
        print_json({"entries": [_as_json(entry) for entry in audit_entries]})
        return 0
    out, redact = make_console(), make_redactor(get_secret_values(settings))
    for entry in audit_entries:
        out.print(strip_control_characters(redact(_format_entry(entry))), markup=False, soft_wrap=True)
    if not audit_entries:
        out.print("the audit is empty")
    return 0


async def _read_entries(settings: Settings, limit: int) -> Sequence[AuditEntry]:
    from core.storage.overrides import Audit

    # Looking makes nothing: before the first command there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        return []
    database = await open_database(settings)
    try:
        return await Audit(database).get_newest(limit)
    finally:
        await database.close()


def _as_json(entry: AuditEntry) -> Mapping[str, Any]:
    return {
        "at": entry.at.isoformat(),
        "platform": entry.platform,
        "chat": entry.chat,
        "author_id": entry.author_id,
        "outcome": entry.outcome,
        "command": entry.command,
        "what": entry.what,
        "before": entry.before,
        "after": entry.after,
    }


def _format_entry(entry: AuditEntry) -> str:
    change = f": {entry.before} -> {entry.after}" if entry.before or entry.after else ""
    details = f", {entry.what}" if entry.what else ""
    command = " ".join(entry.command.split())
    chat = f"{entry.platform}:{entry.chat}"
    return f"{entry.at:%Y-%m-%d %H:%M} UTC  {entry.outcome:8} {entry.author_id} in {chat}  /{command}{details}{change}"
