"""A tolerant parser for the event streams and JSON bodies of OpenAI-compatible endpoints.

It reads only the few fields that are needed, whatever form the reply has: events, a whole completion, a line of JSON
per event. One place, `ChatStreamDecoder.ending`, decides how a reply ended.
"""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from core.llm.reasoning import remove_reasoning
from core.llm.refusals import describe_error

DONE = "[DONE]"
REASONING_FIELDS = ("reasoning_content", "reasoning")
REASONING_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
MAX_TOKEN_COUNT = 1_000_000_000
# What is kept of the reasons of a moderation.
MAX_CATEGORIES = 20
MAX_CATEGORY_CHARS = 60
# An event holds a few words; all of an answer where the server does not really stream. It is parsed on the event loop.
MAX_EVENT_BYTES = 256 << 10
# How servers write that there is no finish reason yet.
NO_REASONS = frozenset({"", "null", "none"})
LIMIT_REASONS = frozenset({"length", "max_tokens", "model_length", "max_output_tokens", "max_completion_tokens"})
FILTER_REASONS = frozenset(
    {"content_filter", "content_filtered", "safety", "sensitive", "recitation", "blocklist", "prohibited_content",
     "spii", "refusal"}
)  # fmt: skip
FAILURE_REASONS = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "timeout", "network_error", "insufficient_system_resource"}
)
CUT_REASONS = LIMIT_REASONS | FILTER_REASONS | FAILURE_REASONS
# The wait for the token counts after the last text, and for what may still come where the sign of the end is doubtful.
USAGE_TIMEOUT_S = 2.0
DOUBTFUL_END_TIMEOUT_S = 15.0
# Lines of an event stream that hold no data.
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")
# No field's name begins with these: such a line goes on with the data of the one before, as some servers break it.
_DATA_STARTS = (b" ", b"\t", b"{", b"}", b"[", b"]", b'"')
# Numbers as they came: a list, or the floats of base64 text.
Vector = Sequence[float]


