"""From a Discord event to a message: who wrote what where, and whether the bot was meant. Pure functions.

Works on the plain JSON of the API, which the gateway and the history of a channel have in common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from bots.discord.application_commands import manages, written
from core.storage.chat_history import CLOSED, FOLLOWED
from core.types import BY_BOT, KIND, POST, Attachment, AttachmentKind, ConversationKey, Message

Json = Mapping[str, Any]

OFFICIAL = "https://discord.com/"
FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")


def attachments_of(event: Json) -> tuple[Attachment, ...]:
    """Return what came with a message, its forwards included.

    `reference` names a picture by `channel`, `message` and `id`: addresses are asked for when it is fetched, for they
    expire.
    """
    found = [_attachment(one, event) for one in _files(event)]
    found += [Attachment("sticker", str(one.get("name") or "")) for one in event.get("sticker_items") or ()]
    return (*found, *([Attachment("other", "poll")] if event.get("poll") else ()))


def attached_to(event: Json, answered: Json) -> tuple[Attachment, ...]:
    """Return what came with a message, or the pictures that it replies to."""
    return attachments_of(event) or tuple(one for one in attachments_of(answered) if one.kind == "picture")


def address_of(event: Json, number: str, api_url: str) -> str:
    """Return the address of one of a message's files; empty where it is gone, or not on Discord's own servers."""
    url = next((str(one.get("url") or "") for one in _files(event) if str(one.get("id")) == number), "")
    parts = urlsplit(url)
    if api_url.startswith(OFFICIAL):
        return url if parts.scheme == "https" and parts.hostname in FILE_HOSTS else ""
    api = urlsplit(api_url)
    return url if (parts.scheme, parts.netloc) == (api.scheme, api.netloc) else ""


def _files(event: Json) -> Iterator[Json]:
    yield from event.get("attachments") or ()
    for snapshot in event.get("message_snapshots") or ():
        yield from (snapshot.get("message") or {}).get("attachments") or ()


def _attachment(file: Json, event: Json) -> Attachment:
    kind, size = _kind(str(file.get("content_type") or "").split(";")[0]), int(file.get("size") or 0)
    where = {"channel": str(event.get("channel_id") or ""), "message": str(event["id"]), "id": str(file["id"])}
    return Attachment(kind, str(file.get("filename") or ""), size, where if kind == "picture" else {})


def _kind(media_type: str) -> AttachmentKind:
    if media_type in _PICTURES:
        return "picture"
    kinds: dict[str, AttachmentKind] = {"audio": "voice", "video": "video"}
    return kinds.get(media_type.partition("/")[0], "file")


EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
MESSAGE, REPLY = 0, 19
NEWS_KIND = 5
THREAD_KINDS = (10, 11, 12)
CLOSED_KIND = 12
PRIVATE_KINDS = (1, 3)
# A post that a followed channel of another server has published here.
CROSSPOSTED = 1 << 1

_MARK = re.compile(r"<(?:@!?(?P<user>\d{1,20})|@&(?P<role>\d{1,20})|a?(?P<emoji>:\w{1,64}:)\d{1,20})>")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is. `reads_all` is true when the message content intent is granted to it."""

    id: str
    name: str
    application: str
    reads_all: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written. `channel` takes the answer; in a thread `chat` is the channel above it.

    `news` says that it is an announcement channel, where messages are posts, `closed` that it is a thread which only
    those see who were invited.
    """

    channel: str
    chat: str
    thread: str = ""
    guild: str = ""
    news: bool = False
    closed: bool = False

    @property
    def private(self) -> bool:
        """Say whether it is a private chat."""
        return not self.guild


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that is no message for us. `expected` is false for what should not occur."""

    reason: str
    expected: bool = True


def place_of(channel: Json) -> Place:
    """Return the place that a channel object describes."""
    number, guild = str(channel["id"]), str(channel.get("guild_id") or "")
    if channel.get("type") in THREAD_KINDS:
        closed = channel["type"] == CLOSED_KIND
        return Place(number, str(channel["parent_id"]), number, guild, closed=closed)
    return Place(number, number, "", guild, channel.get("type") == NEWS_KIND)


def to_message(
    event: Json,
    me: Identity,
    place: Place,
    *,
    roles: Collection[str] = (),
    follow: bool = True,
    edited: bool = False,
    counted: bool = False,
) -> Message | Ignored:
    """Convert one message object, or say why it is none of the bot's business.

    Bots, webhooks and service messages are ignored; where bots' replies are `counted`, what bots write is marked as
    `by_bot` and never addressed, and what a followed channel publishes is a post. `roles` are the bot's own roles,
    whose mention means the bot; `follow` says whether what is asked in a thread may go on with it, which is marked as
    `followed`. `edited` marks a new state of an earlier message. `reference` also holds `channel`, `message`, `edited`,
    `kind`.
    """
    rival = _rival(event)
    if reason := _none_of_ours(event) or (rival if not counted or edited or _id(event["author"]) == me.id else ""):
        return Ignored(reason)
    answered = _object(event.get("referenced_message"))
    to_us = _id(_object(answered.get("author"))) == me.id
    mentioned, text = _words(str(event.get("content") or ""), event, me, roles)
    return Message(
        id=str(event["id"]),
        key=ConversationKey("discord", place.chat, place.thread),
        author_id=_id(event["author"]),
        author=_name(event["author"], _object(event.get("member"))),
        text=text,
        sent_at=sent_at(str(event["id"])),
        private=place.private,
        addressed=not rival and (place.private or mentioned or to_us),
        reply_to=str(answered.get("id") or ""),
        quoted=_quoted(event, answered, me),
        bot=me.id,
        reference=_reference(event, place, edited=edited, followed=follow and not _for_others(event, me)),
        attachments=attached_to(event, answered),
    )


