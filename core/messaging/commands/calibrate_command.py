"""Fitting a chat's threshold to what people said about the answers there: `/threshold auto`, and the command line."""

from __future__ import annotations

from core.errors import UsageError
from core.messaging.commands.context import Office
from core.messaging.gate.calibration import Calibrated, Case, calibrate
from core.messaging.gate.scores import Figure, Scores
from core.ports import Library
from core.settings import Settings
from core.storage.engine import Database
from core.storage.feedback import Opinions
from core.storage.overrides import Steering, chat_of
from core.types import ConversationKey, Message


async def fit_threshold(office: Office, message: Message, before: float) -> str:
    """Set the threshold of the message's chat to the fitted one, where that does better, and return what came of it.

    Raises `UsageError` for too few rated questions, `StoreError`, and what the library raises.
    """
    if office.library is None:
        raise UsageError("I cannot search my knowledge here: `kimas feedback --calibrate` fits it on the command line.")
    found = await fitted_to_chat(office.journal.database, message.key, office.library, office.settings, before)
    if found.better:
        await set_threshold(office.steering, message, found, office.settings)
    return told(found)


async def fitted_to_chat(
    database: Database, key: ConversationKey, library: Library, settings: Settings, before: float
) -> Calibrated:
    """Fit the threshold to the rated questions of a chat, by what the library knows now.

    Raises `UsageError` for too few of them, `StoreError`, and what the library raises.
    """
    rated = await Opinions(database).labelled((key.platform, key.chat))
    return await calibrate([Case(one.id, one.text, one.good) for one in rated], library, settings, before)


async def set_threshold(steering: Steering, message: Message, found: Calibrated, settings: Settings) -> None:
    """Set the fitted threshold of the message's chat; that is in the audit. Raises `StoreError`."""
    chat = chat_of(message)
    configured = settings.gate.threshold_of(chat)
    await steering.change(message, chat, "threshold", f"{found.after:g}", before=f"{configured:g}")


def told(found: Calibrated, *, done: bool = True) -> str:
    """Return what fitting came to, as Markdown; not `done`, it is a proposal."""
    if found.better:
        is_now = "is now" if done else "would be"
        first = f"The threshold of this chat {is_now} {found.after:g}; it {'was' if done else 'is'} {found.before:g}."
    elif found.fitted == found.before:
        first = f"The threshold of this chat stays {found.before:g}: it suits the rated questions best."
    else:
        first = (
            f"The threshold of this chat stays {found.before:g}. {found.fitted:g} suits the rated questions best, but "
            "does no better on questions that it was not fitted to."
        )
    words = f", {found.by_words} of them decided by their words alone" if found.by_words else ""
    return (
        f"{first}\n\n"
        f"- Rated questions: {found.answer} to answer, {found.leave} to leave alone{words}\n"
        f"- With {found.before:g}: {_shown(found.present)}\n"
        f"- Fitted, on questions not fitted to: {_shown(found.crossed)}"
    )


def _shown(scores: Scores) -> str:
    return f"precision {_figure(scores.precision)}, recall {_figure(scores.recall)}"


def _figure(figure: Figure) -> str:
    if figure.value is None:
        return "none"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f} to {figure.high:.2f})"
    return f"{figure.value:.2f}{interval}"