class InvalidReplyError(ValueError):
    """The response is not a reply. `status` is the HTTP status of an error inside the stream, if it has one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Ending(Enum):
    """How a reply ended. `OPEN`: not at all, as far as the server says."""

    OPEN = "open"
    COMPLETE = "complete"
    LIMIT = "limit"
    FILTER = "filter"
    FAILURE = "failure"


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

    An event that cannot be read is left out, and counted in `unreadable`. `has_begun` is true when text or reasoning
    has come, `is_done` when [DONE] has. `reason` is the server's finish reason, `words` what else it said, `calls` the
    tools that it called.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.is_done = False
        self.reason = ""
        self.words = ""
        self.unreadable: list[str] = []
        self.calls = ToolCalls()
        self._buffer = b""
        self._ends_with_cr = False
        self._lines: list[bytes] = []
        self._line_bytes = 0
        self._is_event_stream = False
        self._is_skipping = False
        # What follows a finish reason refutes it: then only [DONE] and the end of the connection count.
        self._is_reason_plain = False
        self._is_reason_refuted = False
        self._has_delta = False
        self._usage_count = 0
        self._ends_with_usage = False

    def ending(self, *, is_closed: bool) -> Ending:
        """Return how the reply has ended; `is_closed` says that the server closed the connection as it should.

        A finish reason is an end unless text follows it, [DONE] is one, and so are the only token counts of a reply
        after its text, where the server then closes the connection.
        """
        if self.reason in LIMIT_REASONS:
            return Ending.LIMIT
        if self.reason in FILTER_REASONS:
            return Ending.FILTER
        if self.reason in FAILURE_REASONS:
            return Ending.FAILURE
        if self.is_done or (self.reason and (is_closed or not self._is_reason_refuted)):
            return Ending.COMPLETE
        return Ending.COMPLETE if is_closed and self._has_only_counts_at_end else Ending.OPEN

    @property
    def patience_s(self) -> float | None:
        """How long to wait for more after the last sign of an end, in seconds; None: there was none."""
        if self.reason and self._is_reason_plain and not self._is_reason_refuted:
            return USAGE_TIMEOUT_S
        return DOUBTFUL_END_TIMEOUT_S if self.reason or self._has_only_counts_at_end else None

    @property
    def _has_only_counts_at_end(self) -> bool:
        return self._ends_with_usage and self._usage_count == 1

    def feed(self, data: bytes) -> Iterator[StreamChunk]:
        """Yield the chunks that these bytes complete. Their texts are joined: every chunk costs time.

        Raises `InvalidReplyError` for an error inside the stream.
        """
        if self._ends_with_cr:
            data = data.removeprefix(b"\n")
        if not data:
            return
        self._ends_with_cr = data.endswith(b"\r")
        lines = (self._buffer + data).splitlines()
        self._buffer = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        yield from _merge_texts(chunk for line in lines for chunk in self._process_line(line))
        if len(self._buffer) > MAX_EVENT_BYTES:
            self._skip_event()
            self._buffer = b""

    def flush(self) -> Iterator[StreamChunk]:
        """Yield what no empty line closed: the last event, or a reply that is no event stream."""
        last_line = self._buffer
        self._buffer = b""
        yield from self._process_line(last_line)
        yield from self._process_line(b"")
        if not self._is_event_stream:
            yield from self._read_plain_lines()

    def _process_line(self, line: bytes) -> Sequence[StreamChunk]:
        if not line:
            is_skipping = self._is_skipping
            self._is_skipping = False
            if not self._is_event_stream or is_skipping:
                return ()
            data = b"\n".join(self._lines)
            self._forget_lines()
            return self._read_event(data)
        line_bytes = len(line)
        chunks: Sequence[StreamChunk] = ()
        if line.startswith(b"data:"):
            if not self._is_event_stream:
                self._forget_lines()
            self._is_event_stream = True
            line = line[5:]
            # Some servers leave out the empty lines. Within one object, no other follows without a comma.
            if self._lines and self._lines[-1].rstrip().endswith(b"}") and line.lstrip().startswith((b"{", b"[DONE")):
                chunks = self._process_line(b"")
        elif line.startswith(_OTHER_FIELDS) or (self._is_event_stream and not line.startswith(_DATA_STARTS)):
            return ()
        self._lines.append(line)
        self._line_bytes += line_bytes
        if self._line_bytes > MAX_EVENT_BYTES:
            self._skip_event()
        return chunks

    def _skip_event(self) -> None:
        if not self._is_skipping:
            self.unreadable.append(f"an event of more than {MAX_EVENT_BYTES >> 10} kB")
        self._is_skipping = True
        self._forget_lines()

    def _forget_lines(self) -> None:
        self._lines.clear()
        self._line_bytes = 0

    def _read_plain_lines(self) -> Iterator[StreamChunk]:
        """Yield what JSON without events says: a whole completion, or one event per line."""
        lines = list(self._lines)
        self._forget_lines()
        whole = b"\n".join(lines)
        if len(lines) > 1 and _is_json(lines[0]):
            for line in lines:
                yield from self._read_event(line)
        elif whole.lstrip().startswith((b"{", b"[")):
            yield from self._read_event(whole)

    def _read_event(self, data: bytes) -> Sequence[StreamChunk]:
        # A damaged character must not lose the reply.
        text = data.decode("utf-8", "replace").strip()
        if self.is_done or not text:
            return ()
        if text.lstrip('"').startswith(DONE):
            self.is_done = True
            return ()
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.unreadable.append(f"{type(error).__name__}: {error}"[:100])
            return ()
        events = _filter_mappings(body if isinstance(body, list) else [body])
        return [chunk for event in events for chunk in self._parse_event(event)]

    def _parse_event(self, event: Mapping[str, Any]) -> list[StreamChunk]:
        chunks: list[StreamChunk] = []
        _raise_error(event)
        choices = _filter_mappings(event.get("choices"))
        usage = _find_usage(event, choices)
        if usage:
            self._usage_count += 1
            self._ends_with_usage = self.has_begun
            chunks.append(_parse_usage(usage))
        elif not choices:
            self.words = describe_error(event) or self.words
        for choice in choices:
            text, is_begun = self._read_choice(choice)
            if is_begun:
                self.has_begun = True
                self._ends_with_usage = False
                chunks.append(StreamChunk(text, events=1))
            self._note_reason(choice.get("finish_reason"), follows_text=is_begun)
        return chunks

    def _read_choice(self, choice: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text of a choice, and whether there is text or reasoning in it."""
        delta = choice.get("delta")
        text, is_begun = _read_message(delta)
        self.calls.add(delta)
        self._has_delta = self._has_delta or is_begun
        # The whole message, at the end of a stream, has been read piece by piece already.
        if is_begun or self._has_delta:
            return text, is_begun
        text, is_begun = _read_message(choice.get("message"))
        return (text, is_begun) if is_begun else _read_message({"content": choice.get("text")})

    def _note_reason(self, value: object, *, follows_text: bool) -> None:
        reason = value.strip().lower() if isinstance(value, str) else ""
        if follows_text:
            self._is_reason_refuted = self._is_reason_refuted or bool(self.reason)
            self.reason = ""
        if reason not in NO_REASONS:
            self.reason = reason
            self._is_reason_plain = self.has_begun and not follows_text


