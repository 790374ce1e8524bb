"""From the configuration to the adapters: one for every bot."""

from __future__ import annotations

from dataclasses import dataclass

from bots.common.namespaced import NamedBot
from core.errors import UsageError
from core.ports import Adapter
from core.settings import DiscordSettings, HttpSettings, PlatformSettings, Settings, SlackSettings, TelegramSettings
from core.storage.chat_history import Room
from core.storage.messages import Journal
from core.types import ConversationKey

NO_PLATFORM = (
    "no platform is configured: add a telegram, discord, slack or http section "
    "(docs/telegram.md, docs/discord.md, docs/slack.md and docs/http.md say how)"
)


def make_adapters(settings: Settings, journal: Journal, *, mute: bool = False) -> list[Adapter]:
    """Return an adapter per configured bot; `mute` ones show nothing.

    Raises `UsageError` when there is no bot, or when two are the same one.
    """
    if twice := same_bot(settings):
        raise UsageError(twice[0])
    adapters: list[Adapter] = []
    for name, _, section in settings.bots_on():
        adapter = _adapter(settings, section, journal, mute=mute)
        adapters.append(NamedBot(name, adapter) if name else adapter)
    if not adapters:
        raise UsageError(NO_PLATFORM)
    return adapters


def same_bot(settings: Settings) -> list[str]:
    """Return what is wrong where two bots have one credential, a sentence for each; what is not there is no fault."""
    seen: dict[str, str] = {}
    found = []
    for path, secret in settings.secrets().items():
        if not path.endswith((".token", ".bot_token")) or secret.missing():
            continue
        first = seen.setdefault(secret.value(), path)
        if first != path:
            found.append(f"{path} is the same as {first}: every bot needs its own")
    return found


def same_port(settings: Settings) -> list[str]:
    """Return what is wrong where two parts listen on one port, a sentence for each."""
    listening = [(place_of(name, on), *_address(section)) for name, on, section in settings.bots_on()]
    listening.append(("metrics", settings.metrics.host, settings.metrics.port or 0))
    places = [(place, host, port) for place, host, port in listening if port]
    return [
        f"{place} listens on port {port} as {other} does: give one of them another port"
        for at, (place, host, port) in enumerate(places)
        for other, beside, taken in places[:at]
        if port == taken and (host == beside or EVERYWHERE & {host, beside})
    ]


EVERYWHERE = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 (compared with, not listened on)


def place_of(name: str, platform: str) -> str:
    """Return the path of a bot's section in the configuration."""
    return f"bots.{name}.{platform}" if name else platform


def _address(section: PlatformSettings) -> tuple[str, int]:
    """Return where a platform's events are listened for, with port 0 where they are fetched."""
    if isinstance(section, HttpSettings) or (isinstance(section, SlackSettings) and section.signing_secret):
        return section.host, section.port
    return "", 0


def _adapter(settings: Settings, section: PlatformSettings, journal: Journal, *, mute: bool) -> Adapter:
    counted = settings.auto_comment.chats_on
    if isinstance(section, TelegramSettings):
        from bots.telegram.adapter import TelegramAdapter

        # Another bot's updates are numbered anew. The part of a token before the colon is the bot's id, no secret.
        bot = section.token.value().split(":")[0]
        return TelegramAdapter(section, Offsets(journal, f"telegram:{bot}"), mute=mute)
    if isinstance(section, DiscordSettings):
        from bots.discord.adapter import DiscordAdapter

        # The adapter puts the bot's id into every name.
        positions, names = Positions(journal, "discord"), tuple(settings.sources)
        return DiscordAdapter(section, positions, counted=counted("discord"), sources=names, mute=mute)
    if isinstance(section, SlackSettings):
        return _slack(settings, section, journal, mute=mute)
    from bots.http.adapter import HttpAdapter

    return HttpAdapter(section, mute=mute)


def _slack(settings: Settings, section: SlackSettings, journal: Journal, *, mute: bool) -> Adapter:
    from bots.slack.adapter import SlackAdapter

    several = len(settings.bots_on("slack")) > 1

    async def answered_in(key: ConversationKey) -> bool:
        if several:
            return await Room(journal.database).answered_by(key, adapter.bot)
        return bool(await journal.conversation(key, 1))

    adapter = SlackAdapter(section, answered_in, counted=settings.auto_comment.chats_on("slack"), mute=mute)
    return adapter


@dataclass(frozen=True, slots=True)
class Offsets:
    """One bot's place in its stream of updates, kept in the journal."""

    journal: Journal
    name: str

    async def load(self) -> int | None:
        """Return the place, or None at the first start."""
        return await self.journal.position(self.name)

    async def save(self, offset: int) -> None:
        """Keep the place."""
        await self.journal.advance(self.name, offset)


@dataclass(frozen=True, slots=True)
class Positions:
    """Many numbers of one platform, kept in the journal by their names."""

    journal: Journal
    platform: str

    async def load(self, name: str) -> int | None:
        """Return a number, or None when it was never saved."""
        return await self.journal.position(f"{self.platform}:{name}")

    async def save(self, name: str, position: int) -> None:
        """Keep a number."""
        await self.journal.advance(f"{self.platform}:{name}", position)
