"""Serves the operator's page: who may see it, and what a browser may do with it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import http_exceptions, web

from bots.common.web_server import refuse_other_hosts, serve_application
from bots.operator_page.context import (
    CHAT_TITLES,
    CONTEXT,
    PROBLEMS,
    SESSION,
    PageContext,
    clean_input,
    get_context,
    get_session,
    show,
)
from bots.operator_page.live_log import show_log, stream_log
from bots.operator_page.sessions import COOKIE, Sessions, TooManyAttempts
from bots.operator_page.setup import add, restart, show_setup, try_question
from bots.operator_page.teaching import review_answer, show_taught, show_teach_form, teach
from bots.operator_page.views import (
    download_patch,
    show_feedback,
    show_question,
    show_questions,
    show_sources,
    show_unanswered,
    show_usage,
)
from core.errors import StoreError, UsageError
from core.observability.logs import get_logger
from core.settings import OperatorPageSettings

_log = get_logger(__name__)

# What the library says of an address that leads nowhere.
UNEXPLAINED = "404: Not Found"
NO_SUCH_PAGE = "There is no such page."

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

STATIC = Path(__file__).parent / "static"
STATIC_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
MAX_BODY_BYTES = 64 * 1024
READ_TIMEOUT_S = 10.0
# Nothing from elsewhere, no inline code, in no frame. Forms send their origin to us alone.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOG_STREAM = "/log/stream"
OPEN_PATHS = frozenset({"/sign-in", *(f"/static/{name}" for name in STATIC_TYPES)})


@asynccontextmanager
async def serve_operator_page(settings: OperatorPageSettings, context: PageContext) -> AsyncIterator[int]:
    """Serve the page inside the block, which receives the port.

    Raises `UsageError` for an address that cannot be listened on, and for a token that is too short.
    """
    tokens = (secret.value() if secret else "" for secret in (settings.token, settings.owner_token))
    sessions = Sessions(*tokens)
    if context.setup and context.setup.sessions:
        # Who is setting up stays signed in over a restart.
        sessions.take_over(context.setup.sessions)
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application[CONTEXT] = context
    application.on_response_prepare.append(_add_headers)
    refuse_other_hosts(application, settings.host, settings.allowed_hosts, section="operator_page")
    application.middlewares.extend([_show_errors, _make_guard(sessions)])
    _add_routes(application, sessions)
    async with serve_application(
        application, settings.host, settings.port or 0, section="operator_page", error_class=UsageError
    ) as port:
        _log.info("operator_page.listening", host=settings.host, port=port)
        if context.setup:
            context.setup.announce(port, sessions)
        try:
            yield port
        finally:
            # Open streams of the log would delay the shutdown.
            context.closing.set()


def _add_routes(application: web.Application, sessions: Sessions) -> None:
    router = application.router
    router.add_get("/sign-in", _show_sign_in)
    router.add_post("/sign-in", _make_sign_in(sessions))
    router.add_post("/sign-out", _make_sign_out(sessions))
    pages: dict[str, Handler] = {
        "/": show_questions,
        r"/questions/{number:\d{1,9}}": show_question,
        "/unanswered": show_unanswered,
        "/unanswered/patch": download_patch,
        r"/questions/{number:\d{1,9}}/teach": show_teach_form,
        "/taught": show_taught,
        "/sources": show_sources,
        "/feedback": show_feedback,
        "/usage": show_usage,
        "/log": show_log,
        LOG_STREAM: stream_log,
        "/setup": show_setup,
    }
    for path, handler in pages.items():
        router.add_get(path, handler)
    router.add_post(r"/questions/{number:\d{1,9}}/teach", teach)
    router.add_post(r"/taught/{number:\d{1,9}}", review_answer)
    router.add_post("/setup/{kind:source|model|platform|chat|owner}", add)
    router.add_post("/setup/try", try_question)
    router.add_post("/setup/restart", restart)
    for name, content_type in STATIC_TYPES.items():
        router.add_get(f"/static/{name}", _make_static(STATIC / name, content_type))


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def _show_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Show every failure as a page; the details of internal errors go to the log alone."""
    try:
        return await handler(request)
    except web.HTTPRedirection:
        raise
    except web.HTTPException as error:
        status = error.status
        text = NO_SUCH_PAGE if error.text == UNEXPLAINED else error.text or error.reason
    except StoreError as error:
        _log.error("operator_page.unreadable", error=str(error))
        status = 503
        text = "The journal cannot be read now. The log has the reason."
    except Exception as error:
        _log.error("operator_page.failed", path=request.path, exc_info=error)
        status = 500
        text = "This page could not be made. The log has the reason."
    return show(request, "error.html", {"text": text}, status=status)


