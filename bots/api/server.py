"""Serves other programs: `/v1/chat/completions`, `/v1/models` and `/ask`, a token per client."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from bots.api.completions import Completion, finish_reason, to_markdown, to_usage
from bots.api.requests import InvalidRequest, answer_task, read_chat_request, read_json, read_question
from bots.api.running import RunningAnswer, RunningAnswers, TooManyAnswers
from bots.common.reply_json import reply_as_json
from bots.common.web_server import refuse_other_hosts, serve_application
from core.errors import KimasError, QuotaExceeded, UsageError
from core.messaging.policy.permissions import Permissions
from core.observability.logs import get_logger
from core.ports import AnswerFunction
from core.settings import ApiSettings
from core.settings.base import API_PLATFORM
from core.storage.overrides import LiveSettings
from core.types import ConversationKey, Message, Question, Reply

_log = get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MODEL = "kimas"
MIN_TOKEN_CHARS = 16
MAX_BODY_BYTES = 512 * 1024
READ_TIMEOUT_S = 10.0
# Proxies close a connection on which nothing comes for a minute.
KEEP_ALIVE_S = 15.0
# How often it is looked whether the client is still there while it waits.
LOOK_S = 0.5
# A mark of a citation is no longer.
MAX_MARK_CHARS = 12
STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
CLIENT = web.RequestKey("client", str)
CORS_HEADERS = web.RequestKey("cors_headers", dict[str, str])
RETRY_HEADERS = {"Retry-After": "5"}


class Rejected(Exception):
    """A request that is answered with an error, in the form that clients of OpenAI's API read."""

    def __init__(self, status: int, code: str, reason: str, param: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.param = param

    def to_json(self) -> Mapping[str, Any]:
        """Return the body of the response."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        return {"error": {"message": self.reason, "type": kind, "param": self.param, "code": self.code}}


@asynccontextmanager
async def serve_api(
    settings: ApiSettings, live: LiveSettings, answer: AnswerFunction, max_running: int
) -> AsyncIterator[int]:
    """Serve inside the block, which receives the port. At most `max_running` answers are written at the same time.

    Raises `UsageError` for an address that cannot be listened on, and for a token that is too short.
    """
    tokens = {name: client.token.value() for name, client in settings.clients.items()}
    for name, token in tokens.items():
        if len(token) < MIN_TOKEN_CHARS:
            raise UsageError(f"api.clients.{name}.token is too short: give it at least {MIN_TOKEN_CHARS} characters")
    running = RunningAnswers(answer, max_running)
    server = ApiServer(tokens, frozenset(settings.allowed_origins), live, running)
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.middlewares.append(server.guard)
    refuse_other_hosts(application, settings.host, settings.allowed_hosts, section="api")
    server.add_routes(application.router)
    async with serve_application(
        application, settings.host, settings.port or 0, section="api", error_class=UsageError
    ) as port:
        _log.info("api.listening", host=settings.host, port=port)
        yield port


class ApiServer:
    """Handles the requests of all clients."""

    def __init__(
        self, tokens: Mapping[str, str], allowed_origins: frozenset[str], live: LiveSettings, running: RunningAnswers
    ) -> None:
        self._tokens = {name: token.encode() for name, token in tokens.items()}
        self._allowed_origins = allowed_origins
        self._live = live
        self._permissions = Permissions(live)
        self._running = running
        self._started_at = int(time.time())

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add the paths; those of OpenAI's API also without `/v1`, which clients forget."""
        for prefix in ("/v1", ""):
            router.add_post(f"{prefix}/chat/completions", self._complete)
            router.add_get(f"{prefix}/models", self._list_models)
            router.add_get(f"{prefix}/models/{{name}}", self._show_model)
        router.add_post("/ask", self._ask)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who has a token, and answer every failure in the form that clients read."""
        origin = request.headers.get("Origin", "")
        is_allowed = origin in self._allowed_origins
        cors_headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if is_allowed else {}
        if request.method == "OPTIONS":
            allowed = {
                # The `openai` package of browsers sends headers of its own.
                "Access-Control-Allow-Headers": request.headers.get("Access-Control-Request-Headers", ""),
                "Access-Control-Allow-Methods": "GET, POST",
            }
            return web.Response(status=204, headers={**cors_headers, **(allowed if cors_headers else {})})
        request[CORS_HEADERS] = cors_headers
        try:
            request[CLIENT] = self._find_client(request)
            response = await handler(request)
        except Rejected as error:
            response = _to_response(error)
        except InvalidRequest as error:
            response = _to_response(Rejected(400, "invalid_value", str(error), error.param))
        except KimasError as error:
            response = _to_response(_to_rejection(error))
        except web.HTTPMisdirectedRequest as error:
            response = _to_response(Rejected(421, "misdirected", (error.text or "").strip()))
        except web.HTTPException as error:
            hint = "" if error.status != 404 else ": the base URL ends in /v1, and questions go to /chat/completions"
            response = _to_response(Rejected(error.status, "refused", f"{error.reason}{hint}"))
        if not response.prepared:
            response.headers.update(cors_headers)
        return response

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
        body = await _read_body(request)
        text = read_question(read_json(body))
        reply = await self._wait_for_reply(request, body, Question(text))
        return web.json_response(reply_as_json(text, reply))

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await _read_body(request)
        chat_request = read_chat_request(read_json(body))
        if chat_request.model not in ("", MODEL):
            raise Rejected(404, "model_not_found", f"there is one model here: {MODEL}", "model")
        completion = Completion(MODEL)
        task_text = answer_task(chat_request.question)
        question = Question(chat_request.question, chat_request.history)
        if not chat_request.is_streaming:
            if task_text is not None:
                return web.json_response(completion.make_whole(Reply(task_text)))
            return web.json_response(completion.make_whole(await self._wait_for_reply(request, body, question)))
        response = web.StreamResponse(headers=STREAM_HEADERS | request[CORS_HEADERS])
        if task_text is not None:
            await response.prepare(request)
            await _send(response, completion.make_chunk({"role": "assistant", "content": task_text}))
            await _send_end(response, completion, Reply(task_text), with_usage=chat_request.has_usage_chunk)
            return response
        async with self._join(request, body, question) as (running, task):
            try:
                await response.prepare(request)
                await _send(response, completion.make_chunk({"role": "assistant", "content": ""}))
                sent_text = await _stream_text(request, response, completion, running, task)
                if rest := to_markdown(task.result(), sent_text):
                    await _send(response, completion.make_chunk({"content": rest}))
                await _send_end(response, completion, task.result(), with_usage=chat_request.has_usage_chunk)
            except KimasError as error:
                # The status is sent already: what ends without its last line is no complete answer.
                await _send(response, _to_rejection(error).to_json())
            except ConnectionError:
                # The client has what it wanted.
                _log.debug("api.stream_closed", client=request[CLIENT])
        return response

    @asynccontextmanager
    async def _join(
        self, request: web.Request, body: bytes, question: Question
    ) -> AsyncIterator[tuple[RunningAnswer, asyncio.Task[Reply]]]:
        """Have the answer to a question of a client, from what it may see."""
        await self._live.load()
        client = request[CLIENT]
        message = _make_message(client, question.text)
        visible_labels = self._permissions.visible_labels(message)

        async def may_tell() -> bool:
            await self._live.load()
            return visible_labels <= self._permissions.visible_labels(message)

        asked = Question(
            question.text,
            question.history,
            id=message.id,
            author=client,
            author_id=client,
            key=message.key,
            visible_sources=self._permissions.visible_sources(message),
        )
        key: Hashable = (client, request.path, hashlib.sha256(body).digest())
        async with self._running.join(key, asked, may_tell) as joined:
            yield joined

    async def _wait_for_reply(self, request: web.Request, body: bytes, question: Question) -> Reply:
        """Return the whole answer; give up when the client has gone. Raises `Rejected`, `KimasError`."""
        async with self._join(request, body, question) as (_, task):
            while not task.done():
                await asyncio.wait((task,), timeout=LOOK_S)
                if _has_gone(request):
                    raise Rejected(499, "client_gone", "the client closed the connection")
            return task.result()


def _make_message(client: str, text: str) -> Message:
    """Return a question as a message of the chat that stands for a client: rights are those of this chat."""
    key = ConversationKey(API_PLATFORM, client)
    return Message(uuid.uuid4().hex, key, client, client, text, datetime.now(UTC), addressed=True)


async def _read_body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await request.read()
    except TimeoutError as error:
        raise Rejected(408, "slow", f"the body did not arrive within {READ_TIMEOUT_S:g} s") from error


def _to_rejection(error: KimasError) -> Rejected:
    if isinstance(error, QuotaExceeded):
        return Rejected(429, "insufficient_quota", str(error))
    if isinstance(error, TooManyAnswers):
        return Rejected(429, "rate_limit_exceeded", str(error))
    _log.error("api.not_answered", error=str(error))
    return Rejected(503, "unavailable", "the answer failed; the daemon's log says why")


def _to_response(error: Rejected) -> web.Response:
    # What is sent again at once fails again, but for this: clients of OpenAI's API repeat by themselves.
    is_passing = error.code == "rate_limit_exceeded"
    headers = RETRY_HEADERS if is_passing else {"x-should-retry": "false"}
    return web.json_response(error.to_json(), status=error.status if error.status != 499 else 400, headers=headers)


def get_settled(text: str) -> str:
    """Return what is certain already of a text that grows: no part of a mark or an address, no blanks at its end."""
    settled_text = text.rstrip()
    mark = settled_text.rfind("[")
    if mark >= 0 and "]" not in settled_text[mark:] and len(settled_text) - mark <= MAX_MARK_CHARS:
        settled_text = settled_text[:mark]
    elif settled_text == text:
        last_word = text.rpartition(" ")[2].rpartition("\n")[2]
        address = last_word.find("http")
        settled_text = text[: len(text) - len(last_word) + address] if address >= 0 else text
    return settled_text.rstrip()


async def _send(response: web.StreamResponse, value: Mapping[str, Any]) -> None:
    await response.write(f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode())


def _has_gone(request: web.Request) -> bool:
    """Return whether the client has closed the connection."""
    return request.transport is None or request.transport.is_closing()


async def _stream_text(
    request: web.Request,
    response: web.StreamResponse,
    completion: Completion,
    running: RunningAnswer,
    task: asyncio.Task[Reply],
) -> str:
    """Send an answer as it grows, until it is whole or failed, and a comment where nothing comes. Return what was sent.

    Raises `ConnectionError` when the client has gone.
    """
    sent_text = ""
    sent_at = time.monotonic()
    while not task.done():
        change_task = asyncio.create_task(running.wait_for_change())
        await asyncio.wait((task, change_task), timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        change_task.cancel()
        if _has_gone(request):
            raise ConnectionError("the client closed the connection")
        text = get_settled(running.text)
        if len(text) > len(sent_text) and text.startswith(sent_text):
            await _send(response, completion.make_chunk({"content": text[len(sent_text) :]}))
            sent_text = text
            sent_at = time.monotonic()
        elif time.monotonic() - sent_at >= KEEP_ALIVE_S:
            await response.write(b": waiting\n\n")
            sent_at = time.monotonic()
    return sent_text


async def _send_end(response: web.StreamResponse, completion: Completion, reply: Reply, *, with_usage: bool) -> None:
    await _send(response, completion.make_chunk({}, finish_reason(reply), reply))
    if with_usage:
        await _send(response, completion.make_usage_chunk(to_usage(reply)))
    await response.write(b"data: [DONE]\n\n")
