"""What the handlers of the commands work with."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from core.errors import UsageError
from core.messaging.policy.command_table import Command, UserRole
from core.messaging.policy.permissions import Permissions
from core.ports import Adapter, Library, SourceRefresher
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.overrides import Audit, LiveSettings, RuntimeOverrides, get_chat_name
from core.text.catalogue import ENGLISH, Messages
from core.types import Message

# Reads the configuration as the daemon did at its start. Raises `ConfigurationError`.
SettingsLoader = Callable[[], Awaitable[Settings]]


@dataclass(slots=True)
class CommandContext:
    """What the handlers of commands read and change.

    Without a `refresher` nobody knows the state of the sources, without `reload_settings` the configuration cannot be
    read again, without a `library` no threshold can be fitted. `session` has the conversation, where that is not in
    the `journal`: the language of a command's author is looked up there.
    """

    live: LiveSettings
    journal: Journal
    audit: Audit
    permissions: Permissions
    refresher: SourceRefresher | None = None
    reload_settings: SettingsLoader | None = None
    library: Library | None = None
    session: Journal | None = None
    platforms: set[str] = field(default_factory=set)
    started_at: float = field(default_factory=time.monotonic)
    # When each source was last asked for by /refresh; "" stands for all of them.
    last_refresh_requests: dict[str, float] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The settings in force; `/reload` replaces them."""
        return self.live.settings

    @property
    def overrides(self) -> RuntimeOverrides:
        """What commands have set."""
        return self.live.overrides

    def require_source(self, name: str, texts: Messages) -> str:
        """Return the name of a configured source. Raises `UsageError` for another one."""
        if name in self.settings.sources:
            return name
        names = ", ".join(f"`{source}`" for source in self.settings.sources) or texts.no_sources_configured
        raise UsageError(texts.unknown_source.format(sources=names))


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command that its author may give: the message, the arguments by name, and the author's role.

    `adapter` is what the message came through; None in the terminal.
    """

    message: Message
    command: Command
    arguments: Mapping[str, str]
    role: UserRole
    adapter: Adapter | None = None
    texts: Messages = ENGLISH

    @property
    def chat(self) -> str:
        """The chat's name in the configuration: `platform:chat`."""
        return get_chat_name(self.message)

    @property
    def can_see_all_chats(self) -> bool:
        """Whether the answer may tell of other chats: an owner asks where nobody else reads it."""
        return self.role == "owner" and self.message.private


# Returns what the bot says, as Markdown. Raises `UsageError` for arguments that make no sense.
CommandHandler = Callable[[CommandRequest], Awaitable[str]]
