"""The tree in the docstring of the errors is the tree of their classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core import errors


def drawn() -> Iterator[tuple[str, str]]:
    """Yield every error of the drawing with the one above it."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r" {4}((?:[│├└─ ]{4})*)([A-Z]\w+)(?: |$)", line):
            depth = len(match[1]) // 4
            del above[depth:]
            yield match[2], above[-1] if above else ""
            above.append(match[2])


def test_every_error_is_drawn_below_its_own() -> None:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    bases = {
        name: value.__bases__[0].__name__ if value is not errors.KimasError else ""
        for name, value in classes.items()
        if issubclass(value, errors.KimasError)
    }
    assert dict(drawn()) == bases
