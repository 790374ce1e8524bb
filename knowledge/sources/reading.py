"""From bytes to text, and from content to a fingerprint."""

from __future__ import annotations

import codecs
import hashlib

_WIDE_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
_UTF16_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, or UTF-16 and UTF-32 with a byte order mark. What does not fit is replaced."""
    # The mark of UTF-32 starts with that of UTF-16: it has to be looked for first.
    for mark, encoding in _WIDE_MARKS + _UTF16_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def defect(data: bytes, *, packed: bool = False) -> str:
    """Return why content cannot be used ("binary", "empty"), or an empty string. `packed` content may be binary."""
    if packed:
        return "" if data.strip() else "empty"
    marked = any(data.startswith(mark) for mark, _ in _WIDE_MARKS + _UTF16_MARKS)
    if b"\0" in data and not marked:
        return "binary"
    return "" if data.removeprefix(codecs.BOM_UTF8).strip() else "empty"


def fingerprint(data: bytes) -> str:
    """Return a hash of content: 32 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(data).hexdigest()[:32]
