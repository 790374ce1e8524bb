"""Fitting a chat's threshold to what people said about the answers there: `/threshold auto`, and the command line."""

from __future__ import annotations

from core.errors import UsageError
from core.messaging.commands.context import CommandContext
from core.messaging.gate.calibration import CalibrationResult, GateCase, calibrate
from core.messaging.gate.scores import Estimate, Scores
from core.ports import Library
from core.settings import Settings
from core.storage.engine import Database
from core.storage.feedback import FeedbackRepository
from core.storage.overrides import RuntimeOverrides, get_chat_name
from core.types import ConversationKey, Message


async def fit_threshold(context: CommandContext, message: Message, current_threshold: float) -> str:
    """Set the threshold of the message's chat to the fitted one, where that does better, and return what came of it.

    Raises `UsageError` for too few rated questions, `StoreError`, and what the library raises.
    """
    if context.library is None:
        raise UsageError("I cannot search my knowledge here: `kimas feedback --calibrate` fits it on the command line.")
    calibration = await calibrate_for_chat(
        context.journal.database, message.key, context.library, context.settings, current_threshold
    )
    if calibration.is_better:
        await set_threshold(context.overrides, message, calibration, context.settings)
    return format_result(calibration)


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
    configured = settings.gate.get_threshold(chat)
    await overrides.change(
        message, chat, "threshold", f"{calibration.recommended_threshold:g}", before=f"{configured:g}"
    )


def format_result(calibration: CalibrationResult, *, is_applied: bool = True) -> str:
    """Return what fitting came to, as Markdown; not `done`, it is a proposal."""
    if calibration.is_better:
        is_now = "is now" if is_applied else "would be"
        summary = (
            f"The threshold of this chat {is_now} {calibration.recommended_threshold:g}; it "
            f"{'was' if is_applied else 'is'} {calibration.current_threshold:g}."
        )
    elif calibration.fitted_threshold == calibration.current_threshold:
        summary = (
            f"The threshold of this chat stays {calibration.current_threshold:g}: it suits the rated questions best."
        )
    else:
        summary = (
            f"The threshold of this chat stays {calibration.current_threshold:g}. "
            f"{calibration.fitted_threshold:g} suits the rated questions best, but "
            "does no better on questions that it was not fitted to."
        )
    rule_note = (
        f", {calibration.rule_based_count} of them decided by their words alone" if calibration.rule_based_count else ""
    )
    return (
        f"{summary}\n\n"
        f"- Rated questions: {calibration.answer_count} to answer, {calibration.ignore_count} to "
        f"leave alone{rule_note}\n"
        f"- With {calibration.current_threshold:g}: {_format_scores(calibration.current_scores)}\n"
        f"- Fitted, on questions not fitted to: {_format_scores(calibration.cross_validated_scores)}"
    )


def _format_scores(scores: Scores) -> str:
    return f"precision {_format_figure(scores.precision)}, recall {_format_figure(scores.recall)}"


def _format_figure(figure: Estimate) -> str:
    if figure.value is None:
        return "none"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f} to {figure.high:.2f})"
    return f"{figure.value:.2f}{interval}"
