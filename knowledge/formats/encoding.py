"""Bytes as text, and which bytes are none."""

from __future__ import annotations

import codecs
import re

_UTF32_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
_UTF16_BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# What files are written in today besides Unicode. Without those of DOS, the Macintosh and mainframes, which match
# nearly everything, fewer short texts are guessed wrongly.
_ENCODINGS = tuple(
    """
    gb18030 big5 shift_jis cp932 euc-jp euc-kr cp949 tis-620 koi8-r koi8-u iso-8859-2 windows-1250 windows-1251
    windows-1252 windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258
    """.split()  # noqa: SIM905 (one word a line would hide the list)
)
# Keys and signatures are no text, however they are written.
_ARMOUR = b"-----BEGIN "
# So much of a file is looked at; a guess is taken from this confidence on. Wrong words are worse than missing letters.
SAMPLE_BYTES = 64 * 1024
MIN_CONFIDENCE = 0.05
# Fewer bytes that are no ASCII say nothing of the encoding.
MIN_EVIDENCE = 3
_DECLARED_ENCODING = re.compile(rb"coding[:=][ \t]*[\"']?([-\w.]{1,40})")
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd-\uffff\ue000-\uf8ff]")
_TERMINAL_COLOUR = re.compile(r"\x1b\[[\d;]{0,20}m")
_SPACE = re.compile(r"[ \t\r\n\u00a0\u200b-\u200f\u3000-\u3002\uff0c]")


def decode(data: bytes) -> str:
    """Return bytes as text, without the colours of a terminal. What does not fit is replaced.

    UTF-8, UTF-16 and UTF-32; else what the file says of itself in its first lines; else what its bytes are most like.
    """
    text = _decode(data)
    return strip_colours(text) if "\x1b" in text else text


def strip_colours(text: str) -> str:
    """Return what a program printed without the codes that colour it in a terminal."""
    return _TERMINAL_COLOUR.sub("", text)


def _decode(data: bytes) -> str:
    # The mark of UTF-32 starts with that of UTF-16: it has to be looked for first.
    for bom, encoding in _UTF32_BOMS + _UTF16_BOMS:
        if data.startswith(bom):
            return data.decode(encoding, errors="replace")
    if encoding := _find_unmarked_utf16(data):
        return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _decode_other(data)


def unusable_reason(data: bytes, *, allow_binary: bool = False) -> str:
    """Return why content cannot be used ("binary", "empty"), or an empty string.

    With `allow_binary`, binary content is usable.
    """
    if allow_binary:
        return "" if data.strip() else "empty"
    if data.lstrip().startswith(_ARMOUR):
        return "binary"
    has_bom = any(data.startswith(bom) for bom, _ in _UTF32_BOMS + _UTF16_BOMS)
    if b"\0" in data and not has_bom and not _find_unmarked_utf16(data):
        return "binary"
    return "" if data.removeprefix(codecs.BOM_UTF8).strip() else "empty"


def _find_unmarked_utf16(data: bytes) -> str:
    """Return in which order of bytes a text is UTF-16 without a mark, or an empty string for other bytes.

    In the other order, what divides its words is none, and many characters are none.
    """
    sample = data[:SAMPLE_BYTES]
    if b"\0" not in sample or len(data) % 2:
        return ""
    scores: dict[int, str] = {}
    for encoding in ("utf-16-le", "utf-16-be"):
        # Half of a character at the end of the sample is no fault.
        text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
        if not _NO_TEXT.search(text) and all(map(str.isprintable, _SPACE.sub("", text))):
            scores[len(_SPACE.findall(text))] = encoding
    return scores[max(scores)] if scores and max(scores) else ""


def _decode_other(data: bytes) -> str:
    """Return text that is no valid UTF-8."""
    text = data.decode("utf-8-sig", errors="replace")
    bad_characters = text.count("\ufffd")
    # UTF-8 with some damage: in other encodings hardly any letter happens to be valid.
    if len(text) - len(text.encode("ascii", errors="ignore")) > 2 * bad_characters:
        return text
    declared = _DECLARED_ENCODING.search(b"\n".join(data[:1000].split(b"\n")[:2]))
    if declared and (declared_text := _try_decode(data, declared[1].decode("ascii"))):
        return declared_text
    if bad_characters < MIN_EVIDENCE:
        return text
    # Not at the top: most files are UTF-8.
    import chardet

    # The other lines, such as the rows of numbers below a header, only make every guess less likely.
    telling_lines = (line for line in data[:SAMPLE_BYTES].splitlines() if not line.isascii())
    guess = chardet.detect(
        b"\n".join(telling_lines),
        max_bytes=SAMPLE_BYTES,
        prefer_superset=True,
        include_encodings=_ENCODINGS,
    )
    encoding = guess["encoding"]
    return data.decode(encoding, errors="replace") if encoding and guess["confidence"] >= MIN_CONFIDENCE else text


def _try_decode(data: bytes, encoding: str) -> str:
    """Return bytes in an encoding, or an empty string where they are not, or where there is no such encoding."""
    try:
        return data.decode(encoding)
    except (LookupError, ValueError):
        return ""
