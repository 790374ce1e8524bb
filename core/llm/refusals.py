"""What providers say when they refuse: their words, the parameters that they do not take, the pause that they want."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.runtime.retry_after import parse_retry_after, read_retry_after

# Where bodies have words for people: OpenAI's form and its variants, FastAPI's, Gemini's list, gateways around others.
_WORD_KEYS = (
    "error", "errors", "message", "msg", "detail", "error_description", "error_msg", "status_msg", "base_resp",
    "title", "metadata", "raw",
)  # fmt: skip
# What else names a parameter.
_PLACE_KEYS = ("param", "loc", "field")
_DELAY_KEYS = ("retryDelay", "retry_after", "retryAfter", "retry_after_seconds")
_MAX_DEPTH = 6
_MAX_ITEMS = 20
_MAX_WORDS = 300
_PAGE_TITLE = re.compile(r"<title>([^<]{1,200})", re.IGNORECASE)
# Parameters that a request cannot do without.
NEEDED_PARAMETERS = frozenset({"model", "messages", "input", "stream"})
# What a server that names no parameter most likely refuses.
OPTIONAL_PARAMETERS = frozenset({"response_format", "tools", "stream_options", "encoding_format"})
UNSUPPORTED_STATUSES = frozenset({400, 422, 501})
# Some servers take a parameter that they do not know for a fault of their own.
NAMING_STATUSES = UNSUPPORTED_STATUSES | {404, 500}
LENGTH_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
# Some chat templates have no place for instructions, and say so in these ways.
_ABOUT_SYSTEM = re.compile(
    r"\bsystem (?:role|message|prompt|instruction)|\brole\w*\b.{0,80}\bsystem\b|roles must alternate"
    r"|developer instruction",
    re.IGNORECASE | re.DOTALL,
)
# A limit that is too high for one prompt is not refused for the next.
_ABOUT_CONTEXT = re.compile(r"context|prompt", re.IGNORECASE)
# Shorter names, such as `stop`, are words of English as well.
_MIN_NAME_CHARS = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal: `words` for people, `texts` where a parameter may be named, the pause that is asked for in seconds."""

    status: int
    words: str
    texts: Sequence[str] = ()
    retry_after: float | None = None


def read_refusal(status: int, content: bytes, headers: Mapping[str, str]) -> Refusal:
    """Read the response to a request that failed; `headers` have names in lower case."""
    text = content.decode("utf-8", "replace").strip()
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        title = _PAGE_TITLE.search(text) if text.startswith("<") else None
        words = _shorten(title[1] if title else text)
        return Refusal(status, words, (words,), read_retry_after(headers, words))
    # Text that is no object is its own words.
    words = describe_error(body) or _shorten(text)
    places = tuple(_find_texts(body, (*_WORD_KEYS, *_PLACE_KEYS)))
    delay = next(_find_values(body, _DELAY_KEYS), None)
    header_delay = read_retry_after(headers)
    body_delay = parse_retry_after(str(delay)) if delay is not None else read_retry_after({}, words)
    return Refusal(status, words, (words, *places), body_delay if header_delay is None else header_delay)


def describe_error(body: object) -> str:
    """Return the words of a body that explains an error; "" where it has none."""
    return _shorten("; ".join(dict.fromkeys(_find_texts(body, _WORD_KEYS))))


def _shorten(text: str) -> str:
    # Without a full stop, for whoever adds a sentence.
    return " ".join(text[: 4 * _MAX_WORDS].split())[:_MAX_WORDS].rstrip(" .")


