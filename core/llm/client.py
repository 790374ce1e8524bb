"""A client of one OpenAI-compatible endpoint. Only this module uses the openai package and maps its errors."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from core.errors import EmbeddingError, EndpointError, ModelError, ReplyCut, ServiceError
from core.llm.echoes import cut_repeated
from core.llm.recordings import Recording
from core.llm.refusals import Refusal, RefusedParameters, is_about_context, read_refusal
from core.llm.responses import WEB_PAGE, is_web_page, keep_method, read_body, read_reply, shorten_error
from core.llm.sse import (
    CUT_REASONS,
    ChatStreamDecoder,
    Ending,
    InvalidReplyError,
    StreamChunk,
    Vector,
    parse_completion,
    parse_embeddings,
    parse_models,
    parse_moderation,
    parse_transcript,
)
from core.observability.logs import get_logger
from core.runtime.leaving import require_leave
from core.settings.answering import is_private_host

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import Response
    from openai import APIStatusError, AsyncOpenAI

_log = get_logger(__name__)

# The client requires a key; local servers do not.
PLACEHOLDER_API_KEY = "none"
NOTHING_TOLD: Mapping[str, Any] = {}
# A server names one refused parameter at a time.
MAX_REFUSALS = 5
# Servers make a grammar of these, and some end over it. Once may be the network's fault.
GRAMMAR_PARAMETERS = frozenset({"response_format", "tools"})
MIN_CLOSINGS = 2
NO_LIST_STATUSES = frozenset({404, 405, 501})
CHAT_COMPLETIONS_PATH = "/chat/completions"
EMBEDDINGS_PATH = "/embeddings"
MODELS_PATH = "/models"
MODERATIONS_PATH = "/moderations"
TRANSCRIPTIONS_PATH = "/audio/transcriptions"
EVENT_STREAM_BEGINNINGS = (b"data:", b"event:", b": ")
# A kept connection that is gone says so at once. After this a server has worked on the request, which costs again.
MAX_RESET_S = 1.0
# The wait for the end of a complete reply, so that its connection can be reused.
DRAIN_TIMEOUT_S = 0.2
# The pause between two reads of a stream, per active stream, and the shortest and longest that is worth one: several
# words cost hardly more than one, and with hundreds of streams single words would block the event loop.
READ_PAUSE_S = 0.001
MIN_READ_PAUSE_S = 0.004
MAX_READ_PAUSE_S = 0.1
# The bounds of a reply. No model's vectors are longer than this, and a number takes about 20 bytes.
MAX_COMPLETION_BYTES = 4 << 20
MAX_STREAM_BYTES = 64 << 20
# Three minutes of speech take some kilobytes, with each of their words and its time perhaps a hundred.
MAX_TRANSCRIPT_BYTES = 256 << 10
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
        # By model: what it has refused.
        self._refused_parameters: dict[object, RefusedParameters] = {}
        # By model and those of `GRAMMAR_PARAMETERS` that were sent: how often in a row the connection was closed.
        self._closings = Counter[tuple[object, frozenset[str]]]()
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
            http_client=DefaultAioHttpClient(
                verify=_get_tls_context(),
                event_hooks={"response": [keep_method, shorten_error]},
                # A proxy of the environment leads out of the own network, and knows none of its names.
                trust_env=not is_private_host(self.base_url),
            ),
        )
        # Its resources are loaded on first access: here, not on the event loop.
        _ = client.chat.completions, client.embeddings
        return client

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[StreamChunk]:
        """Yield the chunks of a chat completion. `request` is the body without `stream`.

        Raises `ModelError`, after the chunks also for a reply that broke off: `ReplyCut` where the endpoint says so.
        """
        client = await self._client()
        decoder = ChatStreamDecoder()
        model = request.get("model")
        body = {**request, "stream": True, "stream_options": {"include_usage": True}}
        is_closed = False
        self._active_streams += 1
        try:
            with self._map_errors(ModelError, model, body):
                async with aclosing(await self._post(client, CHAT_COMPLETIONS_PATH, body)) as response:
                    async for chunk in self._read_stream(response, decoder):
                        yield chunk
                    is_closed = True
        except ModelError as error:
            # The reply is complete: an error of the connection after it does not matter.
            if decoder.ending(is_closed=False) is Ending.OPEN:
                raise
            _log.info("endpoint.error_after_reply", error=str(error))
        finally:
            self._active_streams -= 1
        if decoder.unreadable:
            _log.warning(
                "endpoint.events_unreadable",
                endpoint=self.base_url,
                model=model,
                events=len(decoder.unreadable),
                first=decoder.unreadable[0],
            )
        self._check_ending(decoder, request, is_closed=is_closed)

    async def _read_stream(self, response: Response, decoder: ChatStreamDecoder) -> AsyncGenerator[StreamChunk]:
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
        if not (decoder.has_begun or decoder.reason or decoder.is_done) and is_web_page(response):
            raise InvalidReplyError(WEB_PAGE)

    def _check_ending(self, decoder: ChatStreamDecoder, request: Mapping[str, Any], *, is_closed: bool) -> None:
        """Raise `ModelError` unless the reply is complete, with what the provider said of its end."""
        ending = decoder.ending(is_closed=is_closed)
        if ending is Ending.COMPLETE:
            return
        prefix = f"{self.base_url}: the reply of {request.get('model')}"
        said = f"finish reason {decoder.reason}"
        if ending is Ending.LIMIT:
            raise ReplyCut(f"{prefix} was cut at the limit of its length ({said}); max_tokens raises it")
        if ending is Ending.FILTER:
            raise ReplyCut(f"{prefix} was cut by the provider's filter ({said})", is_filtered=True)
        if ending is Ending.FAILURE:
            raise ModelError(f"{prefix} was broken off by the provider ({said})")
        cause = decoder.words or (decoder.unreadable[0] if decoder.unreadable and not decoder.has_begun else "")
        cause = cut_repeated(cause, request)
        raise ModelError(f"{prefix} broke off before its end{': ' * bool(cause)}{cause}")

    async def _pause_reading(self, decoder: ChatStreamDecoder) -> None:
        """Let several words of a reply arrive while many are streamed; its beginning and end are read at once."""
        pause_s = min(MAX_READ_PAUSE_S, self._active_streams * READ_PAUSE_S)
        if decoder.has_begun and decoder.patience_s is None and pause_s >= MIN_READ_PAUSE_S:
            await asyncio.sleep(pause_s)

    async def _post(self, client: AsyncOpenAI, path: str, request: Mapping[str, Any]) -> Response:
        """Post a body; its response is not read yet.

        A parameter that the endpoint refuses is renamed or left out, in this call and all later ones of this model.
        """
        import openai

        body = {**request, **(request.get("extra_body") or {})}
        body.pop("extra_body", None)
        model = body.get("model")
        known_parameters = parameters = self._refused_parameters.get(model, RefusedParameters())
        is_lasting = True
        for refusal_count in range(MAX_REFUSALS + 1):
            adapted_body = parameters.adapt(body)
            try:
                response = await self._send_form(client, path, adapted_body)
            except openai.APIStatusError as error:
                refusal = _read_refusal(error)
                learned_parameters = parameters.learn(refusal, adapted_body)
                if learned_parameters is parameters or refusal_count == MAX_REFUSALS:
                    raise
                is_lasting = is_lasting and not is_about_context(refusal)
                parameters = learned_parameters
            else:
                # Only now is it certain that the endpoint refused the parameters, and not the request.
                if is_lasting and parameters is not known_parameters:
                    self._refused_parameters[model] = parameters
                    changes = {name: other or "left out" for name, other in parameters.replacements.items()}
                    changes |= {} if parameters.has_system_role else {"system": "user"}
                    _log.info("endpoint.parameters_refused", endpoint=self.base_url, model=model, changes=changes)
                return response
        raise AssertionError("unreachable")

    async def _send_form(self, client: AsyncOpenAI, path: str, body: Mapping[str, Any]) -> Response:
        """Send a body, without `GRAMMAR_PARAMETERS` where the connection is closed over them, later ones at once."""
        import openai

        model = body.get("model")
        names = GRAMMAR_PARAMETERS.intersection(body)
        closings = self._closings[model, names]
        if closings < MIN_CLOSINGS:
            try:
                response = await self._send(client, path, body)
            except openai.APIConnectionError as error:
                if not names or _is_timeout(error) or _is_unsent(error):
                    raise
                # Counted whatever comes of the next request, which a server that is down does not take; and from the
                # sending: one that ends closes all requests under way, and that is once.
                self._closings[model, names] = closings + 1
                _log.warning("endpoint.closed", endpoint=self.base_url, model=model, sent_again_without=sorted(names))
            else:
                self._closings.pop((model, names), None)
                return response
        return await self._send(client, path, RefusedParameters(dict.fromkeys(names, "")).adapt(body))

    async def _send(self, client: AsyncOpenAI, path: str, body: Mapping[str, Any], **upload: Any) -> Response:
        import httpx2
        import openai

        await require_leave()
        # Not the typed methods: they validate the whole prompt, and hand on whatever a proxy answers in place of JSON.
        post = partial(client.post, path, cast_to=httpx2.Response, body=body, stream=True, **upload)
        sent_at = time.monotonic()
        try:
            response: Response = await post()
        except openai.APIConnectionError as error:
            # A connection that was kept open is gone, and the server may never have seen the request.
            is_reset = isinstance(_root_cause(error), ConnectionResetError | BrokenPipeError)
            if not is_reset or time.monotonic() - sent_at > MAX_RESET_S:
                raise
            _log.info("endpoint.sent_again", endpoint=self.base_url, error=str(_root_cause(error)))
            try:
                response = await post()
            except openai.APIConnectionError:
                raise error from error.__cause__
        return response

    async def complete(self, request: Mapping[str, Any]) -> StreamChunk:
        """Return a whole chat completion with its token counts. Raises `ModelError`.

        Tool calls become text: `name(arguments)`, one per line. A reply that comes as a stream is joined.
        """
        client = await self._client()
        model = request.get("model")
        with self._map_errors(ModelError, model, request):
            response = await self._post(client, CHAT_COMPLETIONS_PATH, request)
            content = await read_body(response, MAX_COMPLETION_BYTES)
            if not content.lstrip().startswith(EVENT_STREAM_BEGINNINGS):
                completion, reason = await read_reply(response, content, parse_completion)
                if reason in CUT_REASONS:
                    _log.warning("endpoint.reply_cut", endpoint=self.base_url, model=model, reason=reason)
                return completion
            decoder = ChatStreamDecoder()
            chunks = [*decoder.feed(content), *decoder.flush()]
        self._check_ending(decoder, request, is_closed=True)
        counts = next((chunk for chunk in reversed(chunks) if not chunk.events), StreamChunk())
        text = decoder.calls.prepend_to("".join(chunk.text for chunk in chunks))
        return StreamChunk(text, counts.prompt_tokens, counts.completion_tokens)

    async def list_models(self) -> Sequence[str]:
        """Return the names of the endpoint's models; empty where it has no such list. Raises `ModelError`."""
        import httpx2

        client = await self._client()
        try:
            with self._map_errors(ModelError, "the list of models"):
                # Not the typed method, which reads a list of any size.
                response: Response = await client.get(MODELS_PATH, cast_to=httpx2.Response, stream=True)
                return await read_reply(response, await read_body(response, MAX_COMPLETION_BYTES), parse_models)
        except ModelError as error:
            if error.status in NO_LIST_STATUSES:
                return []
            raise

    async def embed(self, model: str, texts: Sequence[str], fields: Mapping[str, object] | None = None) -> list[Vector]:
        """Return one vector per text, in order; `fields` are sent with them. Raises `EmbeddingError`.

        They are asked for in base64, a quarter of the bytes and quicker to read. Where that is refused, in this call
        and all later ones as numbers in JSON.
        """
        client = await self._client()
        max_numbers = MAX_DIMENSION * len(texts)
        body = {"model": model, "input": list(texts), "encoding_format": "base64", **(fields or {})}
        with self._map_errors(EmbeddingError, model, body):
            response = await self._post(client, EMBEDDINGS_PATH, body)
            content = await read_body(response, max_numbers * MAX_NUMBER_BYTES)
            vectors = await read_reply(response, content, parse_embeddings, max_numbers)
            if len(vectors) != len(texts):
                raise InvalidReplyError(f"{len(vectors)} vectors for {len(texts)} texts")
        return vectors

    async def moderate(self, model: str, text: str) -> Sequence[str]:
        """Return the categories for which a text is flagged; without a `model`, the endpoint's own judges.

        Raises `ModelError`.
        """
        client = await self._client()
        body = {"input": text, **({"model": model} if model else {})}
        with self._map_errors(ModelError, model or "moderation", body):
            response = await self._send(client, MODERATIONS_PATH, body)
            return await read_reply(response, await read_body(response, MAX_COMPLETION_BYTES), parse_moderation)

    async def transcribe(self, model: str, recording: Recording) -> str:
        """Return what is said in a recording. Raises `ModelError`."""
        client = await self._client()
        body = {"model": model, "response_format": "json"}
        upload = {
            "files": [("file", (recording.file_name, recording.content, recording.media_type))],
            # The library adds the boundary.
            "options": {"headers": {"Content-Type": "multipart/form-data"}},
        }
        with self._map_errors(ModelError, model):
            response = await self._send(client, TRANSCRIPTIONS_PATH, body, **upload)
            return await read_reply(response, await read_body(response, MAX_TRANSCRIPT_BYTES), parse_transcript)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client_task is not None:
            with suppress(ServiceError):
                await (await self._client()).close()

    def _describe(self, refusal: Refusal, request: Mapping[str, Any]) -> str:
        """Return what a refusal says, and the way out where it is clear.

        Some providers repeat the key, others what they were told.
        """
        words = refusal.words.replace(self._api_key, "***") if self._api_key else refusal.words
        words = cut_repeated(words, request)
        hint = ""
        if refusal.status == 401:
            hint = (
                "the API key was refused; check api_key: "
                if self._api_key
                else "it wants an API key, and none is configured; set api_key: "
            )
        return f"{hint}status {refusal.status}: {words}".removesuffix(": ")

    @contextmanager
    def _map_errors(
        self, error_class: type[EndpointError], model: object, request: Mapping[str, Any] = NOTHING_TOLD
    ) -> Iterator[None]:
        """Raise the errors of the block as ours, in which nothing stands of what people said in the `request`."""
        import aiohttp
        import httpx2
        import openai

        prefix = f"{self.base_url}: {model}"
        try:
            yield
        except openai.APIStatusError as error:
            refusal = _read_refusal(error)
            message = f"{prefix}: {self._describe(refusal, request)}"
            raise error_class(message, status=refusal.status, retry_after=refusal.retry_after) from error
        except InvalidReplyError as error:
            said = cut_repeated(str(error)[:300], request)
            reply_error = error_class(f"{prefix} sent {said}", status=error.status)
            reply_error.is_unusable = True
            raise reply_error from error
        except (openai.APIConnectionError, httpx2.TransportError, aiohttp.ClientError) as error:
            is_timeout = _is_timeout(error)
            endpoint_error = error_class(
                f"{prefix} did not answer in time"
                if is_timeout
                else f"{prefix}: the connection failed ({_describe_cause(error)})"
            )
            endpoint_error.is_timeout = is_timeout
            endpoint_error.is_unsent = _is_unsent(error)
            raise endpoint_error from error
        except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError) as error:
            raise error_class(f"{prefix}: {type(error).__name__}: {str(error)[:300]}") from error


