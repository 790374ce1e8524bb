from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deployment import logging_as_it_was


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    with logging_as_it_was():
        yield
