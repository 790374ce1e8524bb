from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from core.logs import OWN


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """The command line, run inside a test, sets up logging for its process; the next test starts afresh."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, OWN)]
    levels, handlers = [one.level for one in loggers], list(root.handlers)
    yield
    for one, level in zip(loggers, levels, strict=True):
        one.setLevel(level)
    root.handlers = handlers
    logging.captureWarnings(False)
