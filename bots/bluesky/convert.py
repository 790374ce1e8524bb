"""From a post or a notification to a message: who wrote what where, and whether the bot was meant. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bots.bluesky.client import Identity
from bots.bluesky.visible_text import BOT_MENTION, get_quoted, get_text, mentions
from bots.common.attachments import select_readable
from bots.common.events import IgnoredEvent
from bots.common.social_thread import count_answers, split_command
from core.messaging.feedback.rating_buttons import to_reaction
from core.types import Attachment, ConversationKey, Message, ThreadState

Json = Mapping[str, Any]
PLATFORM = "bluesky"
# The chat of all that mentions the bot, or replies to it: everything is public.
MENTIONS_CHAT = "mentions"
BOT_LABEL = "bot"
BLOCKED = "of somebody who blocks the bot, or whom it blocks"
_URI = re.compile(r"at://did:[a-z]+:[\w.:%-]{1,250}/[\w.-]{1,250}/[\w.~:-]{1,512}", re.ASCII)
# Of a record, in the only form that servers give.
_CID = re.compile(r"bafyrei[a-z2-7]{52}")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}")


def to_message(thread: Json, me: Identity, max_answers: int) -> Message | IgnoredEvent:
    """Convert a post that somebody told the bot of, with those above it (`parent`), or return why it is none.

    `reference` holds what a reply needs. Posts of bots are ignored, and those below `max_answers` answers of ours.
    """
    if thread.get("blocked"):
        return IgnoredEvent(BLOCKED)
    post = thread["post"]
    record = post["record"]
    above = _list_above(thread)
    if reason := _get_ignore_reason(post["author"], me):
        return IgnoredEvent(reason)
    if count_answers(_is_own(item, me) for item in above) >= max_answers:
        return IgnoredEvent(f"{max_answers} answers in this thread already", is_expected=False)
    parent = above[-1] if above else None
    quoted = get_quoted(post)
    quoted_record = quoted.get("value") or (parent["record"] if parent else {})
    command, text = split_command(_remove_mentions(get_text(record, me.did)))
    attachments = get_attachments(post)
    parent_attachments = select_readable(get_attachments(parent)) if parent and not attachments else ()
    brought = (quoted or parent or {}, parent if parent and parent_attachments else {})
    quoted_dids = dict.fromkeys(str((item.get("author") or {}).get("did") or "") for item in brought)
    root = _get_root(above[0] if above else post)
    return Message(
        **_get_common(post, me, root),
        key=ConversationKey(PLATFORM, MENTIONS_CHAT, root["uri"]),
        text=text,
        addressed=mentions(record, me.did) or (parent is not None and _is_own(parent, me)),
        command=command,
        reply_to=str(((record.get("reply") or {}).get("parent") or {}).get("uri") or ""),
        quoted=_remove_mentions(get_text(quoted_record, me.did)),
        quoted_authors=tuple(did for did in quoted_dids if did not in ("", str(post["author"]["did"]))),
        attachments=attachments or parent_attachments,
        is_post=False,
        thread_state=ThreadState(is_shared=True if any(_is_own(item, me) for item in above) else None),
    )


def to_feed_post(item: Json, me: Identity, chat: str) -> Message | IgnoredEvent:
    """Convert a post of a feed that is to be commented on, or return why it is none."""
    post = item["post"]
    record = post["record"]
    if item.get("reason"):
        return IgnoredEvent("a repost")
    if reason := _get_ignore_reason(post["author"], me):
        return IgnoredEvent(reason)
    if record.get("reply"):
        return IgnoredEvent("a reply in a feed")
    if mentions(record, me.did):
        return IgnoredEvent("a post that asks the bot")
    return Message(
        **_get_common(post, me, _get_root(post)),
        key=ConversationKey(PLATFORM, chat, str(post["uri"])),
        text=get_text(record, me.did),
        attachments=get_attachments(post),
        is_post=True,
    )


def to_rating(notification: Json, me: Identity) -> Message | IgnoredEvent:
    """Convert a like or a repost of an answer to a thumb up. Nobody is told that it was taken back."""
    author = notification["author"]
    if reason := _get_ignore_reason(author, me):
        return IgnoredEvent(f"a like {reason}")
    subject = str(notification.get("reasonSubject") or "")
    press = Message(
        f"reaction {subject} {author['did']} {notification['reason']}",
        ConversationKey(PLATFORM, MENTIONS_CHAT),
        str(author["did"]),
        str(author.get("displayName") or author["handle"]),
        "",
        datetime.now(UTC),
        bot=me.did,
        reference={"uri": subject},
    )
    return to_reaction(press, "👍", subject) or IgnoredEvent("a like that rates nothing")


def is_bot(author: Json) -> bool:
    """Return whether an account says that it is a bot, by a label that it gave itself."""
    return any(
        label.get("val") == BOT_LABEL and label.get("src") == author["did"] for label in author.get("labels") or ()
    )


def count_other_bots(thread: Json, me: Identity) -> int:
    """Return how many replies of other bots a post has."""
    authors = [reply["post"]["author"] for reply in thread.get("replies") or () if reply.get("post")]
    return sum(is_bot(author) and author["did"] != me.did for author in authors)


def get_closed_reason(thread: Json) -> str:
    """Return what keeps the bot from replying to a post, or ""."""
    if thread.get("blocked"):
        return BLOCKED
    viewer = (thread["post"]["author"].get("viewer") or {}) | (thread["post"].get("viewer") or {})
    if viewer.get("blockedBy") or viewer.get("blocking"):
        return BLOCKED
    return "closed to replies" if viewer.get("replyDisabled") else ""


def get_attachments(post: Json) -> tuple[Attachment, ...]:
    """Return the pictures and videos of a post. `reference` holds the `url` of a picture."""
    embed = post.get("embed") or {}
    media = embed.get("media") or embed
    pictures = tuple(
        Attachment("picture", str(item.get("alt") or "")[:200], reference={"url": str(item.get("fullsize") or "")})
        for item in media.get("images") or ()
    )
    return pictures or ((Attachment("video"),) if media.get("playlist") else ())


def _get_ignore_reason(author: Json, me: Identity) -> str:
    if author["did"] == me.did:
        return "written by the bot itself"
    return "written by a bot" if is_bot(author) else ""


def is_follower(author: Json) -> bool:
    """Return whether an author follows the bot, as the server says now."""
    return bool((author.get("viewer") or {}).get("followedBy"))


def _get_common(post: Json, me: Identity, root: Mapping[str, str]) -> dict[str, Any]:
    """Return what any post says of itself and its author."""
    author = post["author"]
    language = str((post["record"].get("langs") or [""])[0])
    return {
        "id": str(post["uri"]),
        "author_id": str(author["did"]),
        "author": str(author.get("displayName") or author["handle"]),
        # Its author's clock may say anything.
        "sent_at": datetime.fromisoformat(str(post["indexedAt"])),
        "bot": me.did,
        # An answer in it may name it, and must be in form.
        "language": language if _LANGUAGE.fullmatch(language) else "",
        "reference": {
            "uri": str(post["uri"]),
            "cid": str(post["cid"]),
            "root_uri": root["uri"],
            "root_cid": root["cid"],
            "follows": is_follower(author),
        },
    }


def _get_root(post: Json) -> dict[str, str]:
    """Return the first post of a thread, given the topmost one that is shown of it.

    Where that is a reply to what is gone, it says itself which one was the first, and may name anything.
    """
    root = (post["record"].get("reply") or {}).get("root") or {}
    uri, cid = str(root.get("uri")), str(root.get("cid"))
    if _URI.fullmatch(uri) and _CID.fullmatch(cid):
        return {"uri": uri, "cid": cid}
    return {"uri": str(post["uri"]), "cid": str(post["cid"])}


def _list_above(thread: Json) -> list[Json]:
    """Return the posts above one, the first one at their head; those that are gone or blocked end them."""
    posts = []
    node = thread.get("parent") or {}
    while node.get("post"):
        posts.append(node["post"])
        node = node.get("parent") or {}
    return posts[::-1]


def _is_own(post: Json, me: Identity) -> bool:
    return bool((post.get("author") or {}).get("did") == me.did)


def _remove_mentions(text: str) -> str:
    """Return a text without mentions of the bot."""
    return re.sub(rf"^(?:{BOT_MENTION}[\s,:;]*)+| ?{BOT_MENTION}", "", text).strip()
