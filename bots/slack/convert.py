"""From Slack's payloads to messages: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from core.messaging.gate.follow_up import BEGUN
from core.messaging.policy.command_table import find, may_be
from core.storage.chat_history import FOLLOWED, IN_CHAT
from core.types import BY_BOT, KIND, Attachment, AttachmentKind, ConversationKey, Message

if TYPE_CHECKING:
    pass

Json = Mapping[str, Any]

OFFICIAL = "https://slack.com/"
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")


def attachments_of(event: Json) -> tuple[Attachment, ...]:
    """Return what came with a message. `reference` holds the `file` id of a picture."""
    files = event.get("files")
    found = [one for one in files if isinstance(one, Mapping)] if isinstance(files, list) else []
    # What was deleted or hidden is still listed.
    return tuple(_attachment(one) for one in found if one.get("mode") not in ("tombstone", "hidden_by_limit"))


def address_of(file: Json, api_url: str) -> str:
    """Return the address of a file; empty where it is not on Slack's own servers, for the token is sent there."""
    url = str(file.get("url_private_download") or file.get("url_private") or "")
    parts = urlsplit(url)
    if api_url.startswith(OFFICIAL):
        host = parts.hostname or ""
        return url if parts.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com")) else ""
    api = urlsplit(api_url)
    return url if (parts.scheme, parts.netloc) == (api.scheme, api.netloc) else ""


def _attachment(file: Json) -> Attachment:
    kind = _kind(str(file.get("mimetype") or ""), str(file.get("subtype") or ""))
    size = file.get("size")
    reference = {"file": str(file.get("id") or "")} if kind == "picture" else {}
    return Attachment(kind, str(file.get("name") or ""), size if isinstance(size, int) else 0, reference)


def _kind(media_type: str, subtype: str) -> AttachmentKind:
    if media_type in _PICTURES:
        return "picture"
    # A clip of the voice comes as a video without a picture.
    if media_type.startswith("audio/") or subtype == "slack_audio":
        return "voice"
    return "video" if media_type.startswith("video/") else "file"


