"""The audiences of a configuration, checked: they name what is there, and can be kept."""

from __future__ import annotations

from collections.abc import Iterator

from core.settings.audience import ADMINS, OWNERS, Audiences, RestrictedSettings, describe
from core.settings.base import API_PLATFORM, EVERYONE, PAGE_CLIENT
from core.settings.chats import (
    BOT_NAMING_PLATFORMS,
    CHAT_EXAMPLES,
    can_be_private,
    find_network_fault,
    is_chat,
)
from core.types import NETWORK_PLATFORM, PlatformName


def check_audiences(settings: RestrictedSettings) -> None:
    """Raise `ValueError` for an audience that names what is not there, or that could not be kept."""
    for setting_path, audience in _iter_audiences(settings):
        for entry in audience:
            if problem := _find_problem(entry, audience, settings):
                raise ValueError(f"{setting_path}.audience: {problem}")
    audiences = Audiences.from_settings(settings).by_source
    for name, source in settings.sources.items():
        live_name = getattr(source, "of", name)
        if audiences[name] != audiences[live_name]:
            raise ValueError(
                f"sources.{name}.audience: it stores results of {live_name} ({describe(audiences[live_name])}): "
                "give both the same audience"
            )
    for name, agent in settings.retrieval_agents().items():
        if len({audiences[source] for source in agent.sources}) > 1:
            source_audiences = "; ".join(f"{source}: {describe(audiences[source])}" for source in agent.sources)
            raise ValueError(
                f"agents.{name}: its sources have different audiences ({source_audiences}), and one agent knows all of "
                "its sources: give each audience an agent of its own"
            )


def find_unknown_networks(settings: RestrictedSettings) -> list[tuple[str, str]]:
    """Return the audiences that name a chat of a further network that is not configured: their path, and what to do.

    Nobody can be such a chat. The network may have been removed, or renamed.
    """
    names = {name for name, _, _ in settings.get_bots(NETWORK_PLATFORM)}
    return [
        (f"{path}.audience", f"{entry!r}: {fault}")
        for path, audience in _iter_audiences(settings)
        for entry in audience
        if (fault := find_network_fault(entry, names))
    ]


def _iter_audiences(settings: RestrictedSettings) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((f"sources.{name}", source.audience) for name, source in settings.sources.items())
    yield from ((f"agents.{name}", agent.audience) for name, agent in settings.agents.items())


def _find_problem(entry: str, audience: tuple[str, ...], settings: RestrictedSettings) -> str:
    """Return why an entry names nobody, and what to write instead; "" where it is right."""
    if entry == EVERYONE:
        return "" if len(audience) == 1 else "everyone stands alone: remove it, or the other entries"
    bots = {(name, platform) for name, platform, _ in settings.get_bots()}
    networks = {f"http@{name}" if platform == "http" and name else platform for name, platform in bots}
    networks |= {API_PLATFORM} if settings.api.clients else set()
    if ":" in entry:
        return _find_chat_fault(entry, settings, networks)
    if entry in (OWNERS, ADMINS) or entry in networks:
        return ""
    known_names = ", ".join((EVERYONE, ADMINS, OWNERS, *sorted(networks)))
    return (
        f"{entry!r} is no role and no platform with a bot (known: {known_names}); a chat is written platform:chat, "
        "such as slack:C0123456789"
    )


def _describe_no_asker(entry: str, name: str) -> str:
    if name == PAGE_CLIENT:
        return f"{entry!r} are the visitors of the page, which is off: switch on api.page.enabled"
    return f"{entry!r}: there is no client api.clients.{name}"


def _find_chat_fault(entry: str, settings: RestrictedSettings, networks: set[str]) -> str:
    name = PlatformName.parse(entry)
    if name.platform == API_PLATFORM:
        return "" if name.id in settings.api.asker_names else _describe_no_asker(entry, name.id)
    if not is_chat(entry):
        return f"{entry!r} is no chat: write {CHAT_EXAMPLES} or, for a further network, http:lobby@NAME"
    if name.network not in networks and not name.network_suffix:
        return f"{entry!r} is on {name.network}, where no bot is configured: add its section, or remove the entry"
    is_naming = name.platform in BOT_NAMING_PLATFORMS
    bot_names = [bot for bot, _, _ in settings.get_bots(name.platform)] if is_naming else []
    # Of Telegram only private chats, which are the same for several bots.
    if name.bot and not name.network_suffix and name.bot not in bot_names:
        return f"{entry!r}: no such chat carries the name of a bot: write {entry.partition('@')[0]}"
    comments = settings.auto_comment
    chats = {*settings.gate.chats, *comments.chats, *(feed.chat for feed in comments.feeds.values())}
    if settings.gate.chats and entry not in chats and not can_be_private(entry):
        return f"the bot does not answer in {entry!r}: add it to gate.chats, or remove it here"
    return ""
