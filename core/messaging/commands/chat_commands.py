"""The commands that change one chat: when the bot speaks there, and who its administrators are.

`/threshold auto` fits the chat's threshold to how people rated the answers there; the command line does the same.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from core.catalogue import ENGLISH, Messages
from core.errors import UsageError
from core.formatting import INDEFINITELY, format_code, format_until
from core.messaging.commands.context import CommandContext, CommandRequest
from core.messaging.gate.calibration import CalibrationResult, GateCase, calibrate
from core.messaging.gate.classification_metrics import Estimate, Scores
from core.messaging.policy.command_table import CALIBRATED_VALUE, CONFIGURED_VALUE
from core.ports import Library
from core.settings import Settings
from core.settings.chats import fold_person, has_handles, is_handle
from core.settings.gate import UNPROMPTED_MODES
from core.storage.engine import Database
from core.storage.feedback import FeedbackRepository
from core.storage.overrides import RuntimeOverrides, get_chat_name, override_key
from core.types import ConversationKey, Message, PlatformName

_USER = re.compile(r"<@!?([A-Za-z0-9]{1,64})(?:\|[^>]*)?>|([A-Za-z0-9]{1,64})")


async def pause(context: CommandContext, request: CommandRequest) -> str:
    """Silence the bot in the chat; commands still work."""
    until = INDEFINITELY
    if minutes := request.arguments.get("minutes"):
        until = (datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=float(minutes))).isoformat()
    await context.overrides.change(request.message, request.chat, "pause", until, before="not paused")
    return request.texts.paused.format(until=format_until(until, request.texts))


async def resume(context: CommandContext, request: CommandRequest) -> str:
    """Let the bot speak in the chat again."""
    if not context.overrides.paused_until(request.chat):
        return request.texts.not_paused
    await context.overrides.change(request.message, request.chat, "pause", None)
    return request.texts.resumed


async def change_mode(context: CommandContext, request: CommandRequest) -> str:
    """Show or set when the bot speaks in the chat."""
    chat = request.chat
    is_private = request.message.private
    configured_mode = context.settings.get_mode(chat, private=is_private)
    current_mode = context.overrides.mode(chat) or configured_mode
    new_mode = request.arguments.get("mode")
    if not new_mode:
        shown = request.texts.mode_shown.format(mode=current_mode, configured=configured_mode)
        return _with_privacy(shown, current_mode, request)
    if new_mode in UNPROMPTED_MODES and not is_private and context.settings.get_chat(chat).answers == "asker":
        raise UsageError(request.texts.mode_for_asker)
    if new_mode == "draft" and (is_private or context.settings.get_drafts_chat(chat) in (None, chat)):
        raise UsageError(request.texts.mode_draft_impossible)
    value = None if new_mode == CONFIGURED_VALUE else new_mode
    await context.overrides.change(request.message, chat, "mode", value, before=configured_mode)
    changed = request.texts.mode_changed.format(mode=value or configured_mode, before=current_mode)
    return _with_privacy(changed, value or configured_mode, request)


def _with_privacy(text: str, mode: str, request: CommandRequest) -> str:
    """Add why the mode has no effect where the platform does not deliver what people say to each other."""
    setting = request.adapter.privacy_setting if request.adapter else ""
    if mode not in UNPROMPTED_MODES or request.message.private or not setting:
        return text
    return f"{text} {request.texts.welcome_privacy.format(setting=setting)}"


async def change_threshold(context: CommandContext, request: CommandRequest) -> str:
    """Show or set how sure the bot must be to speak unprompted in the chat."""
    chat = request.chat
    configured_threshold = context.settings.get_threshold(chat)
    override = context.overrides.threshold(chat)
    current_threshold = configured_threshold if override is None else override
    new_value = request.arguments.get("value")
    if not new_value:
        return request.texts.threshold_shown.format(
            threshold=f"{current_threshold:g}", configured=f"{configured_threshold:g}"
        )
    if new_value == CALIBRATED_VALUE:
        return await fit_threshold(context, request, current_threshold)
    value = None if new_value == CONFIGURED_VALUE else float(new_value)
    value_text = None if value is None else f"{value:g}"
    await context.overrides.change(request.message, chat, "threshold", value_text, before=f"{configured_threshold:g}")
    new_threshold = configured_threshold if value is None else value
    return request.texts.threshold_changed.format(threshold=f"{new_threshold:g}", before=f"{current_threshold:g}")


async def change_admins(context: CommandContext, request: CommandRequest) -> str:
    """List, add or remove the administrators of the bot in the chat."""
    action = request.arguments.get("action", "list")
    user = request.arguments.get("user", "")
    texts = request.texts
    if action == "list":
        return _list_admins(context, request)
    key = request.message.key
    user_id = _read_user_id(key.platform, user)
    if request.message.private and action != "remove":
        raise UsageError(texts.admins_in_private)
    if not user_id:
        raise UsageError(texts.user_id_expected)
    if request.message.private:
        return await _remove_everywhere(context, request, user_id)
    admins = context.overrides.admins(request.chat)
    # What is typed is an id within the network of the chat. Earlier versions kept it without the network.
    if not (action == "remove" and user_id in admins):
        user_id += PlatformName(key.platform, key.chat).network_suffix
    is_admin = user_id in admins
    name = override_key("admin", user_id)
    if action == "add":
        if is_admin:
            return texts.already_admin.format(user=format_code(user_id))
        await context.overrides.change(request.message, request.chat, name, "added", before="not there")
        return texts.admin_added.format(user=format_code(user_id))
    if not is_admin:
        return texts.no_admin.format(user=format_code(user_id))
    await context.overrides.change(request.message, request.chat, name, None)
    return texts.admin_removed.format(user=format_code(user_id))


async def _remove_everywhere(context: CommandContext, request: CommandRequest, user_id: str) -> str:
    """Take the right from somebody in all chats of the network: nobody can give a command in one that is gone."""
    place = PlatformName(request.message.key.platform, request.message.key.chat)
    appointments = [
        (scope, override_key("admin", known_id))
        for known_id in sorted({user_id, user_id + place.network_suffix})
        for scope in context.overrides.scopes_of_admin(known_id)
        if PlatformName.parse(scope).network == place.network
    ]
    for scope, name in appointments:
        await context.overrides.change(request.message, scope, name, None)
    template = request.texts.admin_removed_everywhere if appointments else request.texts.no_admin_anywhere
    return template.format(user=format_code(user_id))


def _read_user_id(platform: str, user: str) -> str:
    """Return the id of a user that was typed or mentioned, or "" where it is none.

    Ids have digits; names do not count, because they change and can be taken over. Where the name is the id, it counts:
    on forges the login, on Mastodon the name with its server.
    """
    handle = user.removeprefix("@")
    if is_handle(platform, handle):
        return fold_person(PlatformName(platform, handle)).id
    match = _USER.fullmatch(user)
    user_id = (match[1] or match[2]) if match else ""
    return user_id if re.search(r"\d", user_id) and not has_handles(platform) else ""


def _list_admins(context: CommandContext, request: CommandRequest) -> str:
    texts = request.texts
    settings = context.settings.administration
    return texts.admins_listed.format(
        names=", ".join(map(format_code, context.overrides.admins(request.chat))) or texts.nobody,
        platform_admins=texts.platform_admins_allowed if settings.platform_admins else texts.platform_admins_denied,
        owners=len(settings.owners),
    )


async def fit_threshold(context: CommandContext, request: CommandRequest, current_threshold: float) -> str:
    """Set the threshold of the command's chat to the fitted one, where that does better, and return what came of it.

    Raises `UsageError` for too few rated questions, `StoreError`, and what the library raises.
    """
    message = request.message
    texts = request.texts
    library = context.library
    if library is None:
        raise UsageError(texts.search_unavailable)
    settings = context.visible_settings(request)
    if settings is not context.settings:
        library = library.restricted_to(settings.sources)
    calibration = await calibrate_for_chat(context.journal.database, message.key, library, settings, current_threshold)
    if calibration.is_better:
        await set_threshold(context.overrides, message, calibration, context.settings)
    return format_result(calibration, texts=texts)


async def calibrate_for_chat(
    database: Database, key: ConversationKey, library: Library, settings: Settings, current_threshold: float
) -> CalibrationResult:
    """Fit the threshold to the rated questions of a chat, by what the library knows now.

    Raises `UsageError` for too few of them, `StoreError`, and what the library raises.
    """
    rated_questions = await FeedbackRepository(database).get_labelled_questions((key.platform, key.chat))
    return await calibrate(
        [GateCase(question.id, question.text, question.is_good) for question in rated_questions],
        library,
        settings,
        current_threshold,
    )


async def set_threshold(
    overrides: RuntimeOverrides, message: Message, calibration: CalibrationResult, settings: Settings
) -> None:
    """Set the fitted threshold of the message's chat; that is in the audit. Raises `StoreError`."""
    chat = get_chat_name(message)
    configured_threshold = settings.get_threshold(chat)
    await overrides.change(
        message, chat, "threshold", f"{calibration.recommended_threshold:g}", before=f"{configured_threshold:g}"
    )


