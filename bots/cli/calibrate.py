"""What `kimas feedback --calibrate` does: fit the threshold of a chat to the thumbs there, and set it if wanted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.terminal import console, print_json, printable
from bots.daemon.bootstrap import NOTHING_INGESTED, open_app, open_database
from bots.evaluation.output import scores_as_json
from core.errors import UsageError
from core.settings import Settings
from core.types import ConversationKey, Message

if TYPE_CHECKING:
    from core.messaging.gate.calibration import Calibrated

# Who changes it, in the audit.
OPERATOR = "command line"
_TO_APPLY = "Nothing was changed; --apply sets it."


async def calibrate(settings: Settings, chat: str, *, apply: bool, as_json: bool) -> int:
    """Show which threshold suits a chat (`platform:chat`), and with `apply` set it. Works beside a running daemon.

    Raises `UsageError` for too few rated questions or no knowledge, `StoreError`, `EmbeddingError`.
    """
    platform, colon, name = chat.partition(":")
    if not (platform and colon and name):
        raise UsageError("--chat names the chat whose threshold is fitted, as PLATFORM:CHAT")
    # Looking makes nothing: before the first answer there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        raise UsageError("nobody has rated anything yet")
    now, key = datetime.now(UTC), ConversationKey(platform, name)
    message = Message(uuid.uuid4().hex, key, OPERATOR, OPERATOR, "auto", now, command="threshold")
    found = await _fitted(settings, message, apply=apply)
    if as_json:
        print_json(_as_json(found, chat, applied=apply and found.better))
        return 0
    from core.messaging.commands.calibrate_command import told

    lines = [f"{chat}: {told(found, done=apply)}", *([_TO_APPLY] if found.better and not apply else [])]
    console().print(printable("\n\n".join(lines)), markup=False, soft_wrap=True)
    return 0


async def _fitted(settings: Settings, message: Message, *, apply: bool) -> Calibrated:
    from core.messaging.commands.calibrate_command import fitted_to_chat, set_threshold
    from core.messaging.policy.chat_policy import Place
    from core.storage.overrides import Steering

    database = await open_database(settings)
    try:
        async with open_app(settings, database=database, answers=False) as app:
            if app.library.empty:
                raise UsageError(NOTHING_INGESTED)
            steering = Steering(database)
            await steering.load()
            before = Place(settings.gate, steering).threshold(message)
            found = await fitted_to_chat(database, message.key, app.parts.library, settings, before)
        if apply and found.better:
            await set_threshold(steering, message, found, settings)
        return found
    finally:
        await database.close()


def _as_json(found: Calibrated, chat: str, *, applied: bool) -> Mapping[str, Any]:
    """Return the object that `kimas feedback --calibrate --json` prints (a contract)."""
    return {
        "chat": chat,
        "answer": found.answer,
        "leave": found.leave,
        "by_words": found.by_words,
        "before": found.before,
        "fitted": found.fitted,
        "after": found.after,
        "applied": applied,
        "present": scores_as_json(found.present),
        "crossed": scores_as_json(found.crossed),
    }
