"""What the bot needs of a forge: what is new in its projects, what stands below an issue, and comments of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bots.forges.transport import ForgeTransport, Json
from knowledge.web.values import get_int, to_line

PUBLIC_API_HOST = "api.github.com"
PUBLIC_HOST = "github.com"
DISCUSSIONS = "discussions"
BOT_SUFFIX = "[bot]"
COMMENT_PREFIX = "comment-"
# Before the number of an account or a project, behind a name that was another's.
NUMBER_SIGN = "+"
MAX_LOGIN_CHARS = 60
# Who has on both forges what was written by accounts that are deleted: nobody can tell them apart.
GHOST = "ghost"


@dataclass(frozen=True, slots=True)
class Identity:
    """The bot's account; `host` is the web host of its forge."""

    login: str = ""
    host: str = ""

    @property
    def name(self) -> str:
        """Return what people mention: the account of an app has a longer name."""
        return self.login.removesuffix(BOT_SUFFIX)


@dataclass(frozen=True, slots=True)
class Account:
    """Who wrote something. A login that was set free may be another's later; `number` stays, and is 0 if unknown."""

    login: str
    number: int


@dataclass(frozen=True, slots=True)
class Topic:
    """What people comment on: an issue, a discussion, or a thread in one. Times are in seconds since 1970.

    `path` is its kind with its number, and for a thread the node of the comment that began it; it is empty for what
    takes a number as well, but is left alone, such as a pull request. `number` counts up within a project.
    `is_answered` says that people have chosen an answer. `updated_at` changes with the text, labels and comments.
    `is_relayed`: a program wrote it in the author's name.
    """

    project: str
    path: str
    number: int
    title: str
    text: str
    author: Account
    created_at: float
    is_by_bot: bool = False
    is_open: bool = True
    is_locked: bool = False
    is_confidential: bool = False
    is_answered: bool = False
    comment_count: int = 0
    updated_at: float = 0.0
    is_relayed: bool = False


@dataclass(frozen=True, slots=True)
class HiddenTopic:
    """A topic that not everybody in its project may see, by its path."""

    path: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment below a topic. Later ones have higher numbers; `updated_at` (seconds since 1970) changes with the text.

    `topic_path` is empty where it stands below something else, such as a pull request. `node` is what GraphQL calls it.
    """

    number: int
    topic_path: str
    text: str
    author: Account
    created_at: float
    updated_at: float
    is_by_bot: bool = False
    node: str = ""
    is_relayed: bool = False

    @property
    def id(self) -> str:
        """Return what no other comment of a project is called: discussions count theirs anew."""
        return f"{COMMENT_PREFIX}{self.number}" if self.node else str(self.number)


@dataclass(frozen=True, slots=True)
class Reaction:
    """An emoji by its name, below a comment."""

    id: str
    author: Account
    emoji: str
    is_by_bot: bool = False


def to_account(user: Any, login_key: str, number_key: str = "id") -> Account:
    """Return who somebody is, as the forge describes them."""
    values = user if isinstance(user, Mapping) else {}
    login = to_line(values.get(login_key), MAX_LOGIN_CHARS)
    return Account(login, 0 if login.lower() == GHOST else get_int(values, number_key))


def get_web_host(api_url: str) -> str:
    """Return the host where people see what is at an address of the API."""
    api_host = urlsplit(api_url).netloc
    return PUBLIC_HOST if api_host == PUBLIC_API_HOST else api_host


def remove_number(name: str) -> str:
    """Return a name as the forge knows it."""
    return name.partition(NUMBER_SIGN)[0]


class ForgeClient(ABC):
    """What one account sees and does on a forge. Calls raise as those of `ForgeTransport` do."""

    def __init__(self, transport: ForgeTransport) -> None:
        self._transport = transport

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._transport.close()

    def forget_older_etags(self) -> None:
        """End a round, as `ForgeTransport` says."""
        self._transport.forget_older_etags()

    async def wait_to_write(self) -> None:
        """Wait for a turn to comment, as `ForgeTransport` says."""
        await self._transport.wait_to_write()

    def at(self, path: str) -> ForgeClient:
        """Return the client for a kind of topics, such as issues, or for the topic at a path."""
        return self

    @abstractmethod
    async def get_identity(self) -> Identity:
        """Return who the bot is."""

    @abstractmethod
    async def get_account(self, login: str) -> Account:
        """Return who has a login now. Raises `MessageDeleted` for nobody."""

    @abstractmethod
    async def get_project(self, project: str) -> Json:
        """Return what the forge says of a project. Raises `MessageDeleted` where it has moved, or is not to be seen."""

    @abstractmethod
    async def get_last_number(self, project: str) -> int:
        """Return the number of the newest topic, 0 without any."""

    @abstractmethod
    def list_topics(self, project: str, after: int, *, is_conditional: bool) -> AsyncIterator[Topic]:
        """Yield the open topics with a higher number, the newest first.

        With `is_conditional` nothing if the newest ones are the same as the last time.
        """

    @abstractmethod
    async def get_topic(self, project: str, path: str) -> Topic:
        """Return a topic. Raises `MessageDeleted`, also where it has moved to another project."""

    @abstractmethod
    async def get_last_comment(self, project: str) -> tuple[int, int]:
        """Return when a comment changed last, in seconds since 1970, and the highest number of one; zeros for none."""

    @abstractmethod
    def list_comments(self, project: str, since: int) -> AsyncIterator[Comment | HiddenTopic | int | None]:
        """Yield the comments of a project that changed since a time, that included, the earliest change first.

        One that cannot be understood is None. A topic that changed and is hidden comes in place of its comments. A
        number is a time, in seconds since 1970: what changed before it has
        been listed.
        """

    @abstractmethod
    async def get_comment(self, project: str, path: str, number: int) -> Comment:
        """Return a comment. Raises `MessageDeleted`."""

    @abstractmethod
    async def list_comments_below(self, project: str, path: str) -> Sequence[Comment]:
        """Return the comments below a topic, the first one at their head."""

    @abstractmethod
    def list_reactions(
        self, project: str, comments: Sequence[Comment]
    ) -> AsyncIterator[tuple[Comment, Reaction | None]]:
        """Yield the reactions to some comments; None for one that is gone."""

    @abstractmethod
    async def post_comment(self, project: str, path: str, text: str) -> str:
        """Comment on a topic, and return the comment's id."""

    @abstractmethod
    async def edit_comment(self, project: str, path: str, comment_id: str, text: str) -> None:
        """Replace the text of a comment of the bot's."""

    @abstractmethod
    async def add_label(self, project: str, path: str, label: str) -> None:
        """Put a label on a topic."""

    @abstractmethod
    async def try_empty_write(self, project: str) -> None:
        """Write nothing, which no forge takes: raises `Refused`, or `NotAllowed` where the token may not write."""
