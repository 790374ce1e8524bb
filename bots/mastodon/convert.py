"""From a status or a notification to a message: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bots.common.attachments import select_readable
from bots.common.events import IgnoredEvent
from bots.common.social_thread import count_answers, split_command
from bots.mastodon.client import Identity
from bots.mastodon.visible_text import (
    BOT_MENTION,
    get_text,
    get_warning,
    get_words,
    is_taken_over,
    join_warning,
)
from core.messaging.feedback.rating_buttons import to_reaction
from core.types import Attachment, AttachmentKind, ConversationKey, Message, ThreadState
from core.types.messages import PERSONAL_THREAD

Json = Mapping[str, Any]
PLATFORM = "mastodon"
# The chat of all that mentions the bot where others read it.
MENTIONS_CHAT = "mentions"
PUBLIC_VISIBILITIES = ("public", "unlisted")
DIRECT = "direct"
_KINDS: dict[str, AttachmentKind] = {"image": "picture", "audio": "voice", "video": "video", "gifv": "video"}
_LEADING_MENTIONS = re.compile(rf"(?:(?:{BOT_MENTION}|@[\w.@-]++)[\s,:;]*+)*")


def to_message(status: Json, above: Sequence[Json], me: Identity, max_answers: int) -> Message | IgnoredEvent:
    """Convert a status that mentions the bot, with those that it replies to, the first of the thread at their head.

    `reference` holds what a reply needs: `status`, `acct`, `visibility`, `spoiler_text`. A content warning that was
    taken over from what is quoted is kept as its words alone, of which it is the first `quoted_warning_chars`: whoever
    wrote it can be forgotten there. Statuses of bots are ignored, and those below `max_answers` answers of ours.
    """
    account = status["account"]
    parent = above[-1] if above else None
    if reason := _get_ignore_reason(account, me):
        return IgnoredEvent(reason)
    if count_answers(_is_own(item, me) for item in above) >= max_answers:
        return IgnoredEvent(f"{max_answers} answers in this thread already", is_expected=False)
    visibility = str(status.get("visibility"))
    is_private = visibility not in (*PUBLIC_VISIBILITIES, "private")
    handle = me.to_handle(str(account["acct"]))
    # What only the author's followers may read is answered to the author alone: nobody else has a part in it.
    root_id = str((above[0] if above else status)["id"])
    thread = root_id if visibility in PUBLIC_VISIBILITIES else f"{PERSONAL_THREAD}{handle}:{root_id}"
    words = get_words(status, me.id)
    is_addressed = is_private or _is_addressed(words, parent, me)
    command, text = split_command(_remove_mentions(words, is_reply=parent is not None))
    has_taken_over = is_taken_over(status, parent)
    if not (command or has_taken_over):
        text = join_warning(get_warning(status), text)
    quoted_status = (status.get("quote") or {}).get("quoted_status") or parent
    is_shown = quoted_status and _may_read(quoted_status, handle, me)
    if quoted_status and not (is_shown and _may_be_told(quoted_status, visibility)):
        quoted_status = None
    quoted_acct = str(((quoted_status or {}).get("account") or {}).get("acct") or "")
    quoted_author = me.to_handle(quoted_acct) if quoted_acct else ""
    quoted = _remove_mentions(get_text(quoted_status, me.id), is_reply=True) if quoted_status else ""
    return Message(
        str(status["id"]),
        ConversationKey(PLATFORM, handle) if is_private else ConversationKey(PLATFORM, MENTIONS_CHAT, thread),
        handle,
        str(account.get("display_name") or account["username"]),
        text,
        datetime.fromisoformat(str(status["created_at"])),
        private=is_private,
        addressed=is_addressed,
        command=command,
        reply_to=str(status.get("in_reply_to_id") or ""),
        quoted=quoted,
        quoted_authors=() if quoted_author in ("", handle) else (quoted_author,),
        bot=me.id,
        reference=_with_warning_of(parent, quoted, status) if has_taken_over else _make_reference(status),
        attachments=get_attachments(status)
        or (select_readable(get_attachments(quoted_status)) if quoted_status else ()),
        is_post=False,
        thread_state=ThreadState(
            is_restricted=visibility not in PUBLIC_VISIBILITIES,
            is_shared=True if any(_is_own(item, me) for item in above) else None,
        ),
        language=str(status.get("language") or ""),
        chat_title="" if is_private else to_mention(me),
    )


def to_post(status: Json, me: Identity, chat: str) -> Message | IgnoredEvent:
    """Convert a status of a timeline that is to be commented on, or return why it is none."""
    account = status["account"]
    if status.get("reblog"):
        return IgnoredEvent("a boost")
    if reason := _get_ignore_reason(account, me):
        return IgnoredEvent(reason)
    if status.get("in_reply_to_id"):
        return IgnoredEvent("a reply in a timeline")
    if mentions_bot(status, me) or status.get("visibility") not in PUBLIC_VISIBILITIES:
        return IgnoredEvent("no public post, or one that asks the bot")
    return Message(
        str(status["id"]),
        ConversationKey(PLATFORM, chat, str(status["id"])),
        me.to_handle(str(account["acct"])),
        str(account.get("display_name") or account["username"]),
        get_text(status, me.id),
        datetime.fromisoformat(str(status["created_at"])),
        bot=me.id,
        reference=_make_reference(status),
        attachments=get_attachments(status),
        is_post=True,
        language=str(status.get("language") or ""),
    )


def to_rating(notification: Json, me: Identity) -> Message | IgnoredEvent:
    """Convert a favourite or a boost of an answer to a thumb up. Nobody is told that it was taken back."""
    account = notification["account"]
    if account.get("bot"):
        return IgnoredEvent("a favourite of a bot")
    status = notification["status"]
    handle = me.to_handle(str(account["acct"]))
    is_private = status.get("visibility") == DIRECT
    press = Message(
        f"reaction {status['id']} {handle} {notification['type']}",
        ConversationKey(PLATFORM, handle if is_private else MENTIONS_CHAT),
        handle,
        str(account.get("display_name") or account["username"]),
        "",
        datetime.now(UTC),
        bot=me.id,
        private=is_private,
        reference=_make_reference(status),
    )
    return to_reaction(press, "👍", str(status["id"])) or IgnoredEvent("a favourite that rates nothing")


def to_mention(me: Identity) -> str:
    """Return how people everywhere mention the bot."""
    return f"@{me.to_handle(me.username)}"


def mentions_bot(status: Json, me: Identity) -> bool:
    """Return whether a status mentions the bot."""
    return any(str(mention.get("id")) == me.id for mention in status.get("mentions") or ())


def get_attachments(status: Json) -> tuple[Attachment, ...]:
    """Return the attachments of a status. `reference` holds the `url` of a picture on the bot's server."""
    return tuple(
        Attachment(
            _KINDS.get(str(item.get("type")), "file"),
            str(item.get("description") or "")[:200],
            reference={"url": str(item.get("url") or "")},
        )
        for item in status.get("media_attachments") or ()
    )


