"""The wiring of messages in tests: what `bots.daemon.bootstrap` makes, from settings and a journal."""

from __future__ import annotations

from typing import Any

from bots.daemon.bootstrap import make_dispatcher, make_inbox, make_live_settings
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.inbox import Inbox
from core.ports import AnswerFunction, Library
from core.settings import Settings
from core.storage.messages import Journal


def wire_dispatcher(settings: Settings, journal: Journal, **changes: Any) -> CommandDispatcher:
    """Return the dispatcher of commands over the journal's database."""
    return make_dispatcher(make_live_settings(settings, journal.database), journal, **changes)


def make_processor(
    settings: Settings,
    journal: Journal,
    answer: AnswerFunction,
    library: Library | None = None,
    dispatcher: CommandDispatcher | None = None,
) -> Inbox:
    """Return a message processor; it gets a new dispatcher where none is passed."""
    return make_inbox(journal, answer, dispatcher or wire_dispatcher(settings, journal), library=library)
