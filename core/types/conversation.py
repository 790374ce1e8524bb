"""A question with its conversation, as agents and language models get it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.types.messages import AttachmentKind, ConversationKey

MessageRole = Literal["user", "assistant"]
# Fetches the bytes of one attached image from its platform. Raises `PlatformError`.
ImageLoader = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Image:
    """A validated image as a data URI (data:image/png;base64,...)."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made of a tool. `id` is unique within its conversation."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier message of a conversation; sequences of turns are oldest first.

    `images` are for a model that accepts images. `tool_call` is what the assistant called, or what a message of the
    user is the result of: endpoints with tools get it in their own form, others the text.
    """

    role: MessageRole
    text: str
    author: str = ""
    author_id: str = ""
    images: tuple[Image, ...] = ()
    tool_call: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A message that the gate let through, with its conversation (without the question itself).

    `key` is its conversation, None in the terminal, where one person asks. `in_restricted_thread` is true if only some
    members of the chat can read its thread. `image_loaders` fetch its images, `unsupported_attachments` are the kinds
    of attachments that cannot be read. `visible_sources` may be used for its answer; None: those for everyone.
    """

    text: str
    history: tuple[Turn, ...] = ()
    id: str = ""
    author: str = ""
    author_id: str = ""
    key: ConversationKey | None = None
    in_restricted_thread: bool = False
    image_loaders: tuple[ImageLoader, ...] = ()
    unsupported_attachments: tuple[AttachmentKind, ...] = ()
    visible_sources: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The schema that a model's reply should follow, for endpoints that support one; none guarantees it.

    `schema` is that of an object; with `is_tool`, of a tool's arguments: a call comes as text, `name({"key": ...})`.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    is_tool: bool = False
