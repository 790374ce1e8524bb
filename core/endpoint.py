"""One OpenAI-compatible endpoint: the only module that knows the openai package. Its errors become ours here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import EmbeddingError, ModelError, ServiceError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

# The client insists on a key; local servers do not.
NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a streamed reply, or the token counts that close it (its text is then empty)."""

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Endpoint:
    """Calls one endpoint. Use as: open, call as often as needed, close."""

    def __init__(self, client: AsyncOpenAI, base_url: str) -> None:
        self._client = client
        self.base_url = base_url

    @classmethod
    def open(cls, base_url: str, api_key: str, timeout_s: float) -> Endpoint:
        """Prepare a client; nothing is sent. `timeout_s` bounds the wait for each piece of a reply, in seconds."""
        from openai import AsyncOpenAI

        # Retries are the caller's decision: it knows what is left of the budget.
        client = AsyncOpenAI(base_url=base_url, api_key=api_key or NO_KEY, timeout=timeout_s, max_retries=0)
        return cls(client, base_url)

    async def stream(self, request: Mapping[str, Any]) -> AsyncGenerator[Piece]:
        """Yield a chat completion piece by piece. `request` is the body without `stream`. Raises `ModelError`."""
        with self._mapped(ModelError, request.get("model")):
            async with await self._client.chat.completions.create(
                **request, stream=True, stream_options={"include_usage": True}
            ) as chunks:
                finished = False
                async for chunk in chunks:
                    if chunk.usage:
                        yield Piece("", chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
                    for choice in chunk.choices:
                        finished = finished or choice.finish_reason is not None
                        if choice.delta and choice.delta.content:
                            yield Piece(choice.delta.content)
        if not finished:
            raise ModelError(f"{self.base_url}: the reply of {request.get('model')} broke off before its end")

    async def complete(self, request: Mapping[str, Any]) -> Piece:
        """Return a whole chat completion with its token counts. Raises `ModelError`."""
        with self._mapped(ModelError, request.get("model")):
            reply = await self._client.chat.completions.create(**request, stream=False)
        if not reply.choices:
            raise ModelError(f"{self.base_url}: {request.get('model')} sent a reply without choices")
        usage = reply.usage
        return Piece(
            reply.choices[0].message.content or "",
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
        )

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order. Raises `EmbeddingError`."""
        with self._mapped(EmbeddingError, model):
            reply = await self._client.embeddings.create(model=model, input=list(texts), encoding_format="float")
        vectors = [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self.base_url}: {model} sent {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

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