def parse_completion(body: object) -> tuple[StreamChunk, str]:
    """Return a whole chat completion with its token counts, and its finish reason.

    Tool calls become text, `name(arguments)`, one per line.

    Raises `InvalidReplyError`.
    """
    completion = _require_reply(body)
    choices = _filter_mappings(completion.get("choices"))
    if not choices:
        raise InvalidReplyError(f"a reply without choices: {describe_error(completion) or str(completion)[:200]}")
    message = choices[0].get("message") or choices[0].get("delta") or {"content": choices[0].get("text")}
    content, _ = _read_message(message)
    calls = ToolCalls()
    calls.add(message)
    usage = _parse_usage(completion.get("usage"))
    reason = str(choices[0].get("finish_reason") or "").strip().lower()
    return StreamChunk(calls.prepend_to(content), usage.prompt_tokens, usage.completion_tokens), reason


def parse_embeddings(body: object) -> list[Vector]:
    """Return the vectors of a reply in the order of their texts. Raises `InvalidReplyError`."""
    items = _filter_mappings(_require_reply(body).get("data"))
    vectors: list[tuple[int, Vector]] = []
    for position, item in enumerate(items):
        index = position if item.get("index") is None else item["index"]
        vector = _parse_vector(item.get("embedding"))
        if not isinstance(index, int) or not vector:
            raise InvalidReplyError("an embedding that is no list of numbers")
        vectors.append((index, vector))
    # Servers that do not number their vectors give all of them one number.
    if len({index for index, _ in vectors}) not in (0, 1, len(vectors)):
        raise InvalidReplyError("embeddings of which several are for one text")
    return [vector for _, vector in sorted(vectors, key=lambda pair: pair[0])]


def parse_models(body: object) -> list[str]:
    """Return the names of an endpoint's models. Raises `InvalidReplyError`."""
    ids = (model.get("id") for model in _filter_mappings(_require_reply(body).get("data")))
    return [model_id for model_id in ids if isinstance(model_id, str)]


def parse_moderation(body: object) -> list[str]:
    """Return the categories for which a moderation flags a text. Raises `InvalidReplyError`."""
    results = _filter_mappings(_require_reply(body).get("results"))
    if not results or not all(isinstance(result.get("flagged"), bool) for result in results):
        raise InvalidReplyError("a moderation that does not say whether the text is flagged")
    names: list[str] = []
    for result in results:
        categories = result.get("categories")
        flags = categories.items() if isinstance(categories, dict) else ()
        if result["flagged"]:
            names += [str(name)[:MAX_CATEGORY_CHARS] for name, is_set in flags if is_set is True] or ["flagged"]
    return names[:MAX_CATEGORIES]


def parse_transcript(body: object) -> str:
    """Return the words of a transcription, which may be none. Raises `InvalidReplyError`."""
    text = _require_reply(body).get("text")
    if not isinstance(text, str):
        raise InvalidReplyError("a transcription without a text")
    return text


