"""Posts into a chat that nobody wrote in: which bot does it, and how its platform finds the chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from core.ports import Adapter
from core.settings import Settings
from core.settings.chats import can_be_private
from core.types import NETWORK_PLATFORM, ConversationKey, Message, PlatformName, ThreadState

# Where nothing can be posted but below what somebody wrote.
THREADS_ONLY_PLATFORMS = ("github", "gitlab")


def find_chat_error(settings: Settings, setting: str, chat_name: str) -> str:
    """Return why no bot can write to a chat that a setting names, as platform:chat, or an empty text."""
    chat = PlatformName.parse(chat_name)
    platform = chat.platform
    if platform in THREADS_ONLY_PLATFORMS:
        return f"{setting} is {chat_name}, but there the bot only answers issues: name a chat of another platform"
    bot_names = [bot_name for bot_name, _, _ in settings.get_bots(platform)]
    # A chat without a network's name is in the unnamed network alone; on other platforms the first bot writes there.
    if not bot_names or (platform == NETWORK_PLATFORM and not chat.bot and "" not in bot_names):
        return (
            f"{setting} is {chat_name}, but there is no {platform} bot: add a {platform} section "
            f"(docs/{platform}.md), or name a chat of a platform that is configured"
        )
    if chat.bot and chat.bot not in bot_names:
        known_names = ", ".join(bot for bot in bot_names if bot) or "none"
        return f"{setting} is {chat_name}, but no further {platform} bot is named {chat.bot!r} (known: {known_names})"
    return ""


def resolve_chat(chat_name: str) -> tuple[str, str, str]:
    """Return the platform, the chat as the journal knows it, and the chat as the platform knows it."""
    chat = PlatformName.parse(chat_name)
    return chat.platform, chat.posted_id, chat.native_id


def find_posting_adapter(chat_name: str, adapters: Sequence[Adapter]) -> Adapter:
    """Return the bot that writes to a chat: the one that the chat names, else the platform's first."""
    chat = PlatformName.parse(chat_name)
    candidates = [adapter for adapter in adapters if adapter.name == chat.platform]
    by_name = {adapter.label.partition(":")[2]: adapter for adapter in candidates}
    return by_name.get(chat.bot, candidates[0])


def make_post(adapter: Adapter, chat_name: str, message_id: str) -> Message:
    """Return a message of the bot's own in a chat, without words."""
    platform, chat, native_chat = resolve_chat(chat_name)
    return Message(
        id=message_id,
        key=ConversationKey(platform, chat, message_id),
        # Any name may be that of a person, who could have its rights, or forget it.
        author_id="",
        author="KIMAs",
        text="",
        sent_at=datetime.now(UTC),
        addressed=True,
        thread_state=ThreadState(in_main_chat=True),
        bot=adapter.bot_id,
        reference=make_reference(platform, native_chat),
    )


def start_post(chat_name: str, message_id: str, adapters: Sequence[Adapter]) -> tuple[Adapter, Message] | None:
    """Return the bot that writes to a chat, with its message there; None while none of the platform is open."""
    if not any(adapter.name == PlatformName.parse(chat_name).platform for adapter in adapters):
        return None
    adapter = find_posting_adapter(chat_name, adapters)
    return adapter, make_post(adapter, chat_name, message_id)


def find_draft_errors(settings: Settings) -> Sequence[str]:
    """Return an error for each chat whose drafts nobody could decide about."""
    chats = [name for name, chat in settings.chats.items() if chat.mode == "draft"]
    targets = {f"chats.{name}": settings.get_drafts_chat(name) for name in chats}
    targets |= {"gate": settings.gate.drafts_to} if settings.gate.mode == "draft" else {}
    errors = []
    for path, target in targets.items():
        setting = f"{path}.drafts_to"
        if target is None:
            errors.append(f"{path}.mode is draft, but nobody gets the drafts: name the team's chat as gate.drafts_to")
        elif error := find_chat_error(settings, setting, target):
            errors.append(error)
        elif settings.gate.chats and not can_be_private(target) and target not in settings.gate.chats:
            errors.append(f"{setting} is {target}, which is not among gate.chats: add it there, or name another chat")
        elif settings.get_mode(target, private=can_be_private(target)) == "draft":
            errors.append(f"{setting} is {target}, whose own mode is draft: set chats.{target}.mode to another one")
    return errors


def make_reference(platform: str, chat: str) -> Mapping[str, Any]:
    """Return the reference with which the platform's sink posts a new message into a chat.

    Over HTTP the callback then names no event.
    """
    match platform:
        case "telegram":
            return {"chat_id": int(chat), "message_id": 0, "thread_id": None}
        case "discord":
            return {"channel": chat, "message": ""}
        case "slack":
            return {"channel": chat, "ts": "", "thread_ts": None}
        case "mastodon":
            # A person is written to in private.
            person = chat if "@" in chat else ""
            return {"status": "", "acct": person, "visibility": "direct" if person else "public"}
        case "bluesky":
            return {"uri": ""}
        case _:
            return {"event": ""}
