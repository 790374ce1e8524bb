"""Bytes as text, and which bytes are none."""

from __future__ import annotations

import codecs

_UTF32_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
_UTF16_BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, or UTF-16 and UTF-32 with a byte order mark. What does not fit is replaced."""
    # The mark of UTF-32 starts with that of UTF-16: it has to be looked for first.
    for bom, encoding in _UTF32_BOMS + _UTF16_BOMS:
        if data.startswith(bom):
            return data.decode(encoding, errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def unusable_reason(data: bytes, *, allow_binary: bool = False) -> str:
    """Return why content cannot be used ("binary", "empty"), or an empty string.

    With `allow_binary`, binary content is usable.
    """
    if allow_binary:
        return "" if data.strip() else "empty"
    has_bom = any(data.startswith(bom) for bom, _ in _UTF32_BOMS + _UTF16_BOMS)
    if b"\0" in data and not has_bom:
        return "binary"
    return "" if data.removeprefix(codecs.BOM_UTF8).strip() else "empty"
