"""From a Discord event to a message: who wrote what where, and whether the bot was meant. Pure functions.

Works on the plain JSON of the API, which the gateway and the history of a channel have in common.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bots.common.attachments import FETCHED_KINDS, check_file_url, get_kind, select_readable
from bots.common.events import IgnoredEvent
from bots.common.visible_text import join_paragraphs
from bots.discord.application_commands import format_options, is_server_admin
from bots.discord.visible_text import Reader, get_snapshots
from core.types import Attachment, ConversationKey, Message, Origin, ThreadState

Json = Mapping[str, Any]

OFFICIAL_API_URL = "https://discord.com/"
FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
DISCORD_EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
MESSAGE = 0
REPLY = 19
ANNOUNCEMENT_KIND = 5
THREAD_KINDS = (10, 11, 12)
PRIVATE_THREAD_KIND = 12
DM_KIND = 1
GROUP_DM_KIND = 3
PRIVATE_KINDS = (DM_KIND, GROUP_DM_KIND)
# The context of an interaction in the direct messages with the bot; those of other people have another one.
BOT_DM_CONTEXT = 1
# A post that a followed channel of another server has published here.
CROSSPOSTED = 1 << 1


def get_attachments(event: Json) -> tuple[Attachment, ...]:
    """Return what came with a message, its forwards included.

    `reference` names what can be fetched by `channel`, `message` and `id`: addresses are asked for when it is fetched,
    for they expire.
    """
    attachments = [_to_attachment(file, event) for file in _iter_files(event)]
    attachments += [
        Attachment("sticker", str(sticker.get("name") or "")) for sticker in event.get("sticker_items") or ()
    ]
    return tuple(attachments)


def get_file_url(event: Json, attachment_id: str, api_url: str) -> str:
    """Return the address of one of a message's files; empty where it is gone, or not on Discord's own servers."""
    url = next((str(file.get("url") or "") for file in _iter_files(event) if str(file.get("id")) == attachment_id), "")
    return check_file_url(url, api_url, OFFICIAL_API_URL, FILE_HOSTS.__contains__)


def _iter_files(event: Json) -> Iterator[Json]:
    yield from event.get("attachments") or ()
    for snapshot in get_snapshots(event):
        yield from snapshot.get("attachments") or ()


def _to_attachment(file: Json, event: Json) -> Attachment:
    kind = get_kind(str(file.get("content_type") or "").split(";")[0])
    size = int(file.get("size") or 0)
    reference = {"channel": str(event.get("channel_id") or ""), "message": str(event["id"]), "id": str(file["id"])}
    fetched_by = reference if kind in FETCHED_KINDS else {}
    return Attachment(kind, str(file.get("filename") or ""), size, fetched_by, float(file.get("duration_secs") or 0))


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is. `can_read_all` is true when the message content intent is granted to it."""

    id: str
    name: str
    application_id: str
    can_read_all: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """Where something was written. `channel` takes the answer; in a thread `chat` is the channel above it.

    In an announcement channel messages are posts; a private thread is seen only by those who were invited. `is_alone`:
    it is known to hold one person, and the bot.
    """

    channel: str
    chat: str
    thread: str = ""
    guild: str = ""
    is_announcement: bool = False
    is_private_thread: bool = False
    is_alone: bool = False

    @property
    def is_private(self) -> bool:
        """Return whether it is in no server: a chat with the bot alone, or with other people, too."""
        return not self.guild


def to_location(channel: Json) -> Location:
    """Return the place that a channel object describes."""
    channel_id = str(channel["id"])
    guild_id = str(channel.get("guild_id") or "")
    if channel.get("type") in THREAD_KINDS:
        is_private_thread = channel["type"] == PRIVATE_THREAD_KIND
        return Location(
            channel_id, str(channel["parent_id"]), channel_id, guild_id, is_private_thread=is_private_thread
        )
    kind = channel.get("type")
    is_alone = kind == DM_KIND and not guild_id
    return Location(channel_id, channel_id, "", guild_id, kind == ANNOUNCEMENT_KIND, is_alone=is_alone)