# What people write themselves; every other subtype is a notice of something that happened.
_WRITTEN = ("", "file_share", "thread_broadcast", "me_message")
_REFERENCE = re.compile(r"<([^<>\n]*)>")
_USER = re.compile(r"@([UW][A-Z0-9]+)(?:\|(.*))?")
_LEADING_MENTION = re.compile(r"\s*<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is, and in which workspace."""

    user_id: str
    name: str = ""
    team_id: str = ""
    team: str = ""
    bot_id: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A payload that is no message for us. `expected` is false for what nobody asked for."""

    reason: str
    expected: bool = True


@dataclass(frozen=True, slots=True)
class Deleted:
    """Somebody deleted a message."""

    channel: str
    ts: str


def from_event(payload: Mapping[str, Any], me: Identity, counted: Collection[str] = ()) -> Message | Deleted | Ignored:
    """Convert the payload of an event, or say why it is none of the bot's business.

    A mention arrives twice, as `message` and as `app_mention`: both become the same message, with its timestamp as its
    id. What is written in a thread addresses the bot by a mention only. `reference` holds `channel`, `ts`, `thread_ts`
    (or None: answered outside a thread), `user` and `team` (the asker's) and, for an edited message, `edited`; in a
    thread `followed`, and `begun` where a message of the bot's own began it; else, in a channel, `in_chat`. In the
    channels `counted`, what other bots write becomes a message too, marked as
    `by_bot` and never addressed. Raises `ValueError` for a malformed payload.
    """
    event = payload.get("event")
    if not isinstance(event, Mapping):
        raise ValueError("an event callback without an event")
    if event.get("type") not in ("message", "app_mention"):
        return Ignored(f"an event of type {event.get('type')}")
    subtype = event.get("subtype") or ""
    if subtype == "message_deleted":
        return Deleted(_text(event, "channel"), _text(event, "deleted_ts"))
    if subtype == "message_changed":
        inner = event.get("message")
        if not isinstance(inner, Mapping):
            raise ValueError("a changed message without the message")
        if inner.get("subtype") == "tombstone":
            return Deleted(_text(event, "channel"), _text(inner, "ts"))
        place = {name: event[name] for name in ("channel", "channel_type") if name in event}
        return _written(payload, {**inner, **place}, me, edited=True)
    return _written(payload, event, me, edited=False, counted=event.get("channel") in counted)


def from_command(payload: Mapping[str, Any], me: Identity) -> Message:
    """Convert a slash command, `/kimas ask ...`, another command of the table, or just `/kimas ...`, a question too.

    `reference` holds `channel`, `user` and `response_url`, where the answer goes. Raises `ValueError` for a malformed
    payload.
    """
    channel, author_id = _text(payload, "channel_id"), _text(payload, "user_id")
    command, text = sub_command(unescape(str(payload.get("text", ""))).strip())
    return Message(
        id=_text(payload, "trigger_id"),
        key=ConversationKey("slack", channel, f"command:{author_id}"),
        author_id=author_id,
        author=str(payload.get("user_name") or author_id),
        text=text,
        sent_at=datetime.now(UTC),
        private=channel.startswith("D"),
        addressed=True,
        command=command,
        bot=me.user_id,
        reference={"channel": channel, "user": author_id, "response_url": _text(payload, "response_url")},
    )


def is_for_somebody_else(text: str, me: Identity) -> bool:
    """Say whether a text, as Slack sends it, begins by mentioning another person."""
    found = _LEADING_MENTION.match(text)
    return found is not None and found[1] != me.user_id


def _written(
    payload: Mapping[str, Any], event: Mapping[str, Any], me: Identity, *, edited: bool, counted: bool = False
) -> Message | Ignored:
    by_bot = bool(event.get("bot_id")) or event.get("subtype") == "bot_message"
    reason = _none_of_ours(event, me) or ("written by a bot" if by_bot and not counted else "")
    if reason:
        return Ignored(reason)
    channel, ts, raw = _text(event, "channel"), _text(event, "ts"), str(event.get("text") or "")
    thread, author_id = str(event.get("thread_ts") or ""), _text(event, "user" if event.get("user") else "bot_id")
    private = event.get("channel_type") == "im" or channel.startswith("D")
    mentioned = event.get("type") == "app_mention" or f"<@{me.user_id}>" in raw or f"<@{me.user_id}|" in raw
    # In a channel the answer opens a thread below the question; a direct conversation goes on as it is.
    place = thread or ("" if private else ts)
    profile = event.get("user_profile")
    name = profile.get("display_name") or profile.get("real_name") if isinstance(profile, Mapping) else ""
    return Message(
        id=ts,
        key=ConversationKey("slack", channel, place),
        author_id=author_id,
        author=str(name or author_id),
        text=plain(raw, me),
        sent_at=datetime.fromtimestamp(float(ts), UTC),
        private=private,
        addressed=not by_bot and (private or mentioned),
        reply_to=thread if thread != ts else "",
        bot=me.user_id,
        reference={
            "channel": channel,
            "ts": ts,
            "thread_ts": place or None,
            "user": author_id,
            "team": str(event.get("user_team") or event.get("team") or payload.get("team_id") or me.team_id),
            **({"edited": True} if edited else {}),
            **({BY_BOT: True, KIND: "comment"} if by_bot else {}),
            **({} if private or by_bot else _standing(event, ts, me)),
        },
        attachments=attachments_of(event),
    )


def _standing(event: Mapping[str, Any], ts: str, me: Identity) -> dict[str, Any]:
    """Return where in its channel a message stands."""
    thread = str(event.get("thread_ts") or ts)
    if thread == ts:
        return {IN_CHAT: True}
    to_all = not is_for_somebody_else(str(event.get("text") or ""), me)
    # The answer to a slash command begins one, and nothing that we posted into a thread.
    return {FOLLOWED: to_all, **({BEGUN: float(thread)} if event.get("parent_user_id") == me.user_id else {})}


def _none_of_ours(event: Mapping[str, Any], me: Identity) -> str:
    """Return why a message is to be ignored, or nothing."""
    if event.get("user") == me.user_id or (me.bot_id and event.get("bot_id") == me.bot_id):
        return "written by ourselves"
    if event.get("bot_id") or event.get("subtype") == "bot_message":
        return "" if event.get("bot_id") or event.get("user") else "written by a bot"
    if (event.get("subtype") or "") not in _WRITTEN:
        return f"a notice ({event.get('subtype')})"
    if not (event.get("text") or attachments_of(event)):
        return "without text"
    return "" if event.get("user") else "without a sender"


def plain(text: str, me: Identity) -> str:
    """Return a text as people see it: references to people, channels and links in words, without our own mention."""
    cut = re.sub(rf" *<@{re.escape(me.user_id)}(?:\|[^>]*)?> *", " ", text) if me.user_id else text
    words = unescape(_REFERENCE.sub(_in_words, cut)).strip()
    # "@bot, what is this?" begins with the mention: its comma goes too.
    return words.lstrip(" ,:;") if words and cut != text and text.lstrip().startswith("<@") else words


def _in_words(found: re.Match[str]) -> str:
    target, _, label = found[1].partition("|")
    user = _USER.fullmatch(found[1])
    if user is not None:
        return f"@{user[2] or user[1]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].split('^')[0]}"
    target = target.removeprefix("mailto:")
    return f"{label} ({target})" if label and label not in target else target


def _text(mapping: Mapping[str, Any], name: str) -> str:
    value = mapping.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is missing")
    return value


# In a link to a message its timestamp stands without the dot.
_LINK = re.compile(r"https://\S+/p(\d{10})(\d{6})\b\S*")


def sub_command(words: str) -> tuple[str, str]:
    """Return the command that the words behind `/kimas` name, and what is given to it.

    Words that name none are a question, and so is one that merely begins with a command's name: `why does it fail?`.
    """
    if not words.strip():
        return "help", ""
    first, *others = words.split(maxsplit=1)
    rest = "".join(others)
    command = find(first.lower().removeprefix("/"))
    if command is None or not (first.startswith("/") or may_be(command, rest)):
        return "ask", words
    if command.name == "learn":
        return command.name, _LINK.sub(r"\1.\2", rest.strip(), count=1).removeprefix("<")
    found = _LINK.search(rest) if command.name == "why" else None
    return command.name, f"{found[1]}.{found[2]}" if found else rest.strip()
