"""Checks whether what is stored can be used: the journal, and the passages of the embedded store."""

from __future__ import annotations

import importlib.util
from contextlib import suppress

from bots.cli.console import Finding
from bots.cli.probes import LIVE_ONLY_HINT
from bots.common.open_storage import open_existing_database, read_states
from bots.daemon.adapters import JournalAccounts
from bots.forges.accounts import find_faults
from bots.forges.client import get_web_host
from core.errors import StoreError, StoreMismatch
from core.install_hints import format_install_hint
from core.settings import GithubSettings, GitlabSettings, Settings
from core.settings.audience import Audiences
from core.storage.engine import Database
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.moved_chats import find_moves
from core.storage.opening import JOURNAL_NAME
from core.storage.overrides import LiveSettings, find_sources_for
from knowledge.embedding import name_model
from knowledge.stores import check_store, describe_outgrown

UNKNOWN_AUDIENCES = (
    "{count} approved answers that people taught are not used, for nobody knows who may see them: they are of an "
    "earlier version, or a closed source that they may tell of was renamed, moved or removed. "
    "Look at them (`kimas faq list --state approved`), then say who may: `kimas faq release --all` for everybody, or "
    "`kimas faq release NUMBER --chat PLATFORM:CHAT`"
)


LEFT_JOURNAL = (
    "{path} is from before journal.url was set, and still has the words of who was forgotten since: delete it"
)


async def check_taught_answers(settings: Settings, database: Database | None) -> Finding | None:
    """Return a warning if taught answers wait until somebody says who may see them."""
    knows = Audiences.from_settings(settings).knows
    count = await TaughtAnswerRepository(database).count_of_unknown_audience(knows) if database else 0
    return Finding("warning", "journal", UNKNOWN_AUDIENCES.format(count=count)) if count else None


async def check_moves(settings: Settings) -> list[Finding]:
    """Return a warning for each audience with a chat that has another id by now: nobody is there any more."""
    if settings.journal.url:
        return []
    audiences = Audiences.from_settings(settings)
    async with open_existing_database(settings) as database:
        moves = await find_moves(database) if database else {}
    return [
        Finding("warning", f"sources.{source}", f"{former} has become {chat}, which does not see it: name that instead")
        for former, chat in moves.items()
        for source in find_sources_for(audiences, former)
    ]


def check_left_journal(settings: Settings) -> list[Finding]:
    """Return a warning for a file from before the journal was on a server: nothing is removed from it any more."""
    path = settings.data_dir / JOURNAL_NAME
    return (
        [Finding("warning", "journal", LEFT_JOURNAL.format(path=path))]
        if settings.journal.url and path.exists()
        else []
    )


async def check_journal(settings: Settings) -> Finding:
    """Open the journal if it is a file that is there: one that cannot be opened keeps the daemon from starting."""
    subject = "journal"
    url = settings.journal.url
    if url and importlib.util.find_spec("psycopg") is None:
        hint = format_install_hint("postgres")
        return Finding("error", subject, f"{url}: PostgreSQL's driver is not installed: {hint}")
    if url:
        return Finding("ok", subject, f"PostgreSQL: {url}, {LIVE_ONLY_HINT}")
    try:
        async with open_existing_database(settings) as database:
            text = f"SQLite: {settings.data_dir / JOURNAL_NAME}"
            return await check_taught_answers(settings, database) or Finding("ok", subject, text)
    except StoreError as error:
        return Finding("error", subject, str(error))


async def check_accounts(settings: Settings) -> list[Finding]:
    """Return a warning for each login of a forge that has rights here and is another's now.

    A journal in PostgreSQL is not asked: there, the log and the operator's page say it.
    """
    if settings.journal.url:
        return []
    findings = list[Finding]()
    with suppress(StoreError):
        async with open_existing_database(settings) as database:
            for _, platform, section in settings.get_bots() if database else ():
                if isinstance(section, GithubSettings | GitlabSettings) and database:
                    accounts = JournalAccounts(Journal(database), platform)
                    names = LiveSettings(settings).list_privileged(platform)
                    faults = await find_faults(platform, get_web_host(section.api_url), accounts, names)
                    findings += [Finding("warning", platform, fault) for fault in faults]
    return findings


async def check_passages(settings: Settings) -> list[Finding]:
    """Return an error if the embedded store is damaged, closed to this account, or of another embedding model.

    Return a warning if it holds more than it is made for, by a journal on this machine.
    """
    model = name_model(settings.knowledge.embedding)
    try:
        await check_store(settings.knowledge.store, settings.data_dir, *(model or ("", 0)))
    except StoreError as error:
        # Which name a model of fastembed gets is only known once it is loaded.
        if model or not isinstance(error, StoreMismatch):
            return [Finding("error", "knowledge.store", str(error))]
    passage_count = 0
    if not settings.journal.url:
        with suppress(StoreError):
            passage_count = sum(state.passages for state in (await read_states(settings)).values())
    hint = describe_outgrown(settings.knowledge.store, passage_count)
    return [Finding("warning", "knowledge.store", hint)] if hint else []
