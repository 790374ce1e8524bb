"""An OpenAI-compatible service over real HTTP: chat completions, embeddings and models, as strict as the original.

Inside a test:

    async with LanguageModelPeer(reply="Yes [p1].", ttft_s=0.1, tokens_per_s=50) as peer:
        ...  # talk to peer.base_url; what arrived is in peer.requests

As a process, for benchmarks and end-to-end tests (the first line it prints is its base URL):

    python -m tests.support.peers.language_model --port 0 --ttft 0.3 --rate 50
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import re
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

Body = dict[str, Any]
Vector = NDArray[np.float32]
BODY = web.RequestKey("body", dict[str, Any])
REPLY = "This is the reply of the peer, in a few words, so that there is something to stream."
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
CHAT_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("model", "user", "reasoning_effort", "service_tier", "prompt_cache_key"), (str,)),
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), (int, float)),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "n", "seed", "top_logprobs"), (int,)),
    **dict.fromkeys(("stream", "store", "logprobs", "parallel_tool_calls"), (bool,)),
    **dict.fromkeys(("stream_options", "response_format", "logit_bias", "metadata"), (dict,)),
    **dict.fromkeys(("messages", "tools"), (list,)),
    **dict.fromkeys(("tool_choice",), (str, dict)),
    **dict.fromkeys(("stop",), (str, list)),
}
EMBEDDING_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("model", "user", "encoding_format"), (str,)),
    **dict.fromkeys(("input",), (str, list)),
    **dict.fromkeys(("dimensions",), (int,)),
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model replies with when it calls a tool: the tool's name and its arguments."""

    name: str
    arguments: Mapping[str, Any]


