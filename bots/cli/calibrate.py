"""What `kimas feedback --calibrate` does: fit the threshold of a chat to the thumbs there, and set it if wanted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.open_storage import open_database
from bots.common.terminal import make_console, print_json, strip_control_characters
from bots.daemon.bootstrap import NOTHING_INGESTED, make_live_settings, open_app
from bots.evaluation.output import scores_as_json
from core.errors import UsageError
from core.settings import Settings
from core.types import ConversationKey, Message

if TYPE_CHECKING:
    from core.messaging.gate.calibration import CalibrationResult

# Who changes it, in the audit.
OPERATOR = "command line"
_APPLY_HINT = "Nothing was changed; --apply sets it."


async def calibrate(settings: Settings, chat: str, *, apply: bool, as_json: bool) -> int:
    """Show which threshold suits a chat (`platform:chat`), and with `apply` set it. Works beside a running daemon.

    Raises `UsageError` for too few rated questions or no knowledge, `StoreError`, `EmbeddingError`.
    """
    platform, separator, name = chat.partition(":")
    if not (platform and separator and name):
        raise UsageError("--chat names the chat whose threshold is fitted, as PLATFORM:CHAT")
    # Looking makes nothing: before the first answer there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        raise UsageError("nobody has rated anything yet")
    now, key = datetime.now(UTC), ConversationKey(platform, name)
    message = Message(uuid.uuid4().hex, key, OPERATOR, OPERATOR, "auto", now, command="threshold")
    calibration = await _calibrate_chat(settings, message, apply=apply)
    if as_json:
        print_json(_as_json(calibration, chat, applied=apply and calibration.is_better))
        return 0
    from core.messaging.commands.calibrate_command import format_result

    lines = [
        f"{chat}: {format_result(calibration, is_applied=apply)}",
        *([_APPLY_HINT] if calibration.is_better and not apply else []),
    ]
    make_console().print(strip_control_characters("\n\n".join(lines)), markup=False, soft_wrap=True)
    return 0


async def _calibrate_chat(settings: Settings, message: Message, *, apply: bool) -> CalibrationResult:
    from core.messaging.commands.calibrate_command import calibrate_for_chat, set_threshold
    from core.storage.overrides import get_chat_name

    database = await open_database(settings)
    try:
        live = make_live_settings(settings, database)
        async with open_app(settings, database=database, live=live, with_answers=False) as app:
            if app.library.is_empty:
                raise UsageError(NOTHING_INGESTED)
            await live.load()
            current_threshold = live.threshold(get_chat_name(message))
            calibration = await calibrate_for_chat(database, message.key, app.deps.library, settings, current_threshold)
        if apply and calibration.is_better:
            await set_threshold(live.overrides, message, calibration, settings)
        return calibration
    finally:
        await database.close()


def _as_json(calibration: CalibrationResult, chat: str, *, applied: bool) -> Mapping[str, Any]:
    """Return the object that `kimas feedback --calibrate --json` prints (a contract)."""
    return {
        "chat": chat,
        "answer": calibration.answer_count,
        "leave": calibration.ignore_count,
        "by_words": calibration.rule_based_count,
        "before": calibration.current_threshold,
        "fitted": calibration.fitted_threshold,
        "after": calibration.recommended_threshold,
        "applied": applied,
        "present": scores_as_json(calibration.current_scores),
        "crossed": scores_as_json(calibration.cross_validated_scores),
    }
