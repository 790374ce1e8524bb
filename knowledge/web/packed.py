"""Files that a server keeps packed and sends as they are, without saying so."""

from __future__ import annotations

import gzip
import io
import zlib

GZIP_MARK = b"\x1f\x8b"
UNPACK_ERRORS = (OSError, EOFError, zlib.error)


def unpack(content: bytes, max_bytes: int) -> bytes:
    """Return content that is gzipped as a file unpacked, up to a size; other content as it is.

    Raises one of `UNPACK_ERRORS` where it is damaged.
    """
    if not content.startswith(GZIP_MARK):
        return content
    with gzip.open(io.BytesIO(content)) as file:
        return file.read(max_bytes)
