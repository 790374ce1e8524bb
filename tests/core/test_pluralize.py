from __future__ import annotations

import pytest

from core.text.formatting import pluralize


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 passages"), (1, "1 passage"), (2, "2 passages"), (2000, "2,000 passages")]
)
def test_one_is_singular(number: int, told: str) -> None:
    assert pluralize(number, "passage") == told
