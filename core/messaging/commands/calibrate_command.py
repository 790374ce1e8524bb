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
from core.text.catalogue import ENGLISH, Messages
from core.types import ConversationKey, Message


async def fit_threshold(context: CommandContext, message: Message, current_threshold: float, texts: Messages) -> str:
    """Set the threshold of the message's chat to the fitted one, where that does better, and return what came of it.

    Raises `UsageError` for too few rated questions, `StoreError`, and what the library raises.
    """
    if context.library is None:
        raise UsageError(texts.search_unavailable)
    calibration = await calibrate_for_chat(
        context.journal.database, message.key, context.library, context.settings, current_threshold
    )
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
    configured = settings.gate.get_threshold(chat)
    await overrides.change(
        message, chat, "threshold", f"{calibration.recommended_threshold:g}", before=f"{configured:g}"
    )


def format_result(calibration: CalibrationResult, *, is_applied: bool = True, texts: Messages = ENGLISH) -> str:
    """Return the result of fitting as Markdown: a proposal where it is not applied."""
    current, fitted = f"{calibration.current_threshold:g}", f"{calibration.fitted_threshold:g}"
    if calibration.is_better:
        summary, fitted = (
            texts.threshold_fitted if is_applied else texts.threshold_proposed,
            f"{calibration.recommended_threshold:g}",
        )
    else:
        summary = texts.threshold_best if fitted == current else texts.threshold_no_better
    by_words = texts.decided_by_words.format(count=calibration.rule_based_count) if calibration.rule_based_count else ""
    lines = (
        texts.rated_questions.format(
            answer=calibration.answer_count, ignore=calibration.ignore_count, by_words=by_words
        ),
        texts.scores_current.format(threshold=current, scores=_format_scores(calibration.current_scores, texts)),
        texts.scores_fitted.format(scores=_format_scores(calibration.cross_validated_scores, texts)),
    )
    return f"{summary.format(fitted=fitted, current=current)}\n\n" + "\n".join(lines)


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
