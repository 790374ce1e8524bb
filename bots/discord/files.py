"""What comes with Discord messages besides text, and where pictures may be fetched from. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from core.types import Attachment, AttachmentKind

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
