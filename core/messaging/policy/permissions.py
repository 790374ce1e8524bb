"""Where the bot may speak, who may give which command, and which sources a reply may tell of.

The role is checked at every command: what a menu shows or hides permits nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from core.errors import PlatformError, UsageError
from core.formatting import format_until
from core.language.languages import detect_language, to_language_code
from core.messaging.policy.command_table import UserRole, has_role, is_ask_command
from core.observability.logs import get_logger
from core.ports import Adapter
from core.settings import ChatSettings
from core.settings.audience import ALL_CHATS, Asker, Audiences
from core.settings.gate import GateMode
from core.storage.overrides import LiveSettings, get_chat_name
from core.types import FOR_ASKER, NETWORK_PLATFORM, Message, PlatformName, Skip, SkipReason, skip

_log = get_logger(__name__)

# Where a person's id is no private chat.
_CHANNEL_PLATFORMS = (NETWORK_PLATFORM, "discord")


class PermissionDenied(UsageError):
    """The author may not give this command: `text` is the reply, `audit_text` the entry in the audit."""

    def __init__(self, text: str, audit_text: str = "") -> None:
        super().__init__(text)
        self.audit_text = audit_text or text


class Permissions:
    """Resolves roles: configured owners, administrators named for a chat, and the platform's own if allowed."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live

    @property
    def audiences(self) -> Audiences:
        """Who may see which source."""
        return self._live.audiences

    def cached_role(self, message: Message) -> UserRole:
        """Return the author's role as far as it is known without asking the platform."""
        # Telegram shows anonymous administrators as the group itself.
        is_anonymous_admin = not message.private and message.author_id == message.key.chat
        if not message.author_id or is_anonymous_admin:
            return "everyone"
        if f"{message.key.platform}:{message.author_id}" in self._live.settings.administration.owners:
            return "owner"
        return "admin" if message.author_id in self._live.overrides.admins(get_chat_name(message)) else "everyone"

    async def resolve_role(self, message: Message, adapter: Adapter | None) -> UserRole:
        """Return the author's role. If the platform does not answer, it makes nobody an administrator."""
        try:
            return await self.find_role(message, adapter)
        except PlatformError as error:
            _log.warning("administrator.check_failed", platform=message.key.platform, error=str(error))
            return "everyone"

    async def find_role(self, message: Message, adapter: Adapter | None) -> UserRole:
        """Return the author's role. Raises `PlatformError` where the platform has to be asked, and does not say it."""
        role = self.cached_role(message)
        asks_platform = self._live.settings.administration.platform_admins
        if role != "everyone" or message.private or not asks_platform or adapter is None:
            return role
        return "admin" if await adapter.is_admin(message) else "everyone"

    def visible_sources(self, message: Message) -> frozenset[str] | None:
        """Return the sources that may be told of in the reply to a message; None while all are for everyone.

        Call `LiveSettings.load` before: commands appoint administrators.
        """
        if not self.audiences.has_closed_sources:
            return None
        return self.audiences.visible_sources(self._make_asker(message))

    def get_chat_settings(self, message: Message) -> ChatSettings:
        """Return what is configured for the message's chat."""
        return self._live.settings.get_chat(get_chat_name(message))

    def hides_answer(self, message: Message) -> bool:
        """Return whether only the asker may see an answer, to a message that did not come in a way that allows it."""
        is_public = self.get_chat_settings(message).answers == "everyone"
        return not (is_public or message.private or FOR_ASKER in message.reference)

    def get_language(self, message: Message) -> str:
        """Return the language of what the bot itself says of a message: the chat's, else that of its text."""
        return self.get_chat_language(get_chat_name(message)) or detect_language(message.text)

    def get_chat_language(self, chat: str) -> str:
        """Return the language that is configured for a chat (`platform:chat`), or ""."""
        return to_language_code(self._live.settings.get_chat(chat).language)

    def searched_sources(self, message: Message) -> frozenset[str] | None:
        """Return the sources that an answer to a message is made from: of the visible ones, those of its chat.

        None while all are for everyone and the chat has none of its own.
        """
        visible_sources = self.visible_sources(message)
        chat_sources = frozenset(self.get_chat_settings(message).sources)
        if not chat_sources:
            return visible_sources
        return chat_sources if visible_sources is None else chat_sources & visible_sources

    def visible_labels(self, message: Message) -> frozenset[str]:
        """Return the labels of the same sources, by which the journal says what an answer was made from.

        What an owner's command says in private tells of all chats.
        """
        labels = self.audiences.visible_labels(self._make_asker(message))
        is_private_command = message.private and not is_ask_command(message.command)
        return labels | {ALL_CHATS} if is_private_command and self.cached_role(message) == "owner" else labels

    def visible_labels_of(self, chat: str, *, has_guests: bool) -> frozenset[str]:
        """Return the labels of the sources that everybody in a chat of the configuration may be told of."""
        name = PlatformName.parse(chat)
        asker = self.audiences.make_asker(name.platform, name.id)
        return self.audiences.visible_labels(_among_guests(asker) if has_guests else asker)

    async def as_read_now(self, adapter: Adapter, message: Message) -> Message:
        """Return a message with whether guests read its chat by now, where it matters. Raises `PlatformUnavailable`."""
        if message.has_guests or not self.audiences.has_closed_sources:
            return message
        return replace(message, has_guests=await adapter.has_guests(message.key.chat))

    async def may_tell_of(self, label: str, message: Message) -> bool:
        """Return whether a notice of the bot's own may tell of a source, by its label, now. Raises `StoreError`."""
        await self._live.load()
        return label in self.audiences.visible_labels(self._make_reader(message))

    def gets_alerts(self, message: Message) -> bool:
        """Return whether the configuration has the chat of a notice among those that get alerts."""
        chats = map(PlatformName.parse, self._live.settings.alerts.chats)
        return (message.key.platform, message.key.chat) in [(chat.platform, chat.posted_id) for chat in chats]

    def is_told_to_owner(self, message: Message) -> bool:
        """Return whether an owner alone reads a notice of the bot's own."""
        return self._make_reader(message).role == "owner"

    def _make_reader(self, message: Message) -> Asker:
        place = PlatformName(message.key.platform, message.key.chat)
        return make_reader(self._live, place, has_guests=message.has_guests)

    def closed_labels(self, message: Message) -> frozenset[str]:
        """Return the labels of the sources that are not for everyone and may be told of in the reply to a message.

        Call `LiveSettings.load` before, as for `visible_sources`.
        """
        return self.audiences.closed_labels(self._make_asker(message))

    async def read_closed_labels(self, message: Message, told_of: Collection[str]) -> frozenset[str]:
        """Return the same, with those of `told_of`, which could be seen when its words, or the reply, were written.

        One that is not configured any more may have been closed. Raises `StoreError`.
        """
        await self._live.load()
        return self.audiences.closed_labels(self._make_asker(message), told_of)

    def may_read_lesson(self, closed_sources: Collection[str] | None, message: Message) -> bool:
        """Return whether a taught answer may be shown in the reply to a message: all that it may tell of is seen there.

        Call `LiveSettings.load` before.
        """
        return self.audiences.may_read_lesson(self._make_asker(message), closed_sources)

    def _make_asker(self, message: Message) -> Asker:
        key = message.key
        role = self._private_role(message) if message.private else "everyone"
        asker = self.audiences.make_asker(key.platform, key.chat, is_private=message.private, role=role)
        return _among_guests(asker) if message.has_guests else asker

    def _private_role(self, message: Message) -> UserRole:
        """Return the author's role in private, where an administrator is whom owners have appointed in any chat."""
        role = self.cached_role(message)
        scopes = self._live.overrides.scopes_of_admin(message.author_id) if message.author_id else ()
        network = PlatformName(message.key.platform, message.key.chat).network
        # In another network the id is a namesake's.
        is_admin = any(PlatformName.parse(scope).network == network for scope in scopes)
        return "admin" if is_admin and role == "everyone" else role

    async def is_admin(self, message: Message, adapter: Adapter | None) -> bool:
        """Return whether the author is an administrator of the bot in the message's chat. Raises `StoreError`."""
        await self._live.load()
        return has_role(await self.resolve_role(message, adapter), "admin")


