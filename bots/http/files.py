"""What comes with events besides text: pictures in the event itself, all else by its kind alone. Pure functions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, cast, get_args

from core.types import Attachment, AttachmentKind

KINDS: tuple[str, ...] = get_args(AttachmentKind)
MOST = 10


def attachments_of(value: object) -> tuple[Attachment, ...]:
    """Return what an event's `attachments` hold. Raises `ValueError`, whose text says what is wrong with them.

    Only bytes are taken, no addresses: nothing is ever fetched because an event says so.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST:
        raise ValueError(f"attachments must be a list of at most {MOST}")
    return tuple(_attachment(one, f"attachments[{at}]") for at, one in enumerate(value))


def content_of(attachment: Attachment) -> bytes:
    """Return the bytes of an attached picture."""
    return base64.b64decode(str(attachment.reference["data"]))


def _attachment(value: object, place: str) -> Attachment:
    if not isinstance(value, Mapping) or not set(value) <= {"kind", "name", "data"}:
        raise ValueError(f"{place} must be an object with kind and, where there is one, name and data")
    kind, name, data = value.get("kind"), value.get("name", ""), value.get("data", "")
    if kind not in KINDS:
        raise ValueError(f"{place}.kind must be one of {', '.join(KINDS)}")
    if not isinstance(name, str) or not isinstance(data, str):
        raise ValueError(f"{place}.name and data must be texts")
    if kind != "picture":
        return Attachment(cast(AttachmentKind, kind), name[:200])
    bare = data.partition(";base64,")[2] if data.startswith("data:") else data
    try:
        size = len(base64.b64decode(bare, validate=True))
    except (binascii.Error, ValueError) as fault:
        raise ValueError(f"{place}.data must be base64, or a data URI of it") from fault
    if not size:
        raise ValueError(f"{place}.data is missing: a picture is sent with the event")
    reference: Mapping[str, Any] = {"data": bare}
    return Attachment("picture", name[:200], size, reference)
