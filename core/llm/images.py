"""Validates images by their first bytes: nothing is decoded, and no file name or header is trusted.

PNG, JPEG, WebP and GIF are accepted. SVG is not, because it can contain scripts. An image with too many pixels is
rejected before anything decodes it.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

from core.errors import ServiceError
from core.types import Image

MAX_BYTES = 4 * 2**20
MAX_PIXELS = 40_000_000
MAX_SIDE = 16_000
_PNG = b"\x89PNG\r\n\x1a\n"
# Start-of-frame markers of JPEG; C4, C8 and CC in this range are other markers.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A photo has some dozens before its frame; a hostile file of nothing but segments would take a second to read.
MAX_SEGMENTS = 2000


class UnusableImage(ServiceError):
    """An attachment is not an image that a model accepts; the text is the reason."""


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """An image's media type and its size in pixels."""

    media_type: str
    width: int
    height: int


def validate_image(data: bytes) -> Image:
    """Return an image for a model. Raises `UnusableImage`. It takes milliseconds: call it in a thread."""
    if len(data) > MAX_BYTES:
        raise UnusableImage(f"the picture has {len(data)} bytes, at most {MAX_BYTES} are looked at")
    image_format = detect_format(data)
    if image_format is None:
        raise UnusableImage("it is no PNG, JPEG, WebP or GIF")
    if not (0 < image_format.width <= MAX_SIDE and 0 < image_format.height <= MAX_SIDE):
        raise UnusableImage(f"{image_format.width} x {image_format.height} pixels are no size to be looked at")
    if image_format.width * image_format.height > MAX_PIXELS:
        raise UnusableImage(f"{image_format.width} x {image_format.height} pixels are too many")
    return Image(f"data:{image_format.media_type};base64,{base64.b64encode(data).decode('ascii')}")


def detect_format(data: bytes) -> ImageFormat | None:
    """Return the format in an image's first bytes, or None for other or truncated data."""
    try:
        if data.startswith(_PNG) and data[12:16] == b"IHDR":
            return ImageFormat("image/png", *struct.unpack_from(">II", data, 16))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return ImageFormat("image/gif", *struct.unpack_from("<HH", data, 6))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
    except (struct.error, IndexError):
        return None
    return None


def _webp(data: bytes) -> ImageFormat | None:
    chunk = data[12:16]
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageFormat("image/webp", width & 0x3FFF, height & 0x3FFF)
    if chunk == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return ImageFormat("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if chunk == b"VP8X" and len(data) >= 30:
        width, height = (int.from_bytes(data[offset : offset + 3], "little") + 1 for offset in (24, 27))
        return ImageFormat("image/webp", width, height)
    return None


def _jpeg(data: bytes) -> ImageFormat | None:
    """Read segment by segment up to the frame, which has the size."""
    offset = 2
    for _ in range(MAX_SEGMENTS):
        if data[offset] != 0xFF:
            return None
        marker = data[offset + 1]
        if marker == 0xFF:
            offset += 1
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return ImageFormat("image/jpeg", width, height)
        elif marker == 0x01 or 0xD0 <= marker <= 0xD9:
            offset += 2
        else:
            (length,) = struct.unpack_from(">H", data, offset + 2)
            offset += 2 + max(length, 2)
    return None
