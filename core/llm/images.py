"""What a picture is, told by its first bytes alone: nothing is decoded here, and no file name or header is believed.

PNG, JPEG, WebP and GIF are taken. SVG is not: it is a program. A picture that would unpack to more pixels than allowed
is refused before anybody unpacks it.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

from core.errors import ServiceError
from core.types import Image

MOST_BYTES = 4 * 2**20
MOST_PIXELS = 40_000_000
LONGEST_SIDE = 16_000
_PNG = b"\x89PNG\r\n\x1a\n"
# Start-of-frame markers of JPEG; C4, C8 and CC lie among them and are none.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A picture of a camera has some dozens before its frame; one made of filling alone would take a second to walk.
MOST_SEGMENTS = 2000


class UnusablePicture(ServiceError):
    """What was attached is no picture that can be shown to a model; the text says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A picture's media type and its size in pixels."""

    type: str
    width: int
    height: int


def checked(data: bytes) -> Image:
    """Return a picture for a model. Raises `UnusablePicture`. Takes milliseconds: for a worker thread."""
    if len(data) > MOST_BYTES:
        raise UnusablePicture(f"the picture has {len(data)} bytes, at most {MOST_BYTES} are looked at")
    kind = sniffed(data)
    if kind is None:
        raise UnusablePicture("it is no PNG, JPEG, WebP or GIF")
    if not (0 < kind.width <= LONGEST_SIDE and 0 < kind.height <= LONGEST_SIDE):
        raise UnusablePicture(f"{kind.width} x {kind.height} pixels are no size to be looked at")
    if kind.width * kind.height > MOST_PIXELS:
        raise UnusablePicture(f"{kind.width} x {kind.height} pixels are too many")
    return Image(f"data:{kind.type};base64,{base64.b64encode(data).decode('ascii')}")


def sniffed(data: bytes) -> Kind | None:
    """Return what a picture says of itself in its first bytes, or None for anything else and for what is cut short."""
    try:
        if data.startswith(_PNG) and data[12:16] == b"IHDR":
            return Kind("image/png", *struct.unpack_from(">II", data, 16))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return Kind("image/gif", *struct.unpack_from("<HH", data, 6))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
    except (struct.error, IndexError):
        return None
    return None


def _webp(data: bytes) -> Kind | None:
    chunk = data[12:16]
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return Kind("image/webp", width & 0x3FFF, height & 0x3FFF)
    if chunk == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return Kind("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if chunk == b"VP8X" and len(data) >= 30:
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        return Kind("image/webp", width, height)
    return None


def _jpeg(data: bytes) -> Kind | None:
    """Walk from segment to segment until a frame says how large the picture is."""
    at = 2
    for _ in range(MOST_SEGMENTS):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return Kind("image/jpeg", width, height)
        elif marker == 0x01 or 0xD0 <= marker <= 0xD9:
            at += 2
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + max(length, 2)
    return None