def to_command(event: Json, me: Identity) -> Message | Ignored:
    """Convert one interaction: a slash command.

    `reference` holds what answers it, `interaction` and `token`, and `administrator` where the author manages the
    server.
    """
    data = _object(event.get("data"))
    if event.get("type") != 2 or data.get("type", 1) != 1:
        return Ignored("an interaction that is no slash command", expected=False)
    place = place_of({"guild_id": event.get("guild_id"), **event["channel"]})
    member = _object(event.get("member"))
    author = member.get("user") or event["user"]
    command = str(data["name"]).lower()
    return Message(
        id=str(event["id"]),
        key=ConversationKey("discord", place.chat, place.thread),
        author_id=_id(author),
        author=_name(author, member),
        text=written(command, data.get("options") or ()),
        sent_at=sent_at(str(event["id"])),
        private=place.private,
        addressed=True,
        command=command,
        bot=me.id,
        reference={
            "channel": place.channel,
            "interaction": str(event["id"]),
            "token": str(event["token"]),
            **({CLOSED: True} if place.closed else {}),
            **({"administrator": True} if manages(member.get("permissions")) else {}),
        },
    )


def sent_at(number: str) -> datetime:
    """Return when an id was made: every id of Discord's holds its time."""
    return EPOCH + timedelta(milliseconds=int(number) >> 22)


def id_at(moment: datetime) -> int:
    """Return the lowest id of a moment."""
    return max(0, int((moment - EPOCH) / timedelta(milliseconds=1))) << 22


def _none_of_ours(event: Json) -> str:
    """Return why a message is to be ignored, or nothing."""
    author = _object(event.get("author"))
    if not author:
        return "without an author"
    if event.get("type", MESSAGE) not in (MESSAGE, REPLY):
        return _rival(event) or "a service message"
    if not (event.get("content") or _snapshots(event) or attachments_of(event) or _rival(event)):
        return "without text (the message content intent is off)"
    return ""


def _for_others(event: Json, me: Identity) -> bool:
    """Say whether a message mentions or replies to anybody but us."""
    answered = _object(event.get("referenced_message"))
    meant = {_id(user) for user in event.get("mentions") or ()} | (
        {_id(_object(answered.get("author")))} if answered else set()
    )
    return bool(meant - {me.id})


def _reference(event: Json, place: Place, *, edited: bool, followed: bool) -> dict[str, Any]:
    """Return a message's reference, which tells a post and another bot's comment from all else."""
    rival, is_reply = _rival(event), bool(event.get("referenced_message"))
    published = bool(rival and int(event.get("flags") or 0) & CROSSPOSTED)
    if published or (place.news and not (is_reply or rival)):
        sort: dict[str, Any] = {KIND: POST}
    else:
        sort = {BY_BOT: True, KIND: "comment"} if rival else {}
    thread = {FOLLOWED: followed} if place.thread and not rival else {}
    closed = {CLOSED: True} if place.closed else {}
    edit = {"edited": True} if edited else {}
    return {"channel": place.channel, "message": str(event["id"]), **edit, **closed, **thread, **sort}


def _rival(event: Json) -> str:
    """Return which kind of program wrote a message, or nothing for a person."""
    if event.get("webhook_id"):
        return "written by a webhook"
    author = _object(event.get("author"))
    return "written by a bot" if author.get("bot") or author.get("system") else ""


def _words(text: str, event: Json, me: Identity, roles: Collection[str]) -> tuple[bool, str]:
    """Return whether a text mentions the bot, and the text without that, other mentions by name."""
    names = {_id(user): str(user.get("global_name") or user.get("username")) for user in event.get("mentions") or ()}
    pieces: list[str] = []
    mentioned, position = False, 0
    for found in _MARK.finditer(text):
        pieces.append(text[position : found.start()])
        position = found.end()
        if found["user"] == me.id or found["role"] in roles:
            mentioned = True
            # "@bot, what is this?": its comma goes too, and one of the spaces around it.
            if not "".join(pieces).strip() or pieces[-1].endswith(" "):
                position += len(text[position:]) - len(text[position:].lstrip(" ,:;" if not pieces[-1] else " "))
        elif found["emoji"]:
            pieces.append(found["emoji"])
        else:
            pieces.append(f"@{names.get(found['user'] or '', 'somebody' if found['user'] else 'role')}")
    return mentioned, "".join([*pieces, text[position:]]).strip()


def _quoted(event: Json, answered: Json, me: Identity) -> str:
    """Return the text of the message that this one replies to or forwards."""
    for said in (answered, *_snapshots(event)):
        if said.get("content"):
            return _words(str(said["content"]), said, me, ())[1]
    return ""


def _snapshots(event: Json) -> list[Json]:
    return [_object(_object(one).get("message")) for one in event.get("message_snapshots") or ()]


def _name(author: Json, member: Json) -> str:
    return str(member.get("nick") or author.get("global_name") or author.get("username") or "somebody")


def _id(user: Json) -> str:
    return str(user.get("id") or "")


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}
