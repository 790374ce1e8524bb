from __future__ import annotations

import pytest

from core.formatting import pluralize, shorten


@pytest.mark.parametrize(
    ("number", "expected_text"), [(0, "0 passages"), (1, "1 passage"), (2, "2 passages"), (2000, "2,000 passages")]
)
def test_one_is_singular(number: int, expected_text: str) -> None:
    assert pluralize(number, "passage") == expected_text


@pytest.mark.parametrize(
    ("text", "max_chars", "expected"),
    [
        ("Install it with pip", 19, "Install it with pip"),
        ("Install it with pip", 12, "Install it …"),
        ("Install it with pip", 10, "Install it …"),
        ("Installation", 7, "Install …"),
        (f"See https://example.org/{'a' * 200} now", 150, f"See https://example.org/{'a' * 126} …"),
        (f"See {'a' * 80} now", 83, "See …"),
        (f"See {'a' * 90} now", 85, f"See {'a' * 81} …"),
        ("用 pip 安装之后重启服务", 10, "用 pip 安装之后 …"),
        ("用 pip 安装", 4, "用 …"),
    ],
)
def test_a_text_is_shortened_between_words_where_they_are_not_too_long(
    text: str, max_chars: int, expected: str
) -> None:
    assert shorten(text, max_chars) == expected