def count_other_bots(replies: Sequence[Json], post_id: str, me: Identity) -> int:
    """Return how many replies of other bots a post has."""
    return sum(
        str(status.get("in_reply_to_id")) == post_id and bool(status["account"].get("bot")) and not _is_own(status, me)
        for status in replies
    )


def _get_ignore_reason(account: Json, me: Identity) -> str:
    if str(account["id"]) == me.id:
        return "written by the bot itself"
    return "written by a bot" if account.get("bot") else ""


def _is_own(status: Json, me: Identity) -> bool:
    # A status that is quoted may come without its author.
    return str((status.get("account") or {}).get("id")) == me.id


def _may_read(status: Json, handle: str, me: Identity) -> bool:
    """Return whether somebody is known to read a status.

    A server can name any status as the one that its user replies to, and ours shows us what is for us alone.
    """
    accounts = (status.get("account") or {}, *(status.get("mentions") or ()))
    return status.get("visibility") in PUBLIC_VISIBILITIES or handle in (
        me.to_handle(str(account["acct"])) for account in accounts if account.get("acct")
    )


def _may_be_told(status: Json, visibility: str) -> bool:
    """Return whether an answer may repeat a status: what not everybody may read goes to the asker alone."""
    return visibility not in PUBLIC_VISIBILITIES or status.get("visibility") in PUBLIC_VISIBILITIES


def _is_addressed(text: str, parent: Json | None, me: Identity) -> bool:
    """Return whether a mention means the bot: a reply begins with the names of all who were mentioned before."""
    if parent is None or _is_own(parent, me) or not mentions_bot(parent, me):
        return True
    names = _LEADING_MENTIONS.match(text)
    return BOT_MENTION in text[names.end() if names else 0 :]


def _remove_mentions(text: str, *, is_reply: bool) -> str:
    """Return a text without mentions of the bot, and without those that a reply begins with."""
    pattern = _LEADING_MENTIONS if is_reply else re.compile(rf"(?:{BOT_MENTION}[\s,:;]*)*")
    return re.sub(rf" ?{BOT_MENTION}", "", pattern.sub("", text, count=1)).strip()


def _make_reference(status: Json) -> dict[str, str]:
    return {
        "status": str(status["id"]),
        "acct": str(status["account"]["acct"]),
        "visibility": str(status.get("visibility")),
        "spoiler_text": str(status.get("spoiler_text") or ""),
    }


def _with_warning_of(parent: Json | None, quoted: str, status: Json) -> dict[str, str | int]:
    """Return the reference of a reply whose content warning may be that of what it replies to: without its words."""
    warning = get_warning(parent or {})
    warning_chars = len(warning) if quoted.startswith(warning) else 0
    return {**_make_reference(status), "spoiler_text": "", "quoted_warning_chars": warning_chars}


def with_edit(message: Message | IgnoredEvent) -> Message | IgnoredEvent:
    """Return a message as a new text of an earlier one."""
    return replace(message, is_edit=True) if isinstance(message, Message) else message
