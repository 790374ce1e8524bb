from __future__ import annotations

import base64

import pytest

from core.formatting import with_description
from core.llm.images import MAX_BYTES, MAX_SIDE, ImageFormat, UnusableImage, detect_format, validate_image
from tests.support.images import SVG, gif, jpeg, png, webp


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (gif(), "image/gif"),
        (jpeg(), "image/jpeg"),
        (jpeg(frame=0xC2), "image/jpeg"),
        *((webp(kind), "image/webp") for kind in (b"VP8 ", b"VP8L", b"VP8X")),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(data: bytes, kind: str) -> None:
    assert detect_format(data) == ImageFormat(kind, 4, 3)
    assert validate_image(data).url == f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("data", [png(), gif(), jpeg(), webp(b"VP8 "), webp(b"VP8L"), webp(b"VP8X")])
def test_what_is_cut_short_is_none(data: bytes) -> None:
    for length in range(len(data)):
        image_format = detect_format(data[:length])
        assert image_format is None or (image_format.width, image_format.height) == (4, 3)
    assert detect_format(data[:8]) is None


@pytest.mark.parametrize(
    ("data", "error_text"),
    [
        (SVG, "no PNG"),
        (b"", "no PNG"),
        (b"<!DOCTYPE html>", "no PNG"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "no PNG"),
        (b"\xff\xd8\xff" + b"\xff" * 50, "no PNG"),
        (b"BM" + b"\0" * 60, "no PNG"),
        (png(0, 3), "0 x 3"),
        (png(MAX_SIDE + 1, 2), "no size"),
        # A few hundred bytes that would unpack to a gigabyte.
        (png(12_000, 12_000), "too many"),
        (webp(b"VP8X", 10_000, 10_000), "too many"),
        (png(extra=MAX_BYTES), "bytes"),
    ],
)
def test_what_must_not_reach_a_model_is_refused(data: bytes, error_text: str) -> None:
    with pytest.raises(UnusableImage, match=error_text):
        validate_image(data)


def test_what_was_seen_is_quoted_line_by_line() -> None:
    assert with_description("Why? ", "a\nb") == "Why?\n\nWhat is attached says:\n> a\n> b"
    assert with_description("", "a") == "What is attached says:\n> a"
    assert with_description("Why?", "") == "Why?"
