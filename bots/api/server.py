"""Serves other programs: `/v1/chat/completions`, `/v1/models`, `/ask` and `/mcp`, a token per client."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web

from bots.api.clients import ClientAnswers
from bots.api.completions import Completion, finish_reason, to_markdown, to_usage
from bots.api.mcp.endpoint import McpEndpoint, open_endpoint
from bots.api.mcp.knowledge import Knowledge
from bots.api.page.ratings import VisitorRatings
from bots.api.page.server import PageServer
from bots.api.rejections import Rejected, to_rejection
from bots.api.requests import InvalidRequest, read_chat_request, read_files, read_json, read_text
from bots.api.running import RunningAnswer, RunningAnswers
from bots.api.streaming import (
    CORS_HEADERS,
    STREAM_HEADERS,
    read_body,
    send,
    send_words,
    stream_text,
    wait_for_reply,
)
from bots.common.reply_json import reply_as_json
from bots.common.web_server import refuse_other_hosts, serve_application
from core.answering.context import AnswerDependencies
from core.answering.withholding import make_filter
from core.errors import KimasError, UsageError
from core.observability.logs import get_logger
from core.ports import AnswerFunction
from core.settings import ApiSettings
from core.settings.base import API_PLATFORM, PAGE_CLIENT
from core.settings.messaging import MIN_TOKEN_CHARS
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings
from core.types import Question, Reply

_log = get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MODEL = "kimas"
MAX_BODY_BYTES = 512 * 1024
CLIENT = web.RequestKey("client", str)
# Sessions of MCP are named in a header.
CORS = {"Vary": "Origin", "Access-Control-Expose-Headers": "Mcp-Session-Id"}
MCP_PATH = "/mcp"
RETRY_HEADERS = {"Retry-After": "5"}


@asynccontextmanager
async def serve_api(
    settings: ApiSettings,
    live: LiveSettings,
    answer: AnswerFunction,
    get_deps: Callable[[], AnswerDependencies],
    max_running: int,
    *,
    journal: Journal | None = None,
) -> AsyncIterator[int]:
    """Serve inside the block, which receives the port. At most `max_running` answers are written at the same time.

    `get_deps` returns those of answers, for searches. The `journal` keeps what visitors rate; without one they rate
    nothing.

    Raises `UsageError` for an address that cannot be listened on, and for a token that is too short.
    """
    tokens = {name: client.token.value() for name, client in settings.clients.items()}
    for name, token in tokens.items():
        if len(token) < MIN_TOKEN_CHARS:
            raise UsageError(f"api.clients.{name}.token is too short: give it at least {MIN_TOKEN_CHARS} characters")
    answers = ClientAnswers(live, RunningAnswers(answer, max_running))
    # Visitors, whom nobody knows, take no places from the clients.
    page_answers = ClientAnswers(live, RunningAnswers(answer, max(1, max_running // 2)))
    ratings = VisitorRatings(journal, page_answers) if journal and live.settings.feedback.thumbs else None
    page = PageServer(settings.page, page_answers, ratings) if settings.page.enabled else None
    async with (
        open_endpoint(partial(_open_knowledge, answers, get_deps)) as mcp_endpoint,
        serve_application(
            _make_application(
                settings, ApiServer(tokens, settings.allowed_origins, answers, mcp_endpoint, page, live=live)
            ),
            settings.host,
            settings.port or 0,
            section="api",
            error_class=UsageError,
        ) as port,
    ):
        _log.info("api.listening", host=settings.host, port=port)
        yield port


def _make_application(settings: ApiSettings, server: ApiServer) -> web.Application:
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.middlewares.append(server.guard)
    refuse_other_hosts(application, settings.host, settings.allowed_hosts, section="api")
    server.add_routes(application.router)
    return application


async def _open_knowledge(answers: ClientAnswers, get_deps: Callable[[], AnswerDependencies], client: str) -> Knowledge:
    """Return what the tools of a client reach."""
    # First: what is added meanwhile is not judged.
    deps = await answers.restrict(get_deps(), client)
    labels = answers.find_visible_labels(answers.make_message(client, ""))

    async def ask(text: str) -> Reply:
        async with answers.join(client, ("mcp", text), Question(text)) as (_, task):
            # Others may wait for the same answer when this request is cancelled.
            return await asyncio.shield(task)

    return Knowledge(deps, ask, labels)


class ApiServer:
    """Handles the requests of all clients."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        allowed_origins: Collection[str],
        answers: ClientAnswers,
        mcp_endpoint: McpEndpoint,
        page: PageServer | None,
        *,
        live: LiveSettings,
    ) -> None:
        self._live = live
        self._tokens = {name: token.encode() for name, token in tokens.items()}
        self._allowed_origins = allowed_origins
        self._answers = answers
        self._mcp_endpoint = mcp_endpoint
        self._page = page
        self._started_at = int(time.time())

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add the paths; those of OpenAI's API also without `/v1`, which clients forget."""
        for prefix in ("/v1", ""):
            router.add_post(f"{prefix}/chat/completions", self._complete)
            router.add_get(f"{prefix}/models", self._list_models)
            router.add_get(f"{prefix}/models/{{name}}", self._show_model)
        router.add_post("/ask", self._ask)
        router.add_post(MCP_PATH, self._serve_mcp)
        router.add_delete(MCP_PATH, self._serve_mcp)
        if self._page:
            self._page.add_routes(router)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who has a token, and answer every failure in the form that clients read."""
        origin = request.headers.get("Origin", "")
        page = self._page if self._page and self._page.serves(request) else None
        is_allowed = page.allows(origin, request) if page else origin in self._allowed_origins
        cors_headers = {**CORS, "Access-Control-Allow-Origin": origin} if is_allowed else {}
        if request.method == "OPTIONS":
            allowed = {
                # The `openai` package of browsers sends headers of its own.
                "Access-Control-Allow-Headers": request.headers.get("Access-Control-Request-Headers", ""),
                "Access-Control-Allow-Methods": "GET, POST, DELETE",
            }
            return web.Response(status=204, headers={**cors_headers, **(allowed if cors_headers else {})})
        request[CORS_HEADERS] = cors_headers
        try:
            self._check_origin(request, origin, is_allowed=is_allowed, is_visitor=page is not None)
            request[CLIENT] = PAGE_CLIENT if page else self._find_client(request)
            response = await handler(request)
        except Rejected as error:
            response = _to_response(error)
        except InvalidRequest as error:
            response = _to_response(Rejected(400, "invalid_value", str(error), error.param))
        except KimasError as error:
            response = _to_response(to_rejection(error))
        except web.HTTPMisdirectedRequest as error:
            response = _to_response(Rejected(421, "misdirected", (error.text or "").strip()))
        except web.HTTPException as error:
            hint = "" if error.status != 404 else ": the base URL ends in /v1, and questions go to /chat/completions"
            response = _to_response(Rejected(error.status, "refused", f"{error.reason}{hint}"))
        if not response.prepared:
            response.headers.update(cors_headers)
        return response

    def _check_origin(self, request: web.Request, origin: str, *, is_allowed: bool, is_visitor: bool) -> None:
        """Refuse other pages where a browser would let them ask, before anything is read."""
        is_checked = (is_visitor and request.method == "POST") or (request.path == MCP_PATH and bool(origin))
        if is_checked and not is_allowed:
            key = "api.page.allowed_origins" if is_visitor else "api.allowed_origins"
            raise Rejected(403, "origin", f"the origin {origin[:100]!r} is not allowed: see {key}")

    def _find_client(self, request: web.Request) -> str:
        """Return the name of the client whose token a request has. Raises `Rejected`."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        sent_token = token.strip().encode("utf-8", "surrogateescape")
        # All of them are compared, so that the time tells nothing.
        names = [name for name, own_token in self._tokens.items() if hmac.compare_digest(own_token, sent_token)]
        if scheme.lower() != "bearer" or not names:
            raise Rejected(401, "invalid_api_key", "the API key is missing or wrong: send Authorization: Bearer TOKEN")
        return names[0]

    async def _list_models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._describe_model()]})

    async def _show_model(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != MODEL:
            raise Rejected(404, "model_not_found", f"there is one model here: {MODEL}", "model")
        return web.json_response(self._describe_model())

    def _describe_model(self) -> Mapping[str, Any]:
        return {"id": MODEL, "object": "model", "created": self._started_at, "owned_by": MODEL}

    async def _ask(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        values = read_json(body)
        text = read_text(values, "question")
        question = Question(text, files=read_files(values))
        words = make_filter(self._live.settings.outgoing, API_PLATFORM)
        async with self._join(request, body, question) as (running, task):
            reply = await wait_for_reply(request, running, task)
            answer = await asyncio.to_thread(reply_as_json, text, reply, words)
            # Others may have closed a source while the thread had its turn.
            await running.require_rights()
            return web.json_response(answer)

    async def _serve_mcp(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        return await self._mcp_endpoint.handle(request, request[CLIENT], body, request[CORS_HEADERS])

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        chat_request = read_chat_request(read_json(body))
        if chat_request.model not in ("", MODEL):
            raise Rejected(404, "model_not_found", f"there is one model here: {MODEL}", "model")
        completion = Completion(MODEL)
        task_text = chat_request.task_answer
        question = Question(chat_request.question, chat_request.history, files=chat_request.files)
        if not chat_request.is_streaming:
            if task_text is not None:
                return web.json_response(completion.make_whole(Reply(task_text)))
            return web.json_response(completion.make_whole(await self._wait_for_reply(request, body, question)))
        response = web.StreamResponse(headers=STREAM_HEADERS | request[CORS_HEADERS])
        if task_text is not None:
            await response.prepare(request)
            await send(response, completion.make_chunk({"role": "assistant", "content": task_text}))
            await _send_end(response, completion, Reply(task_text), with_usage=chat_request.has_usage_chunk)
            return response
        async with self._join(request, body, question) as (running, task):
            try:
                await response.prepare(request)
                await send(response, completion.make_chunk({"role": "assistant", "content": ""}))
                sent_text = await stream_text(request, response, completion.make_part, running, task)
                if rest := to_markdown(task.result(), sent_text):
                    await send_words(running, response, completion.make_chunk({"content": rest}))
                await running.require_rights()
                await _send_end(response, completion, task.result(), with_usage=chat_request.has_usage_chunk)
            except KimasError as error:
                # The status is sent already: what ends without its last line is no complete answer.
                await send(response, to_rejection(error).to_json())
            except ConnectionError:
                # The client has what it wanted.
                _log.debug("api.stream_closed", client=request[CLIENT])
        return response

    @asynccontextmanager
    async def _join(
        self, request: web.Request, body: bytes, question: Question
    ) -> AsyncIterator[tuple[RunningAnswer, asyncio.Task[Reply]]]:
        """Have the answer to a question of a client; a body that is sent again waits for the same answer."""
        key = request.path, hashlib.sha256(body).digest()
        async with self._answers.join(request[CLIENT], key, question) as joined:
            yield joined

    async def _wait_for_reply(self, request: web.Request, body: bytes, question: Question) -> Reply:
        """Return the whole answer; give up when the client has gone. Raises `Rejected`, `KimasError`."""
        async with self._join(request, body, question) as (running, task):
            return await wait_for_reply(request, running, task)


def _to_response(error: Rejected) -> web.Response:
    # What is sent again at once fails again, but for this: clients of OpenAI's API repeat by themselves.
    is_passing = error.code == "rate_limit_exceeded"
    headers = RETRY_HEADERS if is_passing else {"x-should-retry": "false"}
    return web.json_response(error.to_json(), status=error.status if error.status != 499 else 400, headers=headers)


async def _send_end(response: web.StreamResponse, completion: Completion, reply: Reply, *, with_usage: bool) -> None:
    await send(response, completion.make_chunk({}, finish_reason(reply), reply))
    if with_usage:
        await send(response, completion.make_usage_chunk(to_usage(reply)))
    await response.write(b"data: [DONE]\n\n")