class Refusal(Exception):
    """A request that the service answers with an error: the status and OpenAI's error object."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        kind = "server_error" if status >= 500 else "requests" if status == 429 else "invalid_request_error"
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class LanguageModelPeer:
    """The service. Attributes may be changed while it runs; they hold for the requests that arrive afterwards.

    `reply` is the text of every chat completion, or a function of the request's body; a `ToolCall` calls a tool.
    `ttft_s` is the time to the first token in seconds, `tokens_per_s` the rate after it (0: no delay). `vector` makes
    embeddings of `dimension` numbers. With `api_key`, any other bearer token is refused; with `models`, any other
    model. `extra` names fields outside OpenAI's API that this service accepts.

    `flagged_words` are what a moderation flags, by category; `moderation` is sent in its place.

    `requests` holds the bodies as they arrived, each with its `path` and `authorization`. Faults, off by default:
    `status` answers with this error (429 carries `retry_after`), `failures` limits that to the next so many requests,
    `hang` never sends a byte, `stall_after` / `drop_after` / `malformed_after` act after so many tokens of a stream,
    `empty` sends a reply without a word.
    """

    def __init__(
        self,
        *,
        ttft_s: float = 0.0,
        tokens_per_s: float = 0.0,
        reply: str | ToolCall | Callable[[Body], str | ToolCall] = REPLY,
        dimension: int = 8,
        vector: Callable[[str, int], Vector] | None = None,
        api_key: str = "",
        models: Collection[str] = (),
        extra: Collection[str] = (),
        port: int = 0,
    ) -> None:
        self.ttft_s = ttft_s
        self.tokens_per_s = tokens_per_s
        self.reply = reply
        self.dimension = dimension
        self.vector = vector or to_vector
        self.api_key = api_key
        self.models = models
        self.extra = extra
        self.flagged_words: dict[str, str] = {}
        self.moderation: Body | None = None
        self.requests: list[Body] = []
        self.base_url = ""
        self.active = 0
        self.status = 0
        self.failures: int | None = None
        self.retry_after: float = 1.0
        self.hang = False
        self.stall_after: int | None = None
        self.drop_after: int | None = None
        self.malformed_after: int | None = None
        self.empty = False
        self._port = port
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = self.make_app()
        # A handler ends with its client, and at the end of a test none is waited for: some hang on purpose.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    def make_app(self) -> web.Application:
        """Return what is served; a subclass may add to it."""
        app = web.Application(middlewares=[self._guarded], client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_post("/v1/moderations", self._moderations)
        app.router.add_get("/v1/models", self._models)
        return app

    async def __aexit__(self, *exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.active += 1
        try:
            return await self._faulty(request, handler)
        except Refusal as rejection:
            headers = {"Retry-After": f"{self.retry_after:g}"} if rejection.status == 429 else {}
            return web.json_response(rejection.body, status=rejection.status, headers=headers)
        except web.HTTPException as error:
            unknown = Refusal(error.status, f"Invalid URL or method ({request.method} {request.path})")
            return web.json_response(unknown.body, status=error.status)
        finally:
            self.active -= 1

    async def _faulty(self, request: web.Request, handler: Any) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        if self.api_key and authorization != f"Bearer {self.api_key}":
            raise Refusal(401, "Incorrect API key provided.", code="invalid_api_key")
        if request.method == "POST":
            body = _parsed(await request.read(), request.content_type)
            self.requests.append({**body, "path": request.path, "authorization": authorization})
            request[BODY] = body
        if self.status and self.failures != 0:
            self.failures = None if self.failures is None else self.failures - 1
            raise Refusal(self.status, f"This peer was told to answer {self.status}.", code=_code(self.status))
        if self.hang:
            await asyncio.Event().wait()
        return await handler(request)  # type: ignore[no-any-return]

    async def _models(self, request: web.Request) -> web.StreamResponse:
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "peer"} for name in self.models or ["peer"]]
        return web.json_response({"object": "list", "data": data})

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        _check_fields(body, EMBEDDING_FIELDS, ("model", "input"), self.extra)
        self._check_model(body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not 1 <= len(texts) <= 2048 or not all(isinstance(text, str) and text for text in texts):
            raise Refusal(400, "'$.input' is invalid: 1 to 2048 non-empty strings are expected.", "input")
        encoding = body.get("encoding_format", "float")
        if encoding not in ("float", "base64"):
            raise Refusal(400, f"Invalid value: {encoding!r}. Supported: 'float', 'base64'.", "encoding_format")
        data = []
        for index, text in enumerate(texts):
            vector = self.vector(text, body.get("dimensions", self.dimension))
            value = base64.b64encode(vector.tobytes()).decode() if encoding == "base64" else vector.tolist()
            data.append({"object": "embedding", "index": index, "embedding": value})
        count = sum(len(split_pieces(text)) for text in texts)
        usage = {"prompt_tokens": count, "total_tokens": count}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def _moderations(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        _check_fields(body, {"input": (str, list), "model": (str,)}, ("input",), self.extra)
        self._check_model({"model": "omni-moderation-latest", **body})
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        found = [{name: word in text for name, word in self.flagged_words.items()} for text in texts]
        results = [{"flagged": any(categories.values()), "categories": categories} for categories in found]
        model = body.get("model", "omni-moderation-latest")
        return web.json_response(self.moderation or {"id": "modr-1", "model": model, "results": results})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        _check_chat(body, self.extra)
        self._check_model(body)
        reply = self.reply(body) if callable(self.reply) else self.reply
        call = reply if isinstance(reply, ToolCall) else None
        pieces = [] if self.empty else split_pieces(json.dumps(call.arguments) if call else str(reply))
        max_pieces = body.get("max_completion_tokens") or body.get("max_tokens") or len(pieces)
        finish = "length" if len(pieces) > max_pieces else "tool_calls" if call else "stop"
        pieces = pieces[:max_pieces]
        usage = self._count_usage(body, len(pieces))
        head = {"id": f"chatcmpl-{len(self.requests)}", "created": int(time.time()), "model": body["model"]}
        if body.get("stream"):
            return await self._stream(request, head, pieces, finish, usage, call)
        for index in range(len(pieces)):
            await self._pace(request, index)
        if self.tokens_per_s or self.ttft_s:
            await asyncio.sleep(self.ttft_s + (len(pieces) / self.tokens_per_s if self.tokens_per_s else 0))
        message = {"role": "assistant", **_content("".join(pieces), call, is_first=True), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def _stream(
        self,
        request: web.Request,
        head: Body,
        pieces: Sequence[str],
        finish: str,
        usage: Body,
        call: ToolCall | None,
    ) -> web.StreamResponse:
        started_at = time.monotonic()
        wants_usage = bool((request[BODY].get("stream_options") or {}).get("include_usage"))
        rest: Body = {"usage": None} if wants_usage else {}

        def event(delta: Body, reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            return _event({**head, "object": "chat.completion.chunk", "choices": [choice], **rest})

        await asyncio.sleep(self.ttft_s)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        await response.write(event({"role": "assistant", **_content("", call, is_first=True), "refusal": None}))
        for index, piece in enumerate(pieces):
            await self._pace(request, index)
            if index == self.malformed_after:
                await response.write(b'data: {"id": "chatcmpl-1", "choices": [{"delta"\n\n')
            if self.tokens_per_s:
                # Against the start, not the last token, or small delays would add up to a lower rate.
                await asyncio.sleep(started_at + self.ttft_s + index / self.tokens_per_s - time.monotonic())
            await response.write(event(_content(piece, call)))
        await response.write(event({}, finish))
        if wants_usage and usage:
            await response.write(_event({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _pace(self, request: web.Request, index: int) -> None:
        if index == self.stall_after:
            await asyncio.Event().wait()
        if index == self.drop_after and request.transport is not None:
            request.transport.abort()
            raise asyncio.CancelledError

    def _count_usage(self, body: Body, completion: int) -> Body:
        prompt = sum(4 + len(split_pieces(json.dumps(message, ensure_ascii=False))) for message in body["messages"])
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _check_model(self, body: Body) -> None:
        if self.models and body["model"] not in self.models:
            raise Refusal(404, f"The model `{body['model']}` does not exist.", code="model_not_found")


def _content(text: str, call: ToolCall | None, *, is_first: bool = False) -> Body:
    """Return a text as a message or a delta has it: as content, or as arguments of the tool that is called."""
    if call is None:
        return {"content": text}
    function = {"name": call.name, "arguments": text} if is_first else {"arguments": text}
    head = {"id": "call_1", "type": "function"} if is_first else {}
    return {"content": None, "tool_calls": [{"index": 0, **head, "function": function}]}


def split_pieces(text: str) -> list[str]:
    """Split into tokens, here: pieces of words of up to six characters with the space before them."""
    return re.findall(r"\s*\S{1,6}|\s+$", text)


def to_vector(text: str, dimension: int) -> Vector:
    """Return the embedding of a text: the sum of one fixed random vector per word, so it is not of unit length.

    Chinese is written without blanks, so each of its characters counts as a word.
    """
    total = np.zeros(dimension, np.float32)
    for word in re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", text.lower()) or [""]:
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        total += np.random.default_rng(seed).standard_normal(dimension, np.float32)
    return total


def _parsed(raw: bytes, content_type: str) -> Body:
    if content_type != "application/json":
        raise Refusal(400, f"Expected a request of type application/json, got {content_type}.")
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Refusal(400, "We could not parse the JSON body of your request.") from error
    if not isinstance(body, dict):
        raise Refusal(400, "The JSON body of your request is not an object.")
    return body


def _check_fields(
    body: Body, fields: Mapping[str, tuple[type, ...]], required: Sequence[str], extra: Collection[str]
) -> None:
    for name in required:
        if body.get(name) in (None, "", []):
            raise Refusal(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    for name, value in body.items():
        if name in extra or (value is None and name in fields):
            continue
        if name not in fields:
            raise Refusal(400, f"Unknown parameter: '{name}'.", name, "unknown_parameter")
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and bool not in fields[name]):
            raise Refusal(400, f"Invalid type for '{name}': {type(value).__name__}.", name, "invalid_type")


def _check_chat(body: Body, extra: Collection[str]) -> None:
    _check_fields(body, CHAT_FIELDS, ("model", "messages"), extra)
    for index, message in enumerate(body["messages"]):
        location = f"messages[{index}]"
        if not isinstance(message, dict):
            raise Refusal(400, f"Invalid type for '{location}'.", location, "invalid_type")
        if message.get("role") not in ROLES:
            raise Refusal(400, f"Invalid value: {message.get('role')!r}.", f"{location}.role", "invalid_value")
        if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
            raise Refusal(400, f"Invalid content of '{location}'.", f"{location}.content", "invalid_type")
        calls = body["messages"][index - 1].get("tool_calls") or () if index else ()
        if message["role"] == "tool" and message.get("tool_call_id") not in [call["id"] for call in calls]:
            raise Refusal(400, "Messages with role 'tool' must answer a preceding message with 'tool_calls'.", location)
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            _check_part(part, message["role"], location)
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refusal(400, "'stream_options' is only allowed when 'stream' is enabled.", "stream_options")
    if not 0 <= (body.get("temperature") or 0.0) <= 2:
        raise Refusal(400, "Invalid 'temperature': 0 to 2 are allowed.", "temperature", "decimal_out_of_range")
    for name in ("max_tokens", "max_completion_tokens"):
        if body.get(name) is not None and body[name] < 1:
            raise Refusal(400, f"Invalid '{name}': at least 1.", name, "integer_below_min_value")


def _check_part(part: object, role: str, location: str) -> None:
    """Take text, and pictures of users as data URIs; the original fetches addresses too, which we never send."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part["text"], str):  # type: ignore[index]
        return
    url = part["image_url"]["url"] if kind == "image_url" and role == "user" else ""  # type: ignore[index]
    head, _, data = url.partition(";base64,")
    if head not in {f"data:image/{name}" for name in ("png", "jpeg", "webp", "gif")} or not base64.b64decode(data):
        raise Refusal(400, f"Invalid part of '{location}'.", f"{location}.content", "invalid_image_url")


def _code(status: int) -> str | None:
    return {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)


def _event(data: Body) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with LanguageModelPeer(
        port=options.port,
        ttft_s=options.ttft,
        tokens_per_s=options.rate,
        reply=options.reply,
        dimension=options.dimension,
        api_key=options.api_key,
    ) as peer:
        print(peer.base_url, flush=True)
        await stop.wait()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="An OpenAI-compatible peer for tests and benchmarks.")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--ttft", type=float, default=0.0, help="seconds to the first token")
    parser.add_argument("--rate", type=float, default=0.0, help="tokens a second after it; 0: no delay")
    parser.add_argument("--reply", default=REPLY, help="what every chat completion says")
    parser.add_argument("--dimension", type=int, default=8, help="length of the embeddings")
    parser.add_argument("--api-key", default="", help="refuse any other key")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
