"""What `kimas init` and `kimas check --live` learn about a Telegram bot; nothing is changed or confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bots.common.diagnosis import Diagnosis, FoundChat, Problem, Scope
from bots.telegram.adapter import connect
from bots.telegram.connection import Conflict
from core.errors import PlatformError
from core.settings import TelegramSettings

if TYPE_CHECKING:
    from bots.telegram.client import TelegramClient

POLL_S = 5
PAUSE_S = 1.0
GROUP_KINDS = ("group", "supergroup")
# An event of these kinds names the chat: also that the bot was just added.
_EVENTS = ("message", "my_chat_member", "edited_message")


async def diagnose(settings: TelegramSettings, scope: Scope) -> Diagnosis:
    """Return what is known of the bot and its chats. Raises `PlatformError` for a token that does not work."""
    client = await asyncio.to_thread(connect, settings)
    try:
        me = await client.get_identity()
        invitation = f"https://t.me/{me.username}?startgroup=true"
        statuses = {chat: await _get_status(client, chat, me.id) for chat in scope.chats if chat.startswith("-")}
    finally:
        await client.close()
    in_groups = {chat: status for chat, status in statuses.items() if status in ("member", "administrator", "creator")}
    problems = [
        Problem(f"group {chat}: {status}; add it by {invitation}, and compare the id")
        for chat, status in statuses.items()
        if chat not in in_groups
    ]
    all_admin = bool(statuses) and all(status == "administrator" for status in statuses.values())
    if scope.reads_all and not me.can_read_all and not all_admin:
        problems.append(Problem(_privacy_text(me.username), is_error=False))
    places = ", ".join(f"{status} of {chat}" for chat, status in in_groups.items())
    return Diagnosis(f"@{me.username}{places and f', {places}'}", invitation, tuple(problems))


async def find_chat(settings: TelegramSettings, timeout_s: float) -> FoundChat | None:
    """Wait until somebody writes in a group with the bot, or adds it to one; None after `timeout_s` seconds.

    Raises `PlatformError`.
    """
    client = await asyncio.to_thread(connect, settings)
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                # Without an offset nothing is confirmed: the daemon gets these messages, too.
                updates = await client.get_updates(None, POLL_S, ("my_chat_member",))
                if chat := _find_group(updates):
                    return chat
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        return None
    except Conflict as error:
        raise PlatformError(f"{error}; stop it, or make another bot") from error
    finally:
        await client.close()


async def _get_status(client: TelegramClient, chat: str, bot_id: int) -> str:
    """Return the bot's status in a group, or why it has none."""
    try:
        member = await client.get_member(int(chat), bot_id)
    except PlatformError as error:
        return f"the bot is not in it ({error})"
    status = str(member.get("status"))
    if status == "restricted" and member.get("can_send_messages") is False:
        return "the bot may not write there: make it an administrator"
    return {"left": "the bot is not in it", "kicked": "the bot was banned from it", "restricted": "member"}.get(
        status, status
    )


def _find_group(updates: Iterable[Any]) -> FoundChat | None:
    """Return the group of the newest event in one."""
    admin_chats = []
    for update in updates:
        events = [update[name] for name in _EVENTS if name in update] if isinstance(update, Mapping) else []
        chat = events[0].get("chat") if events and isinstance(events[0], Mapping) else None
        if isinstance(chat, Mapping) and chat.get("type") in GROUP_KINDS and isinstance(chat.get("id"), int):
            author = events[0].get("from")
            # An anonymous administrator has the id of a bot of Telegram's.
            is_person = isinstance(author, Mapping) and not author.get("is_bot")
            person = (str(author.get("id") or ""), str(author.get("first_name") or "")) if is_person else ("", "")
            admin_chats.append(FoundChat(str(chat["id"]), str(chat.get("title") or ""), *person))
    return admin_chats[-1] if admin_chats else None


def _privacy_text(username: str) -> str:
    return (
        f"privacy mode is on: Telegram delivers only what is addressed to @{username}, but gate.mode or auto_comment "
        "wants all messages. In a chat with @BotFather: /setprivacy, choose the bot, Disable; then remove the bot from "
        "the group and add it again. Or make it an administrator of the group"
    )
