"""Setting up: an owner adds sources, models and chats to the configuration, sees them read, and tries a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from bots.common.reply_sink import SilentSink
from bots.operator_page.context import (
    CHAT_TITLES,
    PageContext,
    clean_input,
    get_context,
    get_session,
    require_owner,
    show,
    to_command,
)
from bots.operator_page.setup_port import Found, Setup
from bots.operator_page.waterfall import get_total_ms, to_rows
from core.answering.agents.conversation import validate_question
from core.errors import KimasError
from core.observability.logs import get_logger
from core.settings.base import OPERATOR_PLATFORM
from core.storage.overrides import new_entry
from core.types import ConversationKey, Question, SourceState
from core.types.messages import MAX_QUESTION_CHARS

_log = get_logger(__name__)

KIND_FIELDS: Mapping[str, Sequence[str]] = {
    "source": ("location",),
    "model": ("role", "address", "model", "key"),
    "platform": ("platform", "token", "bot_token", "app_token"),
    "chat": ("chat",),
    "owner": ("owner",),
}
SECRET_FIELDS = ("key", "token", "bot_token", "app_token")
NO_FIELDS = {name: "" for names in KIND_FIELDS.values() for name in names}
MAX_FIELD_CHARS = 2000
SETUP_KEY = ConversationKey(OPERATOR_PLATFORM, "setup")


async def show_setup(request: web.Request) -> web.StreamResponse:
    """Show what is configured, how far it is read, and the forms."""
    return await _show(request)


async def add(request: web.Request) -> web.StreamResponse:
    """Check an answer, add it to the file, and take up what can be."""
    context = get_context(request)
    kind = request.match_info["kind"]
    session = await require_owner(request, context, to_command(SETUP_KEY, "setup", kind))
    setup = _require_setup(context)
    form = await request.post()
    fields = {name: clean_input(form.get(name, ""))[:MAX_FIELD_CHARS] for name in KIND_FIELDS[kind]}
    try:
        found = await setup.add(kind, fields, clean_input(form.get("digest", "")))
    except KimasError as error:
        # They are typed again, rather than sent back.
        kept = {**NO_FIELDS, **{name: value for name, value in fields.items() if name not in SECRET_FIELDS}}
        return await _show(request, {"problem": str(error), "failed_kind": kind, "fields": kept}, status=422)
    await context.audit.record(new_entry(to_command(SETUP_KEY, "setup", kind), "changed", kind))
    _log.info("operator_page.configured", kind=kind)
    session.notice = f"Added: {found.text.removesuffix('.')}. {await _take_up(context, setup, found)}"
    session.notice_link = found.link
    raise web.HTTPSeeOther("/setup")


async def try_question(request: web.Request) -> web.StreamResponse:
    """Answer a question as the terminal would, and show where the time went."""
    context = get_context(request)
    await require_owner(request, context, to_command(SETUP_KEY, "try", ""))
    if context.answer is None:
        raise web.HTTPNotFound(text="Questions cannot be asked here.")
    text = clean_input((await request.post()).get("question", ""))
    question = Question(text)
    try:
        validate_question(question)
        reply = await context.answer(question, SilentSink())
    except KimasError as error:
        return await _show(request, {"problem": str(error), "failed_kind": "try", "question": text}, status=422)
    trace = reply.trace.to_json()
    values = {
        "question": text,
        "answer": context.renderer.render_answer(reply.text, reply.citations),
        "citations": reply.citations,
        "trace": trace,
        "waterfall": to_rows(trace),
        "total_ms": get_total_ms(trace),
    }
    return await _show(request, values)


async def restart(request: web.Request) -> web.StreamResponse:
    """Start again with the configuration as it is."""
    context = get_context(request)
    await require_owner(request, context, to_command(SETUP_KEY, "restart", ""))
    setup = _require_setup(context)
    if not setup.can_restart:
        raise web.HTTPNotFound(text="Restart KIMAs where it was started.")
    if problem := (await setup.read()).problem:
        text = f"KIMAs goes on as it is, because it would not start again: {problem}"
        return await _show(request, {"problem": text}, status=422)
    setup.restart()
    return show(request, "restart.html")


def _require_setup(context: PageContext) -> Setup:
    if context.setup is None:
        raise web.HTTPNotFound(
            text="The configuration cannot be changed here: it is several files, or this is a dry run."
        )
    return context.setup


async def _take_up(context: PageContext, setup: Setup, found: Found) -> str:
    """Reload the configuration, and say what came of it."""
    if context.reload is None:
        return "It counts after a restart."
    try:
        result = await context.reload()
    except KimasError as error:
        return f"It could not be taken up: {error}"
    sections = tuple(dict.fromkeys((*result.restart, *found.restart)))
    if not sections:
        return "It counts now."
    where = "below" if setup.can_restart else "where KIMAs was started"
    return f"A restart is needed for: {', '.join(sections)}. Do it {where}, when all is entered."


def _is_being_read(state: SourceState) -> bool:
    return state.running or bool(state.documents_to_read) or not (state.last_success or state.error)


async def _show(request: web.Request, values: Mapping[str, Any] | None = None, *, status: int = 200) -> web.Response:
    context = get_context(request)
    session = get_session(request)
    titles: Mapping[tuple[str, str], str] = request.get(CHAT_TITLES, {})
    configuration = await context.setup.read() if context.setup and session and session.is_owner else None
    shared: dict[str, Any] = {
        "setup": context.setup,
        "configuration": configuration,
        "states": (states := await context.source_refresher.states()),
        "is_reading": any(_is_being_read(state) for state in states),
        "known_chats": [(f"{platform}:{chat}", title) for (platform, chat), title in titles.items()],
        "failures": context.platform_failures,
        "can_ask": context.answer is not None,
        "max_question_chars": MAX_QUESTION_CHARS,
        "fields": NO_FIELDS,
        "failed_kind": "",
        "question": "",
        "waterfall": (),
    }
    return show(request, "setup.html", {**shared, **(values or {})}, status=status)
