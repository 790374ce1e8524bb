"""Subtitles: what is said with its time, in both formats, and lines that scroll."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.settings import FilesSource
from knowledge.chunking import chunk
from knowledge.formats.subtitles import read_subtitles
from knowledge.sources.files import FilesFolder

WEBVTT = """WEBVTT - Rotation
Kind: captions

STYLE
::cue { color: lime }

NOTE a remark

1
00:00:01.000 --> 00:00:04.000 align:start
<v Speaker>Welcome &amp; hello,</v>

00:50.500 --> 00:54.000
first the basics.

01:01:05.000 --> 01:01:07.000
Call <c.code>rotate_log</c> *now*.
"""

SCROLLING = """WEBVTT

00:00:00.160 --> 00:00:02.389 align:start position:0%
 
we<00:00:00.320><c> rotate</c><00:00:00.480><c> it</c>

00:00:02.389 --> 00:00:02.399 align:start position:0%
we rotate it
 

00:00:02.399 --> 00:00:04.000 align:start position:0%
we rotate it
every<00:00:02.600><c> night</c>
"""  # noqa: W293

SUBRIP = """1\r
00:00:01,000 --> 00:00:02,500\r
{\\an8}<i>One.</i>\r
\r
2\r
00:00:03,000 --> 00:00:04,000\r
42\r
"""


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        (
            WEBVTT,
            "## 0:01\n\nWelcome & hello, first the basics.\n\n## 1:01:05\n\nCall rotate_log \\*now\\*.",
        ),
        (SCROLLING, "## 0:00\n\nwe rotate it every night"),
        (SUBRIP, "## 0:01\n\nOne. 42"),
        ("no subtitles\n\nat all --> here\n", ""),
        ("00:00:01.000 --> 00:00:02.000\n" + "<" * 50 + "\n", "## 0:01\n\n" + "<" * 50),
    ],
)
def test_what_is_said_stands_below_its_time(text: str, markdown: str) -> None:
    assert read_subtitles(text) == markdown


async def test_a_folder_of_subtitles_is_cited_with_the_time(tmp_path: Path) -> None:
    (tmp_path / "rotation.en.vtt").write_text(WEBVTT)
    settings = FilesSource(kind="files", path=tmp_path, link="https://films.example.org/{path}")
    source = FilesFolder("films", settings, tmp_path.parent / "data")
    listing = await source.listing()
    (document,) = [document async for document in source.documents(listing, listing.fingerprints)]
    assert document.url == "https://films.example.org/rotation.en.vtt"
    passages = chunk(document)
    assert [passage.title for passage in passages][-1].endswith("1:01:05")
