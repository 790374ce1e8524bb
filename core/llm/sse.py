"""What an OpenAI-compatible endpoint sends, read field by field: event streams and JSON bodies, both tolerantly.

A client library builds a validated object for every token, which costs ten times what reading the few fields does; with
many conversations at once that is what answers wait for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DONE = "[DONE]"
MOST_TOKENS = 1_000_000_000


class WireError(ValueError):
    """What arrived is no reply. `status` is the HTTP status that an error inside a stream names, if it does."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a streamed reply, or the token counts that close it (its text is then empty)."""

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Stream:
    """Turns the bytes of one streamed reply into its pieces. Lines may end in LF, CR or both; comments are skipped.

    `finished` tells whether the server said that the reply is complete, `done` that it has nothing more to say.
    """

    def __init__(self) -> None:
        self.finished = self.done = False
        self._rest = b""
        self._after_return = False
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """Yield what these bytes complete, the texts of them as one piece: every piece costs all who pass it on.

        Raises `WireError` for an error that the server reports inside the stream, `ValueError` for broken JSON.
        """
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return
        self._after_return = chunk.endswith(b"\r")
        lines = (self._rest + chunk).splitlines()
        self._rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        yield from _joined(piece for line in lines for piece in self._line(line))

    def finish(self) -> Iterator[Piece]:
        """Yield what is left when no empty line closed the last event."""
        rest, self._rest = self._rest, b""
        yield from self._line(rest)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Sequence[Piece]:
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            return ()
        if line or not self._data or self.done:
            return ()
        # One damaged character must not cost the reply.
        data = b"\n".join(self._data).decode("utf-8", "replace").strip()
        self._data.clear()
        self.done = data.startswith(DONE)
        return () if self.done or not data else self._pieces(_checked(json.loads(data)))

    def _pieces(self, chunk: Mapping[str, Any]) -> list[Piece]:
        pieces: list[Piece] = []
        choices = _mappings(chunk.get("choices"))
        if usage := chunk.get("usage"):
            # Some servers send no reason for the end, but the counts that come alone behind it.
            self.finished = self.finished or not choices
            pieces.append(_counts(usage))
        for choice in choices:
            self.finished = self.finished or choice.get("finish_reason") is not None
            delta = choice.get("delta")
            if isinstance(delta, Mapping) and (text := _text(delta.get("content"))):
                pieces.append(Piece(text))
        return pieces


def reply_of(body: object) -> Piece:
    """Return a whole chat completion with its token counts; tool calls become text, `name(arguments)`, one a line.

    Raises `WireError`.
    """
    reply = _checked(body)
    choices = _mappings(reply.get("choices"))
    if not choices:
        raise WireError("a reply without choices")
    message = choices[0].get("message")
    message = message if isinstance(message, Mapping) else {}
    functions = _mappings([call.get("function") for call in _mappings(message.get("tool_calls"))])
    calls = [f"{function.get('name')}({function.get('arguments')})" for function in functions]
    content = _text(message.get("content"))
    counts = _counts(reply.get("usage"))
    text = "\n".join([*calls, content]).strip() if calls else content
    return Piece(text, counts.prompt_tokens, counts.completion_tokens)


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield texts that follow each other as one; what came before a damaged piece comes before its error."""
    texts: list[str] = []
    try:
        for piece in pieces:
            if piece.text:
                texts.append(piece.text)
                continue
            if texts:
                yield Piece("".join(texts))
                texts.clear()
            yield piece
    except ValueError:
        if texts:
            yield Piece("".join(texts))
        raise
    if texts:
        yield Piece("".join(texts))


def _checked(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise WireError(f"a reply that is no object but {type(body).__name__}")
    fault = body.get("error") or (body if body.get("object") == "error" else None)
    if fault:
        about = fault if isinstance(fault, Mapping) else {}
        code = about.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        raise WireError(str(about.get("message") or fault), status)
    return body


def _mappings(values: object) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


def _text(content: object) -> str:
    """Return the text of a message's content: a string, or parts of which those of text count."""
    if not isinstance(content, str):
        return "".join(_text(part.get("text")) for part in _mappings(content))
    # Half a surrogate pair, as an emoji cut in two brings it, cannot be sent on.
    return content if content.isascii() else content.encode("utf-8", "replace").decode()


def _counts(usage: object) -> Piece:
    usage = usage if isinstance(usage, Mapping) else {}
    return Piece("", _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _count(tokens: object) -> int:
    """Return a number of tokens; what cannot be one would spoil the sums, or not fit into the ledger."""
    return int(tokens) if isinstance(tokens, int | float) and 0 <= tokens <= MOST_TOKENS else 0
