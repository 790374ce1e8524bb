"""A client of one OpenAI-compatible endpoint. Only this module uses the openai package and maps its errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import aclosing, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from core.errors import EmbeddingError, ModelError, ServiceError
from core.llm.responses import WEB_PAGE, is_web_page, read_reply, shorten_error
from core.llm.sse import (
    ChatStreamDecoder,
    InvalidReplyError,
    StreamChunk,
    Vector,
    parse_completion,
    parse_embeddings,
    parse_models,
)
from core.observability.logs import get_logger
from core.runtime.retry_after import parse_retry_after

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import Response
    from openai import AsyncOpenAI

_log = get_logger(__name__)

# The client requires a key; local servers do not.
PLACEHOLDER_API_KEY = "none"
# Request parameters that some endpoints do not support, and the statuses with which they reject them.
OPTIONAL_PARAMETERS = frozenset({"response_format", "tools"})
UNSUPPORTED_STATUSES = frozenset({400, 422, 501})
NO_LIST_STATUSES = frozenset({404, 405, 501})
CHAT_COMPLETIONS_PATH = "/chat/completions"
EMBEDDINGS_PATH = "/embeddings"
MODELS_PATH = "/models"
# The wait for the end of a complete reply, so that its connection can be reused.
DRAIN_TIMEOUT_S = 0.2
# The wait for the token counts after the last text.
USAGE_TIMEOUT_S = 2.0
# The pause between two reads of a stream, per active stream, and the shortest and longest that is worth one: several
# words cost hardly more than one, and with hundreds of streams single words would block the event loop.
READ_PAUSE_S = 0.001
MIN_READ_PAUSE_S = 0.004
MAX_READ_PAUSE_S = 0.1
# The bounds of a reply. No model's vectors are longer than this, and a number takes about 20 bytes.
MAX_COMPLETION_BYTES = 4 << 20
MAX_STREAM_BYTES = 64 << 20
MAX_DIMENSION = 16_384
MAX_NUMBER_BYTES = 40

Result = TypeVar("Result")


class OpenAIClient:
    """Calls one endpoint. Open it, call it as often as needed, close it."""

    def __init__(self, base_url: str, api_key: str, timeout_s: float) -> None:
        self.base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._client_task: asyncio.Task[AsyncOpenAI] | None = None
        self._unsupported_parameters: set[str] = set()
        self._active_streams = 0
        # Learned from replies: the chat template opens a block of reasoning that only its end is sent of.
        self.starts_in_reasoning = False

    @classmethod
    def open(cls, base_url: str, api_key: str, timeout_s: float) -> OpenAIClient:
        """Prepare a client without sending anything. `timeout_s` limits the wait for each chunk, in seconds."""
        return cls(base_url, api_key, timeout_s)

    async def warm_up(self) -> None:
        """Load the client before the first call: importing the package takes about a second."""
        try:
            await self._client()
        except ServiceError as error:
            # The first call raises the error again, to its caller.
            _log.error("endpoint.unusable", error=str(error))

    async def _client(self) -> AsyncOpenAI:
        if self._client_task is None:
            self._client_task = asyncio.create_task(asyncio.to_thread(self._load))
        # Shielded: a caller that is cancelled must not cancel the loading for the others.
        try:
            return await asyncio.shield(self._client_task)
        except Exception as error:
            raise ServiceError(f"{self.base_url}: no client can be made for it: {error}") from error

    def _load(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAioHttpClient

        # The caller decides on retries: it knows the remaining budget. With aiohttp a token takes a quarter of the
        # time, which determines how many conversations can run at once.
        client = AsyncOpenAI(
            base_url=self.base_url,
            api_key=self._api_key or PLACEHOLDER_API_KEY,
            timeout=self._timeout_s,
            max_retries=0,
            http_client=DefaultAioHttpClient(verify=_get_tls_context(), event_hooks={"response": [shorten_error]}),
        )
        # Its resources are loaded on first access: here, not on the event loop.
        _ = client.chat.completions, client.embeddings
        return client

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[StreamChunk]:
        """Yield the chunks of a chat completion. `request` is the body without `stream`. Raises `ModelError`."""
        client = await self._client()
        decoder = ChatStreamDecoder()
        self._active_streams += 1
        try:
            with self._map_errors(ModelError, request.get("model")):
                async with aclosing(await self._open_stream(client, request)) as response:
                    byte_stream = response.aiter_bytes()
                    byte_count = 0
                    while data := await _read_next(byte_stream, decoder):
                        byte_count += len(data)
                        if byte_count > MAX_STREAM_BYTES:
                            raise InvalidReplyError(f"a reply of more than {MAX_STREAM_BYTES >> 20} MB")
                        for chunk in decoder.feed(data):
                            yield chunk
                        if decoder.is_done:
                            await _drain(byte_stream)
                            break
                        await self._pause_reading(decoder)
                    for chunk in decoder.flush():
                        yield chunk
                    if not (decoder.has_begun or decoder.is_complete) and is_web_page(response):
                        raise InvalidReplyError(WEB_PAGE)
        except ModelError as error:
            # The reply is complete: an error of the connection after it does not matter.
            if not decoder.is_complete:
                raise
            _log.info("endpoint.error_after_reply", error=str(error))
        finally:
            self._active_streams -= 1
        if not decoder.is_complete:
            raise ModelError(f"{self.base_url}: the reply of {request.get('model')} broke off before its end")

    async def _pause_reading(self, decoder: ChatStreamDecoder) -> None:
        """Let several words of a reply arrive while many are streamed; its beginning and end are read at once."""
        pause_s = min(MAX_READ_PAUSE_S, self._active_streams * READ_PAUSE_S)
        if decoder.has_begun and not decoder.is_complete and pause_s >= MIN_READ_PAUSE_S:
            await asyncio.sleep(pause_s)

    async def _open_stream(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Response:
        """Start a stream, with token counts if the endpoint supports them; a rejection is remembered."""
        import openai

        body = {**request, "stream": True}
        if "stream_options" not in self._unsupported_parameters:
            try:
                return await self._post(client, {**body, "stream_options": {"include_usage": True}})
            except openai.APIStatusError as error:
                if error.status_code not in UNSUPPORTED_STATUSES:
                    raise
        response = await self._post(client, body)
        self._unsupported_parameters.add("stream_options")
        return response

    async def _post(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Response:
        """Post the body of a chat completion; its response is not read yet."""
        import httpx2

        body = {**request, **(request.get("extra_body") or {})}
        body.pop("extra_body", None)
        # Not the typed method, which would validate the whole prompt.
        response: Response = await client.post(CHAT_COMPLETIONS_PATH, cast_to=httpx2.Response, body=body, stream=True)
        return response

    async def complete(self, request: Mapping[str, Any]) -> StreamChunk:
        """Return a whole chat completion with its token counts. Raises `ModelError`.

        A `response_format` or `tools` that the endpoint rejects is omitted, in this call and all later ones. Tool calls
        become text: `name(arguments)`, one per line.
        """
        client = await self._client()
        with self._map_errors(ModelError, request.get("model")):
            response = await self._post_completion(client, request)
            return await read_reply(response, parse_completion, MAX_COMPLETION_BYTES)

    async def _post_completion(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Response:
        import openai

        body = _without({**request}, self._unsupported_parameters)
        optional_names = OPTIONAL_PARAMETERS & body.keys()
        try:
            return await self._post(client, body)
        except openai.APIStatusError as error:
            if not optional_names or error.status_code not in UNSUPPORTED_STATUSES:
                raise
        response = await self._post(client, _without(body, optional_names))
        # Only now is it certain that the endpoint rejected the optional parameters.
        self._unsupported_parameters |= optional_names
        return response

    async def list_models(self) -> Sequence[str]:
        """Return the names of the endpoint's models; empty where it has no such list. Raises `ModelError`."""
        import httpx2

        client = await self._client()
        try:
            with self._map_errors(ModelError, "the list of models"):
                # Not the typed method, which reads a list of any size.
                response: Response = await client.get(MODELS_PATH, cast_to=httpx2.Response, stream=True)
                return await read_reply(response, parse_models, MAX_COMPLETION_BYTES)
        except ModelError as error:
            if error.status in NO_LIST_STATUSES:
                return []
            raise

    async def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order. Raises `EmbeddingError`.

        They are asked for in base64, a quarter of the bytes and quicker to read. Where that is rejected, in this call
        and all later ones as numbers in JSON.
        """
        client = await self._client()
        max_numbers = MAX_DIMENSION * len(texts)
        with self._map_errors(EmbeddingError, model):
            response = await self._post_texts(client, {"model": model, "input": list(texts)})
            vectors = await read_reply(response, parse_embeddings, max_numbers * MAX_NUMBER_BYTES, max_numbers)
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self.base_url}: {model} sent {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    async def _post_texts(self, client: AsyncOpenAI, body: Mapping[str, Any]) -> Response:
        """Post the body of an embeddings request; its response is not read yet."""
        import httpx2
        import openai

        async def post(encoding: str) -> Response:
            # Not the typed method, which hands on whatever a proxy answers in place of JSON.
            encoded_body = {**body, "encoding_format": encoding}
            response: Response = await client.post(
                EMBEDDINGS_PATH, cast_to=httpx2.Response, body=encoded_body, stream=True
            )
            return response

        if "encoding_format" not in self._unsupported_parameters:
            try:
                return await post("base64")
            except openai.APIStatusError as error:
                if error.status_code not in UNSUPPORTED_STATUSES:
                    raise
        response = await post("float")
        self._unsupported_parameters.add("encoding_format")
        return response

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client_task is not None:
            with suppress(ServiceError):
                await (await self._client()).close()

    @contextmanager
    def _map_errors(self, error_class: type[ServiceError], model: object) -> Iterator[None]:
        import aiohttp
        import httpx2
        import openai

        prefix = f"{self.base_url}: {model}"
        try:
            yield
        except openai.APIStatusError as error:
            # Without a full stop, for whoever adds a sentence.
            message = f"{prefix}: status {error.status_code}: {error.message[:300].rstrip(' .')}"
            if isinstance(error, openai.AuthenticationError):
                message = f"{self.base_url}: the API key was refused; check api_key for {model}"
            raise _make_error(
                error_class,
                message,
                error.status_code,
                parse_retry_after(error.response.headers.get("retry-after", "")),
            ) from error
        except InvalidReplyError as error:
            raise _make_error(error_class, f"{prefix} sent {str(error)[:300]}", error.status) from error
        except (openai.APIConnectionError, httpx2.TransportError, aiohttp.ClientError) as error:
            cause = _root_cause(error)
            # openai reports a connection that the server closes as a timeout too; the root cause tells them apart.
            is_timeout = isinstance(cause, TimeoutError | httpx2.TimeoutException)
            service_error = error_class(
                f"{prefix} did not answer in time"
                if is_timeout
                else f"{prefix}: the connection failed ({str(cause)[:300]})"
            )
            if isinstance(service_error, ModelError):
                unconnected_errors = aiohttp.ClientConnectorError, httpx2.ConnectError, httpx2.ConnectTimeout
                service_error.is_unsent = any(isinstance(link, unconnected_errors) for link in _chain(error))
            raise service_error from error
        except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError) as error:
            raise error_class(f"{prefix}: {type(error).__name__}: {str(error)[:300]}") from error


@lru_cache(maxsize=1)
def _get_tls_context() -> SSLContext:
    """Return the context that verifies certificates, one for all clients: reading the authorities takes 25 ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