def to_message(
    event: Json,
    me: Identity,
    location: Location,
    *,
    roles: Collection[str] = (),
    names: Mapping[str, str] | None = None,
    follow_threads: bool = True,
    edited: bool = False,
    include_bots: bool = False,
) -> Message | IgnoredEvent:
    """Convert one message object (`edited`: an earlier message's new text), or return why it is ignored.
    With `include_bots` the messages of bots are marked and never addressed. `roles` are the bot's own roles, `names`
    those of channels and roles by id.
    """
    bot_kind = _get_bot_kind(event)
    reader = Reader(me.id, roles, names or {})
    if reason := _get_ignore_reason(event, reader):
        return IgnoredEvent(reason)
    # Its own messages always are ignored.
    if bot_kind and (edited or not include_bots or _get_user_id(event["author"]) == me.id):
        return IgnoredEvent(bot_kind)
    replied_message = _as_object(event.get("referenced_message"))
    quoted_author = _get_user_id(_as_object(replied_message.get("author")))
    is_reply_to_bot = quoted_author == me.id
    is_mentioned, text = reader.resolve_mentions(event)
    attached_text = reader.get_attached_text(event)
    is_post = _is_post(event, location)
    is_followed = follow_threads and not _addresses_others(event, me)
    return Message(
        id=str(event["id"]),
        key=ConversationKey("discord", location.chat, location.thread),
        author_id=_get_user_id(event["author"]),
        author=_get_display_name(event["author"], _as_object(event.get("member"))),
        # An embed is what its bot says; below people's words it shows what they link to.
        text=join_paragraphs(text, attached_text) if bot_kind else text,
        sent_at=snowflake_time(str(event["id"])),
        private=location.is_alone,
        addressed=not bot_kind and (location.is_private or is_mentioned or is_reply_to_bot),
        reply_to=str(replied_message.get("id") or ""),
        quoted=join_paragraphs(
            reader.get_visible_text(replied_message),
            "" if bot_kind else attached_text,
            reader.get_forwarded_text(event),
        ),
        bot=me.id,
        reference={"channel": location.channel, "message": str(event["id"])},
        attachments=get_attachments(event) or select_readable(get_attachments(replied_message)),
        is_edit=edited,
        is_forwarded=bool(get_snapshots(event)),
        quoted_authors=_find_quoted_authors(event, quoted_author),
        is_by_bot=bool(bot_kind) and not is_post,
        is_post=is_post or (False if bot_kind else None),
        thread_state=ThreadState(
            is_restricted=location.is_private_thread,
            is_shared=is_followed if location.thread and not bot_kind else None,
        ),
        chat_title=reader.get_channel_title(location.chat),
    )


def to_command(event: Json, me: Identity) -> Message | IgnoredEvent:
    """Convert one interaction: a slash command.

    `reference` holds what answers it, `interaction` and `token`, and `administrator` where the author manages the
    server.
    """
    data = _as_object(event.get("data"))
    if event.get("type") != 2 or data.get("type", 1) != 1:
        return IgnoredEvent("an interaction that is no slash command", is_expected=False)
    command = str(data["name"]).lower()
    return replace(to_interaction(event, me), command=command, text=format_options(command, data.get("options") or ()))


def to_interaction(event: Json, me: Identity) -> Message:
    """Return a command or a click as a message without text."""
    # The channel is optional in the documents; its id alone says where the answer goes.
    channel = event.get("channel") or {"id": event["channel_id"]}
    location = to_location({"guild_id": event.get("guild_id"), **channel})
    # Two people may use the bot in their own direct messages.
    is_alone = location.is_alone and event.get("context") in (None, BOT_DM_CONTEXT)
    member = _as_object(event.get("member"))
    author = member.get("user") or event["user"]
    return Message(
        id=str(event["id"]),
        key=ConversationKey("discord", location.chat, location.thread),
        author_id=_get_user_id(author),
        author=_get_display_name(author, member),
        text="",
        sent_at=snowflake_time(str(event["id"])),
        private=is_alone,
        addressed=True,
        bot=me.id,
        reference={
            "channel": location.channel,
            "interaction": str(event["id"]),
            "token": str(event["token"]),
            **({"administrator": True} if is_server_admin(member.get("permissions")) else {}),
        },
        thread_state=ThreadState(is_restricted=location.is_private_thread),
    )


