from __future__ import annotations

import pytest

from core.formatting import pluralize


@pytest.mark.parametrize(
    ("number", "expected_text"), [(0, "0 passages"), (1, "1 passage"), (2, "2 passages"), (2000, "2,000 passages")]
)
def test_one_is_singular(number: int, expected_text: str) -> None:
    assert pluralize(number, "passage") == expected_text
