"""Messages as a platform delivered them, and questions as agents and language models get them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    # Worker processes load this module, and need no event loop.
    import asyncio

# Why the bot made a message itself: a second answer, a handoff to people, a draft for a team, the greeting in a new
# group, the content of its own page, questions to suggest where a person begins to write.
MessagePurpose = Literal["", "retry", "escalation", "alert", "draft", "report", "welcome", "home", "prompts"]
# What the bot posts by itself, in words that are there already.
NOTICE_PURPOSES: tuple[MessagePurpose, ...] = ("alert", "draft", "report")
# The content of pages that a person opened: nobody wrote a message for it.
PAGE_PURPOSES: tuple[MessagePurpose, ...] = ("home", "prompts")
AttachmentKind = Literal["picture", "voice", "video", "file", "sticker", "other"]
# The commands of messages that ask something.
ASK_COMMANDS = ("", "ask")
# Commands whose replies tell what people said and did, in other chats as well: such a reply is not kept.
RETELLING_COMMANDS = ("audit", "digest", "faq", "why")
HANDOFF_COMMAND = "handoff"
RATING_COMMAND = "thumbs"
# A thread that is one person's, such as that of their commands where the platform has none; their id follows.
PERSONAL_THREAD = "command:"
# The `reference` of a message has this where its author alone is to see what answers it.
FOR_ASKER = "for_asker"
# In the `reference` of a report: the numbers of the questions that it quotes.
QUOTED_QUESTIONS = "quoted_questions"
# What the bot's comments on forges end in, so that it knows them again; readers do not see it.
OWN_COMMENT_MARKER = "<!-- kimas "
UP = "up"
DOWN = "down"
RETRY = "again"
STOP = "stop"
POST = "post"
DROP = "drop"
# Longer questions are refused with a hint.
MAX_QUESTION_CHARS = 4000


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Where a conversation takes place. Two chats, or two threads of a chat, never share a memory."""

    platform: str
    chat: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment of a message, without its content.

    `size` is in bytes, `seconds` how long a recording lasts, 0 if unknown. `reference` is for the adapter, which needs
    it to fetch the content (plain JSON values). `transcript` is what a voice message says, once it was written down.
    """

    kind: AttachmentKind
    name: str = ""
    size: int = 0
    reference: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    transcript: str = ""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file of a question: its name, its size in bytes (0 if unknown), and what fetches its content.

    `fetch` raises `ServiceError`.
    """

    name: str
    size: int
    fetch: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Speech:
    """The voice message of a question: its size in bytes, its length in seconds (0 if unknown), what fetches it.

    `fetch` raises `ServiceError`. `language` is its author's on the platform, as far as it is known. `transcript` is
    what it says, where that is known; then it is in the question's text. Otherwise `record` keeps it; it raises
    `JournalError`.
    """

    size: int
    seconds: float
    fetch: Callable[[], Awaitable[bytes]]
    record: Callable[[str], Awaitable[None]]
    language: str = ""
    transcript: str = ""


SpeechProblem = Literal["", "too_long", "too_large", "not_audio", "not_fetched", "failed", "late", "empty"]
FileProblem = Literal["", "too_large", "locked", "no_text", "binary", "no_model", "failed"]


