"""From Slack's payloads to messages: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

from bots.common.attachments import FETCHED_KINDS, check_file_url, get_kind
from bots.common.events import IgnoredEvent, MessageDeletion
from bots.common.visible_text import join_paragraphs
from bots.slack.thread_cache import ThreadMessage
from bots.slack.visible_text import get_attached_text, get_brought, get_own_text, get_shares, get_visible_text
from core.messaging.policy.command_table import find_near_command, get_command, looks_like_arguments
from core.types import Attachment, ConversationKey, Message, Origin, ThreadState
from core.types.messages import PERSONAL_THREAD

Json = Mapping[str, Any]

OFFICIAL_API_URL = "https://slack.com/"
# How Slack calls the channel of a command where it does not say its name.
UNNAMED_CHANNELS = ("", "directmessage", "privategroup")
# How the name of a conversation of several people begins: it is made of theirs.
_GROUP_PREFIX = "mpdm-"
# What people write themselves; every other subtype is a notice of something that happened.
_USER_SUBTYPES = ("", "file_share", "thread_broadcast", "me_message")
_LEADING_MENTION = re.compile(r"\s*<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")
# What people choose anywhere in their workspace. A button stands below a message of ours, which people of another
# workspace read in a channel that is shared with them.
_FROM_MENUS = ("message_action", "view_submission")
# In a link to a message its timestamp stands without the dot.
_LINK = re.compile(r"https://\S{1,300}/p(\d{10})(\d{6})\b\S*")


def get_attachments(event: Json) -> tuple[Attachment, ...]:
    """Return what came with a message, shared ones included. `reference` holds the `file` id of what can be fetched.

    That is no voice message of another message, where words ask about it.
    """
    shared = [attachment for share in get_shares(event) for attachment in _to_attachments(share)]
    if event.get("text"):
        shared = [replace(item, reference={}) if item.kind == "voice" else item for item in shared]
    return (*_to_attachments(event), *shared)


def _to_attachments(part: Json) -> list[Attachment]:
    files = part.get("files")
    file_objects = [file for file in files if isinstance(file, Mapping)] if isinstance(files, list) else []
    # Deleted and hidden files are still listed.
    return [_to_attachment(file) for file in file_objects if file.get("mode") not in ("tombstone", "hidden_by_limit")]


def find_authors(parts: Sequence[Json], asker_id: str = "") -> tuple[str, ...]:
    """Return the ids of those who wrote some messages, or what they bring, as far as Slack names them.

    The answer to a slash command names no user, but the bot.
    """
    author_ids = (str(part.get("user") or part.get("author_id") or part.get("bot_id") or "") for part in parts)
    return tuple(dict.fromkeys(author_id for author_id in author_ids if author_id not in ("", asker_id)))


def get_file_url(file: Json, api_url: str) -> str:
    """Return the address of a file; empty where it is not on Slack's own servers, for the token is sent there."""
    url = str(file.get("url_private_download") or file.get("url_private") or "")
    return check_file_url(url, api_url, OFFICIAL_API_URL, lambda host: f".{host}".endswith(".slack.com"))


