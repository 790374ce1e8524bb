"""One OpenAI-compatible endpoint: the only module that knows the openai package. Its errors become ours here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from core.errors import EmbeddingError, ModelError, ServiceError
from core.llm.sse import Piece, Stream, WireError, reply_of
from core.observability.logs import logger

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import AsyncOpenAI

# The client insists on a key; local servers do not.
NO_KEY = "none"
# What a request may ask for that not every endpoint knows, and how those that do not say so.
OPTIONAL = frozenset({"response_format", "tools"})
REFUSED = frozenset({400, 422, 501})
CHAT = "/chat/completions"
# How long the end of a complete reply is waited for, so that its connection can be used again.
DRAIN_S = 0.2
# How long the token counts are waited for behind the last word.
COUNTS_S = 2.0
# How long a reply rests between two readings, for each that is being read: a few words at once cost hardly more than
# one, and with hundreds of replies at the same time single words would keep the event loop from everything else.
REST_S, LEAST_REST_S = 0.001, 0.004


class Endpoint:
    """Calls one endpoint. Use as: open, call as often as needed, close."""

    def __init__(self, base_url: str, api_key: str, timeout_s: float) -> None:
        self.base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._opened: asyncio.Task[AsyncOpenAI] | None = None
        self._refused: set[str] = set()
        self._streams = 0

    @classmethod
    def open(cls, base_url: str, api_key: str, timeout_s: float) -> Endpoint:
        """Prepare an endpoint; nothing is sent. `timeout_s` bounds the wait for each piece of a reply, in seconds."""
        return cls(base_url, api_key, timeout_s)

    async def warm_up(self) -> None:
        """Load the client ahead of the first call: the package takes about a second."""
        try:
            await self._client()
        except ServiceError as fault:
            # The first call says so again, to whoever asked.
            logger(__name__).error("endpoint.unusable", error=str(fault))

    async def _client(self) -> AsyncOpenAI:
        if self._opened is None:
            self._opened = asyncio.create_task(asyncio.to_thread(self._load))
        # Shielded: a caller whose time is up must not take the client from the others.
        try:
            return await asyncio.shield(self._opened)
        except Exception as fault:
            raise ServiceError(f"{self.base_url}: no client can be made for it: {fault}") from fault

    def _load(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAioHttpClient

        # Retries are the caller's decision: it knows what is left of the budget. A token costs a quarter of the time
        # through aiohttp: that decides how many conversations at once there can be.
        client = AsyncOpenAI(
            base_url=self.base_url,
            api_key=self._api_key or NO_KEY,
            timeout=self._timeout_s,
            max_retries=0,
            http_client=DefaultAioHttpClient(),
        )
        # Its resources are loaded on first touch; better here than on the event loop.
        _ = client.chat.completions, client.embeddings
        return client

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[Piece]:
        """Yield a chat completion piece by piece. `request` is the body without `stream`. Raises `ModelError`."""
        client, reply = await self._client(), Stream()
        self._streams += 1
        try:
            with self._mapped(ModelError, request.get("model")):
                async with aclosing(await self._open_stream(client, request)) as response:
                    chunks = response.aiter_bytes()
                    while chunk := await _next(chunks, reply):
                        for piece in reply.feed(chunk):
                            yield piece
                        if reply.done:
                            await _drain(chunks)
                            break
                        if not reply.finished and (rest := self._streams * REST_S) >= LEAST_REST_S:
                            await asyncio.sleep(rest)
                    for piece in reply.finish():
                        yield piece
        except ModelError as fault:
            # The server said that the reply is whole: a connection that breaks then takes nothing from it.
            if not reply.finished:
                raise
            logger(__name__).info("endpoint.ended_badly", error=str(fault))
        finally:
            self._streams -= 1
        if not reply.finished:
            raise ModelError(f"{self.base_url}: the reply of {request.get('model')} broke off before its end")

    async def _open_stream(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Response:
        """Start a stream, with token counts where the endpoint knows of them; a refusal is remembered."""
        import openai

        streamed = {**request, "stream": True}
        if "stream_options" not in self._refused:
            try:
                return await self._post(client, {**streamed, "stream_options": {"include_usage": True}})
            except openai.APIStatusError as fault:
                if fault.status_code not in REFUSED:
                    raise
        response = await self._post(client, streamed)
        self._refused.add("stream_options")
        return response

    async def _post(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Response:
        """Send the body of a chat completion; a response to a stream is not read yet."""
        import httpx2

        body = {**request, **(request.get("extra_body") or {})}
        body.pop("extra_body", None)
        # Past the typed method, which would walk through the whole prompt to check what is ours anyway.
        response: Response = await client.post(
            CHAT, cast_to=httpx2.Response, body=body, stream=body.get("stream", False)
        )
        return response

    async def complete(self, request: Mapping[str, Any]) -> Piece:
        """Return a whole chat completion with its token counts. Raises `ModelError`.

        A `response_format` or `tools` that the endpoint refuses is left out, then and from then on. Tool calls become
        text: `name(arguments)`, one a line.
        """
        client = await self._client()
        with self._mapped(ModelError, request.get("model")):
            return reply_of((await self._create(client, request)).json())

    async def _create(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Response:
        import openai

        known = {name: value for name, value in request.items() if name not in self._refused}
        asked = OPTIONAL & known.keys()
        try:
            return await self._post(client, known)
        except openai.APIStatusError as fault:
            if not asked or fault.status_code not in REFUSED:
                raise
        reply = await self._post(client, {name: value for name, value in known.items() if name not in asked})
        # Only now is it certain that the wish was what the endpoint refused.
        self._refused |= asked
        return reply

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order. Raises `EmbeddingError`."""
        client = await self._client()
        with self._mapped(EmbeddingError, model):
            reply = await client.embeddings.create(model=model, input=list(texts), encoding_format="float")
        vectors = [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self.base_url}: {model} sent {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._opened is not None:
            with suppress(ServiceError):
                await (await self._client()).close()

    @contextmanager
    def _mapped(self, error: type[ServiceError], model: object) -> Iterator[None]:
        import aiohttp
        import httpx2
        import openai

        about = f"{self.base_url}: {model}"
        try:
            yield
        except openai.APIStatusError as fault:
            said = f"{about}: status {fault.status_code}: {fault.message[:300]}"
            if isinstance(fault, openai.AuthenticationError):
                said = f"{self.base_url}: the API key was refused; check api_key for {model}"
            raise _failure(error, said, fault.status_code, _retry_after(fault.response.headers)) from fault
        except WireError as fault:
            raise _failure(error, f"{about} sent {str(fault)[:300]}", fault.status) from fault
        except (openai.APIConnectionError, httpx2.TransportError, aiohttp.ClientError) as fault:
            reason = _reason(fault)
            # To openai a connection that the server closes is a time-out too; the first cause tells them apart.
            silent = isinstance(reason, TimeoutError | httpx2.TimeoutException)
            raise error(
                f"{about} did not answer in time" if silent else f"{about}: the connection failed ({str(reason)[:300]})"
            ) from fault
        except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError) as fault:
            raise error(f"{about}: {type(fault).__name__}: {str(fault)[:300]}") from fault


def _failure(
    error: type[ServiceError], message: str, status: int | None, retry_after: float | None = None
) -> ServiceError:
    return ModelError(message, status=status, retry_after=retry_after) if error is ModelError else error(message)


def _reason(fault: BaseException) -> BaseException:
    """Return the first cause that says anything."""
    while fault.__cause__ is not None and str(fault.__cause__):
        fault = fault.__cause__
    return fault.__cause__ if isinstance(fault.__cause__, TimeoutError) else fault


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return for how many seconds a server asks to be left alone; a date is no number and counts as nothing."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


async def _next(chunks: AsyncIterator[bytes], reply: Stream) -> bytes:
    """Return the next bytes of a reply, none at its end; once it is whole, silence is an end as well."""
    if not reply.finished:
        return await anext(chunks, b"")
    with suppress(TimeoutError):
        async with asyncio.timeout(COUNTS_S):
            return await anext(chunks, b"")
    return b""


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows a complete reply; what goes wrong there concerns nobody any more."""
    import httpx2

    with suppress(TimeoutError, httpx2.HTTPError, httpx2.StreamError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