class ToolCalls:
    """The tools that a model calls, from whole messages or from the pieces of a stream.

    A new id begins a call. Not every server numbers its calls, or numbers them right: what has no id goes on with the
    call that had its number last, or else with the last one.
    """

    def __init__(self) -> None:
        # The name of each call, then the pieces of its arguments.
        self._calls: list[list[str]] = []
        self._by_id: dict[str, list[str]] = {}
        self._by_index: dict[str, list[str]] = {}

    def add(self, message: object) -> None:
        """Take the calls of a message, or of a piece of one."""
        pieces = _filter_mappings(message.get("tool_calls")) if isinstance(message, dict) else []
        for position, piece in enumerate(pieces):
            function = piece.get("function")
            if isinstance(function, dict):
                self._add_piece(str(piece.get("id") or ""), str(piece.get("index", position)), function)

    def _add_piece(self, call_id: str, index: str, function: Mapping[str, Any]) -> None:
        name = str(function.get("name") or "")
        call = self._by_id.get(call_id) if call_id else self._by_index.get(index)
        if call is None and (call_id or name or not self._calls):
            call = [name]
            self._calls.append(call)
            self._by_id[call_id] = self._by_index[index] = call
        arguments = function.get("arguments")
        if arguments is not None:
            (call or self._calls[-1]).append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def prepend_to(self, content: str) -> str:
        """Return a reply's text with the calls before it: `name(arguments)`, one per line."""
        if not self._calls:
            return content
        # Before the calls are prepended: a block that ends in the content would remove them again.
        lines = [f"{name}({''.join(arguments)})" for name, *arguments in self._calls]
        return "\n".join([*lines, remove_reasoning(content)]).strip()


def _parse_vector(value: object) -> Vector | None:
    """Return the numbers of a vector, which is a list or the base64 of float32 values; None for anything else."""
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list):
            # Some servers pool nothing, and have a list per text of which one vector is left.
            value = value[0]
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
    # Gemini's compatible endpoint wraps its errors in a list.
    body = next(iter(_filter_mappings(body)), body)
    if not isinstance(body, dict):
        raise InvalidReplyError(f"a reply that is no object but {type(body).__name__}")
    _raise_error(body)
    return body


def _raise_error(body: Mapping[str, Any]) -> None:
    error = body.get("error") or (body if body.get("object") == "error" else None)
    if error:
        details = error if isinstance(error, dict) else {}
        code = details.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        raise InvalidReplyError(describe_error(error) or str(error), status)


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _read_message(message: object) -> tuple[str, bool]:
    """Return the text of a message or a part of one, and whether there is text or reasoning in it."""
    if not isinstance(message, dict):
        return "", False
    # A model that declines may say so in a field of its own.
    text = _content_text(message.get("content")) or _content_text(message.get("refusal"))
    return text, bool(text) or any(message.get(name) for name in REASONING_FIELDS)


def _filter_mappings(values: object) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _content_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, str):
        parts = (part for part in _filter_mappings(content) if part.get("type") not in REASONING_PARTS)
        return "".join(_content_text(part.get("text")) for part in parts)
    # Half a surrogate pair, from an emoji cut in two, cannot be encoded.
    return content if content.isascii() else content.encode("utf-8", "replace").decode()


def _find_usage(event: Mapping[str, Any], choices: Sequence[Mapping[str, Any]]) -> object:
    """Return the token counts of an event; some servers have them in a choice, or in a part of their own."""
    places = (event, *choices, *(part for part in event.values() if isinstance(part, dict)))
    return next((usage for place in places if (usage := place.get("usage"))), None)


def _parse_usage(usage: object) -> StreamChunk:
    usage = usage if isinstance(usage, dict) else {}
    return StreamChunk(
        "", _parse_token_count(usage.get("prompt_tokens")), _parse_token_count(usage.get("completion_tokens"))
    )


def _parse_token_count(tokens: object) -> int:
    """Return a number of tokens; 0 for values that would spoil the sums or not fit into the database."""
    return int(tokens) if isinstance(tokens, int | float) and 0 <= tokens <= MAX_TOKEN_COUNT else 0
