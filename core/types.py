"""The values that cross the boundaries between packages. All are immutable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from core.trace import Shortfall, Trace

MessageRole = Literal["user", "assistant"]
# What a message of the bot's own making is for: a second answer, a call for people, the first word in a new group.
MessagePurpose = Literal["", "retry", "escalation", "alert", "welcome"]
AttachmentKind = Literal["picture", "voice", "video", "file", "sticker", "other"]


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Where a conversation takes place. Two chats, or two threads of a chat, never share a memory."""

    platform: str
    chat: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment of a message, without its content.

    `size` is in bytes, 0 if unknown. `reference` is for the adapter, which needs it to fetch the content (plain JSON
    values).
    """

    kind: AttachmentKind
    name: str = ""
    size: int = 0
    reference: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Where a post comes from that is an entry of a feed. `is_too_old` says that it came while nobody looked."""

    feed: str
    title: str = ""
    link: str = ""
    is_too_old: bool = False


@dataclass(frozen=True, slots=True)
class Button:
    """A button with its label and the data that a press returns."""

    data: str
    label: str


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """How a sink shows the reply to a message.

    `has_rating_buttons` puts thumbs below it, `buttons` are offered with the answer to a press, and a network that can
    compare posts nothing where a post has `max_bot_replies` replies of bots already.
    """

    has_rating_buttons: bool = False
    buttons: tuple[Button, ...] = ()
    max_bot_replies: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What a platform delivered, or what the bot asks itself to answer (`purpose`).

    `id` is unique within its chat for one bot; `bot` is that bot's id if message ids are per bot. `addressed`
    is true for a private chat, a mention, a reply to the bot, and a command. `command` is the command's name without
    the slash; its argument is in `text`. `reference` is for the adapter, which needs it to reply (plain JSON values).

    What the platform says besides, as far as it does: `is_edit` marks a new text of an earlier message, `is_by_bot`
    what another bot wrote, `is_post` what is published for a group (None: the adapter cannot tell). Only a part of the
    chat reads a message `in_restricted_thread`; one `in_main_chat` stands in the chat itself, though what is written
    below it has a thread of that name. `is_shared_thread` is True where everybody's questions in a thread go on with
    the bot that answered there, False where nobody's do, None where only those of who was answered do.
    `thread_started_at` (seconds since 1970) is when a message of the bot began the thread, `parent_id` what the message
    replies to that a command was given on, `language` the one in which the author uses the platform.

    A message of the bot's own making has the id of its question as `root_id`; its own `id` tells nothing. It says
    what was wrong with the first answer (`retry_reason`), or mentions people (`mentioned_users`), who may not see the
    question otherwise (`is_question_hidden`). `reply_options` are for the sink; the journal does not keep them.
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
    is_edit: bool = False
    is_by_bot: bool = False
    is_post: bool | None = None
    in_restricted_thread: bool = False
    in_main_chat: bool = False
    is_shared_thread: bool | None = None
    thread_started_at: float | None = None
    parent_id: str = ""
    language: str = ""
    feed_entry: FeedEntry | None = None
    purpose: MessagePurpose = ""
    root_id: str = ""
    retry_reason: str = ""
    mentioned_users: tuple[str, ...] = ()
    is_question_hidden: bool = False
    reply_options: ReplyOptions = ReplyOptions()

    @property
    def question_id(self) -> str:
        """The id of the question that this message is, or belongs to."""
        return self.root_id or self.id


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


