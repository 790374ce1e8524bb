"""Garbage is not looked for while a great many objects are made and kept: that takes longer than to make them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_lying() -> Iterator[None]:
    """Look for no garbage in the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
