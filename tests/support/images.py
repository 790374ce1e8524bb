"""Small real pictures of every kind, made byte by byte, and what is none."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 4, height: int = 3, *, extra: int = 0) -> bytes:
    """Return a PNG of one grey; `extra` bytes make it larger."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress((b"\0" + b"\x80" * width) * height if width * height < 10_000 else b"")
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    padding = chunk(b"tEXt", b"x" * extra) if extra else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + padding + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def gif(width: int = 4, height: int = 3) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0\0\0\0\xff\xff\xff\x3b"


def jpeg(width: int = 4, height: int = 3, *, frame: int = 0xC0) -> bytes:
    comment = b"\xff\xfe" + struct.pack(">H", 7) + b"hello"
    size = struct.pack(">BHHB", 8, height, width, 1)
    return b"\xff\xd8" + comment + bytes((0xFF, frame)) + struct.pack(">H", 11) + size + b"\1\x11\0\xff\xd9"


def webp(kind: bytes, width: int = 4, height: int = 3) -> bytes:
    bodies = {
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
        b"VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        b"VP8X": b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
    }
    body = bodies[kind]
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="4" height="3"><script/></svg>'
