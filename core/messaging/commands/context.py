"""The context of the command handlers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from core.catalogue import ENGLISH, Messages
from core.catalogue.command_spelling import Spell, spell_with_slash
from core.errors import UsageError
from core.llm.moderation import Moderator
from core.messaging.journaling import StillTold
from core.messaging.policy.command_table import Command, UserRole
from core.messaging.policy.permissions import PermissionDenied, Permissions
from core.ports import Adapter, Library, SourceRefresher
from core.settings import Settings
from core.settings.loader import find_missing_sources
from core.storage.messages import Journal
from core.storage.overrides import Audit, LiveSettings, Reloaded, RuntimeOverrides, TakeUp, get_chat_name
from core.storage.usage import StatisticsRepository
from core.types import Message, SourceState

if TYPE_CHECKING:
    from core.messaging.drafts import Drafts

# How many days a command reports, unless it says so.
DEFAULT_DAYS = 7

# Takes what is asked again right before a reply is shown.
Watch = Callable[[StillTold], None]

# Reads the configuration as the daemon did at its start. Raises `ConfigurationError`.
SettingsLoader = Callable[[], Awaitable[Settings]]


@dataclass(slots=True)
class CommandContext:
    """The state that the handlers of commands read and change.

    Without a `refresher` nobody knows the state of the sources, without `reload_settings` the configuration cannot be
    read again, without `take_up` other sources need a restart, without a `library` no threshold can be fitted, without
    a `moderator` no answer is moderated. `session` has the conversation, where that is not in the `journal`: the
    language of a command's author is looked up there.
    """

    live: LiveSettings
    journal: Journal
    audit: Audit
    permissions: Permissions
    drafts: Drafts
    refresher: SourceRefresher | None = None
    reload_settings: SettingsLoader | None = None
    take_up: TakeUp | None = None
    library: Library | None = None
    moderator: Moderator | None = None
    session: Journal | None = None
    platforms: set[str] = field(default_factory=set)
    started_at: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 (tests replace the clock)
    # When /refresh was last used for each source; "" means all of them.
    last_refresh_requests: dict[str, float] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The settings in force; `/reload` replaces them."""
        return self.live.settings

    @property
    def overrides(self) -> RuntimeOverrides:
        """The settings made by commands."""
        return self.live.overrides

    async def reload(self, new_settings: Settings) -> Reloaded:
        """Take up what can be taken up of new settings, and let other daemons do so with theirs.

        Raises `KimasError`; then nothing has changed here.
        """
        await self.overrides.announce_reload()
        return await self.apply(new_settings)

    async def apply(self, new_settings: Settings) -> Reloaded:
        """Take up what can be taken up of new settings. Raises `KimasError`; then nothing has changed."""
        await self.live.publish_audiences(new_settings)
        reloaded = await self.live.reload(new_settings, self.take_up)
        return replace(reloaded, missing=await asyncio.to_thread(find_missing_sources, new_settings))

    def visible_settings(self, request: CommandRequest) -> Settings:
        """Return the settings as those may see them who read the reply: where closed sources are, without them."""
        visible_sources = self.permissions.visible_sources(request.message)
        return self.settings if visible_sources is None else self.settings.restricted_to(visible_sources)

    async def visible_states(self, request: CommandRequest) -> Sequence[SourceState]:
        """Return the states of the stored sources that may be told of; none where nobody knows any."""
        visible_sources = self.permissions.visible_sources(request.message)
        states = await self.refresher.states() if self.refresher else ()
        return [state for state in states if visible_sources is None or state.name in visible_sources]

    def names_hidden_source(self, text: str, request: CommandRequest) -> bool:
        """Return whether a text has the name of a source, as a word, that the readers of the reply may not see."""
        visible_sources = self.permissions.visible_sources(request.message)
        hidden_names = () if visible_sources is None else set(self.settings.sources) - visible_sources
        return not set(re.findall(r"[a-z0-9_-]+", text)).isdisjoint(hidden_names)

    def require_named(self, request: CommandRequest) -> None:
        """Raise `PermissionDenied` for what concerns all chats, unless an owner or the configuration names its author.

        Whoever adds the bot to a group of their own administers that on the platform.
        """
        if self.permissions.cached_role(request.message) == "everyone":
            raise PermissionDenied(request.texts.only_reviewers, ENGLISH.only_reviewers)

    def require_source(self, name: str, request: CommandRequest) -> str:
        """Return the name of a configured source. Raises `UsageError` for another one, or one not to be told of."""
        sources = self.visible_settings(request).sources
        if name in sources:
            return name
        names = ", ".join(f"`{source}`" for source in sources) or request.texts.no_sources_configured
        raise UsageError(request.texts.unknown_source.format(sources=names))


def watch_nothing(_still_told: StillTold) -> None:
    """Ask nothing again: what is told is shown at once."""


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command that its author may give: the message, the arguments by name, and the author's role.

    `adapter` is what the message came through; None in the terminal. The commands in `texts` are spelled for it.
    Whoever tells words that the journal holds lets `watch` know how to ask whether they are still there, and told.
    """

    message: Message
    command: Command
    arguments: Mapping[str, str]
    role: UserRole
    adapter: Adapter | None = None
    texts: Messages = ENGLISH
    watch: Watch = watch_nothing

    @property
    def spell(self) -> Spell:
        """Returns how a command is given where this one was."""
        return self.adapter.spell_command if self.adapter else spell_with_slash

    @property
    def chat(self) -> str:
        """The chat's name in the configuration: `platform:chat`."""
        return get_chat_name(self.message)

    @property
    def can_see_all_chats(self) -> bool:
        """Return whether the answer may tell of other chats: an owner asks where nobody else reads it."""
        return self.role == "owner" and self.message.private

    @property
    def chat_filter(self) -> tuple[str, str] | None:
        """The platform and the id of the chat that the command is about; None: all chats."""
        return None if self.can_see_all_chats else (self.message.key.platform, self.message.key.chat)

    @property
    def scope_text(self) -> str:
        """The words for what the command is about: this chat, or all of them."""
        return self.texts.in_all_chats if self.can_see_all_chats else self.texts.in_this_chat


# Returns what the bot says, as Markdown. Raises `UsageError` for arguments that make no sense.
CommandHandler = Callable[[CommandRequest], Awaitable[str]]


async def format_source_hits(context: CommandContext, request: CommandRequest, since: date) -> list[str]:
    """Return a line with how often each source that may be named here was cited of the answers that it was shown to."""
    hits = await StatisticsRepository(context.journal.database).count_source_hits(since, request.chat_filter)
    visible_sources = context.visible_settings(request).sources
    shares = [f"{name} {hits[name].cited}/{hits[name].shown}" for name in hits if name in visible_sources]
    return [request.texts.source_hits.format(day=since, sources=", ".join(shares))] if shares else []
