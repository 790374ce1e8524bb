"""A tolerant parser for the event streams and JSON bodies of OpenAI-compatible endpoints.

It reads only the few fields that are needed. A client library builds a validated object for every token, which costs
ten times as much: with many conversations at once, answers would wait for it.
"""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.llm.reasoning import remove_reasoning

DONE = "[DONE]"
REASONING_FIELDS = ("reasoning_content", "reasoning")
REASONING_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
MAX_TOKEN_COUNT = 1_000_000_000
# An event holds a few words; all of an answer where the server does not really stream. It is parsed on the event loop.
MAX_EVENT_BYTES = 256 << 10
# Numbers as they came: a list, or the floats of base64 text.
Vector = Sequence[float]


class InvalidReplyError(ValueError):
    """The response is not a reply. `status` is the HTTP status of an error inside the stream, if it has one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """A chunk of a streamed reply, or the token counts at its end (then the text is empty).

    `events` is how many events of the stream brought it, those with reasoning of the model included.
    """

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    events: int = 0


class ChatStreamDecoder:
    """Turns the bytes of one streamed reply into chunks. Lines may end in LF, CR or both; comments are skipped.

    `has_begun` is true when text or reasoning has come, `is_complete` when the server has sent the finish reason,
    `is_done` when the stream has ended.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.is_complete = False
        self.is_done = False
        self._buffer = b""
        self._ends_with_cr = False
        self._data_lines: list[bytes] = []
        self._data_bytes = 0

    def feed(self, data: bytes) -> Iterator[StreamChunk]:
        """Yield the chunks that these bytes complete. Their texts are joined: every chunk costs time.

        Raises `InvalidReplyError` for an error inside the stream, `ValueError` for broken JSON.
        """
        if self._ends_with_cr:
            data = data.removeprefix(b"\n")
        if not data:
            return
        self._ends_with_cr = data.endswith(b"\r")
        lines = (self._buffer + data).splitlines()
        self._buffer = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise InvalidReplyError(f"an event of more than {MAX_EVENT_BYTES >> 10} kB")
        yield from _merge_texts(chunk for line in lines for chunk in self._process_line(line))

    def flush(self) -> Iterator[StreamChunk]:
        """Yield the last event when no empty line closed it."""
        last_line = self._buffer
        self._buffer = b""
        yield from self._process_line(last_line)
        yield from self._process_line(b"")

    def _process_line(self, line: bytes) -> Sequence[StreamChunk]:
        if line.startswith(b"data:"):
            self._data_lines.append(line[5:])
            self._data_bytes += len(line)
            if self._data_bytes > MAX_EVENT_BYTES:
                raise InvalidReplyError(f"an event of more than {MAX_EVENT_BYTES >> 10} kB")
            return ()
        if line or not self._data_lines or self.is_done:
            return ()
        # A damaged character must not lose the reply.
        data = b"\n".join(self._data_lines).decode("utf-8", "replace").strip()
        self._data_lines.clear()
        self._data_bytes = 0
        self.is_done = data.startswith(DONE)
        return () if self.is_done or not data else self._parse_event(_require_reply(json.loads(data)))

    def _parse_event(self, event: Mapping[str, Any]) -> list[StreamChunk]:
        chunks: list[StreamChunk] = []
        choices = _filter_mappings(event.get("choices"))
        if usage := event.get("usage"):
            # Some servers send no reason for the end, but the token counts that follow it.
            self.is_complete = self.is_complete or not choices
            chunks.append(_parse_usage(usage))
        for choice in choices:
            self.is_complete = self.is_complete or choice.get("finish_reason") is not None
            delta = choice.get("delta")
            if isinstance(delta, Mapping):
                text = _content_text(delta.get("content"))
                if text or any(delta.get(name) for name in REASONING_FIELDS):
                    self.has_begun = True
                    chunks.append(StreamChunk(text, events=1))
        return chunks