@dataclass(frozen=True, slots=True)
class FileExcerpt:
    """The lines of a file that matter for a question, how many they are and of how many; or why there are none.

    `key_line` is the one to search for; empty where none stands out.
    """

    text: str = ""
    key_line: str = ""
    shown_lines: int = 0
    total_lines: int = 0
    problem: FileProblem = ""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Where a post comes from that is an entry of a feed. `is_too_old`: it came while the feed was not polled."""

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

    `has_rating_buttons` puts thumbs below it, `stop_button` is shown while it is written, and `buttons` come with the
    answer to a press. Where a post has `max_bot_replies` replies of bots, a network that counts them adds none.
    `language` is that of the bot's own words beside it, "" where the message shows it.
    """

    has_rating_buttons: bool = False
    stop_button: Button | None = None
    buttons: tuple[Button, ...] = ()
    max_bot_replies: int | None = None
    language: str = ""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a platform says of the thread of a message.

    `is_restricted`: only a part of the chat reads it. `in_main_chat`: the message is in the chat itself, although
    replies below it are in a thread of that name. `is_shared`: True if the bot that answered in the thread answers
    everybody there, False if nobody, None if only those whom it has answered. `started_at` (seconds since 1970) is when
    a message of the bot began the thread. `is_topic`: it is a place of its own, such as an issue, so that what the bot
    says in others is no reason to be silent.
    """

    is_restricted: bool = False
    in_main_chat: bool = False
    is_shared: bool | None = None
    started_at: float | None = None
    is_topic: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Why the bot made a message itself: `purpose` is empty for one that a platform delivered.

    `root_id` is the id of its question, the number of a draft, or the label of the source that an alert is of; the
    message's own id has no meaning then. It says what was wrong with the first answer (`retry_reason`), or mentions
    people (`mentioned_users`); with `is_question_hidden` they cannot see the question otherwise.
    """

    purpose: MessagePurpose = ""
    root_id: str = ""
    retry_reason: str = ""
    mentioned_users: tuple[str, ...] = ()
    is_question_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a platform delivered, or that the bot made itself (`origin`).

    `id` is unique within its chat for one bot; `bot` is that bot's id if message ids are per bot. `addressed`
    is true for a private chat, a mention, a reply to the bot, and a command. `command` is the command's name without
    the slash; its argument is in `text`. `reference` is for the adapter, which needs it to reply (plain JSON values).

    More that some platforms say: `is_edit` marks a new text of an earlier message, whose `id` it has (`edit_id` is that
    of the event itself, where it has one), `is_forwarded` words that may be somebody else's, which give no command and
    teach nothing, `is_by_bot` a message of another bot, `is_post` one that is published for a group (None: the adapter
    cannot tell).
    `quoted_authors` are the ids of others whose words or files it brings: quoted, or forwarded as its own `text`; its
    author's own is among them where `quoted` has words that they write beside their text, as in a poll. Adapters name
    the bot among them, as `Adapter.author_ids`; the inbox makes `quotes_bot` of that, words of the bot itself in
    `quoted`. Only a network whose people know the bot by no id says `quotes_bot` itself.
    Where a command was given on a message, `parent_id` is what that message replies to. `language` is the author's on
    the platform, `chat_title` what the chat is called there. `has_guests`: people read the chat who are not of the
    platform's own, as in a channel that another organization shares. `reply_options` are for the sink; the journal
    does not keep them.
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
    edit_id: str = ""
    is_by_bot: bool = False
    is_forwarded: bool = False
    quotes_bot: bool = False
    quoted_authors: tuple[str, ...] = ()
    is_post: bool | None = None
    thread_state: ThreadState = ThreadState()
    parent_id: str = ""
    language: str = ""
    chat_title: str = ""
    has_guests: bool = False
    feed_entry: FeedEntry | None = None
    origin: Origin = Origin()
    reply_options: ReplyOptions = ReplyOptions()

    @property
    def written_text(self) -> str:
        """Its text, unless a model has written that down of a voice message: nobody wrote it then."""
        is_spoken = any(attachment.transcript == self.text for attachment in self.attachments)
        return "" if is_spoken else self.text

    @property
    def question_id(self) -> str:
        """The id of the question that this message is, or belongs to."""
        return self.origin.root_id or self.id


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
    members of the chat can read its thread. `image_loaders` fetch its images, `files` are its other files, `attached`
    the lines of those that matter, for whoever writes the answer; `speech` is a voice message that is to be heard;
    `unsupported_attachments` are the kinds of attachments that cannot be read. `visible_sources` may be used for its
    answer; None: those for everyone. `persona` and `language` are those of its chat; empty: the configured persona, and
    the asker's language. The answer ends early when `stop` is set. With `is_unprompted`, the bot answers of its own
    accord.
    """

    text: str
    history: tuple[Turn, ...] = ()
    id: str = ""
    author: str = ""
    author_id: str = ""
    key: ConversationKey | None = None
    in_restricted_thread: bool = False
    image_loaders: tuple[ImageLoader, ...] = ()
    files: tuple[AttachedFile, ...] = ()
    attached: str = ""
    speech: Speech | None = None
    unsupported_attachments: tuple[AttachmentKind, ...] = ()
    visible_sources: frozenset[str] | None = None
    persona: str = ""
    language: str = ""
    stop: asyncio.Event | None = field(default=None, compare=False, repr=False)
    is_unprompted: bool = False

    @property
    def has_attachments(self) -> bool:
        """Return whether it is more than its text."""
        return bool(self.image_loaders or self.files or self.speech or self.unsupported_attachments)


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The schema that a model's reply should follow, for endpoints that support one; none guarantees it.

    `schema` is that of an object; with `is_tool`, of a tool's arguments: a call comes as text, `name({"key": ...})`.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    is_tool: bool = False
