"""Makes the adapters: one for each configured bot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from urllib.parse import urlsplit

from bots.common.namespaced import NamespacedAdapter
from core.errors import PlatformError, UsageError
from core.messaging.policy.command_table import list_commands
from core.messaging.policy.permissions import Permissions
from core.observability.logs import get_logger
from core.ports import Adapter
from core.settings import (
    BlueskySettings,
    DiscordSettings,
    GithubSettings,
    GitlabSettings,
    HttpSettings,
    MastodonSettings,
    PlatformSettings,
    Settings,
    SlackSettings,
    TelegramSettings,
)
from core.storage.account_names import find_cursors, find_first_and_last
from core.storage.chat_history import ChatHistory
from core.storage.closed_threads import close_thread
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings
from core.types import ConversationKey, Message

_log = get_logger(__name__)

NO_PLATFORM = (
    "no platform is configured: add a telegram, discord, slack, mastodon, bluesky, github, gitlab or http section, or "
    "an api (docs/telegram.md, docs/discord.md, docs/slack.md, docs/mastodon.md, docs/bluesky.md, docs/forges.md, "
    "docs/http.md and docs/api.md say how)"
)
ALL_INTERFACES = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 (compared with, not listened on)

# The ends of the paths of what says who somebody is.
_IDENTIFYING = (".token", ".bot_token", ".app_password", ".owner_token", ".secret")
# So long the start waits for further platforms once the first one is connected.
START_PATIENCE_S = 5.0


def make_adapters(live: LiveSettings, journal: Journal, *, read_only: bool = False) -> list[Adapter]:
    """Return an adapter per configured bot; `read_only` ones post nothing.

    Raises `UsageError` when there is neither a bot nor an API nor a page, or when two bots are the same one.
    """
    settings = live.settings
    if conflicts := find_token_conflicts(settings):
        raise UsageError(conflicts[0])
    adapters: list[Adapter] = []
    for name, _, section in settings.get_bots():
        adapter = _make_adapter(live, section, journal, name, read_only=read_only)
        adapters.append(NamespacedAdapter(name, adapter) if name else adapter)
    # On the operator's page a platform can be connected.
    if not adapters and settings.api.port is None and settings.operator_page.port is None:
        raise UsageError(NO_PLATFORM)
    return adapters


async def start_opening(
    adapters: Sequence[Adapter], stack: AsyncExitStack, *, keeps_going: bool = False
) -> Mapping[Adapter, asyncio.Task[None]]:
    """Open all adapters; return when the first one is open, and the others are too or had a moment to.

    The stack closes them.

    What is away then is opened by its task as soon as it is back: no platform waits for another one. Raises
    `PlatformError` for a credential that is refused by then, unless it `keeps_going`: then whoever awaits the task of
    this adapter learns of it, and a moment is all that the start waits.
    """
    for adapter in adapters:
        stack.push_async_callback(adapter.close)
    tasks = {adapter: asyncio.create_task(name_platform(adapter, adapter.open())) for adapter in adapters}
    stack.push_async_callback(_cancel, tasks.values())
    pending_tasks: set[asyncio.Task[None]] = set(tasks.values())
    timeout_s = START_PATIENCE_S if keeps_going else None
    while pending_tasks:
        done_tasks, pending_tasks = await asyncio.wait(
            pending_tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if not done_tasks:
            away = [adapter.label for adapter, task in tasks.items() if task in pending_tasks]
            _log.warning("daemon.platforms_unreachable", platforms=away, hint="they join when they are back")
            break
        for task in done_tasks:
            if not (keeps_going and isinstance(task.exception(), PlatformError)):
                task.result()
        timeout_s = START_PATIENCE_S
    return tasks


async def name_platform(adapter: Adapter, call: Awaitable[None]) -> None:
    """Await what an adapter does; a `PlatformError` says afterwards whose it is."""
    try:
        await call
    except PlatformError as error:
        error.platform = adapter.label
        raise


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def find_token_conflicts(settings: Settings) -> list[str]:
    """Return a sentence for each credential that lets two parties in, or that two bots or networks share.

    Missing credentials do not count.
    """
    path_by_secret: dict[str, str] = {}
    conflicts = []
    for path, secret in settings.secrets().items():
        # Sources only read: several may do so with one token, and with that of a bot.
        is_of_bot = path.endswith(_IDENTIFYING) and not path.startswith("sources.")
        if not is_of_bot or secret.missing_reason():
            continue
        first_path = path_by_secret.setdefault(secret.value(), path)
        if first_path != path:
            conflicts.append(f"{path} is the same as {first_path}: give each its own")
    return conflicts


def find_port_conflicts(settings: Settings) -> list[str]:
    """Return a sentence for each port that two parts listen on."""
    listeners = [
        (get_section_path(name, platform), *_get_listen_address(section))
        for name, platform, section in settings.get_bots()
    ]
    servers = {"metrics": settings.metrics, "operator_page": settings.operator_page, "api": settings.api}
    listeners += [(path, section.host, section.port or 0) for path, section in servers.items()]
    active_listeners = [(path, host, port) for path, host, port in listeners if port]
    return [
        f"{path} listens on port {port} as {other_path} does: give one of them another port"
        for index, (path, host, port) in enumerate(active_listeners)
        for other_path, other_host, other_port in active_listeners[:index]
        if port == other_port and (host == other_host or ALL_INTERFACES & {host, other_host})
    ]


def get_section_path(name: str, platform: str) -> str:
    """Return the path of a bot's section in the configuration."""
    return f"bots.{name}.{platform}" if name else platform