def _without(body: dict[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """Return a body without some parameters; without tools, earlier calls of a tool are text."""
    remaining_body = {name: value for name, value in body.items() if name not in names}
    if "tools" in remaining_body:
        return remaining_body
    messages = []
    for message in remaining_body["messages"]:
        is_result = message["role"] == "tool"
        text_message = {name: message[name] for name in message if name not in ("tool_calls", "tool_call_id")}
        messages.append({**text_message, "role": "user"} if is_result else text_message)
    return {**remaining_body, "messages": messages}


def _make_error(
    error_class: type[ServiceError], message: str, status: int | None, retry_after: float | None = None
) -> ServiceError:
    if error_class is ModelError:
        return ModelError(message, status=status, retry_after=retry_after)
    return error_class(message)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__


def _root_cause(error: BaseException) -> BaseException:
    """Return the first cause with a message, or a timeout without one."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    return error.__cause__ if isinstance(error.__cause__, TimeoutError) else error


async def _read_next(byte_stream: AsyncIterator[bytes], decoder: ChatStreamDecoder) -> bytes:
    """Return the next bytes of a reply, b"" at its end; after a complete reply, silence is also the end."""
    if not decoder.is_complete:
        return await anext(byte_stream, b"")
    with suppress(TimeoutError):
        async with asyncio.timeout(USAGE_TIMEOUT_S):
            return await anext(byte_stream, b"")
    return b""


async def _drain(byte_stream: AsyncIterator[bytes]) -> None:
    """Read the rest after a complete reply; errors there do not matter any more."""
    import httpx2

    with suppress(TimeoutError, httpx2.HTTPError, httpx2.StreamError):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in byte_stream:
                pass
