"""Reading labelled data: JSON Lines, checked whole before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from core.errors import UsageError

T = TypeVar("T")
_MOST_FAULTS = 100


class Line:
    """One JSON object while it is read. What is wrong with it is noted in `faults`, and reading goes on."""

    def __init__(self, values: Mapping[str, Any], place: str = "", faults: list[str] | None = None) -> None:
        self._values = values
        self._place = place
        self.faults: list[str] = [] if faults is None else faults

    def text(self, key: str, *, default: str | None = None) -> str:
        """Return a text that is not empty; `default` makes it optional."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or not (value.strip() or value == default):
            self.fault(key, "a text that is not empty")
            return ""
        return value

    @overload
    def texts(self, key: str) -> tuple[str, ...]: ...

    @overload
    def texts(self, key: str, *, optional: bool) -> tuple[str, ...] | None: ...

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...] | None:
        """Return a list of texts, which may be empty; an `optional` one that is missing is None."""
        value = self._values.get(key)
        if optional and key not in self._values:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.fault(key, "a list of texts")
            return ()
        return tuple(value)

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._values.get(key)
        if not isinstance(value, bool):
            self.fault(key, "true or false")
            return False
        return value

    def lines(self, key: str, *, optional: bool = False) -> list[Line]:
        """Return a list of objects with at least one; an `optional` one may be empty or missing."""
        value = self._values.get(key)
        if optional and (key not in self._values or value == []):
            return []
        if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
            self.fault(key, "a list of objects" if optional else "a list of objects with at least one")
            return []
        return [Line(one, f"{self._place}{key}[{at}].", self.faults) for at, one in enumerate(value)]

    def fault(self, key: str, wanted: str) -> None:
        """Note that a key does not hold what is wanted."""
        problem = "must be" if key in self._values else "is missing; it must be"
        self.faults.append(f"{self._place}{key} {problem} {wanted}")


def read_cases(path: Path, read: Callable[[Line], T], form: str) -> list[T]:
    """Return the cases of a file, each made from its line by `read`. Blank lines are passed over. Blocking.

    Raises `UsageError` that names every line that cannot be used with what is wrong there, and the `form` of a line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(f"{path} cannot be read: {problem}. Name a JSON Lines file.") from error
    cases: list[T] = []
    faults: list[str] = []
    first: dict[str, int] = {}
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        line = _parsed(raw)
        if isinstance(line, Line):
            name, case = line.text("id"), read(line)
            if name and first.setdefault(name, number) != number:
                line.faults.append(f"id {name!r} is that of line {first[name]} already; give it another")
            cases.append(case)
        found = [line] if isinstance(line, str) else dict.fromkeys(line.faults)
        faults += [f"line {number}: {fault}" for fault in found]
    if not cases and not faults:
        faults = ["it has no cases"]
    if faults:
        more = [f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
        told = "\n".join(f"  {fault}" for fault in [*faults[:_MOST_FAULTS], *more])
        raise UsageError(f"{path} cannot be used:\n{told}\nEvery line is one JSON object: {form}")
    return cases


def _parsed(raw: bytes) -> Line | str:
    """Return a line's object, or say why it is none."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start + 1}); save the file as UTF-8"
    except json.JSONDecodeError as error:
        return f"it is not JSON at column {error.colno}: {error.msg}"
    except RecursionError:
        return "it is nested too deeply"
    return Line(value) if isinstance(value, dict) else "it is no JSON object"