def _get_listen_address(section: PlatformSettings) -> tuple[str, int]:
    """Return the address that a platform's events arrive at, with port 0 where the bot fetches them."""
    if isinstance(section, HttpSettings) or (isinstance(section, SlackSettings) and section.signing_secret):
        return section.host, section.port
    if isinstance(section, GithubSettings | GitlabSettings) and section.webhook_secret:
        return section.host, section.port
    return "", 0


def _make_adapter(
    live: LiveSettings, section: PlatformSettings, journal: Journal, name: str, *, read_only: bool
) -> Adapter:
    settings = live.settings
    get_commented_chats = settings.auto_comment.get_chats
    if isinstance(section, TelegramSettings):
        # Each bot numbers its updates: the position has the bot's id.
        positions = JournalPositions(journal, "telegram")
        record = partial(live.record_move, "telegram")
        return _load_class("..telegram.adapter:TelegramAdapter")(
            section, positions, record_move=record, commands=list_commands(settings), read_only=read_only
        )
    if isinstance(section, DiscordSettings):
        # The adapter puts the bot's id into every name.
        positions = JournalPositions(journal, "discord")
        return _load_class("..discord.adapter:DiscordAdapter")(
            section,
            positions,
            bot_message_chats=get_commented_chats("discord"),
            get_sources=make_source_lookup(live),
            is_for_asker=partial(_is_for_asker, live, "discord"),
            commands=list_commands(settings),
            read_only=read_only,
        )
    if isinstance(section, SlackSettings):
        return _make_slack_adapter(live, section, journal, read_only=read_only)
    if isinstance(section, MastodonSettings | BlueskySettings):
        return _make_social_adapter(settings, section, journal, name, read_only=read_only)
    if isinstance(section, GithubSettings | GitlabSettings):
        platform = "github" if isinstance(section, GithubSettings) else "gitlab"
        accounts = JournalAccounts(journal, platform)
        get_people = partial(live.list_privileged, platform)
        return _load_class("..forges.adapter:ForgeAdapter")(section, accounts, get_people, read_only=read_only)
    is_unnamed = section is settings.http
    return _load_class("..http.adapter:HttpAdapter")(section, read_only=read_only, is_unnamed=is_unnamed)