def parse_completion(body: object) -> StreamChunk:
    """Return a whole chat completion with its token counts; tool calls become text, `name(arguments)`, one per line.

    Raises `InvalidReplyError`.
    """
    completion = _require_reply(body)
    choices = _filter_mappings(completion.get("choices"))
    if not choices:
        raise InvalidReplyError("a reply without choices")
    message = choices[0].get("message")
    message = message if isinstance(message, Mapping) else {}
    functions = _filter_mappings([call.get("function") for call in _filter_mappings(message.get("tool_calls"))])
    calls = [f"{function.get('name')}({function.get('arguments')})" for function in functions]
    content = _content_text(message.get("content"))
    usage = _parse_usage(completion.get("usage"))
    # Before the calls are prepended: a block that ends in the content would remove them again.
    text = "\n".join([*calls, remove_reasoning(content)]).strip() if calls else content
    return StreamChunk(text, usage.prompt_tokens, usage.completion_tokens)


def parse_embeddings(body: object) -> list[Vector]:
    """Return the vectors of a reply in the order of their texts. Raises `InvalidReplyError`."""
    items = _filter_mappings(_require_reply(body).get("data"))
    vectors: list[tuple[int, Vector]] = []
    for position, item in enumerate(items):
        index = item.get("index", position)
        vector = _parse_vector(item.get("embedding"))
        if not isinstance(index, int) or not vector:
            raise InvalidReplyError("an embedding that is no list of numbers")
        vectors.append((index, vector))
    return [vector for _, vector in sorted(vectors, key=lambda pair: pair[0])]


def parse_models(body: object) -> list[str]:
    """Return the names of an endpoint's models. Raises `InvalidReplyError`."""
    ids = (model.get("id") for model in _filter_mappings(_require_reply(body).get("data")))
    return [model_id for model_id in ids if isinstance(model_id, str)]


def _parse_vector(value: object) -> Vector | None:
    """Return the numbers of a vector, which is a list or the base64 of float32 values; None for anything else."""
    if isinstance(value, list):
        return value if all(isinstance(number, int | float) for number in value) else None
    if not isinstance(value, str):
        return None
    numbers = array("f")
    try:
        numbers.frombytes(base64.b64decode(value, validate=True))
    except ValueError:
        return None
    # They are little-endian in the reply.
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _merge_texts(chunks: Iterator[StreamChunk]) -> Iterator[StreamChunk]:
    """Join consecutive texts into one chunk. Chunks before a damaged one are yielded before its error."""
    texts: list[str] = []
    try:
        for chunk in chunks:
            if chunk.events:
                texts.append(chunk.text)
                continue
            if texts:
                yield StreamChunk("".join(texts), events=len(texts))
                texts.clear()
            yield chunk
    except ValueError:
        if texts:
            yield StreamChunk("".join(texts), events=len(texts))
        raise
    if texts:
        yield StreamChunk("".join(texts), events=len(texts))


def _require_reply(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise InvalidReplyError(f"a reply that is no object but {type(body).__name__}")
    error = body.get("error") or (body if body.get("object") == "error" else None)
    if error:
        details = error if isinstance(error, Mapping) else {}
        code = details.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        raise InvalidReplyError(str(details.get("message") or error), status)
    return body


def _filter_mappings(values: object) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


def _content_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, str):
        parts = (part for part in _filter_mappings(content) if part.get("type") not in REASONING_PARTS)
        return "".join(_content_text(part.get("text")) for part in parts)
    # Half a surrogate pair, from an emoji cut in two, cannot be encoded.
    return content if content.isascii() else content.encode("utf-8", "replace").decode()


def _parse_usage(usage: object) -> StreamChunk:
    usage = usage if isinstance(usage, Mapping) else {}
    return StreamChunk(
        "", _parse_token_count(usage.get("prompt_tokens")), _parse_token_count(usage.get("completion_tokens"))
    )


def _parse_token_count(tokens: object) -> int:
    """Return a number of tokens; 0 for values that would spoil the sums or not fit into the database."""
    return int(tokens) if isinstance(tokens, int | float) and 0 <= tokens <= MAX_TOKEN_COUNT else 0