def to_welcome(guild: Json, me: Identity) -> Message | None:
    """Return what the bot says first in a server that it was added to; None without a channel for such words."""
    channel = str(guild.get("system_channel_id") or "")
    joined_at = str(guild.get("joined_at") or "")
    if not channel or not joined_at:
        return None
    moment = datetime.fromisoformat(joined_at)
    return Message(
        id=str(time_snowflake(moment)),
        key=ConversationKey("discord", channel),
        author_id=str(guild.get("owner_id") or guild["id"]),
        author=str(guild.get("name") or ""),
        text="",
        sent_at=moment,
        addressed=True,
        command="start",
        bot=me.id,
        reference={"channel": channel, "message": ""},
        language=str(guild.get("preferred_locale") or "").partition("-")[0],
        origin=Origin(purpose="welcome"),
    )


def snowflake_time(snowflake: str) -> datetime:
    """Return when an id was made: every id of Discord's holds its time."""
    return DISCORD_EPOCH + timedelta(milliseconds=int(snowflake) >> 22)


def time_snowflake(moment: datetime) -> int:
    """Return the lowest id of a moment."""
    return max(0, int((moment - DISCORD_EPOCH) / timedelta(milliseconds=1))) << 22


def _get_ignore_reason(event: Json, reader: Reader) -> str:
    """Return why a message is to be ignored, or nothing."""
    author = _as_object(event.get("author"))
    if not author:
        return "without an author"
    if event.get("type", MESSAGE) not in (MESSAGE, REPLY):
        return _get_bot_kind(event) or "a service message"
    has_content = event.get("content") or get_snapshots(event) or get_attachments(event)
    if not (has_content or _get_bot_kind(event) or reader.get_attached_text(event)):
        return "without text (the message content intent is off)"
    return ""


def _find_quoted_authors(event: Json, quoted_author: str) -> tuple[str, ...]:
    """Return whose words a message quotes: of whom it replies to, and its author's own where it is a poll."""
    author_id = _get_user_id(event["author"])
    others = () if quoted_author in ("", author_id) else (quoted_author,)
    return (*others, author_id) if event.get("poll") and not _get_bot_kind(event) else others


def _addresses_others(event: Json, me: Identity) -> bool:
    """Return whether a message mentions or replies to anybody but the bot."""
    replied_message = _as_object(event.get("referenced_message"))
    addressed_ids = {_get_user_id(user) for user in event.get("mentions") or ()} | (
        {_get_user_id(_as_object(replied_message.get("author")))} if replied_message else set()
    )
    return bool(addressed_ids - {me.id})


def _is_post(event: Json, location: Location) -> bool:
    """Return whether a message is published for all: in an announcement channel, or from one that is followed."""
    if _get_bot_kind(event):
        return bool(int(event.get("flags") or 0) & CROSSPOSTED)
    return location.is_announcement and not event.get("referenced_message")


def _get_bot_kind(event: Json) -> str:
    """Return which kind of program wrote a message, or nothing for a person."""
    if event.get("webhook_id"):
        return "written by a webhook"
    author = _as_object(event.get("author"))
    return "written by a bot" if author.get("bot") or author.get("system") else ""


def _get_display_name(author: Json, member: Json) -> str:
    return str(member.get("nick") or author.get("global_name") or author.get("username") or "somebody")


def _get_user_id(user: Json) -> str:
    return str(user.get("id") or "")


def _as_object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}