def _make_guard(sessions: Sessions) -> Callable[..., Awaitable[web.StreamResponse]]:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let nobody in without a session, and no form that another site sent."""
        session = sessions.get(request.cookies.get(COOKIE, ""))
        if session:
            request[SESSION] = session
        if request.method == "POST":
            _require_own_origin(request)
            await _read_form(request)
        if request.path in OPEN_PATHS:
            return await handler(request)
        if session is None and request.method in ("GET", "HEAD") and request.path != LOG_STREAM:
            raise web.HTTPSeeOther("/sign-in")
        if session is None:
            raise web.HTTPForbidden(text="Sign in first.")
        if request.path != LOG_STREAM:
            context = get_context(request)
            request[PROBLEMS] = await context.find_problems()
            # Where the journal cannot be read, those pages say so that need it.
            with suppress(StoreError):
                request[CHAT_TITLES] = await context.reports.get_chat_titles()
        if request.method == "POST" and not session.accepts(str((await request.post()).get("form_token", ""))):
            raise web.HTTPForbidden(text="This form is not from this page, or too old. Open it again.")
        return await handler(request)

    return guard


async def _read_form(request: web.Request) -> None:
    """Read the whole form, which the request keeps.

    Raises `HTTPRequestTimeout` for one that does not arrive, and `HTTPBadRequest` for what is none: whoever has not
    signed in writes no errors of ours into the log.
    """
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            await request.post()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="The form did not arrive.") from error
    except (ValueError, LookupError, RuntimeError, zlib.error, http_exceptions.HttpProcessingError) as error:
        raise web.HTTPBadRequest(text="This is no form that can be read.") from error


def _require_own_origin(request: web.Request) -> None:
    """Raise `HTTPForbidden` for a form of another site. Browsers say where it comes from; other clients need not."""
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in ("same-origin", "none") or (origin is not None and _get_host(origin) != request.host):
        raise web.HTTPForbidden(text="This form is from another site.")


def _get_host(origin: str) -> str:
    """Return the host and port of an origin; nothing of what is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def _show_sign_in(request: web.Request) -> web.StreamResponse:
    if get_session(request):
        raise web.HTTPSeeOther("/")
    return show(request, "sign_in.html", {"link_token": clean_input(request.query.get("once", ""))})


def _make_sign_in(sessions: Sessions) -> Handler:
    async def sign_in(request: web.Request) -> web.StreamResponse:
        address = request.remote or ""
        form = await request.post()
        token, link_token = (str(form.get(name, "")).strip() for name in ("token", "once"))
        try:
            session_id = sessions.sign_in(link_token or token, address)
        except TooManyAttempts:
            _log.warning("operator_page.too_many_attempts", peer=address)
            problem = "Too many attempts. Wait a minute, then try again."
            return show(request, "sign_in.html", {"problem": problem, "link_token": ""}, status=429)
        if session_id is None:
            _log.warning("operator_page.sign_in_refused", peer=address)
            problem = _explain_old_link(request) if link_token else "Wrong token."
            return show(request, "sign_in.html", {"problem": problem, "link_token": ""}, status=403)
        _log.info("operator_page.signed_in", peer=address)
        response = web.Response(status=303, headers={"Location": "/setup" if link_token else "/"})
        is_secure = "https" in (request.scheme, request.headers.get("X-Forwarded-Proto", ""))
        response.set_cookie(COOKIE, session_id, path="/", httponly=True, samesite="Strict", secure=is_secure)
        return response

    return sign_in


def _explain_old_link(request: web.Request) -> str:
    setup = get_context(request).setup
    where = f", which is in {setup.secrets_file.name}" if setup and setup.secrets_file.is_file() else ""
    return f"This link was used before, or is too old. Enter the owner's token{where}."


def _make_sign_out(sessions: Sessions) -> Handler:
    async def sign_out(request: web.Request) -> web.StreamResponse:
        sessions.sign_out(request.cookies.get(COOKIE, ""))
        response = web.Response(status=303, headers={"Location": "/sign-in"})
        response.del_cookie(COOKIE, path="/", httponly=True, samesite="Strict")
        return response

    return sign_out


def _make_static(file: Path, content_type: str) -> Handler:
    async def serve(_request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(file.read_bytes)
        headers = {"Cache-Control": "private, max-age=300"}
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)

    return serve