def format_result(calibration: CalibrationResult, *, is_applied: bool = True, texts: Messages = ENGLISH) -> str:
    """Return the result of fitting as Markdown: a proposal where it is not applied."""
    current_text = f"{calibration.current_threshold:g}"
    fitted_text = f"{calibration.fitted_threshold:g}"
    if calibration.is_better:
        summary = texts.threshold_fitted if is_applied else texts.threshold_proposed
        fitted_text = f"{calibration.recommended_threshold:g}"
    else:
        summary = texts.threshold_best if fitted_text == current_text else texts.threshold_no_better
    by_words = texts.decided_by_words.format(count=calibration.rule_based_count) if calibration.rule_based_count else ""
    lines = (
        texts.rated_questions.format(
            answer=calibration.answer_count, ignore=calibration.ignore_count, by_words=by_words
        ),
        texts.scores_current.format(threshold=current_text, scores=_format_scores(calibration.current_scores, texts)),
        texts.scores_fitted.format(scores=_format_scores(calibration.cross_validated_scores, texts)),
    )
    return f"{summary.format(fitted=fitted_text, current=current_text)}\n\n" + "\n".join(lines)


def _format_scores(scores: Scores, texts: Messages) -> str:
    return texts.scores.format(
        precision=_format_figure(scores.precision, texts), recall=_format_figure(scores.recall, texts)
    )


def _format_figure(figure: Estimate, texts: Messages) -> str:
    if figure.value is None:
        return texts.none
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f}"
    return texts.interval.format(value=f"{figure.value:.2f}", low=f"{figure.low:.2f}", high=f"{figure.high:.2f}")