def _find_texts(value: object, keys: Sequence[str], depth: int = 0) -> Iterator[str]:
    """Yield the texts below these keys, those of JSON within a text as well."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str) and value.strip():
        yield from _find_texts_within(value.strip(), keys, depth)
    elif isinstance(value, list):
        for item in value[:_MAX_ITEMS]:
            yield from _find_texts(item, keys, depth + 1)
    elif isinstance(value, Mapping):
        for key in keys:
            yield from _find_texts(value.get(key), keys, depth + 1)
        # A gateway hands on what another server said, under a name of its own: that is JSON, or the text of it.
        others = [item for key, item in value.items() if key not in keys and isinstance(item, str)]
        for item in others[:_MAX_ITEMS]:
            yield from _find_texts(_parse_inner(item.strip()), keys, depth + 1)


def _find_texts_within(text: str, keys: Sequence[str], depth: int) -> Iterator[str]:
    yield from list(_find_texts(_parse_inner(text), keys, depth + 1)) or (text,)


def _parse_inner(text: str) -> object:
    """Return what JSON within a text holds, or None."""
    try:
        return json.loads(text) if text.startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None


def _find_values(value: object, keys: Sequence[str], depth: int = 0) -> Iterator[object]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        yield from (value[key] for key in keys if isinstance(value.get(key), str | int | float))
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for child in list(children)[:_MAX_ITEMS]:
        yield from _find_values(child, keys, depth + 1)


@dataclass(frozen=True, slots=True)
class RefusedParameters:
    """What one model at one endpoint does not take: the name that replaces a parameter, "" where it is left out.

    Without `has_system_role`, instructions are sent in front of the first message.
    """

    replacements: Mapping[str, str] = field(default_factory=dict)
    has_system_role: bool = True

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body without what is refused; without tools, earlier calls of a tool are text."""
        adapted_body = dict(body)
        for name, replacement in self.replacements.items():
            if name in adapted_body:
                value = adapted_body.pop(name)
                if replacement:
                    adapted_body.setdefault(replacement, value)
        if "messages" not in adapted_body:
            return adapted_body
        if not self.has_system_role:
            adapted_body["messages"] = _fold_instructions(adapted_body["messages"])
        if "tools" in adapted_body:
            return adapted_body
        return {**adapted_body, "messages": [_to_text_message(message) for message in adapted_body["messages"]]}

    def learn(self, refusal: Refusal, sent_body: Mapping[str, Any]) -> RefusedParameters:
        """Return what a refusal adds; the same where it is not about a parameter."""
        if _refuses_instructions(refusal, sent_body):
            return replace(self, has_system_role=False)
        names = _find_named(refusal, sent_body) if refusal.status in NAMING_STATUSES else []
        if not names and refusal.status in UNSUPPORTED_STATUSES:
            names = sorted(OPTIONAL_PARAMETERS & sent_body.keys())
        if not names:
            return self
        return replace(self, replacements={**self.replacements, **{name: self._replace(name) for name in names}})

    def _replace(self, name: str) -> str:
        other_name = LENGTH_LIMITS.get(name, "")
        return "" if other_name in self.replacements else other_name


def _refuses_instructions(refusal: Refusal, sent_body: Mapping[str, Any]) -> bool:
    messages = sent_body.get("messages") or [{}]
    is_named = refusal.status in NAMING_STATUSES and _ABOUT_SYSTEM.search("\n".join(refusal.texts)) is not None
    return is_named and messages[0].get("role") == "system"


def _fold_instructions(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages with those of the system in front of the first one of the user."""
    head, *rest = messages
    if head["role"] != "system":
        return list(messages)
    if not rest or rest[0]["role"] != "user":
        return [{**head, "role": "user"}, *rest]
    content = rest[0]["content"]
    if isinstance(content, str):
        return [{**rest[0], "content": f"{head['content']}\n\n{content}"}, *rest[1:]]
    return [{**rest[0], "content": [{"type": "text", "text": head["content"]}, *content]}, *rest[1:]]


def is_about_context(refusal: Refusal) -> bool:
    """Return whether a limit was refused for the length of this one prompt."""
    return bool(_ABOUT_CONTEXT.search(refusal.words)) and any(name in refusal.words for name in LENGTH_LIMITS)


def _find_named(refusal: Refusal, sent_body: Mapping[str, Any]) -> list[str]:
    """Return the parameters of a body that the refusal names; either name of the limit stands for both."""
    texts = "\n".join(refusal.texts)
    names = sorted(sent_body.keys() - NEEDED_PARAMETERS)
    return [name for name in names if _is_named(name, texts) or _is_named(LENGTH_LIMITS.get(name, name), texts)]


def _is_named(name: str, texts: str) -> bool:
    pattern = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    if len(name) < _MIN_NAME_CHARS:
        pattern = rf"""(?:['"`]|^){re.escape(name)}(?:['"`]|$)"""
    return bool(re.search(pattern, texts, re.MULTILINE))


def _to_text_message(message: Mapping[str, Any]) -> dict[str, Any]:
    text_message = {name: value for name, value in message.items() if name not in ("tool_calls", "tool_call_id")}
    return {**text_message, "role": "user"} if message["role"] == "tool" else text_message