@lru_cache(maxsize=1)
def _get_tls_context() -> SSLContext:
    """Return the context that verifies certificates, one for all clients: reading the authorities takes 25 ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


def _read_refusal(error: APIStatusError) -> Refusal:
    # The response's own words: the library knows one form of them.
    return read_refusal(error.status_code, error.response.content, error.response.headers)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__


def _is_timeout(error: BaseException) -> bool:
    """Return whether no answer came in time. openai reports a connection that the server closes as a timeout too."""
    import httpx2

    return isinstance(_root_cause(error), TimeoutError | httpx2.TimeoutException)


def _is_unsent(error: BaseException) -> bool:
    """Return whether there was no connection. One that the server ends is reported as one that took too long."""
    import aiohttp
    import httpx2

    causes = list(_chain(error))
    if any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        return True
    is_ended = any(isinstance(cause, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) for cause in causes)
    return not is_ended and any(isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout) for cause in causes)


def _describe_cause(error: BaseException) -> str:
    cause = _root_cause(error)
    # It names the address, which may be that of a proxy.
    described = str(cause)[:300]
    return f"{described}: is its server running?" if isinstance(cause, ConnectionRefusedError) else described


def _root_cause(error: BaseException) -> BaseException:
    """Return the first cause with a message, or a timeout without one."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    return error.__cause__ if isinstance(error.__cause__, TimeoutError) else error


async def _read_next(byte_stream: AsyncIterator[bytes], decoder: ChatStreamDecoder) -> bytes:
    """Return the next bytes of a reply, b"" at its end; after a sign of its end, silence is also the end."""
    if decoder.patience_s is None:
        return await anext(byte_stream, b"")
    with suppress(TimeoutError):
        async with asyncio.timeout(decoder.patience_s):
            return await anext(byte_stream, b"")
    return b""


async def _drain(byte_stream: AsyncIterator[bytes]) -> None:
    """Read the rest after a complete reply; errors there do not matter any more."""
    import httpx2

    with suppress(TimeoutError, httpx2.HTTPError, httpx2.StreamError):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in byte_stream:
                pass
