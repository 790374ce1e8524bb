"""The context of all parts of the page."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aiohttp import web

from bots.operator_page.render import PageRenderer
from bots.operator_page.sessions import Session
from bots.operator_page.setup_port import Setup
from core.formatting import replace_lone_surrogates, strip_control_characters
from core.messaging.gaps import QuestionJudge
from core.messaging.policy.permissions import Permissions
from core.observability.logs import LogBuffer
from core.ports import AnswerFunction, Library, SourceRefresher
from core.settings import Settings
from core.storage.engine import Database
from core.storage.lessons import TaughtAnswerRepository
from core.storage.overrides import Audit, AuditOutcome, LiveSettings, Reloaded, new_entry
from core.storage.reports import ReportRepository
from core.storage.usage import UsageRepository
from core.types import ConversationKey, Message

MAX_DAYS = 3660
OPERATOR_ID = "operator-page"
OPERATOR = "the operator's page"

FindProblems = Callable[[], Awaitable[Sequence[str]]]

SESSION = web.RequestKey("SESSION", Session)
PROBLEMS = web.RequestKey("PROBLEMS", Sequence[str])
# What chats are called, by platform and id.
CHAT_TITLES = web.RequestKey("CHAT_TITLES", Mapping[tuple[str, str], str])


@dataclass(frozen=True, slots=True)
class PageContext:
    """The data of the page: the journal, the sources, the log, and what is wrong just now (`find_problems`).

    Without a `setup` the configuration cannot be changed, without `reload` it is not taken up, without `answer` nothing
    can be tried. `platform_failures` says why a bot has stopped, by its label.
    """

    live: LiveSettings
    renderer: PageRenderer
    reports: ReportRepository
    usage: UsageRepository
    taught_answers: TaughtAnswerRepository
    permissions: Permissions
    audit: Audit
    source_refresher: SourceRefresher
    library: Library
    log_buffer: LogBuffer
    find_problems: FindProblems
    setup: Setup | None = None
    reload: Callable[[], Awaitable[Reloaded]] | None = None
    answer: AnswerFunction | None = None
    platform_failures: Mapping[str, str] = field(default_factory=dict)
    judge: QuestionJudge = field(default_factory=QuestionJudge)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.live.settings


def make_context(
    live: LiveSettings,
    database: Database,
    source_refresher: SourceRefresher,
    library: Library,
    log_buffer: LogBuffer,
    *,
    secrets: Sequence[str] = (),
    find_problems: FindProblems,
    setup: Setup | None = None,
    reload: Callable[[], Awaitable[Reloaded]] | None = None,
    answer: AnswerFunction | None = None,
    platform_failures: Mapping[str, str] | None = None,
) -> PageContext:
    """Return the context of a page over one database."""
    return PageContext(
        live,
        PageRenderer(secrets, bot_name=live.settings.name),
        ReportRepository(database),
        UsageRepository(database),
        TaughtAnswerRepository(database),
        Permissions(live),
        Audit(database, lambda: live.settings.administration.audit_days),
        source_refresher,
        library,
        log_buffer,
        find_problems,
        setup,
        reload,
        answer,
        {} if platform_failures is None else platform_failures,
    )


CONTEXT = web.AppKey("CONTEXT", PageContext)


def get_context(request: web.Request) -> PageContext:
    """Return what the page works with."""
    return request.app[CONTEXT]


def get_session(request: web.Request) -> Session | None:
    """Return the session of a request; on every page but the sign-in there is one."""
    return request.get(SESSION)


def show(
    request: web.Request, template: str, values: Mapping[str, Any] | None = None, *, status: int = 200
) -> web.Response:
    """Return a page. A notice of the session is shown on it, once."""
    context = get_context(request)
    session = get_session(request)
    notice = link = ""
    if session and status == 200:
        notice, session.notice = session.notice, ""
        link, session.notice_link = session.notice_link, ""
    shared = {
        "session": session,
        "notice": notice,
        "notice_link": link,
        "problems": request.get(PROBLEMS, ()),
        "path": request.path,
        "problem": "",
        "name_chat": partial(name_chat, request),
    }
    html = context.renderer.render(template, **{**shared, "status": status, **(values or {})})
    return web.Response(text=html, status=status, content_type="text/html", charset="utf-8")


def name_chat(request: web.Request, platform: str, chat: str) -> str:
    """Return what a chat is called; its id where nobody knows."""
    titles: Mapping[tuple[str, str], str] = request.get(CHAT_TITLES, {})
    return titles.get((platform, chat), chat)


def get_days(request: web.Request, default: int) -> int:
    """Return the number of days that a request wants to see; the default if its value is invalid."""
    text = request.query.get("days", "")
    return min(max(int(text), 1), MAX_DAYS) if re.fullmatch("[0-9]{1,5}", text) else default


def clean_input(text: object) -> str:
    """Return what somebody typed without characters that no database or page takes; nothing of a file."""
    return strip_control_characters(replace_lone_surrogates(text)).strip() if isinstance(text, str) else ""


def get_number(request: web.Request) -> int:
    """Return the number in a page's address."""
    return int(request.match_info["number"])


async def require_owner(request: web.Request, context: PageContext, message: Message) -> Session:
    """Return the owner's session. Raises `HTTPForbidden` for anybody else, after the audit has it."""
    session = get_session(request)
    if session is None or not session.is_owner:
        outcome: AuditOutcome = "refused"
        await context.audit.record(new_entry(message, outcome, "the session was not opened with the owner's token"))
        raise web.HTTPForbidden(text="Only an owner may do this: sign in with the owner's token.")
    return session


def to_command(key: ConversationKey, command: str, text: str, answer: str = "") -> Message:
    """Return the command that an action on the page amounts to. The same answer has the same id: it is kept once."""
    digest = hashlib.sha256(f"{text}\n{answer}".encode("utf-8", "replace")).hexdigest()[:32]
    at = datetime.now(UTC)
    return Message(f"{OPERATOR_ID}-{digest}", key, OPERATOR_ID, OPERATOR, text, at, command=command)
