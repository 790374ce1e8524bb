"""The values that cross the boundaries between packages. All frozen: nothing is changed behind anybody's back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

MessageRole = Literal["user", "assistant"]
AttachmentKind = Literal["picture", "voice", "video", "file", "sticker", "other"]


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Where a conversation takes place. Two chats, or two threads of a chat, never share a memory."""

    platform: str
    chat: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """What came with a message besides its text, never the content itself.

    `size` is in bytes, 0 where the platform does not say. `reference` holds what the adapter needs to fetch it (plain
    JSON values); nobody else looks inside.
    """

    kind: AttachmentKind
    name: str = ""
    size: int = 0
    reference: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """What a platform delivered.

    `id` is unique within its chat for one bot; `bot` is that bot's own id, where a platform numbers messages per bot.
    `addressed` is true when the bot was meant: a private chat, a mention, a reply
    to the bot, a command. `command` is the command's name without the slash (`ask`), its argument is then in `text`.
    `reference` holds what the adapter needs to reply (plain JSON values); nobody else looks inside.
    """

    id: str
    key: ConversationKey
    author_id: str
    author: str
    text: str
    sent_at: datetime
    private: bool = False
    addressed: bool = False
    command: str = ""
    reply_to: str = ""
    quoted: str = ""
    bot: str = ""
    reference: Mapping[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """A picture whose type and size were checked, as a data URI (`data:image/png;base64,...`)."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier contribution to a conversation, oldest first in every sequence of turns.

    `images` are for the model that looks at pictures.
    """

    role: MessageRole
    text: str
    author: str = ""
    author_id: str = ""
    images: tuple[Image, ...] = ()


# Fetches the bytes of one attached picture from its platform. Raises `PlatformError`.
ImageLoader = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Question:
    """A message that the gate let through, with its conversation (without the question itself).

    `key` is where it was asked; None in the terminal, where one person asks. `closed` says that only a part of the
    chat reads its thread. `pictures` fetch what is attached to it, `unread` are the kinds of attachments that nobody
    can read.
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


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a source.

    `path` is the document's path within its source; `start_line` and `end_line` (1-based, inclusive; 0 for none) are
    its place there. `url` is empty where nothing can be linked. Scores belong to one query: `similarity` is the cosine
    with the query (-1 to 1), `lexical` the BM25 score (0 and up), `score` what the last ranking stage made of them
    (0 to 1).
    """

    id: str
    source: str
    path: str
    title: str
    text: str
    url: str = ""
    kind: str = "text"
    start_line: int = 0
    end_line: int = 0
    similarity: float = 0.0
    lexical: float = 0.0
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentScore:
    """How well a retrieval agent's knowledge fits a query, after mix-in and scaling (KIMAs 3.2.2)."""

    name: str
    score: float


@dataclass(frozen=True, slots=True)
class Citation:
    """The link behind `[n]` in a reply."""

    n: int
    passage_id: str
    source: str
    title: str
    path: str
    url: str


@dataclass(frozen=True, slots=True)
class SearchRound:
    """One round of searches, and what was thought of the evidence after it.

    `quality` is `good`, `poor`, or empty where nobody judged it; `reason` says why.
    """

    queries: tuple[str, ...]
    quality: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened on the way to a reply: the rewritten query, the agents asked, time per stage, what was cut.

    `tokens` holds what the language models consumed by "agent.prompt" and "agent.completion", `cost` what that cost by
    agent, in the currency of the configured prices. `cached` tells that an earlier answer was given again. `why_cut`
    says of each stage that was cut whether it was `late`, `failed`, or `unreadable`. `rounds` are those of a strategy
    that judges what it found.
    """

    query: str
    strategy: str
    agents: tuple[str, ...]
    timings_ms: Mapping[str, float]
    cut: tuple[str, ...] = ()
    dropped_citations: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    cached: bool = False
    why_cut: Mapping[str, str] = field(default_factory=dict)
    rounds: tuple[SearchRound, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: Markdown text in which `[n]` points at `citations`, the passages it was made from, and its trace.

    `seen` is what a model said of the pictures that came with the question.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    passages: tuple[Passage, ...] = ()
    is_extractive: bool = False
    trace: Trace = field(default_factory=lambda: Trace("", "none", (), {}))
    image_description: str = ""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a stored source stands: its last refreshes, and when the next one is due.

    `error` is why the last try failed, "" after a success. `passages` and `documents` are what is stored. Times are
    None for "never" and, for `next_run`, for "only when asked".
    """

    name: str
    kind: str
    passages: int = 0
    documents: int = 0
    last_try: datetime | None = None
    last_success: datetime | None = None
    error: str = ""
    paused: bool = False
    running: bool = False
    next_run: datetime | None = None


ESCALATION_COMMAND = "handoff"


# What a call and a second answer's question are named by, behind the id of the question.
ESCALATION_SUFFIX, RETRY_SUFFIX = "~h", "~2"


RATING_COMMAND = "thumbs"


UP, DOWN, RETRY = "up", "down", "again"


# What adapters say in a message's reference: that it is a post, and that another bot wrote it.
KIND, POST, BY_BOT = "kind", "post", "by_bot"