# Fetches the bytes of one attached image from its platform. Raises `PlatformError`.
ImageLoader = Callable[[], Awaitable[bytes]]


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
class Passage:
    """A piece of a source.

    `path` is the document's path within its source; `start_line` and `end_line` (1-based, inclusive; 0 for none) are
    its place there. Scores belong to one query: `similarity` is the cosine (-1 to 1), `lexical` the BM25 score (0 and
    up), `lexical_share` its share of the highest possible, and `score` that of the last ranking stage (0 to 1).
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
    lexical_share: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentScore:
    """How well a retrieval agent matches a query, after mix-in and scaling (KIMAs 3.2.2)."""

    name: str
    score: float


@dataclass(frozen=True, slots=True)
class Citation:
    """The link behind [n] in a reply."""

    n: int
    passage_id: str
    source: str
    title: str
    path: str
    url: str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: Markdown text in which [n] refers to `citations`, the passages behind it, and its trace.

    `image_description` is a model's description of the images in the question.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    passages: tuple[Passage, ...] = ()
    is_extractive: bool = False
    trace: Trace = field(default_factory=lambda: Trace("", "none", (), {}))
    image_description: str = ""

    @property
    def shortfall(self) -> Shortfall | None:
        """Why the reply is likely not to help, or None."""
        if self.is_extractive and "write" in self.trace.cut:
            return "quoted"
        if self.citations or not self.trace.query or self.trace.strategy == "none":
            return None
        if self.trace.dropped_citations:
            return "unsupported"
        return "nothing_found" if self.is_extractive or not self.passages else None


class SkipReason(Enum):
    """Why the bot is silent: a label for metrics, and a text for people with placeholders for its values."""

    NOT_ADDRESSED = "not_addressed", "the bot was not addressed"
    ATTACHMENT_ONLY = "wordless", "{attachment} without words, and the bot was not addressed"
    NOTICE_GIVEN = "wordless", "{attachment}, and its author was told lately that it cannot be read"
    STICKER = "other", "{attachment}"
    EMPTY_POST = "wordless", "the post has no words"
    PRIVATE_CHATS_OFF = "switched_off", "private chats are switched off (gate.private)"
    CHAT_NOT_LISTED = "switched_off", "{chat} is not among gate.chats"
    CHAT_OFF = "switched_off", "{chat} is switched off (gate.mode)"
    PAUSED = "paused", "{chat} is paused {until} (/pause)"
    WRITTEN_BY_BOT = "other_bot", "written by another bot"
    COMMAND_FOR_OTHER_BOT = "other_bot", "a command for another bot"
    OTHER_BOT_ADDRESSED = "other_bot", "another bot of ours was addressed"
    OTHER_BOT_FIRST = "other_bot", "another bot of ours took it first"
    OTHER_BOT_NAMED = "other_bot", "another bot of ours was named"
    REPLY_TO_OTHER_BOT = "other_bot", "a reply to another bot of ours"
    CONTINUES_WITH_OTHER_BOT = "other_bot", "it goes on with another bot of ours"
    PERSON_MENTIONED = "somebody_else", "somebody else is mentioned"
    PERSON_NAMED = "somebody_else", "somebody else is called by name"
    REPLY_TO_PERSON = "somebody_else", "a reply to somebody else"
    HUMAN_REPLIED = "people", "a human replied"
    HUMAN_DIALOGUE = "people", "a human is talking with the asker"
    TAKEN_BACK = "people", "the asker took the question back"
    COOLDOWN = "rate", "it spoke unasked less than {seconds:g} s ago (gate.cooldown_s)"
    ANSWER_LOOP = "rate", "{count} answers to this account within ten minutes (gate.answers_in_10_min)"
    COMMENT_LIMIT = "rate", "{count} comments within the last hour (auto_comment.per_hour)"
    QUIET_HOURS = "rate", "quiet hours ({hours})"
    UNSURE = "unsure", "not sure enough to help: {probability:.2f}, threshold {threshold:.2f} ({explanation})"
    MODEL_DECLINED = "unsure", "the model judged it: {opinion} ({probability:.2f}, threshold {threshold:.2f})"
    IRRELEVANT_POST = "unsure", "outside our knowledge: {score:.2f}, at least {minimum:g} is wanted"
    REPEATED = "repeated", "the same was answered in this chat before"
    NO_KNOWLEDGE = "not_judged", "there is no knowledge to judge by"
    RELEVANCE_UNKNOWN = "not_judged", "whether it is about the knowledge could not be told"
    NO_KNOWLEDGE_FOR_POST = "not_judged", "no knowledge to compare the post with (auto_comment.min_relevance)"
    TOO_OLD = "too_late", "it is too old to be answered unasked"
    ENTRY_TOO_OLD = "too_late", "too old to be answered: the entry came while nobody looked at the feed"
    DEADLINE = "too_late", "not done within {seconds:g} s from the post (auto_comment.deadline_s)"
    BEFORE_RESTART = "too_late", "the comment was posted before a restart"
    TOPIC_NOT_INCLUDED = "topic", "another topic: none of auto_comment.include is in the post"
    TOPIC_EXCLUDED = "topic", "the post names {word!r} (auto_comment.exclude)"
    COMPETITORS = "rivals", "{count} replies of bots below the post already ({limit} at most)"
    COMPETITORS_ON_NETWORK = "rivals", "the network has enough replies of bots below this post"
    EMPTY_COMMENT = "unfit", "the comment is empty"
    UNFINISHED_COMMENT = "unfit", "the language model did not write it to its end"
    UNCITED_COMMENT = "unfit", "the comment would cite nothing (auto_comment.needs_citation)"
    COMMENT_FAILED = "other", "the comment failed: {error}"
    COMMENT_REFUSED = "other", "{error}"
    POST_DELETED = "deleted", "{error}"
    DELETED = "deleted", "the question was deleted before it was answered"
    ANSWER_CAPTURED = "kept", "kept as an answer to be reviewed"
    RATED = "feedback", "feedback on {question}: {rating}"
    RETRIED = "feedback", "{question} is answered once more"
    NOT_RETRIED = "feedback", "{question} is not answered once more"
    NOTHING_TO_RATE = "feedback", "a press under no answer of ours"
    NO_WORDS = "not_a_question", "no words"
    CODE_ONLY = "not_a_question", "no words but code or links"
    COURTESY = "not_a_question", "a courtesy"
    TOO_SHORT = "not_a_question", "too short"
    NO_QUESTION = "not_a_question", "not a question"
    SMALL_TALK = "not_a_question", "a question about people or plans"

    def __init__(self, label: str, text: str) -> None:
        self.label = label
        self.text = text


@dataclass(frozen=True, slots=True)
class Skip:
    """A silence with its reason and the values of its text, which is for the journal. Created by `skip`."""

    reason: SkipReason
    values: Mapping[str, object]

    def __str__(self) -> str:
        return self.reason.text.format(**self.values)


def skip(reason: SkipReason, **values: object) -> Skip:
    """Return a silence for a reason, with the values of its text.

    >>> str(skip(SkipReason.CHAT_NOT_LISTED, chat="telegram:5"))
    'telegram:5 is not among gate.chats'
    """
    return Skip(reason, values)


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a stored source stands: its last refreshes, and when the next one is due.

    `error` is why the last try failed, "" after a success. `passages` and `documents` are what is stored, `unreadable`
    names what could not be read, and why. Times are None for "never" and, for `next_run`, for "only when asked".
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
    unreadable: Mapping[str, str] = field(default_factory=dict)


ESCALATION_COMMAND, RATING_COMMAND, UP, DOWN, RETRY = "handoff", "thumbs", "up", "down", "again"


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The schema that a model's reply should follow, for endpoints that support one; none guarantees it.

    `schema` is that of an object; with `is_tool`, of a tool's arguments: a call comes as text, `name({"key": ...})`.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    is_tool: bool = False
