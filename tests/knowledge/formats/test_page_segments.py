"""What stands between two lines of a sentence."""

from __future__ import annotations

import pytest

from knowledge.formats.page_segments import get_separator


def test_lines_of_chinese_are_joined_without_a_space() -> None:
    assert get_separator("\u62a5\u544a", "\u5185\u5bb9") == ""
    assert get_separator("\u62a5\u544a", "of it") == get_separator("\ud55c\uad6d", "\ud55c\uad6d") == " "
    assert get_separator("a well-", "known name") == "\n"


@pytest.mark.parametrize(
    ("text", "following", "separator"),
    [
        ("see https:", "//example.org/disk", ""),
        ("see https://example.org/", "disk/start.html", ""),
        ("see (mailto:ada@example.org?subject=Hello&", "body=It)", ""),
        ("see https://example.org/the-", "disk", ""),
        ("programs in /", "usr/sbin", ""),
        ("files of the disk/", "folder", " "),
        ("see https://example.org/", "for more", " "),
        ("as follows:", "a disk", " "),
        ("ask ada@lists.", "example.org", ""),
        ("ask ada@example.org.", "She knows", " "),
    ],
)
def test_addresses_go_on_in_the_next_line(text: str, following: str, separator: str) -> None:
    assert get_separator(text, following) == separator
