"""What comes with Slack messages besides text, and where pictures may be fetched from. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from core.types import Attachment, AttachmentKind

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
