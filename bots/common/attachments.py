"""The attachments of messages, from every platform."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from core.types import Attachment, AttachmentKind

PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")


def get_kind(media_type: str) -> AttachmentKind:
    """Return the kind of a file of this media type."""
    if media_type in PICTURE_TYPES:
        return "picture"
    kinds: dict[str, AttachmentKind] = {"audio": "voice", "video": "video"}
    return kinds.get(media_type.partition("/")[0], "file")


# What is fetched when a question is about it.
READABLE_KINDS: tuple[AttachmentKind, ...] = ("picture", "file")
# A voice message is fetched where it is a question itself, and never because somebody replies to it.
FETCHED_KINDS: tuple[AttachmentKind, ...] = (*READABLE_KINDS, "voice")


def select_readable(attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    """Return what can be read of attachments: "what does this mean?" is about those of the message replied to."""
    return tuple(attachment for attachment in attachments if attachment.kind in READABLE_KINDS)


def check_file_url(url: str, api_url: str, official_api_url: str, is_official_host: Callable[[str], bool]) -> str:
    """Return the address of a file; empty where it is not on the platform's own servers."""
    parts = urlsplit(url)
    api = urlsplit(api_url)
    if api_url.startswith(official_api_url):
        return url if parts.scheme == "https" and is_official_host(parts.hostname or "") else ""
    return url if (parts.scheme, parts.netloc) == (api.scheme, api.netloc) else ""