def _to_attachment(file: Json) -> Attachment:
    # A clip of the voice comes as a video without a picture.
    kind = "voice" if file.get("subtype") == "slack_audio" else get_kind(str(file.get("mimetype") or ""))
    size = file.get("size")
    duration_ms = file.get("duration_ms")
    return Attachment(
        kind,
        str(file.get("title") or file.get("name") or ""),
        size if isinstance(size, int) else 0,
        {"file": str(file.get("id") or "")} if kind in FETCHED_KINDS else {},
        duration_ms / 1000 if isinstance(duration_ms, int) else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is, and in which workspace. As an agent it has conversations in threads of direct messages."""

    user_id: str
    name: str = ""
    team_id: str = ""
    team: str = ""
    bot_id: str = ""
    is_agent: bool = False


def from_event(
    payload: Mapping[str, Any], me: Identity, bot_message_chats: Collection[str] = ()
) -> Message | MessageDeletion | IgnoredEvent:
    """Convert the payload of an event, or return why it is ignored.

    A mention arrives twice, as `message` and as `app_mention`: both become the same message, with its timestamp as its
    id. In a thread only a mention addresses the bot. `reference` holds `channel`, `ts`, `thread_ts`
    (None: the reply goes outside a thread), `user` and `team` (the asker's). In the channels `bot_message_chats`, the
    messages of other bots are converted too; they never address the bot. Raises `ValueError` for a malformed payload.
    """
    event = payload.get("event")
    if not isinstance(event, Mapping):
        raise ValueError("an event callback without an event")
    if event.get("type") == "member_joined_channel" and event.get("user") == me.user_id:
        return _to_welcome(event, me)
    if event.get("type") not in ("message", "app_mention"):
        return IgnoredEvent(f"an event of type {event.get('type')}")
    subtype = event.get("subtype") or ""
    if subtype == "message_deleted":
        return MessageDeletion(_require_text(event, "channel"), _require_text(event, "deleted_ts"))
    if subtype == "message_changed":
        changed_message = event.get("message")
        if not isinstance(changed_message, Mapping):
            raise ValueError("a changed message without the message")
        if changed_message.get("subtype") == "tombstone":
            return MessageDeletion(_require_text(event, "channel"), _require_text(changed_message, "ts"))
        channel_fields = {name: event[name] for name in ("channel", "channel_type") if name in event}
        return _to_message(payload, {**changed_message, **channel_fields}, me, edited=True)
    return _to_message(payload, event, me, edited=False, include_bots=event.get("channel") in bot_message_chats)


def _to_welcome(event: Json, me: Identity) -> Message:
    """Return what the bot says first in a channel that it was added to."""
    channel = _require_text(event, "channel")
    ts = _require_text(event, "event_ts")
    inviter = str(event.get("inviter") or "")
    return Message(
        id=ts,
        key=ConversationKey("slack", channel),
        author_id=inviter,
        author=inviter,
        text="",
        sent_at=datetime.fromtimestamp(float(ts), UTC),
        addressed=True,
        command="start",
        bot=me.user_id,
        reference={"channel": channel, "ts": ts, "thread_ts": None, "user": inviter, "team": me.team_id},
        origin=Origin(purpose="welcome"),
    )


def is_from_other_workspace(payload: Json, me: Identity) -> bool:
    """Return whether an event, a command or a form comes from an installation of the app in another workspace.

    Our ids and tokens mean nothing there. An installation for a whole organization has many workspaces.
    """
    installations = [item for item in payload.get("authorizations") or () if isinstance(item, Mapping)]
    if isinstance(payload.get("command"), str):
        installations = [payload]
    team = payload.get("team")
    if payload.get("type") in _FROM_MENUS and isinstance(team, Mapping):
        installations = [{**payload, "team_id": team.get("id")}]
    team_ids = {str(item["team_id"]) for item in installations if item.get("team_id")}
    is_for_organization = any(item.get("is_enterprise_install") in (True, "true") for item in installations)
    return bool(me.team_id and team_ids) and me.team_id not in team_ids and not is_for_organization


def is_own(event: Json, me: Identity) -> bool:
    """Return whether the bot has written a message; the answer to a slash command names no user."""
    return event.get("user") == me.user_id or bool(me.bot_id and event.get("bot_id") == me.bot_id)


def to_thread_messages(events: Sequence[Json], me: Identity) -> list[ThreadMessage]:
    """Convert the messages of a thread that people wrote, and the first one, whoever wrote it."""
    messages = [
        ThreadMessage(
            get_visible_text(event, me.user_id),
            get_attachments(event),
            author_ids=find_authors([event, *get_brought(event)]),
        )
        for index, event in enumerate(events)
        if not index or not event.get("bot_id")
    ]
    return [message for index, message in enumerate(messages) if not index or message.text]


def from_command(payload: Mapping[str, Any], me: Identity) -> Message:
    """Convert a slash command, `/kimas ask ...`, another command of the table, or just `/kimas ...`, a question too.

    `reference` holds `channel`, `user` and `response_url`, where the answer goes. Raises `ValueError` for a malformed
    payload.
    """
    command, text = parse_subcommand(unescape(str(payload.get("text", ""))).strip())
    channel = _require_text(payload, "channel_id")
    response_url = _require_text(payload, "response_url")
    user = {"id": _require_text(payload, "user_id"), "name": payload.get("user_name")}
    message = to_interaction(_require_text(payload, "trigger_id"), channel, user, response_url, me)
    channel_name = str(payload.get("channel_name") or "")
    is_unnamed = channel_name in UNNAMED_CHANNELS or channel_name.startswith(_GROUP_PREFIX)
    title = "" if is_unnamed else f"#{channel_name}"
    return replace(message, command=command, text=text, chat_title=title)


def to_interaction(message_id: str, channel: str, user: Mapping[str, Any], response_url: str, me: Identity) -> Message:
    """Return a command, a click or a form as a message without text. What one person gives is handled in order.

    In a direct conversation it is theirs alone: that may be one with somebody else.
    """
    author_id = str(user["id"])
    is_private = channel.startswith("D")
    return Message(
        id=message_id,
        key=ConversationKey("slack", channel, PERSONAL_THREAD + author_id),
        author_id=author_id,
        author=str(user.get("name") or user.get("username") or author_id),
        text="",
        sent_at=datetime.now(UTC),
        private=is_private,
        addressed=True,
        bot=me.user_id,
        reference={"channel": channel, "user": author_id, "response_url": response_url},
        thread_state=ThreadState(is_restricted=is_private),
    )


def is_for_other_user(text: str, me: Identity) -> bool:
    """Return whether a text, as Slack sends it, begins by mentioning another person."""
    match = _LEADING_MENTION.match(text)
    return match is not None and match[1] != me.user_id


def _to_message(
    payload: Mapping[str, Any], event: Mapping[str, Any], me: Identity, *, edited: bool, include_bots: bool = False
) -> Message | IgnoredEvent:
    is_bot = bool(event.get("bot_id")) or event.get("subtype") == "bot_message"
    reason = _get_ignore_reason(event, me) or ("written by a bot" if is_bot and not include_bots else "")
    if reason:
        return IgnoredEvent(reason)
    channel = _require_text(event, "channel")
    ts = _require_text(event, "ts")
    thread_ts = str(event.get("thread_ts") or "")
    author_id, author = _get_author(event)
    is_private = event.get("channel_type") == "im" or channel.startswith("D")
    own_text = get_own_text(event, me.user_id)
    # A mention of us is not shown.
    is_mentioned = event.get("type") == "app_mention" or own_text != get_own_text(event, "")
    # The answer opens a thread below the question; outside of the agent view a direct conversation goes on as it is.
    reply_thread = thread_ts or ("" if is_private and not me.is_agent else ts)
    attached_text = get_attached_text(event, me.user_id)
    shares = get_shares(event)
    # An alert is what its bot says; what people share, or link to, is not theirs.
    is_alert = is_bot and not shares
    message = Message(
        id=ts,
        key=ConversationKey("slack", channel, reply_thread),
        author_id=author_id,
        author=author,
        text=join_paragraphs(own_text, attached_text) if is_alert else own_text,
        sent_at=datetime.fromtimestamp(float(ts), UTC),
        private=is_private,
        addressed=not is_bot and (is_private or is_mentioned),
        reply_to=thread_ts if thread_ts != ts else "",
        quoted="" if is_alert else attached_text,
        quoted_authors=find_authors(get_brought(event), author_id),
        bot=me.user_id,
        reference={
            "channel": channel,
            "ts": ts,
            "thread_ts": reply_thread or None,
            "user": author_id,
            "team": str(event.get("user_team") or event.get("team") or payload.get("team_id") or me.team_id),
        },
        attachments=get_attachments(event),
        is_edit=edited,
        is_forwarded=bool(shares),
        is_by_bot=is_bot,
        is_post=False if is_bot else None,
    )
    return message if is_private or is_bot else _with_thread(message, event, me)


def _with_thread(message: Message, event: Mapping[str, Any], me: Identity) -> Message:
    """Return a message of a channel with what its event says about its thread."""
    thread_ts = str(event.get("thread_ts") or message.id)
    if thread_ts == message.id:
        return replace(message, thread_state=replace(message.thread_state, in_main_chat=True))
    is_shared = not is_for_other_user(str(event.get("text") or ""), me)
    # The answer to a slash command begins one, and nothing that we posted into a thread.
    started_at = float(thread_ts) if event.get("parent_user_id") == me.user_id else None
    return replace(
        message,
        thread_state=replace(message.thread_state, is_shared=is_shared, started_at=started_at),
    )


def _get_author(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the author's id and display name."""
    author_id = _require_text(event, "user" if event.get("user") else "bot_id")
    profile = event.get("user_profile")
    name = profile.get("display_name") or profile.get("real_name") if isinstance(profile, Mapping) else ""
    return author_id, str(name or author_id)


def _get_ignore_reason(event: Mapping[str, Any], me: Identity) -> str:
    """Return why a message is to be ignored, or nothing."""
    if is_own(event, me):
        return "written by ourselves"
    if event.get("bot_id") or event.get("subtype") == "bot_message":
        return "" if event.get("bot_id") or event.get("user") else "written by a bot"
    if (event.get("subtype") or "") not in _USER_SUBTYPES:
        return f"a notice ({event.get('subtype')})"
    if not (event.get("text") or get_attachments(event) or get_visible_text(event, me.user_id)):
        return "without text"
    return "" if event.get("user") else "without a sender"


def _require_text(mapping: Mapping[str, Any], name: str) -> str:
    value = mapping.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is missing")
    return value


def spell_command(usage: str) -> str:
    """Return how a command is typed, as Markdown: behind the name of the app's own command."""
    return f"`/kimas {usage}`"


def parse_subcommand(text: str) -> tuple[str, str]:
    """Return the command that the text after `/kimas` names, and its arguments.

    A text that names none is a question, and so is one that merely begins with a command's name: `why does it fail?`.
    One word that is nearly a name is taken for a command, whose author is asked what was meant: a question would be
    answered before everybody.
    """
    if not text.strip():
        return "help", ""
    first, *arguments = text.split(maxsplit=1)
    argument_text = "".join(arguments)
    name = first.lower().removeprefix("/")
    if not arguments and find_near_command(name):
        return name, ""
    command = get_command(name)
    if command is None or not (first.startswith("/") or looks_like_arguments(command, argument_text)):
        return "ask", text
    if command.name == "learn":
        return command.name, _LINK.sub(r"\1.\2", argument_text.strip(), count=1).removeprefix("<")
    match = _LINK.search(argument_text) if command.name == "why" else None
    return command.name, f"{match[1]}.{match[2]}" if match else argument_text.strip()
