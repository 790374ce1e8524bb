"""Serves the page, the widget's script, and the answers to visitors: they need no token, and are limited instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from aiohttp import web

from bots.api.clients import ClientAnswers
from bots.api.page.ratings import VERDICTS, VisitorRatings
from bots.api.page.visitors import VisitorLimit, find_visitor
from bots.api.rejections import Rejected, to_rejection
from bots.api.requests import InvalidRequest, read_chat_request, read_json
from bots.api.streaming import (
    CORS_HEADERS,
    STREAM_HEADERS,
    read_body,
    send,
    send_words,
    stream_text,
    wait_for_reply,
)
from core.errors import KimasError
from core.observability.logs import get_logger
from core.settings import PageSettings
from core.settings.base import PAGE_CLIENT
from core.types import Question, Reply

_log = get_logger(__name__)

PAGE_PATH = "/ask"
SCRIPT_PATH = "/ask/widget.js"
ANSWER_PATH = "/ask/answer"
RATING_PATH = "/ask/rating"
MAX_VISITOR_BODY_BYTES = 64 * 1024
MAX_RATING_BODY_BYTES = 1024
# Nothing but our script, and requests to us. Its style sheet is made by the script, which this does not forbid.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
PAGE_HEADERS = {**HEADERS, "Content-Security-Policy": CONTENT_POLICY}
SCRIPT_HEADERS = {**HEADERS, "Cross-Origin-Resource-Policy": "cross-origin"}


class PageServer:
    """Handles the requests of visitors. All of them count as the client `page`."""

    def __init__(self, settings: PageSettings, answers: ClientAnswers, ratings: VisitorRatings | None = None) -> None:
        self._settings = settings
        self._answers = answers
        self._ratings = ratings
        self._limit = VisitorLimit(settings.per_minute, settings.all_per_minute)
        # Who rates may ask as often as before.
        self._rating_limit = VisitorLimit(settings.per_minute, settings.all_per_minute)
        folder = files(__package__).joinpath("static")
        self._page = folder.joinpath("page.html").read_text("utf-8")
        self._script = folder.joinpath("widget.js").read_text("utf-8")

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add the paths."""
        router.add_get(PAGE_PATH, self._show_page)
        router.add_get(SCRIPT_PATH, self._show_script)
        router.add_post(ANSWER_PATH, self._answer)
        router.add_post(RATING_PATH, self._rate)

    def serves(self, request: web.Request) -> bool:
        """Return whether a request is a visitor's."""
        return request.path in (SCRIPT_PATH, ANSWER_PATH, RATING_PATH) or (
            request.path == PAGE_PATH and request.method == "GET"
        )

    def allows(self, origin: str, request: web.Request) -> bool:
        """Return whether a page of this origin may ask: our own, which has our host, and those that are listed."""
        return bool(origin) and (origin in self._settings.allowed_origins or origin.partition("://")[2] == request.host)

    async def _show_page(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._page, content_type="text/html", headers=PAGE_HEADERS)

    async def _show_script(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._script, content_type="text/javascript", headers=SCRIPT_HEADERS)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a visitor: as a stream of the text as it grows, or whole."""
        body = await self._read(request, self._limit, MAX_VISITOR_BODY_BYTES)
        chat_request = read_chat_request(read_json(body), is_typed=True)
        question = Question(chat_request.question, chat_request.history)
        async with self._answers.join(PAGE_CLIENT, (question.text, question.history), question) as (running, task):
            if not chat_request.is_streaming:
                return web.json_response(self._to_json(question.text, await wait_for_reply(request, running, task)))
            response = web.StreamResponse(headers=STREAM_HEADERS | request[CORS_HEADERS])
            try:
                await response.prepare(request)
                await response.write(b": begun\n\n")
                await stream_text(request, response, lambda text: {"part": text}, running, task)
                await send_words(running, response, self._to_json(question.text, task.result()))
            except KimasError as error:
                await send(response, to_rejection(error).to_json())
            except ConnectionError:
                _log.debug("page.stream_closed")
        return response

    async def _rate(self, request: web.Request) -> web.Response:
        """Store what a visitor thinks of an answer."""
        values = read_json(await self._read(request, self._rating_limit, MAX_RATING_BODY_BYTES))
        answer_id = values.get("id")
        verdict = values.get("verdict")
        if not isinstance(answer_id, str) or not isinstance(verdict, str) or verdict not in VERDICTS:
            raise InvalidRequest(
                None, "send the id of an answer, and the verdict: up, down, or nothing to take it back"
            )
        if self._ratings is None:
            raise Rejected(410, "too_old", "answers are not rated here")
        await self._ratings.rate(answer_id, verdict)
        return web.json_response({"verdict": verdict})

    async def _read(self, request: web.Request, limit: VisitorLimit, max_bytes: int) -> bytes:
        """Return the body of a visitor's request. Raises `Rejected`."""
        # Before anything of it is read: who asks too often costs nothing.
        forwarded = ",".join(request.headers.getall("X-Forwarded-For", ()))
        visitor = find_visitor(request.remote or "", forwarded, self._settings.trusted_proxies)
        if not limit.admits(visitor):
            raise Rejected(429, "rate_limit_exceeded", "too many questions; ask again in a minute")
        # Who sends it in chunks does not say how long it is.
        if (request.content_length or 0) > max_bytes or len(body := await read_body(request)) > max_bytes:
            raise Rejected(413, "large", "the question is too long")
        return body

    def _to_json(self, text: str, reply: Reply) -> Mapping[str, Any]:
        """Return what a visitor sees: the checked answer, which replaces what was streamed, and where it is from.

        The id is there where the answer can be rated.
        """
        citations = [asdict(citation) for citation in reply.citations]
        answer_id = self._ratings.offer(text, reply) if self._ratings else ""
        return {"answer": reply.text, "citations": citations, **({"id": answer_id} if answer_id else {})}
