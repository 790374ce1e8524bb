"""What earlier refreshes learned of a source's files, kept in a file: what has not changed since is not read again.

Everything here blocks: call it in a worker thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from core.observability.logs import get_logger
from core.runtime.tasks import raise_if_stopped
from core.version import get_version
from knowledge.sources.common.state_files import write_atomically

_log = get_logger(__name__)

T = TypeVar("T")

# Raise it when the form of the file changes. What readers make of a file may change with each version of KIMAs.
_FORMAT = 2


class FactsFile(Generic[T]):
    """The facts of one source by a name that stands for a content or a place, kept in `file` between refreshes.

    Its first line stands for the rules, the last one for all before it, each other one for a name: reading one long
    text would hold up all threads. `get_form` returns what reads and writes such a line.
    """

    def __init__(self, source: str, file: Path, rules: str, get_form: Callable[[], TypeAdapter[tuple[str, T]]]) -> None:
        self._source = source
        self._file = file
        self._rules = hashlib.sha256(f"{_FORMAT}\0{get_version()}\0{rules}".encode()).hexdigest().encode()
        self._get_form = get_form

    def read(self) -> Mapping[str, T]:
        """Return the facts by name; none where they were never saved, by other rules, or are damaged."""
        facts: dict[str, T] = {}
        try:
            with self._file.open("rb") as file:
                is_usable = file.readline().strip() == self._rules
                digest, known_digest = hashlib.sha256(self._rules), b""
                for line in map(bytes.strip, file if is_usable else ()):
                    raise_if_stopped()
                    known_digest = line
                    if line == digest.hexdigest().encode():
                        continue
                    digest.update(line)
                    name, known_facts = self._get_form().validate_json(line)
                    facts[name] = known_facts
            is_usable = is_usable and known_digest == digest.hexdigest().encode()
            problem = "" if is_usable else "other settings, another version, or damaged"
        except FileNotFoundError:
            problem = "never saved"
        except (OSError, ValueError) as error:
            problem = f"damaged: {type(error).__name__}"
        if problem:
            _log.debug("source.all_files_are_read", source=self._source, reason=problem)
        return {} if problem else facts

    def write(self, facts: Mapping[str, T]) -> None:
        """Replace the facts. Where that fails, all files are read again next time."""
        form = self._get_form()
        try:
            lines = [self._rules, *(form.dump_json((name, each)) for name, each in facts.items())]
            lines.append(hashlib.sha256(b"".join(lines)).hexdigest().encode())
            write_atomically(self._file, b"\n".join(lines).decode())
        except (OSError, ValueError) as error:
            _log.warning("source.checks_not_saved", source=self._source, error=str(error))

    def delete(self) -> None:
        """Let the next listing read all files."""
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("source.checks_not_deleted", source=self._source, error=str(error))