def _among_guests(asker: Asker) -> Asker:
    # Who is named by the platform is its own people; the chat itself, or an owner, may be named all the same.
    return replace(asker, network="")


def make_reader(live: LiveSettings, chat: PlatformName, *, has_guests: bool) -> Asker:
    """Return who reads what the bot posts to a chat by itself."""
    # What is posted to an owner's id is private. Over HTTP a chat of that name may be anybody's; on Discord only a
    # channel's id takes a post, also where somebody has listed it as an owner's.
    is_private = str(chat) in live.settings.administration.owners and chat.platform not in _CHANNEL_PLATFORMS
    role: UserRole = "owner" if is_private else "everyone"
    asker = live.audiences.make_asker(chat.platform, chat.id, is_private=is_private, role=role)
    return _among_guests(asker) if has_guests else asker


class ChatPolicy:
    """The mode, the threshold and the pause of every chat."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live

    async def refresh(self) -> None:
        """Read what commands have set. Call it before every other method. Raises `StoreError`."""
        await self._live.load()

    def block_reason(self, message: Message) -> Skip | None:
        """Return why the bot must not speak in the message's chat, or None."""
        return self.excluded_reason(message) or (
            disabled_reason(message) if self.is_off(message) else self.paused_reason(message)
        )

    def excluded_reason(self, message: Message) -> Skip | None:
        """Return why the configuration excludes this chat, or None."""
        settings = self._live.settings.gate
        chat = get_chat_name(message)
        if message.private and not settings.private:
            return skip(SkipReason.PRIVATE_CHATS_OFF)
        if not message.private and settings.chats and chat not in settings.chats:
            return skip(SkipReason.CHAT_NOT_LISTED, chat=chat)
        return None

    def is_off(self, message: Message) -> bool:
        """Return whether the bot is switched off in the chat."""
        return self.mode(message) == "off"

    def paused_reason(self, message: Message) -> Skip | None:
        """Return until when the chat is paused, as a reason, or None."""
        until = self._live.paused_until(get_chat_name(message))
        if not until:
            return None
        return skip(SkipReason.PAUSED, chat=get_chat_name(message), until=format_until(until), moment=until)

    def mode(self, message: Message) -> GateMode:
        """Return the chat's mode."""
        return self._live.mode(get_chat_name(message), private=message.private)

    def threshold(self, message: Message) -> float:
        """Return the chat's threshold."""
        return self._live.threshold(get_chat_name(message))


def disabled_reason(message: Message) -> Skip:
    """Return the reason for a chat where the bot is switched off."""
    return skip(SkipReason.CHAT_OFF, chat=get_chat_name(message))
