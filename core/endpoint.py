"""One OpenAI-compatible endpoint: the only module that knows the openai package. Its errors become ours here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import EmbeddingError, ModelError, ServiceError
from core.logs import logger

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

# The client insists on a key; local servers do not.
NO_KEY = "none"
# What a request may ask for that not every endpoint knows, and how those that do not say so.
OPTIONAL = frozenset({"response_format", "tools"})
REFUSED = frozenset({400, 422, 501})


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a streamed reply, or the token counts that close it (its text is then empty)."""

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Endpoint:
    """Calls one endpoint. Use as: open, call as often as needed, close."""

    def __init__(self, base_url: str, api_key: str, timeout_s: float) -> None:
        self.base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._opened: asyncio.Task[AsyncOpenAI] | None = None
        self._refused: set[str] = set()

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
        from openai import AsyncOpenAI

        # Retries are the caller's decision: it knows what is left of the budget.
        client = AsyncOpenAI(
            base_url=self.base_url, api_key=self._api_key or NO_KEY, timeout=self._timeout_s, max_retries=0
        )
        # Its resources are loaded on first touch; better here than on the event loop.
        _ = client.chat.completions, client.embeddings
        return client

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[Piece]:
        """Yield a chat completion piece by piece. `request` is the body without `stream`. Raises `ModelError`."""
        client = await self._client()
        with self._mapped(ModelError, request.get("model")):
            async with await self._open_stream(client, request) as chunks:
                finished = False
                async for chunk in chunks:
                    if chunk.usage:
                        # Some servers send no reason for the end, but the counts that come alone behind it.
                        finished = finished or not chunk.choices
                        yield Piece("", chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
                    for choice in chunk.choices:
                        finished = finished or choice.finish_reason is not None
                        if choice.delta and choice.delta.content:
                            yield Piece(choice.delta.content)
        if not finished:
            raise ModelError(f"{self.base_url}: the reply of {request.get('model')} broke off before its end")

    async def _open_stream(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> AsyncStream[ChatCompletionChunk]:
        """Start a stream, with token counts where the endpoint knows of them; a refusal is remembered."""
        import openai

        chunks: AsyncStream[ChatCompletionChunk]
        if "stream_options" not in self._refused:
            try:
                chunks = await client.chat.completions.create(
                    **request, stream=True, stream_options={"include_usage": True}
                )
                return chunks
            except openai.APIStatusError as fault:
                if fault.status_code not in REFUSED:
                    raise
        chunks = await client.chat.completions.create(**request, stream=True)
        self._refused.add("stream_options")
        return chunks

    async def complete(self, request: Mapping[str, Any]) -> Piece:
        """Return a whole chat completion with its token counts. Raises `ModelError`.

        A `response_format` or `tools` that the endpoint refuses is left out, then and from then on. Tool calls become
        text: `name(arguments)`, one a line.
        """
        client = await self._client()
        with self._mapped(ModelError, request.get("model")):
            reply = await self._create(client, request)
        if not reply.choices:
            raise ModelError(f"{self.base_url}: {request.get('model')} sent a reply without choices")
        usage, message = reply.usage, reply.choices[0].message
        calls = [
            f"{call.function.name}({call.function.arguments})"
            for call in message.tool_calls or ()
            if call.type == "function"
        ]
        return Piece(
            "\n".join([*calls, message.content or ""]).strip() if calls else message.content or "",
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
        )

    async def _create(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> ChatCompletion:
        import openai

        reply: ChatCompletion
        known = {name: value for name, value in request.items() if name not in self._refused}
        asked = OPTIONAL & known.keys()
        try:
            reply = await client.chat.completions.create(**known, stream=False)
            return reply
        except openai.APIStatusError as fault:
            if not asked or fault.status_code not in REFUSED:
                raise
        plain = {name: value for name, value in known.items() if name not in asked}
        reply = await client.chat.completions.create(**plain, stream=False)
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
        import httpx2
        import openai

        try:
            yield
        except openai.APITimeoutError as fault:
            raise error(f"{self.base_url}: {model} did not answer in time") from fault
        except openai.APIConnectionError as fault:
            raise error(f"{self.base_url}: {model}: the connection failed ({fault.__cause__ or fault})") from fault
        except openai.AuthenticationError as fault:
            raise error(f"{self.base_url}: the API key was refused; check api_key for {model}") from fault
        except openai.APIStatusError as fault:
            raise error(f"{self.base_url}: {model}: status {fault.status_code}: {fault.message[:300]}") from fault
        except (openai.OpenAIError, httpx2.HTTPError, ValueError) as fault:
            raise error(f"{self.base_url}: {model}: {type(fault).__name__}: {str(fault)[:300]}") from fault
