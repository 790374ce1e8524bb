"""Recordings of a voice, as endpoints take them: their first bytes say what they are, whatever a message calls them."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_RECORDING_BYTES = 10 << 20
# What is said in it must fit into a question.
MAX_RECORDING_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording with the name and the media type by which endpoints recognize its format."""

    file_name: str
    media_type: str
    content: bytes = field(repr=False)


def read_recording(content: bytes) -> Recording | None:
    """Return a recording in a format that endpoints take, or None for anything else.

    >>> read_recording(b"OggS...").file_name, read_recording(b"<html>")
    ('voice.ogg', None)
    """
    form = _find_format(content[:12])
    return Recording(f"voice.{form[0]}", form[1], content) if form else None


def _find_format(start: bytes) -> tuple[str, str] | None:
    if start.startswith(b"OggS"):
        return "ogg", "audio/ogg"
    if start.startswith(b"RIFF") and start[8:12] == b"WAVE":
        return "wav", "audio/wav"
    if start.startswith(b"fLaC"):
        return "flac", "audio/flac"
    if start.startswith(b"\x1aE\xdf\xa3"):
        return "webm", "audio/webm"
    if start[4:8] == b"ftyp":
        return "m4a", "audio/mp4"
    # A frame of MPEG audio begins with eleven bits that are set, and names its layer, which is 0 in AAC.
    is_frame = len(start) > 1 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0 and start[1] & 0x06
    return ("mp3", "audio/mpeg") if start.startswith(b"ID3") or is_frame else None