def _make_social_adapter(
    settings: Settings, section: MastodonSettings | BlueskySettings, journal: Journal, name: str, *, read_only: bool
) -> Adapter:
    platform = "mastodon" if isinstance(section, MastodonSettings) else "bluesky"
    suffix = f"@{name}" if name else ""
    chats = [chat.removesuffix(suffix) for chat in settings.auto_comment.get_chats(platform) if chat.endswith(suffix)]
    timelines = [chat for chat in chats if "@" not in chat]
    positions = JournalPositions(journal, platform)
    if isinstance(section, MastodonSettings):
        return _load_class("..mastodon.adapter:MastodonAdapter")(section, positions, timelines, read_only=read_only)
    # After a move to another server, the old session is of no use.
    session_file = settings.data_dir / f"bluesky-{section.handle}@{urlsplit(section.url).netloc}.session"
    return _load_class("..bluesky.adapter:BlueskyAdapter")(
        section, positions, timelines, session_file, read_only=read_only
    )


def make_source_lookup(live: LiveSettings) -> Callable[[Message], Awaitable[Sequence[str]]]:
    """Return what names the sources that may be suggested where a message stands. It raises `StoreError`."""
    permissions = Permissions(live)

    async def get_sources(message: Message) -> Sequence[str]:
        # Nothing else may have read for hours what other daemons have closed.
        await live.load()
        visible_sources = permissions.visible_sources(message)
        return [name for name in live.settings.sources if visible_sources is None or name in visible_sources]

    return get_sources


def _is_for_asker(live: LiveSettings, platform: str, chat: str) -> bool:
    return live.settings.get_chat(f"{platform}:{chat}").answers == "asker"


def _load_class(path: str) -> Callable[..., Adapter]:
    """Return the adapter class at `module:class`: only configured platforms load their library."""
    module, _, name = path.partition(":")
    adapter_class: Callable[..., Adapter] = getattr(import_module(module, __package__), name)
    return adapter_class


def _make_slack_adapter(live: LiveSettings, section: SlackSettings, journal: Journal, *, read_only: bool) -> Adapter:
    settings = live.settings
    is_multi_bot = len(settings.get_bots("slack")) > 1

    async def has_answered_in(key: ConversationKey) -> bool:
        if is_multi_bot:
            return await ChatHistory(journal.database).has_answered(key, adapter.bot_id)
        return bool((await journal.get_history(key, 1, visible_labels=None, reader=None)).turns)

    adapter: Adapter = _load_class("..slack.adapter:SlackAdapter")(
        section,
        has_answered_in,
        bot_message_chats=settings.auto_comment.get_chats("slack"),
        is_for_asker=partial(_is_for_asker, live, "slack"),
        record_move=partial(live.record_move, "slack"),
        read_only=read_only,
    )
    return adapter


@dataclass(frozen=True, slots=True)
class JournalPositions:
    """Positions of one platform, kept in the journal by name."""

    journal: Journal
    platform: str

    async def load(self, name: str) -> int | None:
        """Return a position, or None when it was never saved."""
        return await self.journal.get_cursor(f"{self.platform}:{name}")

    async def save(self, name: str, position: int) -> None:
        """Save a position."""
        await self.journal.set_cursor(f"{self.platform}:{name}", position)


class JournalAccounts(JournalPositions):
    """Positions of a forge, with the numbers of its accounts."""

    async def find(self, prefix: str, position: int | None = None) -> Sequence[str]:
        """Return the names that begin in a way, without that beginning; with a position, those that have it."""
        return await find_cursors(self.journal.database, f"{self.platform}:{prefix}", position)

    async def find_old_messages(self, author_id: str) -> Sequence[tuple[str, str, str]]:
        """Return the first and the last message of a person, as `find_first_and_last` does."""
        return await find_first_and_last(self.journal.database, self.platform, author_id)

    async def close_thread(self, chat: str, thread: str) -> int:
        """Tell what was said in a thread to nobody else in its chat, as `core.storage.closed_threads` does."""
        return await close_thread(self.journal.database, self.platform, chat, thread)
