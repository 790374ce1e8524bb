"""Reads what clients send: the question is the last message of the user, those before are its conversation."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bots.api.open_webui import answer_task, unwrap_question
from core.errors import UsageError
from core.formatting import replace_lone_surrogates
from core.types import AttachedFile, MessageRole, Turn

MAX_TURNS = 40
MAX_QUESTION_CHARS = 20_000
MAX_NAME_CHARS = 200
# What a client wrote into the question, from files that it does not name.
ATTACHED_NAME = "attached.txt"
_ROLES: Mapping[str, MessageRole] = {"user": "user", "assistant": "assistant"}


class InvalidRequest(UsageError):
    """A request that cannot be answered: the parameter at fault, and why."""

    def __init__(self, param: str | None, reason: str) -> None:
        super().__init__(reason)
        self.param = param


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for a chat completion. `model` is the name that the client gave.

    `task_answer` is what a client wants for its own use, in place of an answer to a question.
    """

    question: str
    history: tuple[Turn, ...]
    model: str
    files: tuple[AttachedFile, ...] = ()
    task_answer: str | None = None
    is_streaming: bool = False
    has_usage_chunk: bool = False


def read_json(body: bytes) -> Mapping[str, Any]:
    """Return the object that a request has. Raises `InvalidRequest`."""
    try:
        # Half a character, which JSON can write, can be sent to nobody.
        value = json.loads(replace_lone_surrogates(json.dumps(json.loads(body), ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(None, "the body is not JSON in UTF-8") from error
    if not isinstance(value, dict):
        raise InvalidRequest(None, "the body is not a JSON object")
    return value


def read_text(values: Mapping[str, Any], name: str) -> str:
    """Return the text of that name, such as the question of `POST /ask`. Raises `InvalidRequest`."""
    text = values.get(name)
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest(name, f"{name} has to be a text")
    return _limit(replace_lone_surrogates(text.strip()), name)


def read_files(values: Mapping[str, Any]) -> tuple[AttachedFile, ...]:
    """Return the files of a question: each has a `name`, and its `text` or its `data` in base64.

    Raises `InvalidRequest`.
    """
    files = values.get("files", [])
    if not isinstance(files, list):
        raise InvalidRequest("files", "files has to be a list")
    return tuple(_read_file(file) for file in files)


def _read_file(file: object) -> AttachedFile:
    values = file if isinstance(file, dict) else {}
    name = values.get("name")
    text = values.get("text")
    data = values.get("data")
    if not isinstance(name, str) or isinstance(text, str) == isinstance(data, str):
        raise InvalidRequest("files", "each file has a name, and either its text, or its data in base64")
    try:
        content = text.encode() if isinstance(text, str) else base64.b64decode(str(data), validate=True)
    except ValueError as error:
        raise InvalidRequest("files", "the data of a file has to be base64") from error
    return _make_file(name[:MAX_NAME_CHARS], content)


def _make_file(name: str, content: bytes) -> AttachedFile:
    async def fetch() -> bytes:
        return content

    return AttachedFile(name, len(content), fetch)


def read_chat_request(body: Mapping[str, Any], *, is_typed: bool = False) -> ChatRequest:
    """Read a request for a chat completion; what is not known is ignored.

    `is_typed` says that a person wrote all of the question: then no words of it are a client's. Raises `InvalidRequest`
    for what would be promised in silence and not done.
    """
    _refuse_impossible(body)
    turns = _read_turns(body.get("messages"))
    if not turns or turns[-1].role != "user":
        raise InvalidRequest("messages", "the last message has to be the user's, with a text")
    stream_options = body.get("stream_options")
    text = turns[-1].text
    task_answer = None if is_typed else answer_task(text, _read_instructions(body["messages"]))
    question, attached = (text, "") if is_typed else unwrap_question(text)
    return ChatRequest(
        question if task_answer is not None else _limit(question, "messages"),
        # The first one tells conversations apart.
        (*turns[:-1][:1], *turns[1:-1][-MAX_TURNS:]),
        str(body.get("model") or ""),
        (_make_file(ATTACHED_NAME, attached.encode()),) if attached else (),
        task_answer,
        is_streaming=body.get("stream") is True,
        has_usage_chunk=isinstance(stream_options, dict) and stream_options.get("include_usage") is True,
    )


def _refuse_impossible(body: Mapping[str, Any]) -> None:
    choice = body.get("tool_choice")
    response_format = body.get("response_format")
    is_text = not isinstance(response_format, dict) or response_format.get("type") == "text"
    refusals = {
        "n": (body.get("n") not in (None, 1), "there is one answer for each question"),
        "logprobs": (bool(body.get("logprobs")), "an answer has no probabilities"),
        "tool_choice": (choice not in (None, "none", "auto"), "tools are not called"),
        "response_format": (not is_text, "an answer is Markdown"),
    }
    for name, (is_refused, reason) in refusals.items():
        if is_refused:
            raise InvalidRequest(name, f"{name}: {reason}")


def _read_instructions(messages: object) -> str:
    """Return what a client tells the model. Nobody follows it; it shows what the client wants."""
    first = messages[0] if isinstance(messages, list) and messages else None
    content = first.get("content") if isinstance(first, dict) and first.get("role") == "system" else ""
    return content if isinstance(content, str) else ""


def _read_turns(messages: object) -> list[Turn]:
    """Return the turns of user and assistant. The instructions of a client rank below ours: they are left out."""
    if not isinstance(messages, list):
        raise InvalidRequest("messages", "messages has to be a list")
    turns = []
    for message in messages:
        role = _ROLES.get(str(message.get("role"))) if isinstance(message, dict) else None
        text = _read_content(message.get("content")) if role else ""
        if role and text:
            turns.append(Turn(role, text))
    return turns


def _read_content(content: object) -> str:
    """Return the text of a message's content, which may be a list of parts. Raises `InvalidRequest` for pictures."""
    if isinstance(content, str):
        return content.strip()
    parts: Sequence[object] = content if isinstance(content, list) else ()
    texts = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part, dict):
            texts.append(str(part.get("text", "")))
        elif kind is not None:
            raise InvalidRequest("messages", f"a part of the kind {str(kind)[:40]} cannot be read: send text")
    return "\n".join(texts).strip()


def _limit(text: str, param: str) -> str:
    if len(text) > MAX_QUESTION_CHARS:
        raise InvalidRequest(param, f"the question has more than {MAX_QUESTION_CHARS} characters")
    return text
